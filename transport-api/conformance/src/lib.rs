//! The suite that every transport must pass; its author runs it with one macro call.
//!
//! A transport brings a [`Fixture`]: how to start what it needs (a broker, a router, a master, or
//! nothing), and how a peer connects. [`conformance_main!`] turns one or several fixtures into a
//! test program with one line per check:
//!
//! ```toml
//! [dev-dependencies]
//! transport-conformance = { path = "…" }
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use async_trait::async_trait;
//! use transport_api::{TransportConfig, TransportFactory};
//! use transport_conformance::server::{self, Server};
//! use transport_conformance::{Fixture, LinkControl, Links, ServerControl, Unavailable};
//! # use transport_api::local::Factory;
//!
//! struct Broker {
//!     server: Server,
//!     links: Links,
//! }
//!
//! #[async_trait]
//! impl Fixture for Broker {
//!     const NAME: &'static str = "broker";
//!
//!     fn factory() -> impl TransportFactory {
//!         Factory::default()
//!     }
//!
//!     async fn start() -> Result<Self, Unavailable> {
//!         let program = server::find("brokerd", "BROKERD", "apt-get install brokerd")?;
//!         let server = Server::start(move |port| {
//!             let mut command = tokio::process::Command::new(&program);
//!             command.args(["--port", &port.to_string()]);
//!             command
//!         })
//!         .await?;
//!         let links = Links::to(server.address());
//!         Ok(Self { server, links })
//!     }
//!
//!     fn config(&self, peer: &str) -> TransportConfig {
//!         let url = format!("broker://{}", self.links.address(peer));
//!         TransportConfig::parse(&url).expect("a valid URL")
//!     }
//!
//!     fn link(&self) -> Option<&dyn LinkControl> {
//!         Some(&self.links)
//!     }
//!
//!     fn server(&self) -> Option<&dyn ServerControl> {
//!         Some(&self.server)
//!     }
//!
//!     async fn stop(self) {
//!         self.server.stop().await;
//!     }
//! }
//!
//! transport_conformance::conformance_main!(Broker);
//! ```
//!
//! Run it with `cargo test --test conformance`; arguments are those of every Rust test program
//! (a filter, `--exact`, `--list`, …). Checks run one after the other, each with a fixture and a
//! runtime of its own, under a watchdog. There is no other time limit, so a loaded machine makes
//! them slow and not red.
//!
//! * A check whose need is not met is shown as ignored, with the reason in its name. For each
//!   capability there is a check that it works where it is claimed and one that it is refused where
//!   it is not.
//! * A fixture that is not available (its program is not installed), or that gives no control over its
//!   link or server without saying that there is none by design, is an unmet need too; with
//!   `CONFORMANCE_REQUIRE=all` in the environment these fail. What a transport does not offer never does.
//! * A step that waits in vain fails after 30 s and says what it waited for; `CONFORMANCE_PATIENCE`
//!   sets fewer seconds for hunting a fault.
//! * Fewer than thirty checks that really run are a failure of their own.
//!
//! What each check promises is written in `docs/contract.md` under the check's name.

mod checks;
pub mod fixture;
pub mod link;
mod remote;
pub mod runner;
mod runtime;
mod scene;
pub mod server;
mod unavailable;

pub use fixture::{FIRST, Fixture};
pub use link::{LinkControl, Links};
pub use runner::Suite;
pub use server::{Server, ServerControl};
pub use unavailable::Unavailable;

/// Defines `main` of a test target with `harness = false` that runs the suite on each fixture.
#[macro_export]
macro_rules! conformance_main {
    ($($fixture:ty),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            let mut suite = $crate::Suite::default();
            $(suite.add::<$fixture>();)+
            suite.run()
        }
    };
}
