//! Publishers: a bounded queue and a thread that hands its messages to the library.
//!
//! The library's `put` blocks while the connection is congested, so it is called neither by the
//! app nor by a worker of its runtime.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use transport_api::event::EventHub;
use transport_api::queue::Consumer;
use transport_api::{
    DeliveryToken, Error, ErrorKind, Event, Granted, Message, Publisher, PublisherCounters,
    Refused, Result, SchemaId, Stage,
};
use zenoh::qos::Priority;
use zenoh::{Session, Wait};

use crate::barrier::off_worker;
use crate::link::Link;
use crate::options::{EXPRESS_PRIORITY, Express};
use crate::outbox::Outbox;
use crate::payload;

/// The library's priority for one of the contract: 0 and 1 share the lowest of its seven.
pub(crate) fn priority(level: u8) -> Priority {
    match level {
        7.. => Priority::RealTime,
        6 => Priority::InteractiveHigh,
        5 => Priority::InteractiveLow,
        4 => Priority::DataHigh,
        3 => Priority::Data,
        2 => Priority::DataLow,
        0 | 1 => Priority::Background,
    }
}

/// Whether messages of a priority are sent without waiting for company.
pub(crate) fn express(express: Express, level: u8) -> bool {
    match express {
        Express::Always => true,
        Express::Never => false,
        Express::Auto => level >= EXPRESS_PRIORITY,
    }
}

/// A handle for the app.
pub(crate) struct ZenohPublisher {
    outbox: Arc<Outbox>,
    link: Arc<Link>,
}

impl fmt::Debug for ZenohPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZenohPublisher").field(&self.outbox).finish()
    }
}

impl Drop for ZenohPublisher {
    fn drop(&mut self) {
        self.outbox.close();
        self.link.nudge();
    }
}

#[async_trait]
impl Publisher for ZenohPublisher {
    fn granted(&self) -> Granted {
        self.outbox.granted()
    }

    fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused> {
        self.outbox.push(message)
    }

    async fn ready(&self) -> Result<()> {
        self.outbox.ready().await
    }

    async fn flush(&self, _until: Stage) -> Result<()> {
        // Nothing is acknowledged, so every stage is reached once a message is written.
        self.outbox.flush().await
    }

    fn counters(&self) -> PublisherCounters {
        self.outbox.counters()
    }
}

/// What the sender of a publisher needs.
pub(crate) struct Sender {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) link: Arc<Link>,
    pub(crate) schema: Option<SchemaId>,
    pub(crate) express: Express,
    pub(crate) block_timeout: Duration,
    pub(crate) match_timeout: Duration,
}

impl Sender {
    /// Declares the publisher and starts its sender.
    pub(crate) async fn start(
        self,
        session: &Session,
        events: Arc<EventHub>,
        consumer: Consumer<Message>,
    ) -> Result<ZenohPublisher> {
        let session = session.clone();
        let level = self.outbox.granted().priority.unwrap_or_default();
        let key = self.outbox.topic().as_str().to_owned();
        let express = express(self.express, level);
        let matched = Arc::new(AtomicBool::new(false));
        let (noted, link) = (Arc::clone(&matched), Arc::clone(&self.link));
        let topic = self.outbox.topic().clone();
        let publisher = off_worker("publish", move || {
            let publisher = session
                .declare_publisher(key)
                // The other choice loses whole messages without a word as soon as the connection
                // is busy for longer than some milliseconds. Here the queue drops, and counts.
                .congestion_control(zenoh::qos::CongestionControl::Block)
                .priority(priority(level))
                .express(express)
                .wait()?;
            publisher
                .matching_listener()
                .callback(move |status| {
                    let matching = status.matching();
                    if noted.swap(matching, Ordering::AcqRel) != matching {
                        events.emit(Event::Matched {
                            topic: topic.clone(),
                            subscribers: usize::from(matching),
                        });
                    }
                    link.nudge();
                })
                .background()
                .wait()?;
            Ok(publisher)
        })
        .await?;
        let handle = ZenohPublisher {
            outbox: Arc::clone(&self.outbox),
            link: Arc::clone(&self.link),
        };
        let round = Rounds {
            seen: self.link.losses(),
            had_subscribers: false,
            sender: self,
            publisher,
            matched,
        };
        thread::Builder::new()
            .name("zenoh-send".to_owned())
            .spawn(move || round.run(consumer))
            .map_err(|error| {
                Error::new(
                    ErrorKind::Backend,
                    "publish",
                    "the system gives no thread for the sender",
                )
                .with_source(error)
            })?;
        Ok(handle)
    }
}

/// The sender at work.
struct Rounds {
    sender: Sender,
    publisher: zenoh::pubsub::Publisher<'static>,
    matched: Arc<AtomicBool>,
    /// Losses of the connection that were dealt with.
    seen: u64,
    had_subscribers: bool,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Rounds {
    fn run(mut self, mut consumer: Consumer<Message>) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            self.hold();
            let outbox = &self.sender.outbox;
            outbox.begin();
            let popped = consumer.poll_pop(&mut cx);
            match popped {
                Poll::Ready(Some(message)) => {
                    self.send(message);
                    self.sender.outbox.end();
                }
                Poll::Ready(None) => {
                    outbox.end();
                    break;
                }
                Poll::Pending => {
                    outbox.end();
                    thread::park();
                }
            }
        }
        let Self {
            sender, publisher, ..
        } = self;
        // Before the end is told: whoever waits for it may close the session next.
        drop(publisher);
        sender.outbox.finish();
    }

    /// Waits for a connection before a message is taken out of the queue, so that it is the queue
    /// that decides which ones give way; and after a loss for the subscribers that were there.
    fn hold(&mut self) {
        let Sender { outbox, link, .. } = &self.sender;
        link.hold(|| outbox.is_abandoned() || outbox.is_drained());
        let losses = link.losses();
        if losses != self.seen {
            self.seen = losses;
            if self.had_subscribers {
                link.hold_until(self.sender.match_timeout, || {
                    self.matched.load(Ordering::Acquire)
                        || outbox.is_abandoned()
                        || link.losses() != losses
                });
            }
        }
    }

    fn send(&mut self, message: Message) {
        let Sender { outbox, link, .. } = &self.sender;
        if outbox.is_abandoned() {
            return;
        }
        let Message { payload, mut meta } = message;
        if meta.schema.is_none() {
            meta.schema.clone_from(&self.sender.schema);
        }
        let size = payload.len();
        let began = Instant::now();
        let outcome = self
            .publisher
            .put(payload)
            .attachment(payload::attachment(&meta))
            .wait();
        self.had_subscribers = self.matched.load(Ordering::Acquire);
        match outcome {
            // The library says yes also when it gave a connection up, which takes it this long.
            Ok(()) if began.elapsed() < self.sender.block_timeout && link.losses() == self.seen => {
                outbox.wrote(size);
            }
            Ok(()) => outbox.lost(),
            Err(error) => {
                tracing::debug!(%error, topic = %outbox.topic(), "message not taken");
                outbox.lost();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_keep_their_order() {
        for level in 0..7 {
            // In the library a smaller number is the higher priority.
            assert!(priority(level) as u8 >= priority(level + 1) as u8);
        }
    }

    #[test]
    fn only_urgent_messages_travel_alone_unless_told_otherwise() {
        assert!(express(Express::Auto, 6) && !express(Express::Auto, 5));
        assert!(express(Express::Always, 0) && !express(Express::Never, 7));
    }
}
