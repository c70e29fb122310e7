//! Transport configuration: one URL whose query carries the options, read strictly.
//!
//! Unknown options, wrong types and repeated keys are errors that name the options there are.
//! Secrets never appear in `Debug` or `Display`.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Error, Result};

/// One option of a transport, for `--help` and error texts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OptionHelp {
    /// Key in the URL's query.
    pub key: &'static str,
    /// Default, as it would be written.
    pub default: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
}

/// Options that every transport has.
pub const COMMON_OPTIONS: &[OptionHelp] = &[
    OptionHelp {
        key: "peer",
        default: "random",
        help: "name of this peer, unique per process; announced where there is liveliness",
    },
    OptionHelp {
        key: "max_payload",
        default: "16MiB",
        help: "largest payload accepted, in both directions",
    },
];

/// Default of `max_payload`, in bytes: seven dual-return clouds.
pub const DEFAULT_MAX_PAYLOAD: usize = 16 << 20;

/// Largest `max_payload`, in bytes: what an MQTT packet can carry.
pub const LARGEST_MAX_PAYLOAD: usize = 256 << 20;

/// Name of one peer: 1 to 64 characters of `[A-Za-z0-9_-]`, starting with a letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PeerId(String);

impl PeerId {
    /// Validates a name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] naming the text.
    pub fn parse(name: &str) -> Result<Self> {
        let legal = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= 64
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !legal {
            return Err(Error::config(format!(
                "peer name `{}` is not 1 to 64 of [A-Za-z0-9_-] starting with a letter",
                name.chars().take(80).collect::<String>().escape_debug()
            )));
        }
        Ok(Self(name.to_owned()))
    }

    /// A name that no other process has.
    pub fn random() -> Self {
        let number = RandomState::new().hash_one(std::process::id());
        Self(format!("p{}-{:08x}", std::process::id(), number as u32))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number of bytes, written as `65536`, `64KiB`, `16MiB` or `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub usize);

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &text[digits.len()..] {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            unit => return Err(format!("unit `{unit}` is not one of B, KiB, MiB, GiB")),
        };
        let number: usize = digits
            .parse()
            .map_err(|_| format!("`{text}` is not a size"))?;
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is too large"))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Address, options and identity of a transport to open.
#[derive(Clone)]
pub struct TransportConfig {
    url: Url,
    options: BTreeMap<String, String>,
    peer: PeerId,
    /// Whether the URL names the peer.
    named: bool,
    max_payload: usize,
}

impl TransportConfig {
    /// Reads `scheme://[user[:password]@]host[:port][/path][?key=value&…]` or `scheme:path[?…]`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] naming what is wrong. Options of the transport are checked when
    /// it is opened.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = Url::parse(text).map_err(|error| {
            // The text may hold a password, so only its scheme is repeated.
            let scheme = text.split(':').next().unwrap_or_default();
            Error::config(format!(
                "transport URL with scheme `{}`: {error}; write for example `mqtt://host:1883`",
                scheme.chars().take(40).collect::<String>().escape_debug()
            ))
        })?;
        if parsed.fragment().is_some() {
            // Not repeated: it is what follows an unescaped `#` in a password.
            return Err(Error::config(
                "transport URL has a `#`; write %23 for one in a password",
            ));
        }
        let mut options = BTreeMap::new();
        for (key, value) in parsed.query_pairs() {
            if options
                .insert(key.clone().into_owned(), value.into_owned())
                .is_some()
            {
                return Err(Error::config(format!("option `{key}` is given twice")));
            }
        }
        let mut url = parsed;
        url.set_query(None);
        let mut config = Self {
            url,
            options,
            peer: PeerId::random(),
            named: false,
            max_payload: DEFAULT_MAX_PAYLOAD,
        };
        if let Some(peer) = config.options.remove("peer") {
            config.peer = PeerId::parse(&peer)?;
            config.named = true;
        }
        if let Some(limit) = config.options.remove("max_payload") {
            let size: ByteSize = limit
                .parse()
                .map_err(|error| Error::config(format!("option `max_payload`: {error}")))?;
            if size.0 == 0 || size.0 > LARGEST_MAX_PAYLOAD {
                return Err(Error::config(format!(
                    "option `max_payload`: {limit} is not in 1 B ..= 256 MiB"
                )));
            }
            config.max_payload = size.0;
        }
        Ok(config)
    }

    /// The URL without its query. May hold a password.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The name of this peer.
    pub fn peer(&self) -> &PeerId {
        &self.peer
    }

    /// Largest payload accepted, in bytes.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// The options that belong to the transport.
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    /// The same under another peer name.
    #[must_use]
    pub fn with_peer(mut self, peer: PeerId) -> Self {
        self.peer = peer;
        self
    }

    /// The same under another peer name, unless its URL names one.
    #[must_use]
    pub fn with_default_peer(self, peer: PeerId) -> Self {
        if self.named {
            self
        } else {
            self.with_peer(peer)
        }
    }

    /// The same with one option set.
    #[must_use]
    pub fn with_option(mut self, key: &str, value: &str) -> Self {
        self.options.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same with another address; options, peer and limit stay.
    #[must_use]
    pub fn with_url(mut self, url: Url) -> Self {
        self.url = url;
        self.url.set_query(None);
        self
    }

    /// The whole configuration as one URL, **secrets included**, for handing it to a child process
    /// through its standard input or environment. The peer name is left out: it is per process.
    pub fn expose(&self) -> String {
        let mut url = self.url.clone();
        if !self.options.is_empty() || self.max_payload != DEFAULT_MAX_PAYLOAD {
            let mut pairs = url.query_pairs_mut();
            pairs.extend_pairs(&self.options);
            if self.max_payload != DEFAULT_MAX_PAYLOAD {
                pairs.append_pair("max_payload", &self.max_payload.to_string());
            }
            drop(pairs);
        }
        url.into()
    }

    /// Reads the options into the transport's own type, which should be
    /// `#[serde(deny_unknown_fields, default)]`.
    ///
    /// Values are text, read as the field's type: numbers, booleans, unit variants of enums, and
    /// every type that deserialises from a string.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] naming the option and its value, and for an unknown option those
    /// that are known, the nearest first.
    pub fn backend<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(Options(&self.options)).map_err(|Fault(text)| {
            Error::config(format!(
                "{text} (in the URL of scheme `{}`)",
                self.url.scheme()
            ))
        })
    }
}

