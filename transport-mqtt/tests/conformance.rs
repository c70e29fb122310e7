//! The suite of `transport-conformance` on every broker there is, with both protocol versions.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use transport_api::{Host, TransportConfig, TransportFactory};
use transport_conformance::server::{self, Server};
use transport_conformance::{Fixture, LinkControl, Links, ServerControl, Unavailable};
use transport_mqtt::Factory;

/// How a peer connects; the limits are those of the largest check.
fn client(address: SocketAddr, version: &str) -> TransportConfig {
    let url = format!("mqtt://{address}?version={version}");
    TransportConfig::parse(&url).expect("a valid URL")
}

/// What users are told to run Mosquitto with.
const RECOMMENDED: &str = include_str!("../../scripts/mosquitto.conf");

/// The broker in this process.
struct Embedded {
    address: SocketAddr,
    host: Mutex<Option<Box<dyn Host>>>,
}

async fn host(port: u16) -> (SocketAddr, Box<dyn Host>) {
    let url = format!("mqtt:embedded?port={port}&max_payload=64MiB");
    let config = TransportConfig::parse(&url).expect("a valid URL");
    let meeting = Factory
        .meet(&config)
        .await
        .expect("the embedded broker starts");
    let port = meeting.first.url().port().expect("a URL with a port");
    let host = meeting.host.expect("a broker in this process");
    (([127, 0, 0, 1], port).into(), host)
}

#[async_trait]
impl ServerControl for Embedded {
    async fn kill(&self) {
        if let Some(host) = self.host.lock().await.take() {
            host.stop().await;
        }
    }

    async fn restart(&self) {
        let (_, host) = host(self.address.port()).await;
        *self.host.lock().await = Some(host);
    }
}

impl Embedded {
    async fn start() -> Self {
        let (address, host) = host(0).await;
        Self {
            address,
            host: Mutex::new(Some(host)),
        }
    }
}

/// Mosquitto in a process of its own, with the recommended configuration on a port of its own.
async fn mosquitto() -> Result<Server, Unavailable> {
    let program = server::find("mosquitto", "ROUNDTRIP_MOSQUITTO", "scripts/install-peers")?;
    let folder = tempfile::tempdir().expect("a folder for the configuration");
    Server::start(move |port| {
        let file = folder.path().join("mosquitto.conf");
        let (before, after) = RECOMMENDED.split_once("listener 1883").expect("a listener");
        let lines = format!("{before}listener {port}{after}");
        std::fs::write(&file, lines).expect("the configuration is written");
        let mut command = tokio::process::Command::new(&program);
        command.arg("-c").arg(file);
        command
    })
    .await
}

macro_rules! fixture {
    ($name:ident, $text:literal, $version:literal, $server:ty, $start:expr, |$held:ident| $address:expr) => {
        struct $name {
            server: $server,
            links: Links,
        }

        #[async_trait]
        impl Fixture for $name {
            const NAME: &'static str = $text;

            // Twice the default of `keep_alive`.
            const SILENCE: Duration = Duration::from_secs(20);

            fn factory() -> impl TransportFactory {
                Factory
            }

            async fn start() -> Result<Self, Unavailable> {
                let $held: $server = $start;
                let links = Links::to($address);
                Ok(Self {
                    server: $held,
                    links,
                })
            }

            fn config(&self, peer: &str) -> TransportConfig {
                client(self.links.address(peer), $version)
            }

            fn link(&self) -> Option<&dyn LinkControl> {
                Some(&self.links)
            }

            fn server(&self) -> Option<&dyn ServerControl> {
                Some(&self.server)
            }

            async fn stop(self) {
                self.server.kill().await;
            }
        }
    };
}

fixture!(
    EmbeddedV5,
    "embedded-v5",
    "5",
    Embedded,
    Embedded::start().await,
    |it| it.address
);
fixture!(
    EmbeddedV3,
    "embedded-v3",
    "3.1.1",
    Embedded,
    Embedded::start().await,
    |it| it.address
);
fixture!(
    MosquittoV5,
    "mosquitto-v5",
    "5",
    Server,
    mosquitto().await?,
    |it| it.address()
);
fixture!(
    MosquittoV3,
    "mosquitto-v3",
    "3.1.1",
    Server,
    mosquitto().await?,
    |it| it.address()
);

transport_conformance::conformance_main!(EmbeddedV5, EmbeddedV3, MosquittoV5, MosquittoV3);
