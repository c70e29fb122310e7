//! What the URL and its options say.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use transport_api::backoff::Backoff;
use transport_api::{Error, OptionHelp, PeerId, Result, TransportConfig};
use url::Url;

/// Room for everything in a packet that is not payload: topic, metadata, headers.
pub(crate) const HEADROOM: usize = 64 << 10;

/// Path of the URL that asks for the embedded broker.
pub(crate) const EMBEDDED: &str = "embedded";

/// Every option, for `--help` and error texts.
pub(crate) const OPTIONS: &[OptionHelp] = &[
    option("version", "5", "protocol version: `5` or `3.1.1`"),
    option(
        "client_id",
        "<peer>-<random>",
        "client id of the publishing connection; the subscribing one appends `-sub`",
    ),
    option(
        "session",
        "resume",
        "what the broker keeps while the connection is down: `resume` over reconnects, `persistent` over restarts too (needs `client_id`), `clean` nothing",
    ),
    option(
        "session_expiry",
        "60s",
        "how long the broker keeps the session of a lost connection (MQTT 5)",
    ),
    option(
        "keep_alive",
        "10s",
        "interval of the pings; must exceed the time the largest message takes",
    ),
    option(
        "connect_timeout",
        "5s",
        "longest time for one attempt to connect",
    ),
    option(
        "write_timeout",
        "30s",
        "longest time without progress on a connection",
    ),
    option(
        "reconnect_min",
        "100ms",
        "first wait before connecting again; doubles, with jitter",
    ),
    option(
        "reconnect_max",
        "1s",
        "longest wait before connecting again",
    ),
    option(
        "inflight",
        "100",
        "unacknowledged messages at once, in each direction, 1 to 65535",
    ),
    option(
        "metadata",
        "on",
        "`off`: send and expect bare payloads, without identity and schema",
    ),
    option(
        "presence",
        "roundtrip-presence",
        "topic under which peers are announced; `off`: no announcements",
    ),
    option(
        "will_topic",
        "none",
        "topic of a last will; sent by the broker when the subscribing connection is lost",
    ),
    option("will_payload", "none", "payload of the last will"),
    option("will_qos", "1", "QoS of the last will: 0, 1 or 2"),
    option("will_retain", "true", "whether the last will is retained"),
    option(
        "ca",
        "system roots",
        "file with the certificates to trust (PEM, `mqtts`)",
    ),
    option(
        "cert",
        "none",
        "file with the client certificate chain (PEM, `mqtts`)",
    ),
    option(
        "key",
        "none",
        "file with the key of the client certificate (PEM, `mqtts`)",
    ),
    option(
        "alpn",
        "none",
        "application protocol to offer, such as `mqtt` (`mqtts`)",
    ),
    option(
        "port",
        "0",
        "port of the embedded broker; 0: a free one (`mqtt:embedded`)",
    ),
    option(
        "broker_queue",
        "64",
        "messages the embedded broker keeps for a subscriber that lags (`mqtt:embedded`)",
    ),
];

const fn option(key: &'static str, default: &'static str, help: &'static str) -> OptionHelp {
    OptionHelp { key, default, help }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Version {
    #[serde(rename = "5")]
    V5,
    #[serde(rename = "3.1.1")]
    V3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Session {
    Resume,
    Persistent,
    Clean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Switch {
    On,
    Off,
}

/// The options as they are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    version: Version,
    client_id: Option<String>,
    session: Session,
    #[serde(with = "humantime_serde")]
    session_expiry: Duration,
    #[serde(with = "humantime_serde")]
    keep_alive: Duration,
    #[serde(with = "humantime_serde")]
    connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    write_timeout: Duration,
    #[serde(with = "humantime_serde")]
    reconnect_min: Duration,
    #[serde(with = "humantime_serde")]
    reconnect_max: Duration,
    inflight: u16,
    metadata: Switch,
    presence: String,
    will_topic: Option<String>,
    will_payload: String,
    will_qos: u8,
    will_retain: bool,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    alpn: Option<String>,
    port: u16,
    broker_queue: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::V5,
            client_id: None,
            session: Session::Resume,
            session_expiry: Duration::from_secs(60),
            keep_alive: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(1),
            inflight: 100,
            metadata: Switch::On,
            presence: "roundtrip-presence".to_owned(),
            will_topic: None,
            will_payload: String::new(),
            will_qos: 1,
            will_retain: true,
            ca: None,
            cert: None,
            key: None,
            alpn: None,
            port: 0,
            broker_queue: 64,
        }
    }
}

