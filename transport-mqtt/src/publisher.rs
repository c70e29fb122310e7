//! Publishers.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use transport_api::queue::{Producer, Pushed};
use transport_api::{
    AckScope, DeliveryToken, Error, ErrorKind, Granted, Message, Overflow, Publisher,
    PublisherCounters, Refused, Result, SchemaId, Stage, Why,
};

use crate::line::{Line, Outbound};

/// The app's end of a publisher's queue.
pub(crate) struct MqttPublisher {
    pub(crate) granted: Granted,
    pub(crate) producer: Producer<Outbound>,
    pub(crate) line: Arc<Line>,
    pub(crate) schema: Option<SchemaId>,
    /// Largest payload, in bytes: ours or that of the broker.
    pub(crate) limit: Arc<AtomicUsize>,
}

impl MqttPublisher {
    fn refuse(&self, message: Message, why: Why) -> Refused {
        self.line.refused();
        Refused { message, why }
    }

    fn check(&self, message: &Message) -> Result<()> {
        if self.line.is_closed() {
            return Err(Error::closed("publish"));
        }
        let limit = self.limit.load(Ordering::Relaxed);
        let size = message.payload.len();
        if size > limit {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "publish",
                format!(
                    "payload of {size} B exceeds the limit of {limit} B; raise `max_payload`, or \
                     the limit of the broker if that is lower"
                ),
            ));
        }
        Ok(())
    }
}

#[async_trait]
impl Publisher for MqttPublisher {
    fn granted(&self) -> Granted {
        self.granted
    }

    fn try_publish(&self, mut message: Message) -> Result<DeliveryToken, Refused> {
        if let Err(error) = self.check(&message) {
            return Err(self.refuse(message, Why::Fatal(error)));
        }
        let declared = message.meta.schema.is_none();
        if declared {
            message.meta.schema = self.schema.clone();
        }
        let (ack, token) = match self.granted.scope {
            AckScope::Nothing => (None, DeliveryToken::queued()),
            _ => {
                let (ack, token) = DeliveryToken::pending();
                (Some(ack), token)
            }
        };
        let unchanged = |mut message: Message| {
            if declared {
                message.meta.schema = None;
            }
            message
        };
        match self.producer.push(Outbound { message, ack }) {
            Pushed::Queued => {
                self.line.accepted();
                Ok(token)
            }
            Pushed::Evicted(oldest) => {
                self.line.accepted();
                self.line.evicted(oldest);
                Ok(token)
            }
            Pushed::Discarded(_) => {
                self.line.accepted();
                Ok(DeliveryToken::settled(Err(self.line.discarded())))
            }
            Pushed::Full(back) => Err(self.refuse(unchanged(back.message), Why::Full)),
            Pushed::Closed(back) => {
                let why = Why::Fatal(Error::closed("publish"));
                Err(self.refuse(unchanged(back.message), why))
            }
        }
    }

    async fn ready(&self) -> Result<()> {
        if self.line.is_closed() {
            return Err(Error::closed("publish"));
        }
        if self.granted.overflow != Overflow::Block {
            return Ok(());
        }
        match poll_fn(|cx| self.producer.poll_room(cx)).await {
            true => Ok(()),
            false => Err(Error::closed("publish")),
        }
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        self.line.flush(until).await
    }

    fn counters(&self) -> PublisherCounters {
        self.line.counters()
    }
}

impl Drop for MqttPublisher {
    /// What was accepted is still sent.
    fn drop(&mut self) {
        self.producer.close();
    }
}

impl fmt::Debug for MqttPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MqttPublisher({:?}, {:?})", self.line, self.producer)
    }
}
