//! A single ROS 1 master as a transport.
//!
//! Each transport is one ROS node. A topic `a/b` is the ROS topic `/a/b`; its payloads are ROS
//! messages as they go over the wire, advertised with the name, md5 sum and definition of their
//! [`Schema`](transport_api::Schema), so that `rostopic`, `rosbag`, rospy and roscpp see normal
//! topics. Metadata follows behind the message in the same frame, where ROS nodes ignore it.
//!
//! | URL | |
//! |---|---|
//! | `rosmaster://host:11311` | a node at the master on `host` |
//! | `rosmaster:embedded` | a master in this process |
//!
//! The data connections are this crate's own, since a stalled or cut connection must neither
//! disturb the others nor be forgotten; `docs/transports/rosmaster.md` says what is guaranteed.

mod acceptor;
mod address;
mod embedded;
mod feed;
mod frame;
mod graph;
mod header;
mod http;
mod intake;
mod link;
mod master;
mod membership;
mod name;
mod node;
mod options;
mod outage;
mod parameters;
mod peers;
mod publication;
mod publisher;
mod registry;
mod sequence;
mod slave;
mod subscription;
mod transport;
mod xmlrpc;

use std::sync::Arc;

use async_trait::async_trait;
use transport_api::config::DEFAULT_MAX_PAYLOAD;
use transport_api::{About, Meeting, PeerId, Result, Transport, TransportConfig, TransportFactory};

use crate::address::Endpoint;
use crate::embedded::Embedded;
use crate::options::Options;
use crate::transport::RosMaster;

/// Path of the URL that asks for a master in this process.
const EMBEDDED: &str = "embedded";

/// Opens nodes at a ROS 1 master.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factory;

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &["rosmaster"]
    }

    fn about(&self) -> About {
        About {
            name: "ROS 1 master",
            implementation: implementation(),
            summary: "a node at a single ROS 1 master, TCPROS between nodes",
            default_url: "rosmaster:embedded",
            examples: &[
                "rosmaster:embedded",
                "rosmaster://localhost:11311",
                "rosmaster://10.0.0.1:11311?ip=10.0.0.2&metadata=off",
            ],
            capabilities: transport::capabilities(DEFAULT_MAX_PAYLOAD, true),
            options: options::HELP,
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        let options = Options::of(config)?;
        if is_embedded(config) {
            return Ok(());
        }
        options.check_external()?;
        Endpoint::of_master(config).map(drop)
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        if !is_embedded(config) {
            return Ok(Arc::new(RosMaster::open(config, None).await?));
        }
        let master = Embedded::start(Options::of(config)?.port).await?;
        let config = master.join(config)?;
        Ok(Arc::new(RosMaster::open(&config, Some(master)).await?))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        let options = Options::of(config)?;
        let mut meeting = Meeting::external(config);
        if is_embedded(config) {
            let master = Embedded::start(options.port).await?;
            meeting = Meeting::external(&master.join(config)?);
            meeting.host = Some(Box::new(master));
        }
        // Two nodes of one name would shut each other down.
        meeting.second = meeting.second.with_peer(PeerId::random());
        Ok(meeting)
    }
}

fn is_embedded(config: &TransportConfig) -> bool {
    !config.url().has_host() && config.url().path() == EMBEDDED
}

fn implementation() -> String {
    format!("transport-rosmaster {} (TCPROS)", env!("CARGO_PKG_VERSION"))
}