/// A message that the broker publishes when the connection is lost.
#[derive(Clone, Debug)]
pub(crate) struct Will {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
}

/// Files of a TLS connection.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) struct Files {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) alpn: Option<String>,
}

/// Options of the embedded broker.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "embedded-broker"), allow(dead_code))]
pub(crate) struct Embedded {
    pub(crate) port: u16,
    pub(crate) queue: usize,
    pub(crate) max_payload: usize,
}

/// Everything that one transport needs to know, checked.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Files>,
    pub(crate) version: Version,
    pub(crate) client_id: String,
    pub(crate) session: Session,
    pub(crate) session_expiry: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) reconnect: (Duration, Duration),
    pub(crate) inflight: u16,
    pub(crate) metadata: bool,
    pub(crate) presence: Option<String>,
    pub(crate) will: Option<Will>,
    pub(crate) peer: PeerId,
    pub(crate) max_payload: usize,
}

/// Longest wait after connections that end as soon as they are made, as when two clients take the
/// same client id from each other.
const RESTLESS: Duration = Duration::from_secs(30);

impl Settings {
    /// Waits before connecting again.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.reconnect.0, self.reconnect.1).with_restless(RESTLESS)
    }

    /// Reads the URL of a broker.
    pub(crate) fn read(config: &TransportConfig) -> Result<Self> {
        let options: Options = config.backend()?;
        let url = config.url();
        let secure = url.scheme() == "mqtts";
        options.check_use(config, secure)?;
        let host = match url.host() {
            Some(url::Host::Ipv6(address)) => address.to_string(),
            Some(host) => decoded(&host.to_string()),
            None => String::new(),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(Error::config(format!(
                "`{}` names no host; write for example `mqtt://host:1883` or `mqtt:embedded`",
                url.scheme()
            )));
        }
        if !matches!(url.path(), "" | "/") {
            return Err(Error::config(format!(
                "path `{}` in an MQTT URL; topics are given to publishers and subscribers",
                url.path()
            )));
        }
        let port = url.port().unwrap_or(if secure { 8883 } else { 1883 });
        if port == 0 {
            return Err(Error::config("port 0 cannot be connected to"));
        }
        let login = (!url.username().is_empty()).then(|| {
            (
                decoded(url.username()),
                decoded(url.password().unwrap_or_default()),
            )
        });
        if options.inflight == 0 {
            return Err(Error::config("option `inflight` = `0` is not in 1..=65535"));
        }
        for (key, value) in [
            ("keep_alive", options.keep_alive),
            ("connect_timeout", options.connect_timeout),
            ("write_timeout", options.write_timeout),
            ("reconnect_min", options.reconnect_min),
        ] {
            let least = Duration::from_millis(if key == "keep_alive" { 1000 } else { 1 });
            if value < least || value > Duration::from_secs(65_535) {
                return Err(Error::config(format!(
                    "option `{key}` = {value:?} is not in {least:?}..=65535s"
                )));
            }
        }
        if options.session == Session::Persistent && options.client_id.is_none() {
            return Err(Error::config(
                "option `session` = `persistent` needs `client_id`, by which the broker knows the \
                 session again",
            ));
        }
        if options.client_id.as_deref() == Some("") {
            return Err(Error::config("option `client_id` is empty"));
        }
        Ok(Self {
            host,
            port,
            login,
            tls: secure.then(|| options.files()).transpose()?,
            version: options.version,
            client_id: match &options.client_id {
                Some(id) => id.clone(),
                // The peer name may be shared by mistake; the client id must not be.
                None => format!("{}-{}", config.peer(), random()),
            },
            session: options.session,
            session_expiry: options.session_expiry,
            keep_alive: options.keep_alive,
            connect_timeout: options.connect_timeout,
            write_timeout: options.write_timeout,
            reconnect: (options.reconnect_min, options.reconnect_max),
            inflight: options.inflight,
            metadata: options.metadata == Switch::On,
            presence: (options.presence != "off")
                .then(|| topic("presence", &options.presence))
                .transpose()?,
            will: options.will()?,
            peer: config.peer().clone(),
            max_payload: config.max_payload(),
        })
    }

    /// Where it connects to, without secrets.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        format!("{scheme}://{}", self.address())
    }

    /// Host and port as they are written.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Largest packet, in bytes.
    pub(crate) fn max_packet(&self) -> usize {
        self.max_payload + HEADROOM
    }

    /// What decides about latency and loss, as `key = value`.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        let version = match self.version {
            Version::V5 => "5",
            Version::V3 => "3.1.1",
        };
        let presence = self.presence.as_deref().unwrap_or("off");
        let lines = [
            ("version", version.to_owned()),
            ("client_id", self.client_id.clone()),
            ("nodelay", "true".to_owned()),
            ("connections", "2 (publishing, subscribing)".to_owned()),
            ("max_payload", self.max_payload.to_string()),
            ("max_packet", self.max_packet().to_string()),
            ("inflight", self.inflight.to_string()),
            ("keep_alive", format!("{:?}", self.keep_alive)),
            ("session", format!("{:?}", self.session).to_lowercase()),
            ("session_expiry", format!("{:?}", self.session_expiry)),
            ("write_timeout", format!("{:?}", self.write_timeout)),
            (
                "reconnect",
                format!("{:?} to {:?}", self.reconnect.0, self.reconnect.1),
            ),
            (
                "metadata",
                if self.metadata { "on" } else { "off" }.to_owned(),
            ),
            ("presence", presence.to_owned()),
            ("tls", self.tls.is_some().to_string()),
        ];
        lines.map(|(key, value)| (key.to_owned(), value)).to_vec()
    }
}

