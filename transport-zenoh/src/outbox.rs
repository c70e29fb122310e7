//! What a publisher shares with the thread that sends for it: the bounded queue and the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use transport_api::event::EventHub;
use transport_api::queue::{Consumer, Producer, Pushed, bounded};
use transport_api::{
    Capabilities, DeliveryToken, Error, ErrorKind, Event, Granted, Message, PublisherCounters,
    Refused, Result, TopicName, Why,
};

/// Queue and counts of one publisher.
#[derive(Debug)]
pub(crate) struct Outbox {
    topic: TopicName,
    granted: Granted,
    capabilities: Capabilities,
    producer: Producer<Message>,
    events: Arc<EventHub>,
    accepted: AtomicU64,
    refused: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    /// Messages that were put into the queue.
    queued: AtomicU64,
    /// Rounds of the sender; it takes at most one message out per round.
    begun: AtomicU64,
    ended: AtomicU64,
    progress: Notify,
    closed: AtomicBool,
    abandoned: AtomicBool,
    finished: AtomicBool,
}

impl Outbox {
    pub(crate) fn new(
        topic: TopicName,
        granted: Granted,
        capabilities: Capabilities,
        events: Arc<EventHub>,
    ) -> (Arc<Self>, Consumer<Message>) {
        let (producer, consumer) = bounded(granted.depth, granted.overflow);
        let outbox = Self {
            topic,
            granted,
            capabilities,
            producer,
            events,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            progress: Notify::new(),
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            finished: AtomicBool::new(false),
        };
        (Arc::new(outbox), consumer)
    }

    pub(crate) fn topic(&self) -> &TopicName {
        &self.topic
    }

    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    pub(crate) fn push(&self, message: Message) -> Result<DeliveryToken, Refused> {
        if let Err(error) = self.capabilities.check_size(message.payload.len()) {
            return Err(self.refuse(message, Why::Fatal(error)));
        }
        // Counted beforehand: the sender may be done with it before `push` returns.
        self.accepted.fetch_add(1, Ordering::Relaxed);
        match self.producer.push(message) {
            Pushed::Queued => {
                self.queued.fetch_add(1, Ordering::Release);
                Ok(DeliveryToken::queued())
            }
            Pushed::Evicted(_) => {
                self.queued.fetch_add(1, Ordering::Release);
                self.drop_one();
                self.progress.notify_waiters();
                Ok(DeliveryToken::queued())
            }
            Pushed::Discarded(_) => {
                self.drop_one();
                Ok(DeliveryToken::settled(Err(Error::new(
                    ErrorKind::Dropped,
                    "publish",
                    format!("the queue of `{}` is full", self.topic),
                ))))
            }
            Pushed::Full(message) => {
                self.accepted.fetch_sub(1, Ordering::Relaxed);
                Err(self.refuse(message, Why::Full))
            }
            Pushed::Closed(message) => {
                self.accepted.fetch_sub(1, Ordering::Relaxed);
                Err(self.refuse(message, Why::Fatal(Error::closed("publish"))))
            }
        }
    }

    fn refuse(&self, message: Message, why: Why) -> Refused {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Refused { message, why }
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.report_one();
    }

