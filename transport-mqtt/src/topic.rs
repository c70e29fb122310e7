//! Topic names and filters in MQTT's notation.
//!
//! Names are the same text on both sides. In filters `*` is `+` and `**` is `#`; both `a/**` and
//! `a/#` select `a` itself too.

use std::collections::HashMap;

use bytes::Bytes;
use transport_api::{TopicFilter, TopicName};

/// Topics remembered so that a steady stream parses none.
const KNOWN: usize = 256;

/// A filter in MQTT's notation.
pub(crate) fn filter(filter: &TopicFilter) -> String {
    filter.as_str().replace("**", "#").replace('*', "+")
}

/// Whether the MQTT filter selects the MQTT topic.
pub(crate) fn selects(filter: &str, topic: &str) -> bool {
    // Wildcards in first place leave out topics such as `$SYS`.
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut names = topic.split('/');
    for segment in filter.split('/') {
        match (segment, names.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(found)) if wanted == found => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

/// Remembers the names of topics that were seen.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<Bytes, TopicName>);

impl Names {
    /// The name of an MQTT topic; `None` if it is not one that all transports can carry.
    pub(crate) fn get(&mut self, topic: &Bytes) -> Option<TopicName> {
        if let Some(name) = self.0.get(topic) {
            return Some(name.clone());
        }
        let name = TopicName::parse(std::str::from_utf8(topic).ok()?).ok()?;
        if self.0.len() == KNOWN {
            self.0.clear();
        }
        // The topic is a slice of a whole packet, which must not be kept for it.
        self.0.insert(Bytes::copy_from_slice(topic), name.clone());
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_written_in_mqtt_notation_and_select_alike() {
        for (ours, mqtt) in [
            ("a/b", "a/b"),
            ("a/*/c", "a/+/c"),
            ("a/**", "a/#"),
            ("**", "#"),
        ] {
            let wild = TopicFilter::parse(ours).unwrap();
            assert_eq!(filter(&wild), mqtt);
            for topic in ["a", "a/b", "a/b/c", "a/x/c", "b/a", "a/b/c/d"] {
                let name = TopicName::parse(topic).unwrap();
                assert_eq!(selects(mqtt, topic), wild.matches(&name), "{mqtt} {topic}");
            }
        }
    }

    #[test]
    fn topics_of_the_broker_are_not_selected_by_a_leading_wildcard() {
        assert!(!selects("#", "$SYS/uptime"));
        assert!(!selects("+/uptime", "$SYS/uptime"));
        assert!(selects("$SYS/#", "$SYS/uptime"));
    }

    #[test]
    fn names_are_remembered_up_to_a_bound() {
        let mut names = Names::default();
        for n in 0..10 * KNOWN {
            assert!(names.get(&Bytes::from(format!("a/t{n}"))).is_some());
        }
        assert!(names.0.len() <= KNOWN);
        assert!(names.get(&Bytes::from_static(b"/a")).is_none());
        assert!(names.get(&Bytes::from_static(b"\xff")).is_none());
    }
}