impl std::fmt::Debug for Settings {
    /// Without the login.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Settings({}, {})", self.endpoint(), self.client_id)
    }
}

impl Options {
    /// Refuses what would mean nothing to this client: whoever gave it expects something of it.
    fn check_use(&self, config: &TransportConfig, secure: bool) -> Result<()> {
        let will = self.will_topic.is_some();
        for (keys, met, need) in [
            (
                &["ca", "cert", "key", "alpn"][..],
                secure,
                "an `mqtts://` URL",
            ),
            (&["port", "broker_queue"], false, "`mqtt:embedded`"),
            (
                &["session_expiry"],
                self.version == Version::V5,
                "`version=5`",
            ),
            (
                &["will_payload", "will_qos", "will_retain"],
                will,
                "`will_topic`",
            ),
        ] {
            let given = keys.iter().find(|key| config.options().contains_key(**key));
            if let (Some(key), false) = (given, met) {
                return Err(Error::config(format!(
                    "option `{key}` needs {need}; leave it out or use that"
                )));
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<Files> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            // Both may be in one file.
            (Some(both), None) => Some((both.clone(), both.clone())),
            (None, None) => None,
            (None, Some(key)) => {
                return Err(Error::config(format!(
                    "option `key` = `{}` without `cert`",
                    key.display()
                )));
            }
        };
        Ok(Files {
            ca: self.ca.clone(),
            identity,
            alpn: self.alpn.clone(),
        })
    }

    fn will(&self) -> Result<Option<Will>> {
        if self.will_qos > 2 {
            return Err(Error::config(format!(
                "option `will_qos` = `{}` is not 0, 1 or 2",
                self.will_qos
            )));
        }
        let Some(name) = &self.will_topic else {
            return Ok(None);
        };
        Ok(Some(Will {
            topic: topic("will_topic", name)?,
            payload: self.will_payload.clone(),
            qos: self.will_qos,
            retain: self.will_retain,
        }))
    }
}

/// Whether the URL asks for the embedded broker.
pub(crate) fn is_embedded(config: &TransportConfig) -> bool {
    config.url().scheme() == "mqtt" && config.url().path() == EMBEDDED && !config.url().has_host()
}

/// The options of the embedded broker.
#[cfg_attr(not(feature = "embedded-broker"), allow(dead_code))]
pub(crate) fn embedded(config: &TransportConfig) -> Result<Embedded> {
    let options: Options = config.backend()?;
    if options.broker_queue == 0 || options.broker_queue > 100_000 {
        return Err(Error::config(format!(
            "option `broker_queue` = `{}` is not in 1..=100000",
            options.broker_queue
        )));
    }
    Ok(Embedded {
        port: options.port,
        queue: options.broker_queue,
        max_payload: config.max_payload(),
    })
}

/// The configuration of a client of the embedded broker at `port`: the same options, without those
/// of the broker.
#[cfg_attr(not(feature = "embedded-broker"), allow(dead_code))]
pub(crate) fn client(config: &TransportConfig, port: u16) -> Result<TransportConfig> {
    let fault =
        |error: url::ParseError| Error::config(format!("URL of the embedded broker: {error}"));
    let asked = Url::parse(&config.expose()).map_err(fault)?;
    let mut url = Url::parse(&format!("mqtt://127.0.0.1:{port}")).map_err(fault)?;
    url.query_pairs_mut().extend_pairs(
        asked
            .query_pairs()
            .filter(|(key, _)| !matches!(&**key, "port" | "broker_queue")),
    );
    if url.query() == Some("") {
        url.set_query(None);
    }
    TransportConfig::parse(url.as_str())
}

/// A topic that can be published to.
fn topic(key: &str, name: &str) -> Result<String> {
    if name.is_empty() || name.contains(['+', '#', '\0']) || name.len() > 1024 {
        return Err(Error::config(format!(
            "option `{key}` = `{}` is not a topic of 1 to 1024 bytes without wildcards",
            name.chars().take(80).collect::<String>().escape_debug()
        )));
    }
    Ok(name.to_owned())
}

/// Text of a URL part without percent signs.
fn decoded(text: &str) -> String {
    // A query of one key without a value is decoded to that key, except that `+` is a space there.
    let escaped = text
        .replace('+', "%2B")
        .replace('&', "%26")
        .replace('=', "%3D");
    url::form_urlencoded::parse(escaped.as_bytes())
        .next()
        .map_or_else(String::new, |(key, _)| key.into_owned())
}

/// Eight hexadecimal digits that no other transport has.
fn random() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!(
        "{:08x}",
        RandomState::new().hash_one(std::process::id()) as u32
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Settings> {
        Settings::read(&TransportConfig::parse(url)?)
    }

    #[test]
    fn hosts_logins_and_ports_are_read_from_the_url() {
        let settings = read("mqtt://me%40here:a%2Bb%26c+d@[::1]").unwrap();
        assert_eq!((settings.host.as_str(), settings.port), ("::1", 1883));
        assert_eq!(settings.login, Some(("me@here".into(), "a+b&c+d".into())));
        assert_eq!(settings.endpoint(), "mqtt://[::1]:1883");
        assert!(!format!("{settings:?}").contains("a+b"));
        assert_eq!(read("mqtts://host").unwrap().port, 8883);
    }

    #[test]
    fn every_mistake_names_the_option() {
        for (url, expected) in [
            ("mqtt:nothing", "names no host"),
            ("mqtt://host:0", "port 0"),
            ("mqtt://host/topic", "path `/topic`"),
            ("mqtt://host?inflight=0", "`inflight` = `0`"),
            ("mqtt://host?version=4", "`version` = `4`"),
            ("mqtt://host?session=persistent", "needs `client_id`"),
            ("mqtt://host?keep_alive=10ms", "`keep_alive` = 10ms"),
            ("mqtt://host?keep_alive=soon", "`keep_alive` = `soon`"),
            ("mqtt://host?will_topic=a&will_qos=3", "`will_qos` = `3`"),
            ("mqtt://host?presence=a/%23", "`presence` = `a/#`"),
            ("mqtt://host?inflght=3", "did you mean `inflight`?"),
            ("mqtts://host?key=k.pem", "`key` = `k.pem` without `cert`"),
            ("mqtt://no%20host", "host"),
            ("mqtt://host:65536", "port"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), transport_api::ErrorKind::Config);
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn options_that_would_mean_nothing_are_refused_with_what_they_need() {
        let tls = "needs an `mqtts://` URL";
        for (url, option, needs) in [
            ("mqtt://host?ca=missing.pem", "ca", tls),
            ("mqtt://host?cert=missing.pem", "cert", tls),
            ("mqtt://host?key=missing.pem", "key", tls),
            ("mqtt://host?alpn=mqtt", "alpn", tls),
            ("mqtt://host?port=1884", "port", "needs `mqtt:embedded`"),
            ("mqtts://host?port=1884", "port", "needs `mqtt:embedded`"),
            (
                "mqtt://host?broker_queue=9",
                "broker_queue",
                "needs `mqtt:embedded`",
            ),
            (
                "mqtts://host?broker_queue=9",
                "broker_queue",
                "needs `mqtt:embedded`",
            ),
            (
                "mqtt://host?version=3.1.1&session_expiry=1s",
                "session_expiry",
                "`version=5`",
            ),
            (
                "mqtt://host?will_payload=gone",
                "will_payload",
                "needs `will_topic`",
            ),
            ("mqtt://host?will_qos=1", "will_qos", "needs `will_topic`"),
            (
                "mqtt://host?will_retain=true",
                "will_retain",
                "needs `will_topic`",
            ),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), transport_api::ErrorKind::Config);
            let text = error.to_string();
            let named = text.contains(&format!("option `{option}`"));
            assert!(named && text.contains(needs), "{url}: {error}");
        }
        // The clients of the embedded broker have no TLS either.
        for url in ["mqtt:embedded?ca=ca.pem", "mqtt:embedded?alpn=mqtt"] {
            let config = TransportConfig::parse(url).unwrap();
            let error = Settings::read(&client(&config, 1).unwrap()).unwrap_err();
            assert!(error.to_string().contains(tls), "{url}: {error}");
        }
    }

