//! What users type: transport URLs, sources, topic names and filters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lidar_sensor::source::SourceSpec;
use roundtrip_fuzz as _;
use transport_api::{TopicFilter, TopicName, TransportConfig};

fuzz_target!(|text: &str| {
    if let Ok(config) = TransportConfig::parse(text) {
        // Written down with its secrets, it is read as the same.
        let again = TransportConfig::parse(&config.expose()).expect("our own URL");
        assert_eq!(again.options(), config.options());
    }
    let _ = text.parse::<SourceSpec>();
    if let (Ok(name), Ok(filter)) = (TopicName::parse(text), TopicFilter::parse(text)) {
        assert!(filter.matches(&name));
    }
});
