//! A transport over plain TCP: the template for transports of your own, and the floor in every
//! comparison.
//!
//! One peer listens (`tcp://host:port?role=listen`), the others connect to it
//! (`tcp://host:port`). The listening peer passes messages on, so that every peer can publish to
//! and subscribe from every other. See the table in [`frame`] for what travels.
//!
//! | file | what is in it | for your transport |
//! |---|---|---|
//! | `lib.rs` | factory, capabilities, meeting | say what it can do |
//! | `options.rs` | the options in the URL | yours |
//! | `transport.rs` | declares handles, closes | nearly the same |
//! | `node.rs` | subscriptions, routing | your library may do that |
//! | `peer.rs`, `session.rs`, `connection.rs`, `frame.rs` | sockets and bytes | your library does that |

pub mod connection;
pub mod frame;
pub mod node;
pub mod options;
pub mod peer;
pub mod session;
pub mod transport;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use transport_api::config::DEFAULT_MAX_PAYLOAD;
use transport_api::{
    About, Capabilities, Error, ErrorKind, Meeting, Placement, Result, Transport, TransportConfig,
    TransportFactory, TransportInfo,
};

use crate::node::Node;
use crate::options::{Address, Options, Role};
use crate::transport::Tcp;

const IMPLEMENTATION: &str = concat!("transport-template ", env!("CARGO_PKG_VERSION"));

/// Opens transports over TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factory;

/// What is not named here is refused when it is asked for.
fn capabilities(max_payload: usize) -> Capabilities {
    Capabilities {
        metadata: true,
        wildcards: true,
        schema_check: true,
        reconnects: true,
        cross_process: true,
        max_payload: Some(max_payload),
        ..Capabilities::default()
    }
}

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &["tcp"]
    }

    fn about(&self) -> About {
        About {
            name: "TCP",
            implementation: IMPLEMENTATION.to_owned(),
            summary: "plain TCP with a length prefix; the floor of direct transports",
            default_url: "tcp:embedded",
            examples: &["tcp://127.0.0.1:7000?role=listen", "tcp://127.0.0.1:7000"],
            capabilities: capabilities(DEFAULT_MAX_PAYLOAD),
            options: options::HELP,
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        let _: Options = config.backend()?;
        match is_embedded(config) {
            true => Ok(()),
            false => Address::of(config).map(drop),
        }
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        let options: Options = config.backend()?;
        let mut address = Address::of(config)?;
        let limit = config.max_payload();
        let node = Arc::new(Node::new(options, limit));
        match options.role {
            Role::Listen => address.port = peer::listen(&node, &address).await?.port(),
            Role::Connect => peer::dial(&node, address.clone()).await?,
        }
        let settings = [
            ("role", format!("{:?}", options.role).to_lowercase()),
            ("nodelay", "true".to_owned()),
            ("max_payload", limit.to_string()),
            ("backlog", options.backlog.to_string()),
            ("silence", format!("{:?}", options.silence)),
        ];
        let info = TransportInfo {
            scheme: config.url().scheme().to_owned(),
            implementation: IMPLEMENTATION.to_owned(),
            endpoint: address.to_string(),
            settings: settings.map(|(key, value)| (key.to_owned(), value)).into(),
        };
        Ok(Arc::new(Tcp::new(node, info, capabilities(limit))))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        let mut config = config.clone();
        if is_embedded(&config) {
            // Given back at once: the first side listens there.
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
            let free = free.map_err(|error| {
                Error::new(ErrorKind::Connect, "meet", "no free port on 127.0.0.1")
                    .with_source(error)
            })?;
            let mut url = config.url().clone();
            // `tcp:embedded` cannot hold a host, so the address is written anew.
            let found = url.as_str().replace(url.path(), &format!("//{free}"));
            url = found
                .parse()
                .map_err(|_| Error::config(format!("`{found}` is no URL")))?;
            config = config.with_url(url);
        }
        Address::of(&config)?;
        Ok(Meeting {
            first: config.clone().with_option("role", "listen"),
            second: config.with_option("role", "connect"),
            placement: Placement::Anywhere,
            host: None,
        })
    }
}

fn is_embedded(config: &TransportConfig) -> bool {
    config.url().path() == "embedded" && !config.url().has_host()
}
