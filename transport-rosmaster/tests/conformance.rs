//! The conformance suite, with an embedded and with a real master.

use std::net::SocketAddr;

use async_trait::async_trait;
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

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let (address, host) = embedded(0).await;
        Ok(Self {
            address,
            host: Mutex::new(Some(host)),
        })
    }

    fn config(&self, _peer: &str) -> TransportConfig {
        TransportConfig::parse(&format!("rosmaster://{}", self.address)).unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        None
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
struct Rosmaster(Server);

#[async_trait]
impl Fixture for Rosmaster {
    const NAME: &'static str = "rosmaster";

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
        server.await.map(Self)
    }

    fn config(&self, _peer: &str) -> TransportConfig {
        TransportConfig::parse(&format!("rosmaster://{}", self.0.address())).unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        None
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        Some(&self.0)
    }

    async fn stop(self) {
        self.0.stop().await;
    }
}

transport_conformance::conformance_main!(Embedded, Rosmaster);
