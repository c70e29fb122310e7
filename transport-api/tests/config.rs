//! Configuration and names from outside: an answer or a clear error, no panic, no secret.
#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::collection::btree_map;
use proptest::prelude::*;
use serde::Deserialize;
use transport_api::config::ByteSize;
use transport_api::{ErrorKind, PeerId, TopicFilter, TopicName, TransportConfig};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code)]
struct Options {
    count: u8,
    signed: i64,
    ratio: f32,
    flag: bool,
    name: Option<String>,
    size: Size,
    mode: Mode,
}

#[derive(Debug, Deserialize)]
struct Size(#[allow(dead_code)] ByteSize);

impl Default for Size {
    fn default() -> Self {
        Self(ByteSize(0))
    }
}

#[derive(Debug, Default, Deserialize)]
enum Mode {
    #[default]
    A,
    B,
}

fn read(text: &str) {
    match TransportConfig::parse(text) {
        Ok(config) => {
            if let Err(error) = config.backend::<Options>() {
                assert_eq!(error.kind(), ErrorKind::Config);
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config),
    }
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_a_config_error(text in "\\PC{0,200}") {
        read(&text);
    }

    #[test]
    fn any_query_is_read_or_a_config_error(
        pairs in prop::collection::vec(
            ("(count|signed|ratio|flag|name|size|mode|peer|max_payload|\\PC{0,9})", "\\PC{0,20}"),
            0..6,
        ),
    ) {
        let query: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        read(&format!("mqtt://host:1?{}", query.join("&")));
    }

    #[test]
    fn exposed_and_parsed_again_is_the_same(
        options in btree_map("[a-z_]{1,12}", "\\PC{0,20}", 0..6),
        limit in 1usize..=(256 << 20),
    ) {
        let reserved = |key: &str| key == "peer" || key == "max_payload";
        prop_assume!(!options.keys().any(|key| reserved(key)));
        let mut config = TransportConfig::parse(&format!("x://h:1/p?max_payload={limit}")).unwrap();
        for (key, value) in &options {
            config = config.with_option(key, value);
        }
        let again = TransportConfig::parse(&config.expose()).unwrap();
        prop_assert_eq!(again.options(), &options);
        prop_assert_eq!(again.max_payload(), limit);
        prop_assert_eq!(again.with_peer(config.peer().clone()), config);
    }

    #[test]
    fn a_secret_is_in_no_text(secret in "[A-Z][A-Z0-9]{9,20}", rest in "\\PC{0,30}") {
        for url in [
            format!("mqtt://me:{secret}@host:1883?count=x{rest}"),
            format!("mqtt://host?password={secret}&count=x"),
            format!("mqtt://host?api_token={secret}&{rest}"),
            format!("mqtt://me:{secret}@host:99999"),
            format!("mqtt://me:{secret}@ho st"),
        ] {
            let texts = match TransportConfig::parse(&url) {
                Ok(config) => {
                    let error = config.backend::<Options>();
                    format!("{config} {config:?} {error:?}")
                }
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!texts.contains(&secret), "{}", texts);
        }
    }

    #[test]
    fn sizes_are_read_or_refused(text in "[0-9]{0,25}(|B|KiB|MiB|GiB|KB|\\PC{0,3})") {
        // An answer or an error text, never an overflow.
        match text.parse::<ByteSize>() {
            Ok(_) => {}
            Err(error) => prop_assert!(!error.is_empty()),
        }
    }

    #[test]
    fn names_are_refused_with_their_position(text in "\\PC{0,300}") {
        for error in [TopicName::parse(&text).err(), TopicFilter::parse(&text).err()]
            .into_iter()
            .flatten()
        {
            prop_assert_eq!(error.kind(), ErrorKind::Topic);
            prop_assert!(error.to_string().contains("at byte "), "{}", error);
            prop_assert!(error.to_string().len() < 1500, "{}", error);
        }
        if let Err(error) = PeerId::parse(&text) {
            prop_assert_eq!(error.kind(), ErrorKind::Config);
        }
    }

    #[test]
    fn a_filter_selects_what_its_segments_say(
        segments in prop::collection::vec("[a-c]{1,2}", 1..5),
        wild in prop::collection::vec(any::<bool>(), 5),
        rest in any::<bool>(),
    ) {
        let name = TopicName::parse(&segments.join("/")).unwrap();
        let mut parts: Vec<&str> = segments
            .iter()
            .zip(&wild)
            .map(|(segment, wild)| if *wild { "*" } else { segment })
            .collect();
        if rest {
            parts.pop();
            parts.push("**");
        }
        let filter = TopicFilter::parse(&parts.join("/")).unwrap();
        prop_assert!(filter.matches(&name));
        let longer = TopicName::parse(&format!("{name}/more")).unwrap();
        prop_assert_eq!(filter.matches(&longer), rest);
    }
}