impl PartialEq for TransportConfig {
    /// Equal are configurations that open the same, wherever their peer's name comes from.
    fn eq(&self, other: &Self) -> bool {
        let parts = |c: &Self| {
            (
                c.url.clone(),
                c.options.clone(),
                c.peer.clone(),
                c.max_payload,
            )
        };
        parts(self) == parts(other)
    }
}

impl Eq for TransportConfig {}

/// Whether an option's value is kept out of logs.
fn is_secret(key: &str) -> bool {
    ["password", "secret", "token", "passphrase"]
        .iter()
        .any(|word| key.contains(word))
}

impl fmt::Display for TransportConfig {
    /// The URL without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        if url.password().is_some() {
            // Only fails for URLs that cannot hold a password, and then there is none.
            let _ = url.set_password(Some("***"));
        }
        f.write_str(url.as_str())?;
        for (n, (key, value)) in self.options.iter().enumerate() {
            let value = if is_secret(key) { "***" } else { value };
            write!(f, "{}{key}={value}", if n == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TransportConfig({self}, peer {}, {} B)",
            self.peer, self.max_payload
        )
    }
}

/// What to say after a name that nobody knows: the one that may have been meant, and all `known`.
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let all = known.join(", ");
    let distance = |other: &&&str| strsim::levenshtein(name, other);
    match known.iter().min_by_key(distance) {
        // A short name is near to everything.
        Some(best) if distance(&best) <= 1 + name.len() / 4 => {
            format!("did you mean `{best}`? known: {all}")
        }
        _ => format!("known: {all}"),
    }
}

/// A deserialisation error as text.
#[derive(Debug)]
struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let common = COMMON_OPTIONS.iter().map(|option| option.key);
        let known: Vec<&str> = expected.iter().copied().chain(common).collect();
        Self(format!(
            "unknown option `{field}`; {}",
            suggest(field, known)
        ))
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl<'de> de::Deserializer<'de> for Options<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(Pairs {
            pairs: self.0.iter(),
            value: None,
        })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

struct Pairs<'a> {
    pairs: std::collections::btree_map::Iter<'a, String, String>,
    value: Option<(&'a str, &'a str)>,
}

