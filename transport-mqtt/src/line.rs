//! What a publisher shares with the task that sends its messages.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use transport_api::event::EventHub;
use transport_api::{
    Acknowledger, Delivery, Error, ErrorKind, Event, Message, PublisherCounters, Result, Stage,
    TopicName,
};

/// A message in the queue of its publisher.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) message: Message,
    pub(crate) ack: Option<Acknowledger>,
}

/// One publisher: where its messages go and what became of them.
pub(crate) struct Line {
    pub(crate) topic: TopicName,
    pub(crate) delivery: Delivery,
    pub(crate) retain: bool,
    hub: Arc<EventHub>,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Written and not lost since.
    written: AtomicU64,
    acknowledged: AtomicU64,
    evicted: AtomicU64,
    discarded: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    progress: Notify,
    closed: AtomicBool,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Line {
    pub(crate) fn new(
        topic: TopicName,
        delivery: Delivery,
        retain: bool,
        hub: Arc<EventHub>,
    ) -> Self {
        Self {
            topic,
            delivery,
            retain,
            hub,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            written: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            discarded: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            progress: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted);
    }

    pub(crate) fn refused(&self) {
        add(&self.refused);
    }

    /// The oldest message gave way to a new one.
    pub(crate) fn evicted(&self, outbound: Outbound) {
        add(&self.evicted);
        self.tell_dropped(1);
        if let Some(ack) = outbound.ack {
            ack.settle(Err(self.dropped_error()));
        }
        self.progress.notify_waiters();
    }

    /// The new message was given up.
    pub(crate) fn discarded(&self) -> Error {
        add(&self.discarded);
        self.tell_dropped(1);
        self.dropped_error()
    }

    /// The message was written to the socket.
    pub(crate) fn written(&self, bytes: usize) {
        add(&self.written);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.progress.notify_waiters();
    }

    /// The broker acknowledged a written message.
    pub(crate) fn acknowledged(&self, ack: Option<Acknowledger>) {
        add(&self.acknowledged);
        if let Some(ack) = ack {
            ack.settle(Ok(Stage::Acknowledged));
        }
        self.progress.notify_waiters();
    }

    /// A message is lost or may be; `written` says whether it was counted as written.
    pub(crate) fn lost(&self, ack: Option<Acknowledger>, written: bool, error: Error) {
        // The sum of both stays what it was for whoever waits for it.
        add(&self.lost);
        if written {
            self.written.fetch_sub(1, Ordering::Relaxed);
        }
        self.tell_dropped(1);
        if let Some(ack) = ack {
            ack.settle(Err(error));
        }
        self.progress.notify_waiters();
    }

    /// Nothing will be sent any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.progress.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until everything accepted so far has reached `until` or is given up.
    pub(crate) async fn flush(&self, until: Stage) -> Result<()> {
        if self.is_closed() {
            return Err(Error::closed("flush"));
        }
        if until == Stage::Queued {
            return Ok(());
        }
        // A discarded message was never in the queue, and is done for.
        let target = get(&self.accepted) - get(&self.discarded);
        let reached = || {
            let done = match until {
                Stage::Acknowledged if self.delivery != Delivery::AtMostOnce => &self.acknowledged,
                _ => &self.written,
            };
            get(done) + get(&self.lost) + get(&self.evicted) >= target
        };
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            progress.as_mut().enable();
            if reached() || self.is_closed() {
                return Ok(());
            }
            progress.await;
        }
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        PublisherCounters {
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            written: get(&self.written),
            acknowledged: get(&self.acknowledged),
            dropped: get(&self.evicted) + get(&self.discarded),
            lost: get(&self.lost),
            bytes: get(&self.bytes),
        }
    }

    fn tell_dropped(&self, count: u64) {
        self.hub.emit(Event::Dropped {
            topic: self.topic.clone(),
            count,
        });
    }

    fn dropped_error(&self) -> Error {
        Error::new(
            ErrorKind::Dropped,
            "publish",
            format!(
                "the queue of `{}` was full; publish less often, deepen it or let it block",
                self.topic
            ),
        )
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({}, {:?})", self.topic, self.delivery)
    }
}
