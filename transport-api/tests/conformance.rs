//! The conformance suite on the in-process transport.

use async_trait::async_trait;
use transport_api::{TransportConfig, TransportFactory, local};
use transport_conformance::{Fixture, LinkControl, ServerControl, Unavailable};

/// Nothing to start: everything is in this process.
struct Local;

#[async_trait]
impl Fixture for Local {
    const NAME: &'static str = "local";

    const NO_LINK: Option<&'static str> = Some("all peers share one process");

    const NO_SERVER: Option<&'static str> = Some("all peers share one process");

    fn factory() -> impl TransportFactory {
        local::Factory::default()
    }

    async fn start() -> Result<Self, Unavailable> {
        Ok(Self)
    }

    fn config(&self, _peer: &str) -> TransportConfig {
        TransportConfig::parse("local:conformance").expect("a valid URL")
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        None
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {}
}

transport_conformance::conformance_main!(Local);
