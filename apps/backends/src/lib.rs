//! The transports of this workspace that are compiled in, as a [`Registry`].
//!
//! This is the only crate that names them. A program with transports of its own adds them:
//!
//! ```
//! let registry = backends::builtin();
//! // registry.register(my_transport::Factory)?;
//! assert!(!registry.transports().is_empty());
//! ```

use transport_api::{Registry, local};

/// Every transport that the Cargo features bring, and which feature would bring the others.
///
/// # Panics
/// Never: no two of them share a scheme, and a test of this crate would panic here.
pub fn builtin() -> Registry {
    let mut registry = Registry::default();
    let register = |result: transport_api::Result<()>| {
        result.expect("no two transports of this workspace share a scheme");
    };
    register(registry.register(local::Factory::default()).map(drop));
    #[cfg(feature = "mqtt")]
    register(registry.register(transport_mqtt::Factory).map(drop));
    #[cfg(feature = "zenoh")]
    register(registry.register(transport_zenoh::Factory).map(drop));
    #[cfg(feature = "rosmaster")]
    register(registry.register(transport_rosmaster::Factory).map(drop));
    for (scheme, feature) in SCHEMES {
        registry.absent(scheme, feature);
    }
    registry
}

/// Schemes of this workspace and the feature that brings each.
const SCHEMES: [(&str, &str); 4] = [
    ("mqtt", "mqtt"),
    ("mqtts", "mqtt"),
    ("zenoh", "zenoh"),
    ("rosmaster", "rosmaster"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use transport_api::TransportConfig;

    #[test]
    fn a_scheme_that_is_not_compiled_in_names_its_feature() {
        let mut registry = Registry::default();
        registry.register(local::Factory::default()).unwrap();
        for (scheme, feature) in SCHEMES {
            registry.absent(scheme, feature);
            let config = TransportConfig::parse(&format!("{scheme}://host")).unwrap();
            let error = registry.factory(&config).map(drop).unwrap_err().to_string();
            let names_both =
                error.contains(&format!("--features {feature}")) && error.contains("local");
            assert!(names_both, "{error}");
        }
        let config = TransportConfig::parse("carrier-pigeon://host").unwrap();
        let error = registry.factory(&config).map(drop).unwrap_err();
        assert!(error.to_string().contains("built in: local"), "{error}");
    }

    #[test]
    fn every_scheme_is_either_compiled_in_or_known_to_be_absent() {
        let registry = builtin();
        let present = registry.transports().into_iter();
        let present: Vec<&str> = present.flat_map(|(schemes, _)| schemes).copied().collect();
        let missing = registry.missing().map(|(scheme, _)| scheme);
        let known: BTreeSet<&str> = present.iter().copied().chain(missing).collect();
        let named = SCHEMES
            .map(|(scheme, _)| scheme)
            .into_iter()
            .chain(["local"]);
        assert_eq!(known, named.collect());
        let distinct: BTreeSet<&str> = present.iter().copied().collect();
        assert_eq!(present.len(), distinct.len(), "{present:?}");
    }
}
