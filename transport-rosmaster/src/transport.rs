//! The transport: one ROS node.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use transport_api::reception::Subscribed;
use transport_api::{
    Capabilities, CloseReport, Error, ErrorKind, Events, Publisher, Qos, Result, Schema,
    Subscriber, TopicFilter, TopicName, Transport, TransportConfig, TransportInfo,
};

use crate::embedded::Embedded;
use crate::link::PATIENCE;
use crate::membership::Membership;
use crate::node::Node;
use crate::publisher::TopicPublisher;

/// A node at a ROS 1 master.
#[derive(Debug)]
pub(crate) struct RosMaster {
    node: Arc<Node>,
    info: TransportInfo,
    capabilities: Capabilities,
    /// The master that was started for this transport alone.
    master: Mutex<Option<Embedded>>,
}

/// What a node can do.
pub(crate) fn capabilities(max_payload: usize, metadata: bool) -> Capabilities {
    Capabilities {
        metadata,
        liveliness: true,
        schema_check: true,
        reconnects: true,
        cross_process: true,
        max_payload: Some(max_payload),
        ..Capabilities::default()
    }
}

impl RosMaster {
    /// Opens a node; `master` ends with it.
    pub(crate) async fn open(config: &TransportConfig, master: Option<Embedded>) -> Result<Self> {
        let node = Node::start(config).await?;
        let (host, port) = node.data();
        let setting = |key: &str, value: String| (key.to_owned(), value);
        let info = TransportInfo {
            scheme: config.url().scheme().to_owned(),
            implementation: crate::implementation(),
            endpoint: node.master().endpoint().to_string(),
            settings: vec![
                setting("node", node.name().to_owned()),
                setting("api", node.uri().to_owned()),
                setting("data", format!("{host}:{port}")),
                setting("nodelay", "true".to_owned()),
                setting(
                    "metadata",
                    if node.metadata() { "on" } else { "off" }.to_owned(),
                ),
                setting("max_payload", node.max_payload().to_string()),
                setting("connect_timeout", format!("{:?}", node.timeout())),
                setting("poll", format!("{:?}", node.poll())),
                setting("silence", format!("{:?}", node.silence())),
                setting("patience", format!("{PATIENCE:?}")),
            ],
        };
        Ok(Self {
            capabilities: capabilities(node.max_payload(), node.metadata()),
            node,
            info,
            master: Mutex::new(master),
        })
    }
}

#[async_trait]
impl Transport for RosMaster {
    fn info(&self) -> &TransportInfo {
        &self.info
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let granted = self.capabilities.grant_publisher(&qos)?;
        let (publication, outlet) = self.node.publish(topic, schema, granted).await?;
        Ok(Box::new(TopicPublisher {
            node: Arc::clone(&self.node),
            publication,
            outlet,
            schema: schema.id().cloned(),
            capabilities: self.capabilities,
        }))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        let granted = self.capabilities.grant_subscriber(&qos)?;
        let Some(topic) = filter.as_name() else {
            let text = format!(
                "filter `{filter}` has wildcards; ROS topics are subscribed to one \
                                by one"
            );
            return Err(Error::new(ErrorKind::Unsupported, "subscribe", text));
        };
        let (subscription, id, reception) = self.node.subscribe(&topic, schema, granted).await?;
        let membership = Membership {
            node: Arc::clone(&self.node),
            subscription,
            id,
        };
        Ok(Box::new(Subscribed::new(reception, membership)))
    }

    fn events(&self) -> Events {
        self.node.events()
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        let report = self.node.close(deadline).await;
        let master = self
            .master
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut master) = master {
            master.end().await;
        }
        report
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for RosMaster {
    fn drop(&mut self) {
        self.node.abandon();
    }
}
