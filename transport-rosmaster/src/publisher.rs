//! The publisher handle.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use transport_api::{
    Capabilities, DeliveryToken, Error, Granted, Message, Publisher, PublisherCounters, Refused,
    Result, SchemaId, Stage, Why,
};

use crate::frame::Frame;
use crate::node::Node;
use crate::publication::{Outlet, Publication, Sent};

/// Publishes one topic.
pub(crate) struct TopicPublisher {
    pub(crate) node: Arc<Node>,
    pub(crate) publication: Arc<Publication>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) schema: Option<SchemaId>,
    pub(crate) capabilities: Capabilities,
}

#[async_trait]
impl Publisher for TopicPublisher {
    fn granted(&self) -> Granted {
        self.outlet.granted()
    }

    fn try_publish(&self, mut message: Message) -> Result<DeliveryToken, Refused> {
        let refuse = |message, why| {
            self.outlet.ledger.refuse();
            Err(Refused { message, why })
        };
        if self.outlet.is_closed() {
            return refuse(message, Why::Fatal(Error::closed("publish")));
        }
        if let Err(error) = self.capabilities.check_size(message.payload.len()) {
            return refuse(message, Why::Fatal(error));
        }
        let filled = message.meta.schema.is_none();
        if filled {
            message.meta.schema.clone_from(&self.schema);
        }
        let meta = self.node.metadata().then_some(&message.meta);
        let sent = self
            .outlet
            .send(|| Frame::new(message.payload.clone(), meta, &self.outlet.ledger));
        match sent {
            None => {
                if filled {
                    message.meta.schema = None;
                }
                refuse(message, Why::Full)
            }
            Some(Sent::Queued) => Ok(DeliveryToken::queued()),
            Some(Sent::Discarded) => Ok(DeliveryToken::settled(Err(self.outlet.ledger.full()))),
        }
    }

    async fn ready(&self) -> Result<()> {
        self.outlet.room().await;
        if self.outlet.is_closed() {
            return Err(Error::closed("publish"));
        }
        Ok(())
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        if self.outlet.is_closed() {
            return Err(Error::closed("flush"));
        }
        self.outlet.ledger.flush(until).await;
        Ok(())
    }

    fn counters(&self) -> PublisherCounters {
        self.outlet.ledger.counters()
    }
}

impl Drop for TopicPublisher {
    fn drop(&mut self) {
        self.node.retire(&self.publication, &self.outlet);
    }
}

impl fmt::Debug for TopicPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicPublisher({})", self.publication.topic)
    }
}
