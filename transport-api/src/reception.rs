//! The receiving end that every transport uses: a bounded queue, loss accounting, schema check and
//! de-duplication.
//!
//! The transport holds the [`Inlet`], possibly on a thread of its library; the app holds the
//! [`Reception`] in a [`Subscribed`], with what ends the subscription. Gaps are counted where the app takes samples out, so that a message
//! lost anywhere before the app is missing, whatever lost it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;

use crate::counters::SubscriberCounters;
use crate::error::{Error, ErrorKind, Result};
use crate::gap::{Arrival, GapTracker};
use crate::message::{Metadata, Sample};
use crate::qos::{Delivery, Granted, Overflow};
use crate::queue::{self, Consumer, Producer, Pushed};
use crate::schema::{Schema, SchemaId};
use crate::subscriber::Subscriber;
use crate::topic::TopicName;

/// An arrival before it is accounted for.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Topic it was published to.
    pub topic: TopicName,
    /// The payload.
    pub payload: Bytes,
    /// The metadata.
    pub meta: Metadata,
}

/// Makes both ends for a subscriber that expects `schema` (opaque: any).
pub fn reception(granted: Granted, schema: &Schema) -> (Inlet, Reception) {
    let (producer, consumer) = queue::bounded(granted.depth, granted.overflow);
    let undecodable = Arc::new(AtomicU64::new(0));
    let inlet = Inlet {
        producer,
        undecodable: Arc::clone(&undecodable),
    };
    let reception = Reception {
        granted,
        expected: schema.id().cloned(),
        consumer,
        undecodable,
        gaps: GapTracker::default(),
        received: 0,
        bytes: 0,
        mismatched: 0,
        strange: Vec::new(),
    };
    (inlet, reception)
}

/// The transport's end. Cloning gives another handle to the same queue.
#[derive(Clone, Debug)]
pub struct Inlet {
    producer: Producer<Arrived>,
    undecodable: Arc<AtomicU64>,
}

impl Inlet {
    /// Queues an arrival as far as the overflow policy allows. Never blocks.
    pub fn offer(&self, arrived: Arrived) -> Pushed<Arrived> {
        self.producer.push(arrived)
    }

    /// Counts an arrival whose metadata could not be decoded and logs the first, the second, the
    /// fourth, the eighth … of them.
    pub fn reject(&self, topic: &dyn std::fmt::Display, error: &Error) {
        let count = self.undecodable.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%topic, %error, count, "arrival not decodable, not delivered");
        }
    }

    /// Waits until there is room or the subscriber is gone (`false`). Cancel-safe.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.producer.poll_room(cx)
    }

    /// Whether an offer would be taken now without dropping anything.
    pub fn has_room(&self) -> bool {
        self.producer.has_room()
    }

    /// Promises a place; see [`Producer::reserve`].
    pub fn reserve(&self) -> bool {
        self.producer.reserve()
    }

    /// Redeems a promised place.
    pub fn offer_reserved(&self, arrived: Arrived) {
        self.producer.push_reserved(arrived);
    }

    /// Gives a promised place back.
    pub fn release(&self) {
        self.producer.release();
    }

    /// The overflow policy of the subscriber.
    pub fn overflow(&self) -> Overflow {
        self.producer.overflow()
    }

    /// Ends the subscription; what is queued can still be received.
    pub fn close(&self) {
        self.producer.close();
    }
}

/// The subscriber's end.
#[derive(Debug)]
pub struct Reception {
    granted: Granted,
    expected: Option<SchemaId>,
    consumer: Consumer<Arrived>,
    undecodable: Arc<AtomicU64>,
    gaps: GapTracker,
    received: u64,
    bytes: u64,
    mismatched: u64,
    /// Foreign schemas that were reported, so that each is reported once. Bounded.
    strange: Vec<SchemaId>,
}

/// Foreign schemas remembered per subscriber.
const STRANGE: usize = 16;

impl Reception {
    /// What was granted.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// The next sample; `None` when closed and drained. Cancel-safe.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] once per foreign schema, naming both; its messages are counted and not
    /// delivered.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        loop {
            let Some(arrived) = std::task::ready!(self.consumer.poll_pop(cx)) else {
                return Poll::Ready(None);
            };
            let missed = match arrived.meta.id.map(|id| self.gaps.observe(id)) {
                Some(Arrival::Ahead(missed)) => missed,
                Some(Arrival::Duplicate) if self.granted.delivery == Delivery::ExactlyOnce => {
                    continue;
                }
                _ => 0,
            };
            if let Some(error) = self.mismatch(&arrived) {
                self.mismatched += 1;
                match error {
                    Some(error) => return Poll::Ready(Some(Err(error))),
                    None => continue,
                }
            }
            self.received += 1;
            self.bytes += arrived.payload.len() as u64;
            let Arrived {
                topic,
                payload,
                meta,
            } = arrived;
            return Poll::Ready(Some(Ok(Sample {
                topic,
                payload,
                meta,
                missed,
            })));
        }
    }

    /// `None`: it fits. `Some(None)`: it does not, and that was said before.
    fn mismatch(&mut self, arrived: &Arrived) -> Option<Option<Error>> {
        let expected = self.expected.as_ref()?;
        let found = arrived.meta.schema.as_ref()?;
        if found == expected {
            return None;
        }
        if self.strange.contains(found) || self.strange.len() == STRANGE {
            return Some(None);
        }
        self.strange.push(found.clone());
        Some(Some(Error::new(
            ErrorKind::Schema,
            "receive",
            format!(
                "type mismatch on `{}`: expected {expected}, publisher sends {found}; build both \
                 sides from the same definitions",
                arrived.topic
            ),
        )))
    }

    /// What was counted.
    pub fn counters(&self) -> SubscriberCounters {
        SubscriberCounters {
            received: self.received,
            bytes: self.bytes,
            missed: self.gaps.missed(),
            duplicates: self.gaps.duplicates(),
            reordered: self.gaps.reordered(),
            dropped: self.consumer.dropped(),
            undecodable: self.undecodable.load(Ordering::Relaxed),
            mismatched: self.mismatched,
        }
    }

    /// Ends the subscription; what is queued can still be received.
    pub fn close(&self) {
        self.consumer.close();
    }
}

/// What ends a subscription at the other side. Dropping it does so without waiting.
#[async_trait]
pub trait Subscription: Send + std::fmt::Debug + 'static {
    /// Ends it and waits until that is done. Not cancel-safe: a dropped future leaves the rest to
    /// the background. The default is for those whose `drop` is all there is to do.
    ///
    /// # Errors
    /// The other side could not be told.
    async fn end(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// A subscriber: where messages arrive, and what ends that.
#[derive(Debug)]
pub struct Subscribed<S> {
    reception: Reception,
    subscription: S,
}

impl<S: Subscription> Subscribed<S> {
    /// A subscriber with the receiving end `reception`.
    pub fn new(reception: Reception, subscription: S) -> Self {
        Self {
            reception,
            subscription,
        }
    }
}

#[async_trait]
impl<S: Subscription> Subscriber for Subscribed<S> {
    fn granted(&self) -> Granted {
        self.reception.granted()
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        self.reception.poll_recv(cx)
    }

    fn counters(&self) -> SubscriberCounters {
        self.reception.counters()
    }

    async fn close(self: Box<Self>) -> Result<()> {
        let Self {
            reception,
            subscription,
        } = *self;
        drop(reception);
        subscription.end().await
    }
}