    #[test]
    fn help_lists_exactly_the_options_there_are() {
        let error = read("mqtt://host?zzzzzzzz=1").unwrap_err().to_string();
        let known = error.rsplit("known: ").next().unwrap();
        let known: Vec<_> = known.split(" (in").next().unwrap().split(", ").collect();
        for option in OPTIONS {
            assert!(known.contains(&option.key), "{} is not read", option.key);
        }
        assert_eq!(
            known.len(),
            OPTIONS.len() + transport_api::config::COMMON_OPTIONS.len()
        );
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let plain = format!("{:?}", Options::default());
        for option in OPTIONS {
            if matches!(
                option.key,
                "client_id" | "ca" | "cert" | "key" | "alpn" | "will_topic" | "will_payload"
            ) {
                continue;
            }
            let config = TransportConfig::parse("mqtt://host").unwrap();
            let config = config.with_option(option.key, option.default);
            let read: Options = config.backend().unwrap();
            assert_eq!(format!("{read:?}"), plain, "{}", option.key);
        }
    }

    #[test]
    fn client_ids_differ_also_for_one_peer_name() {
        let id = || read("mqtt://host?peer=edge").unwrap().client_id;
        assert_ne!(id(), id());
        assert!(id().starts_with("edge-"));
        assert_eq!(read("mqtt://host?client_id=me").unwrap().client_id, "me");
    }

    #[test]
    fn clients_of_the_embedded_broker_keep_all_other_options() {
        let config =
            TransportConfig::parse("mqtt:embedded?port=4&inflight=3&max_payload=64MiB").unwrap();
        assert!(is_embedded(&config));
        assert_eq!(embedded(&config).unwrap().port, 4);
        let client = client(&config, 99).unwrap();
        assert_eq!(client.to_string(), "mqtt://127.0.0.1:99?inflight=3");
        assert_eq!(client.max_payload(), 64 << 20);
    }
}
