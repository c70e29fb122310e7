//! What becomes of the messages of one publisher.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use transport_api::PublisherCounters;

/// The counts of one publisher.
#[derive(Debug, Default)]
pub struct Tally {
    accepted: AtomicU64,
    refused: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    settled: Notify,
}

/// One accepted message. Dropped unsettled, it counts as lost: that is what happens to a message
/// whose connection or transport ends.
#[derive(Debug)]
pub struct Ticket(Option<Arc<Tally>>);

impl Tally {
    /// Takes note of a message that is accepted.
    pub fn accept(self: &Arc<Self>) -> Ticket {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ticket(Some(Arc::clone(self)))
    }

    /// Takes note of a message that is handed back.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until everything accepted so far is settled. Cancel-safe.
    pub async fn flush(&self) {
        let target = self.accepted.load(Ordering::Acquire);
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Registered before the look, so that nothing is missed in between.
            settled.as_mut().enable();
            let counters = self.counters();
            if counters.written + counters.dropped + counters.lost >= target {
                return;
            }
            settled.await;
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> PublisherCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        PublisherCounters {
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            written: read(&self.written),
            acknowledged: 0,
            dropped: read(&self.dropped),
            lost: read(&self.lost),
            bytes: read(&self.bytes),
        }
    }
}

impl Ticket {
    /// The message was handed to the socket.
    pub fn written(mut self, bytes: usize) {
        if let Some(tally) = self.0.take() {
            tally.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            tally.written.fetch_add(1, Ordering::Release);
            tally.settled.notify_waiters();
        }
    }

    /// The message was given up by an overflow policy.
    pub fn dropped(mut self) {
        if let Some(tally) = self.0.take() {
            tally.dropped.fetch_add(1, Ordering::Release);
            tally.settled.notify_waiters();
        }
    }

    /// The message was not accepted after all.
    pub fn refused(mut self) {
        if let Some(tally) = self.0.take() {
            tally.accepted.fetch_sub(1, Ordering::Relaxed);
            tally.refuse();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(tally) = self.0.take() {
            tally.lost.fetch_add(1, Ordering::Release);
            tally.settled.notify_waiters();
        }
    }
}
