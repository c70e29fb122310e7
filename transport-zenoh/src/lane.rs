//! What a publisher leaves with the transport: how to close it, and how to know that it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use transport_api::ledger::Ledger;
use transport_api::outbox::Outgoing;
use transport_api::queue::Producer;

/// One publisher, as the transport and its sender see it.
#[derive(Debug)]
pub(crate) struct Lane {
    queue: Producer<Outgoing>,
    ledger: Arc<Ledger>,
    abandoned: AtomicBool,
    /// Its other end goes with the sender.
    running: watch::Receiver<()>,
}

impl Lane {
    /// A lane, and what the sender drops when it ends.
    pub(crate) fn new(
        queue: Producer<Outgoing>,
        ledger: Arc<Ledger>,
    ) -> (Arc<Self>, watch::Sender<()>) {
        let (ends, running) = watch::channel(());
        let lane = Self {
            queue,
            ledger,
            abandoned: AtomicBool::new(false),
            running,
        };
        (Arc::new(lane), ends)
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Whether nothing shall be sent any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Whether nothing will be sent any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_closed() && self.queue.is_empty()
    }

    /// Takes no more messages; what is queued is still sent.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Gives up what is queued, and what the sender has in hand while the library holds it up.
    pub(crate) fn abandon(&self) {
        self.close();
        self.abandoned.store(true, Ordering::Release);
        self.ledger.abandon();
    }

    /// Waits until the sender has ended. Cancel-safe.
    pub(crate) async fn ended(&self) {
        // Nothing is ever sent: the end of the sender is the message.
        let _ = self.running.clone().changed().await;
    }
}
