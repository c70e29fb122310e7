//! Publishers.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use async_trait::async_trait;
use transport_api::queue::{Consumer, Producer, Pushed};
use transport_api::{
    Capabilities, DeliveryToken, Error, ErrorKind, Event, Granted, Message, Publisher,
    PublisherCounters, Refused, Result, SchemaId, Stage, TopicName, Why,
};

use crate::node::Node;
use crate::tally::{Tally, Ticket};

/// A message in the queue of its publisher.
#[derive(Debug)]
pub struct Accepted {
    message: Message,
    ticket: Ticket,
}

/// Publishes to one topic.
pub struct TcpPublisher {
    /// The transport.
    pub node: Arc<Node>,
    /// Where to.
    pub topic: TopicName,
    /// What it is.
    pub schema: Option<SchemaId>,
    /// What was granted.
    pub granted: Granted,
    /// Where the limit is.
    pub capabilities: Capabilities,
    /// The queue.
    pub queue: Producer<Accepted>,
    /// The counts.
    pub tally: Arc<Tally>,
}

/// Moves messages from a publisher's queue to where they are wanted, until the queue is closed.
pub async fn run(
    node: Arc<Node>,
    topic: TopicName,
    granted: Granted,
    mut queue: Consumer<Accepted>,
) {
    while let Some(Accepted { message, ticket }) = queue.pop().await {
        node.dispatch(&topic, message, ticket, granted.overflow)
            .await;
    }
}

#[async_trait]
impl Publisher for TcpPublisher {
    fn granted(&self) -> Granted {
        self.granted
    }

    fn try_publish(&self, mut message: Message) -> Result<DeliveryToken, Refused> {
        let closed = || Why::Fatal(Error::closed("publish"));
        let fatal = if self.node.is_closed() {
            Some(Error::closed("publish"))
        } else {
            self.capabilities.check_size(message.payload.len()).err()
        };
        if let Some(error) = fatal {
            self.tally.refuse();
            let why = Why::Fatal(error);
            return Err(Refused { message, why });
        }
        if message.meta.schema.is_none() {
            message.meta.schema.clone_from(&self.schema);
        }
        let ticket = self.tally.accept();
        let (back, why) = match self.queue.push(Accepted { message, ticket }) {
            Pushed::Queued => return Ok(DeliveryToken::queued()),
            Pushed::Evicted(oldest) => {
                self.give_up(oldest);
                return Ok(DeliveryToken::queued());
            }
            Pushed::Discarded(newest) => {
                self.give_up(newest);
                let text = format!("the queue of `{}` is full", self.topic);
                let error = Error::new(ErrorKind::Dropped, "publish", text);
                return Ok(DeliveryToken::settled(Err(error)));
            }
            Pushed::Full(back) => (back, Why::Full),
            Pushed::Closed(back) => (back, closed()),
        };
        back.ticket.refused();
        let message = back.message;
        Err(Refused { message, why })
    }

    async fn ready(&self) -> Result<()> {
        let open = poll_fn(|cx| self.queue.poll_room(cx)).await;
        if open && !self.node.is_closed() {
            Ok(())
        } else {
            Err(Error::closed("publish"))
        }
    }

    async fn flush(&self, _until: Stage) -> Result<()> {
        if self.node.is_closed() {
            return Err(Error::closed("flush"));
        }
        self.tally.flush().await;
        Ok(())
    }

    fn counters(&self) -> PublisherCounters {
        self.tally.counters()
    }
}

impl TcpPublisher {
    fn give_up(&self, accepted: Accepted) {
        accepted.ticket.dropped();
        let topic = self.topic.clone();
        self.node.events.emit(Event::Dropped { topic, count: 1 });
    }
}

impl Drop for TcpPublisher {
    fn drop(&mut self) {
        // What was accepted is still sent.
        self.queue.close();
    }
}

impl fmt::Debug for TcpPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpPublisher({}, {:?})", self.topic, self.queue)
    }
}
