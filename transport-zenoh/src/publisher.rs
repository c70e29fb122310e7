//! Publishers: a bounded queue and a thread that hands its messages to the library.
//!
//! The library's `put` blocks while the connection is congested, so it is called neither by the
//! app nor by a worker of its runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use transport_api::event::EventHub;
use transport_api::ledger::Ledger;
use transport_api::outbox::{Limit, Outbox, Outgoing};
use transport_api::queue::Consumer;
use transport_api::{Error, ErrorKind, Event, Granted, Result, Schema};
use zenoh::qos::Priority;
use zenoh::{Session, Wait};

use crate::barrier::off_worker;
use crate::fault::cause;
use crate::lane::Lane;
use crate::link::Link;
use crate::options::{EXPRESS_PRIORITY, Express};
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

/// Wakes a sender that waits for a connection, when its publisher is dropped.
#[derive(Debug)]
pub(crate) struct Nudge(Arc<Link>);

impl Drop for Nudge {
    fn drop(&mut self) {
        self.0.nudge();
    }
}

/// What the sender of a publisher needs.
pub(crate) struct Sender {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) granted: Granted,
    pub(crate) limit: Limit,
    pub(crate) link: Arc<Link>,
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
        schema: &Schema,
    ) -> Result<(Outbox<Nudge>, Arc<Lane>)> {
        let session = session.clone();
        let level = self.granted.priority.unwrap_or_default();
        let key = self.ledger.topic().as_str().to_owned();
        let express = express(self.express, level);
        let matched = Arc::new(AtomicBool::new(false));
        let (noted, link) = (Arc::clone(&matched), Arc::clone(&self.link));
        let topic = self.ledger.topic().clone();
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
        let nudge = Nudge(Arc::clone(&self.link));
        let ledger = Arc::clone(&self.ledger);
        let (outbox, consumer) =
            Outbox::new(self.granted, ledger, schema, self.limit.clone(), nudge);
        let (lane, ends) = Lane::new(outbox.queue(), Arc::clone(&self.ledger));
        let round = Rounds {
            lane: Arc::clone(&lane),
            ends,
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
        Ok((outbox, lane))
    }
}

/// The sender at work.
struct Rounds {
    lane: Arc<Lane>,
    ends: watch::Sender<()>,
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
    fn run(mut self, mut consumer: Consumer<Outgoing>) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            self.hold();
            match consumer.poll_pop(&mut cx) {
                Poll::Ready(Some(outgoing)) => self.send(outgoing),
                Poll::Ready(None) => break,
                Poll::Pending => thread::park(),
            }
        }
        let Self {
            ends, publisher, ..
        } = self;
        // Before the end is told: whoever waits for it may close the session next.
        drop(publisher);
        drop(ends);
    }

    /// Waits for a connection before a message is taken out of the queue, so that it is the queue
    /// that decides which ones give way; and after a loss for the subscribers that were there.
    fn hold(&mut self) {
        let (lane, link) = (&self.lane, &self.sender.link);
        link.hold(|| lane.is_abandoned() || lane.is_drained());
        let losses = link.losses();
        if losses != self.seen {
            self.seen = losses;
            if self.had_subscribers {
                link.hold_until(self.sender.match_timeout, || {
                    self.matched.load(Ordering::Acquire)
                        || lane.is_abandoned()
                        || link.losses() != losses
                });
            }
        }
    }

    fn send(&mut self, Outgoing { message, mut entry }: Outgoing) {
        if self.lane.is_abandoned() {
            return;
        }
        let size = message.payload.len();
        let began = Instant::now();
        let outcome = self
            .publisher
            .put(message.payload)
            .attachment(payload::attachment(&message.meta))
            .wait();
        self.had_subscribers = self.matched.load(Ordering::Acquire);
        let Sender { ledger, link, .. } = &self.sender;
        match outcome {
            // The library says yes also when it gave a connection up, which takes it this long.
            Ok(()) if began.elapsed() < self.sender.block_timeout && link.losses() == self.seen => {
                entry.written(size);
            }
            Ok(()) => {}
            Err(error) => {
                let error = cause(error);
                tracing::debug!(%error, topic = %ledger.topic(), "message not taken");
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
