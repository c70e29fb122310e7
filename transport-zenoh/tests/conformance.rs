//! The suite of the contract: peers among themselves, a router in this process, and `zenohd`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use transport_api::{Host, TransportConfig, TransportFactory};
use transport_conformance::server::{self, Server};
use transport_conformance::{FIRST, Fixture, LinkControl, Links, ServerControl, Unavailable};
use transport_zenoh::Factory;

/// How long a connection may block: a machine with much else to do takes seconds for 64 MiB.
const BLOCK: Duration = Duration::from_secs(10);

/// A configuration with enough patience.
fn config(url: &str) -> TransportConfig {
    let seconds = |duration: Duration| format!("{}s", duration.as_secs());
    TransportConfig::parse(url)
        .expect("a valid URL")
        .with_option("block_timeout", &seconds(BLOCK))
        .with_option("lease", &seconds(2 * BLOCK))
}

/// The first peer listens, the others connect to it.
struct Peers {
    first: SocketAddr,
    links: Links,
}

#[async_trait]
impl Fixture for Peers {
    const NAME: &'static str = "peers";

    const NO_SERVER: Option<&'static str> = Some("peers connect to each other");

    // The `lease`.
    const SILENCE: Duration = Duration::from_secs(2 * BLOCK.as_secs());

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let first = SocketAddr::from(([127, 0, 0, 1], server::free_port()));
        Ok(Self {
            first,
            links: Links::to(first),
        })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        if peer == FIRST {
            config(&format!("zenoh://{}?role=listen", self.first))
        } else {
            config(&format!("zenoh://{}", self.links.address(peer)))
        }
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.links)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {}
}

/// A router in this process, as a meeting starts it.
struct Router {
    address: SocketAddr,
    /// A host is not `Sync`; `None` while it is killed.
    host: Mutex<Option<Box<dyn Host>>>,
    links: Links,
}

/// Starts a router on `port`, or with 0 on a free one.
async fn router(port: u16) -> Result<(SocketAddr, Box<dyn Host>), Unavailable> {
    let meeting = Factory
        .meet(&config(&format!("zenoh:router?port={port}")))
        .await
        .map_err(|error| Unavailable::new(error.to_string()))?;
    let url = meeting.first.url();
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let address = address.parse().expect("an address of 127.0.0.1");
    Ok((address, meeting.host.expect("a router runs here")))
}

#[async_trait]
impl ServerControl for Router {
    async fn kill(&self) {
        let host = self.host.lock().unwrap().take();
        if let Some(host) = host {
            host.stop().await;
        }
    }

    async fn restart(&self) {
        let (_, host) = router(self.address.port()).await.expect("the port is free");
        *self.host.lock().unwrap() = Some(host);
    }
}

#[async_trait]
impl Fixture for Router {
    const NAME: &'static str = "router";

    // The `lease`.
    const SILENCE: Duration = Duration::from_secs(2 * BLOCK.as_secs());

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let (address, host) = router(0).await?;
        Ok(Self {
            address,
            host: Mutex::new(Some(host)),
            links: Links::to(address),
        })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        config(&format!("zenoh://{}?mode=client", self.links.address(peer)))
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.links)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        Some(self)
    }

    async fn stop(self) {
        self.kill().await;
    }
}

/// The router of the Zenoh project, as a process of its own.
struct Zenohd {
    server: Server,
    links: Links,
}

#[async_trait]
impl Fixture for Zenohd {
    const NAME: &'static str = "zenohd";

    // The `lease`.
    const SILENCE: Duration = Duration::from_secs(2 * BLOCK.as_secs());

    fn factory() -> impl TransportFactory {
        Factory
    }

    async fn start() -> Result<Self, Unavailable> {
        let program = server::find(
            "zenohd",
            "ROUNDTRIP_ZENOHD",
            "cargo install zenohd --version 1.10.2",
        )?;
        let server = Server::start(move |port| {
            let mut command = tokio::process::Command::new(&program);
            command.args(["--listen", &format!("tcp/127.0.0.1:{port}")]);
            command.args(["--no-multicast-scouting", "--rest-http-port", "none"]);
            let block = "transport/link/tx/queue/congestion_control/block/wait_before_close";
            command.args(["--cfg", &format!("{block}:{}", BLOCK.as_micros())]);
            command.args([
                "--cfg",
                &format!("transport/link/tx/lease:{}", 2 * BLOCK.as_millis()),
            ]);
            command
        })
        .await?;
        let links = Links::to(server.address());
        Ok(Self { server, links })
    }

    fn config(&self, peer: &str) -> TransportConfig {
        config(&format!("zenoh://{}?mode=client", self.links.address(peer)))
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(&self.links)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        Some(&self.server)
    }

    async fn stop(self) {
        self.server.stop().await;
    }
}

transport_conformance::conformance_main!(Peers, Router, Zenohd);
