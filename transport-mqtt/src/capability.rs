//! What is possible with the broker that is there.

use transport_api::AckScope::NextHop;
use transport_api::Capabilities;

use crate::settings::{Settings, Version};
use crate::wire::Greeting;

/// Largest payload that the broker takes too.
pub(crate) fn limit(settings: &Settings, greeting: &Greeting) -> usize {
    let broker = greeting
        .max_packet
        .map_or(usize::MAX, |packet| packet as usize);
    settings.max_payload.min(broker)
}

/// What is possible with a broker that greets like this.
pub(crate) fn capabilities(settings: &Settings, greeting: &Greeting) -> Capabilities {
    Capabilities {
        at_least_once: (greeting.max_qos >= 1).then_some(NextHop),
        // Repeated messages are recognised by their id.
        exactly_once: (greeting.max_qos >= 2 && settings.metadata).then_some(NextHop),
        native_metadata: settings.version == Version::V5 && settings.metadata,
        metadata: settings.metadata,
        wildcards: greeting.wildcards,
        priority: false,
        retained: greeting.retains,
        liveliness: settings.presence.is_some() && greeting.retains,
        block_on_receive: false,
        schema_check: settings.metadata,
        reconnects: true,
        cross_process: true,
        max_payload: Some(limit(settings, greeting)),
    }
}
