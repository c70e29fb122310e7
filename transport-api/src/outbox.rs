//! The sending end that transports with a queue per publisher use: size check, schema, bounded
//! queue and accounting. The counterpart of [`crate::reception`].

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use crate::capability::fits;
use crate::counters::PublisherCounters;
use crate::error::{Error, Result};
use crate::ledger::{Entry, Ledger};
use crate::message::Message;
use crate::publisher::{Publisher, Refused, Why};
use crate::qos::{Granted, Overflow};
use crate::queue::{self, Consumer, Producer, Pushed};
use crate::schema::{Schema, SchemaId};
use crate::token::{DeliveryToken, Stage};

/// An accepted message on its way, with its account.
#[derive(Debug)]
pub struct Outgoing {
    /// The message.
    pub message: Message,
    /// Its account. Settle it where the message ends; dropped, the message counts as lost.
    pub entry: Entry,
}

/// The largest payload, in bytes; shared, since the other side may have a say in it.
#[derive(Clone, Debug)]
pub struct Limit(Arc<AtomicUsize>);

impl Limit {
    /// A limit of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Changes it, for all who share it.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn check(&self, size: usize) -> Result<()> {
        fits(size, self.0.load(Ordering::Relaxed))
    }
}

/// A publisher that puts messages into its queue. Dropping it closes the queue, whose other end
/// still sends what is in it; `on_drop` is dropped then.
pub struct Outbox<D = ()> {
    granted: Granted,
    queue: Producer<Outgoing>,
    ledger: Arc<Ledger>,
    schema: Option<SchemaId>,
    limit: Limit,
    /// Dropped behind the closing of the queue.
    _on_drop: D,
}

impl<D> Outbox<D> {
    /// A publisher, and the other end of its queue. Messages that say nothing of their schema get
    /// `schema`.
    pub fn new(
        granted: Granted,
        ledger: Arc<Ledger>,
        schema: &Schema,
        limit: Limit,
        on_drop: D,
    ) -> (Self, Consumer<Outgoing>) {
        let (producer, consumer) = queue::bounded(granted.depth, granted.overflow);
        let outbox = Self {
            granted,
            queue: producer,
            ledger,
            schema: schema.id().cloned(),
            limit,
            _on_drop: on_drop,
        };
        (outbox, consumer)
    }

    /// Another handle to the queue, to close it with the transport.
    pub fn queue(&self) -> Producer<Outgoing> {
        self.queue.clone()
    }

    fn refuse(&self, message: Message, why: Why) -> Refused {
        self.ledger.refuse();
        Refused { message, why }
    }
}

#[async_trait]
impl<D: Send + Sync + 'static> Publisher for Outbox<D> {
    fn granted(&self) -> Granted {
        self.granted
    }

    fn try_publish(&self, mut message: Message) -> Result<DeliveryToken, Refused> {
        if let Err(error) = self.limit.check(message.payload.len()) {
            return Err(self.refuse(message, Why::Fatal(error)));
        }
        let filled = message.meta.schema.is_none();
        if filled {
            message.meta.schema.clone_from(&self.schema);
        }
        let mut entry = self.ledger.accept();
        let token = entry.token();
        let (back, why) = match self.queue.push(Outgoing { message, entry }) {
            Pushed::Queued => return Ok(token),
            Pushed::Evicted(oldest) => {
                oldest.entry.give_up();
                return Ok(token);
            }
            Pushed::Discarded(newest) => {
                newest.entry.give_up();
                return Ok(DeliveryToken::settled(Err(self.ledger.full())));
            }
            Pushed::Full(back) => (back, Why::Full),
            Pushed::Closed(back) => (back, Why::Fatal(Error::closed("publish"))),
        };
        back.entry.refuse();
        let mut message = back.message;
        if filled {
            message.meta.schema = None;
        }
        Err(Refused { message, why })
    }

    async fn ready(&self) -> Result<()> {
        let open = match self.granted.overflow {
            Overflow::Block => poll_fn(|cx| self.queue.poll_room(cx)).await,
            _ => !self.queue.is_closed(),
        };
        if open {
            Ok(())
        } else {
            Err(Error::closed("publish"))
        }
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        if self.queue.is_closed() {
            return Err(Error::closed("flush"));
        }
        self.ledger.flush(until).await;
        Ok(())
    }

    fn counters(&self) -> PublisherCounters {
        self.ledger.counters()
    }
}

impl<D> Drop for Outbox<D> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<D> fmt::Debug for Outbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbox({:?}, {:?})", self.ledger, self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capabilities;
    use crate::error::ErrorKind;
    use crate::event::EventHub;
    use crate::qos::{AckScope, Qos};
    use crate::topic::TopicName;

    fn outbox(overflow: Overflow) -> (Outbox, Consumer<Outgoing>) {
        let want = Qos {
            overflow,
            ..Qos::default()
        };
        let granted = Capabilities::default()
            .grant_publisher(&want.with_depth(2))
            .unwrap();
        let topic = TopicName::parse("a").unwrap();
        let ledger = Ledger::new(topic, AckScope::Nothing, Arc::new(EventHub::default()));
        let schema = Schema::new("a/B", [7; 16], "");
        Outbox::new(granted, ledger, &schema, Limit::new(8), ())
    }

    #[test]
    fn every_message_ends_in_exactly_one_count() {
        for (overflow, accepted, refused, dropped) in [
            (Overflow::Block, 2, 2, 0),
            (Overflow::DropOldest, 3, 1, 1),
            (Overflow::DropNewest, 3, 1, 1),
        ] {
            let (outbox, consumer) = outbox(overflow);
            for payload in ["1", "2", "3", "too large"] {
                let message = Message::new(payload);
                match outbox.try_publish(message.clone()) {
                    Ok(token) => drop(token),
                    // Not even the schema is filled in.
                    Err(refused) => assert_eq!(refused.message, message),
                }
            }
            drop(consumer);
            let counts = outbox.counters();
            assert_eq!(
                (counts.accepted, counts.refused, counts.dropped, counts.lost),
                (accepted, refused, dropped, 2),
                "{overflow:?}"
            );
            let refused = outbox.try_publish(Message::new("late")).unwrap_err();
            assert!(matches!(refused.why, Why::Fatal(error) if error.kind() == ErrorKind::Closed));
        }
    }
}
