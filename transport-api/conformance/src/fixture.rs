//! What an author provides.

use std::time::Duration;

use async_trait::async_trait;
use transport_api::{TransportConfig, TransportFactory};

use crate::link::LinkControl;
use crate::server::ServerControl;
use crate::unavailable::Unavailable;

/// The peer that every check opens before the others and keeps for as long as they are open. A
/// transport without a server lets it listen.
pub const FIRST: &str = "first";

/// One environment in which a transport is checked, such as one broker with one protocol version.
///
/// Every check starts a fixture of its own. All of its methods are called within a multi-thread
/// tokio runtime that ends with the check.
#[async_trait]
pub trait Fixture: Send + Sync + Sized + 'static {
    /// Name of the fixture, such as `mosquitto-v5`; the prefix of its checks.
    const NAME: &'static str;

    /// Within this time, as the transport's documentation says, peers notice that their link passes
    /// nothing any more, with the configurations of this fixture. Of no interest without a link.
    const SILENCE: Duration = Duration::from_secs(20);

    /// Why there is no link by design, such as that everything is in one process.
    const NO_LINK: Option<&'static str> = None;

    /// Why there is no server by design, such as that peers connect to each other.
    const NO_SERVER: Option<&'static str> = None;

    /// The factory under test. Called once per fixture and once in each child process.
    fn factory() -> impl TransportFactory;

    /// Starts what the transport needs.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason and what to install.
    async fn start() -> Result<Self, Unavailable>;

    /// How `peer` connects, through its link if there is one. Called once or more often for the
    /// same peer, with the same answer. The peer's name is set by the suite.
    fn config(&self, peer: &str) -> TransportConfig;

    /// Control over the peers' paths to the server, or to the peer [`FIRST`] where there is none.
    /// `None` leaves out the checks that cut or stall a path; without [`Fixture::NO_LINK`] they are
    /// unmet needs.
    fn link(&self) -> Option<&dyn LinkControl>;

    /// Control over the broker, router or master. `None` leaves out the checks that kill it; without
    /// [`Fixture::NO_SERVER`] they are unmet needs.
    fn server(&self) -> Option<&dyn ServerControl>;

    /// Stops what was started and waits for its end.
    async fn stop(self);
}
