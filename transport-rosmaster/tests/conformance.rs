//! The conformance suite, with an embedded and with a real master.
#![allow(clippy::unwrap_used)]

mod links;

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use links::Network;
use tokio::process::Command;
use tokio::sync::Mutex;
use transport_api::{Host, TransportConfig, TransportFactory};
use transport_conformance::server::{self, Server};
use transport_conformance::{Fixture, LinkControl, ServerControl, Unavailable};
use transport_rosmaster::Factory;

/// The master of this crate.
struct Embedded {
    address: SocketAddr,
    host: Mutex<Option<Box<dyn Host>>>,
    network: Network,
}

async fn embedded(port: u16) -> (SocketAddr, Box<dyn Host>) {
    let url = match port {
        0 => "rosmaster:embedded".to_owned(),
        port => format!("rosmaster:embedded?port={port}"),
    };
    let config = TransportConfig::parse(&url).unwrap();
    let meeting = Factory.meet(&config).await.unwrap();
    let url = meeting.first.url();
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    (address.parse().unwrap(), meeting.host.unwrap())
}

#[async_trait]
impl Fixture for Embedded {
    const NAME: &'static str = "embedded";

    // The default of `connect_timeout` and twice that of `poll`.
    const SILENCE: Duration = Duration::from_secs(7);

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let (address, host) = embedded(0).await;
        Ok(Self {
            address,
            host: Mutex::new(Some(host)),
            network: Network::around(address),
        })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        let url = format!("rosmaster://{}", self.network.address(peer));
        TransportConfig::parse(&url).unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.network)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        Some(self)
    }

    async fn stop(self) {
        self.kill().await;
    }
}

#[async_trait]
impl ServerControl for Embedded {
    async fn kill(&self) {
        let host = self.host.lock().await.take();
        if let Some(host) = host {
            host.stop().await;
        }
    }

    async fn restart(&self) {
        let (_, host) = embedded(self.address.port()).await;
        *self.host.lock().await = Some(host);
    }
}

/// The master of the ROS distribution.
struct Rosmaster {
    server: Server,
    network: Network,
}

#[async_trait]
impl Fixture for Rosmaster {
    const NAME: &'static str = "rosmaster";

    // The default of `connect_timeout` and twice that of `poll`.
    const SILENCE: Duration = Duration::from_secs(7);

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let hint = "apt-get install python3-rosmaster";
        let program = server::find("rosmaster", "ROUNDTRIP_ROSMASTER", hint)?;
        let server = Server::start(move |port| {
            let mut command = Command::new(&program);
            command.args(["--core", "--port", &port.to_string()]);
            command
        });
        let server = server.await?;
        let network = Network::around(server.address());
        Ok(Self { server, network })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        let url = format!("rosmaster://{}", self.network.address(peer));
        TransportConfig::parse(&url).unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.network)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        Some(&self.server)
    }

    async fn stop(self) {
        self.server.stop().await;
    }
}

transport_conformance::conformance_main!(Embedded, Rosmaster);