    fn report_one(&self) {
        self.events.emit(Event::Dropped {
            topic: self.topic.clone(),
            count: 1,
        });
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.report_one();
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.progress.notify_waiters();
    }

    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.progress.notify_waiters();
    }

    /// Whether nothing shall be sent any more. All that was accepted and has no other end is lost.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Whether nothing will be sent any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.producer.is_empty()
    }

    /// Takes no more messages; what is queued is still sent.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.producer.close();
    }

    /// Gives up what is queued, and what the sender has in hand while the library holds it up.
    pub(crate) fn abandon(&self) {
        self.close();
        if self.abandoned.swap(true, Ordering::AcqRel) {
            return;
        }
        let before = self.lost.load(Ordering::Acquire);
        let count = self.counters().lost.saturating_sub(before);
        if count > 0 {
            self.events.emit(Event::Dropped {
                topic: self.topic.clone(),
                count,
            });
        }
    }

    /// Waits for room. Cancel-safe.
    pub(crate) async fn ready(&self) -> Result<()> {
        match std::future::poll_fn(|cx| self.producer.poll_room(cx)).await {
            true => Ok(()),
            false => Err(Error::closed("publish")),
        }
    }

    /// Waits until what was accepted before has left queue and sender. Cancel-safe.
    pub(crate) async fn flush(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed("flush"));
        }
        let target = self.queued.load(Ordering::Acquire);
        // The queue is first in, first out: what has left it is counted from its front.
        self.until(|| {
            let queued = self.queued.load(Ordering::Acquire);
            queued.saturating_sub(self.producer.len() as u64) >= target
        })
        .await;
        // The last of them may be with the sender still, in a round that has begun.
        let round = self.begun.load(Ordering::SeqCst);
        self.until(|| self.ended.load(Ordering::SeqCst) >= round)
            .await;
        Ok(())
    }

    /// Waits until the sender has ended. Cancel-safe.
    pub(crate) async fn finished(&self) {
        self.until(|| self.finished.load(Ordering::Acquire)).await;
    }

    async fn until(&self, done: impl Fn() -> bool) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if done() {
                return;
            }
            progress.await;
        }
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        // The ends are read before the beginning, so that their sum never exceeds it.
        let (written, dropped, lost) = (read(&self.written), read(&self.dropped), read(&self.lost));
        let accepted = read(&self.accepted);
        PublisherCounters {
            accepted,
            refused: read(&self.refused),
            written,
            acknowledged: 0,
            dropped,
            lost: if self.is_abandoned() {
                accepted.saturating_sub(written + dropped)
            } else {
                lost
            },
            bytes: read(&self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::{Overflow, Qos};

    fn outbox(overflow: Overflow) -> (Arc<Outbox>, Consumer<Message>) {
        let capabilities = Capabilities {
            max_payload: Some(8),
            ..Capabilities::default()
        };
        let want = Qos {
            overflow,
            ..Qos::default()
        };
        let granted = capabilities.grant_publisher(&want.with_depth(2)).unwrap();
        let topic = TopicName::parse("a").unwrap();
        Outbox::new(topic, granted, capabilities, Arc::new(EventHub::default()))
    }

    #[test]
    fn every_accepted_message_ends_in_exactly_one_count() {
        for (overflow, accepted, refused, dropped) in [
            (Overflow::Block, 2, 2, 0),
            (Overflow::DropOldest, 3, 1, 1),
            (Overflow::DropNewest, 3, 1, 1),
        ] {
            let (outbox, mut consumer) = outbox(overflow);
            for payload in ["1", "2", "3", "too large"] {
                let _ = outbox.push(Message::new(payload));
            }
            outbox.abandon();
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(consumer.poll_pop(&mut cx).is_ready());
            let counts = outbox.counters();
            assert_eq!(
                (counts.accepted, counts.refused, counts.dropped, counts.lost),
                (accepted, refused, dropped, 2),
                "{overflow:?}"
            );
        }
    }

    #[tokio::test]
    async fn flush_waits_for_the_message_in_the_senders_hand() {
        let (outbox, mut consumer) = outbox(Overflow::DropOldest);
        let _ = outbox.push(Message::new("1"));
        outbox.begin();
        assert!(consumer.pop().await.is_some());
        // Evictions must not pass for progress of the one in hand.
        for payload in ["2", "3", "4", "5"] {
            let _ = outbox.push(Message::new(payload));
        }
        let mut flush = std::pin::pin!(outbox.flush());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(flush.as_mut().poll(&mut cx).is_pending());
        outbox.end();
        assert!(flush.as_mut().poll(&mut cx).is_pending());
        for _ in 0..2 {
            outbox.begin();
            assert!(consumer.pop().await.is_some());
            outbox.end();
        }
        flush.await.unwrap();
    }
}
