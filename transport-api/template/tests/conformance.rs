//! The conformance suite. There is no server: the first peer listens, and the others reach it
//! through a link that can be cut.

use std::time::Duration;

use async_trait::async_trait;
use transport_api::{TransportConfig, TransportFactory};
use transport_conformance::server::free_port;
use transport_conformance::{FIRST, Fixture, LinkControl, Links, ServerControl, Unavailable};

struct Direct {
    port: u16,
    links: Links,
}

#[async_trait]
impl Fixture for Direct {
    const NAME: &'static str = "tcp";

    const NO_SERVER: Option<&'static str> = Some("peers connect to the one that listens");

    const SILENCE: Duration = Duration::from_secs(10);

    fn factory() -> impl TransportFactory {
        transport_template::Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let port = free_port();
        let links = Links::to(([127, 0, 0, 1], port).into());
        Ok(Self { port, links })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        let url = match peer {
            FIRST => format!("tcp://127.0.0.1:{}?role=listen", self.port),
            _ => format!("tcp://{}?silence=8s", self.links.address(peer)),
        };
        TransportConfig::parse(&url).expect("a valid URL")
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.links)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {}
}

transport_conformance::conformance_main!(Direct);
