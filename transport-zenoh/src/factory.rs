//! The factory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use transport_api::config::DEFAULT_MAX_PAYLOAD;
use transport_api::{
    About, Error, Host, Meeting, PeerId, Placement, Result, Transport, TransportConfig,
    TransportFactory,
};
use url::Url;

use crate::address::{Address, Endpoint};
use crate::dial;
use crate::options::{HELP, Mode, Options, Role};
use crate::transport::{ZenohTransport, capabilities};

/// How long an embedded router may take to stop.
const STOPPING: Duration = Duration::from_secs(3);

/// Opens Zenoh transports: scheme `zenoh`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factory;

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &["zenoh"]
    }

    fn about(&self) -> About {
        About {
            name: "Zenoh",
            implementation: crate::IMPLEMENTATION.to_owned(),
            summary: "publish/subscribe without a broker, or through a router",
            default_url: "zenoh:peer",
            examples: &[
                "zenoh:peer",
                "zenoh:router",
                "zenoh://192.0.2.7:7447?role=listen",
                "zenoh://192.0.2.7:7447",
                "zenoh://192.0.2.7:7447?mode=client",
                "zenoh://[::1]:7447?mode=router",
            ],
            capabilities: capabilities(DEFAULT_MAX_PAYLOAD),
            options: HELP,
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        let options: Options = config.backend()?;
        options.check()?;
        let address = Address::of(config, &options)?;
        options.patience(address.role, config.max_payload())?;
        Ok(())
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(ZenohTransport::open(config).await?))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        let options: Options = config.backend()?;
        options.check()?;
        let mut address = Address::of(config, &options)?;
        options.patience(address.role, config.max_payload())?;
        if address.embedded {
            address.endpoint.port = dial::free_port(&address).await?;
        }
        match (address.mode, options.role) {
            // A router of its own is no side of the meeting: it runs here.
            (Mode::Router, _) => {
                let url = url_of(&address.endpoint)?;
                let own = config.clone().with_url(url.clone());
                let router = own
                    .with_option("port", "0")
                    .with_option("mode", "router")
                    .with_peer(PeerId::random());
                let router = ZenohTransport::open(&router).await?;
                let side = config
                    .clone()
                    .with_url(url)
                    .with_option("port", "0")
                    .with_option("role", "connect")
                    .with_option("scouting", "false")
                    .with_option("mode", "client");
                Ok(Meeting {
                    first: side.clone(),
                    second: side.with_peer(PeerId::random()),
                    placement: Placement::Anywhere,
                    host: Some(Box::new(Router(router))),
                })
            }
            (Mode::Peer, None) => {
                let side = config
                    .clone()
                    .with_url(url_of(&address.endpoint)?)
                    .with_option("port", "0")
                    .with_option("mode", "peer");
                Ok(Meeting {
                    first: side.clone().with_option("role", "listen"),
                    second: side
                        .with_option("role", "connect")
                        .with_option("scouting", "false")
                        .with_peer(PeerId::random()),
                    placement: Placement::Anywhere,
                    host: None,
                })
            }
            (Mode::Peer, Some(Role::Listen)) => Err(Error::config(
                "option `role` = `listen`: two sides cannot both listen; leave `role` out, and the \
                 first side listens",
            )),
            (Mode::Client, _) | (Mode::Peer, Some(Role::Connect)) => Ok(Meeting::external(config)),
        }
    }
}

fn url_of(endpoint: &Endpoint) -> Result<Url> {
    Url::parse(&format!("zenoh://{endpoint}")).map_err(|error| {
        Error::config(format!("`{endpoint}` does not fit into a URL")).with_source(error)
    })
}

/// A router in this process.
#[derive(Debug)]
struct Router(ZenohTransport);

#[async_trait]
impl Host for Router {
    async fn stop(self: Box<Self>) {
        self.0.close(STOPPING).await;
    }
}