impl<'de> de::MapAccess<'de> for Pairs<'_> {
    type Error = Fault;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.pairs.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<S: de::DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let (key, value) = self.value.take().unwrap_or_default();
        seed.deserialize(Value(value)).map_err(|fault| {
            let shown = if is_secret(key) { "***" } else { value };
            Fault(format!("option `{key}` = `{shown}`: {fault}"))
        })
    }
}

/// One option's text, read as whatever the field is.
struct Value<'a>(&'a str);

macro_rules! parse {
    ($($method:ident $visit:ident $what:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let value = self.0.parse().map_err(|_| Fault(concat!("not ", $what).to_owned()))?;
            visitor.$visit(value)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Value<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.0)
    }

    parse! {
        deserialize_bool visit_bool "`true` or `false`"
        deserialize_i8 visit_i8 "a whole number in -128..=127"
        deserialize_i16 visit_i16 "a whole number of 16 bits"
        deserialize_i32 visit_i32 "a whole number of 32 bits"
        deserialize_i64 visit_i64 "a whole number of 64 bits"
        deserialize_u8 visit_u8 "a whole number in 0..=255"
        deserialize_u16 visit_u16 "a whole number in 0..=65535"
        deserialize_u32 visit_u32 "a whole number, not negative"
        deserialize_u64 visit_u64 "a whole number, not negative"
        deserialize_f32 visit_f32 "a number"
        deserialize_f64 visit_f64 "a number"
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        inflight: u16,
        clean: bool,
        version: Option<Version>,
        buffer: ByteSize,
        password: Option<String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    enum Version {
        #[serde(rename = "5")]
        V5,
        #[serde(rename = "3")]
        V3,
    }

    impl Default for Sample {
        fn default() -> Self {
            Self {
                inflight: 100,
                clean: true,
                version: None,
                buffer: ByteSize(1),
                password: None,
            }
        }
    }

    fn read(query: &str) -> Result<Sample> {
        TransportConfig::parse(&format!("mqtt://host{query}"))?.backend()
    }

    #[test]
    fn options_are_read_as_the_type_of_their_field() {
        let sample = read("?inflight=7&clean=false&version=3&buffer=4MiB").unwrap();
        assert_eq!(
            sample,
            Sample {
                inflight: 7,
                clean: false,
                version: Some(Version::V3),
                buffer: ByteSize(4 << 20),
                password: None
            }
        );
    }

    #[test]
    fn every_mistake_names_the_option_and_what_is_known() {
        for (query, expected) in [
            (
                "?inflght=7",
                "unknown option `inflght`; did you mean `inflight`?",
            ),
            ("?max_paylod=7", "did you mean `max_payload`?"),
            ("?zzzzzzzzzzzz=7", "known: buffer, clean, inflight, "),
            (
                "?inflight=many",
                "option `inflight` = `many`: not a whole number in 0..=65535",
            ),
            (
                "?clean=yes",
                "option `clean` = `yes`: not `true` or `false`",
            ),
            ("?version=4", "option `version` = `4`: unknown variant"),
            ("?buffer=4MB", "option `buffer` = `4MB`: unit `MB`"),
            ("?inflight=1&inflight=2", "option `inflight` is given twice"),
            ("?max_payload=0", "not in 1 B"),
            ("?peer=a%20b", "peer name `a b`"),
        ] {
            let error = read(query).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Config);
            assert!(error.to_string().contains(expected), "{query}: {error}");
        }
    }

    #[test]
    fn secrets_are_absent_from_debug_and_errors() {
        let config =
            TransportConfig::parse("mqtt://me:hunter2@host?password=hunter2&inflight=x").unwrap();
        let error = config.backend::<Sample>().unwrap_err();
        for text in [
            format!("{config:?}"),
            format!("{config}"),
            format!("{error:?}"),
        ] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        let error = TransportConfig::parse("mqtt://me:hunter2@host:99999").unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn exposing_and_parsing_again_keeps_everything_but_the_peer() {
        let config =
            TransportConfig::parse("mqtt://u:p%40@host:1?a=b%26c&max_payload=2MiB&peer=me")
                .unwrap();
        let again = TransportConfig::parse(&config.expose()).unwrap();
        assert_eq!(again.with_peer(config.peer().clone()), config);
        let opaque = TransportConfig::parse("mqtt:embedded?a=b").unwrap();
        assert_eq!(opaque.url().path(), "embedded");
        assert_eq!(opaque.expose(), "mqtt:embedded?a=b");
    }
}
