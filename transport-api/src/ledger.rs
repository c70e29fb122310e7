//! What becomes of the messages of one publisher: counts, flushing, and telling of losses.
//!
//! A transport makes one [`Ledger`] per publisher and takes an [`Entry`] from it for every message
//! that it accepts. The entry travels with the message and is settled where the message ends:
//! written, acknowledged, dropped or handed back. An entry that is dropped unsettled counts as
//! lost, so a cut connection, an aborted task and a passed deadline all end up in the counts
//! without a line for each.
//!
//! At any time `accepted` is the sum of written, dropped, lost and open messages, and what is lost
//! after it was written is no longer counted as written.
//!
//! Each step takes one short lock, which is never held while something is woken or told. Nothing is
//! allocated for a message but a pending token where one is asked for.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::counters::PublisherCounters;
use crate::error::{Error, ErrorKind};
use crate::event::{Event, EventHub};
use crate::qos::AckScope;
use crate::token::{Acknowledger, DeliveryToken, Stage};
use crate::topic::TopicName;
use crate::transport::CloseReport;

/// The account of one publisher.
pub struct Ledger {
    topic: TopicName,
    /// Whether messages are acknowledged; without, they end when they are written.
    acknowledged: bool,
    events: Arc<EventHub>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    counters: PublisherCounters,
    /// Number of the next message.
    next: u64,
    /// Messages with a smaller number were given up and have no further steps.
    abandoned: u64,
    flushes: Vec<Flush>,
}

/// A flush under way: it waits for `left` messages of those with a number below `target`.
struct Flush {
    key: u64,
    target: u64,
    left: u64,
    /// Whether it waits for their end; else for their being written.
    end: bool,
    waker: Option<Waker>,
}

/// What a step brings a message to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reached {
    written: bool,
    end: bool,
}

impl Book {
    /// Messages that have not come to their end.
    fn open(&self, acknowledged: bool) -> u64 {
        let counters = &self.counters;
        let good = match acknowledged {
            true => counters.acknowledged,
            false => counters.written,
        };
        counters.accepted - good - counters.dropped - counters.lost
    }

    /// Tells the flushes that message `number` has come further; returns whom to wake.
    fn reach(&mut self, number: u64, reached: Reached) -> Vec<Waker> {
        // Nothing is allocated unless a flush is complete.
        let mut complete = Vec::new();
        for flush in &mut self.flushes {
            let awaited = if flush.end {
                reached.end
            } else {
                reached.written
            };
            if awaited && number < flush.target {
                flush.left -= 1;
                if flush.left == 0 {
                    complete.extend(flush.waker.take());
                }
            }
        }
        complete
    }
}

impl Ledger {
    /// The account of a publisher of `topic` with acknowledgements as far as `scope`. What is
    /// dropped or lost is told by `events`.
    pub fn new(topic: TopicName, scope: AckScope, events: Arc<EventHub>) -> Arc<Self> {
        Arc::new(Self {
            topic,
            acknowledged: scope != AckScope::Nothing,
            events,
            book: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic that is published to.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Takes note of a message that is accepted. Call it before the message can be settled by
    /// anybody, and [`Entry::refuse`] if it is not accepted after all.
    pub fn accept(self: &Arc<Self>) -> Entry {
        let mut book = self.lock();
        book.counters.accepted += 1;
        let number = book.next;
        book.next += 1;
        drop(book);
        Entry {
            ledger: Some(Arc::clone(self)),
            number,
            written: false,
            acknowledger: None,
        }
    }

    /// Takes note of a message of `bytes` that was accepted and has arrived in the same instant.
    pub fn delivered(&self, bytes: usize) {
        let mut book = self.lock();
        let counters = &mut book.counters;
        counters.accepted += 1;
        counters.written += 1;
        counters.acknowledged += u64::from(self.acknowledged);
        counters.bytes += bytes as u64;
        book.next += 1;
    }

    /// Takes note of a message that is handed back.
    pub fn refuse(&self) {
        self.lock().counters.refused += 1;
    }

    /// The error of a message that the overflow policy gives up.
    pub fn full(&self) -> Error {
        Error::new(
            ErrorKind::Dropped,
            "publish",
            format!(
                "the queue of `{}` is full; publish less often, deepen it or let it block",
                self.topic
            ),
        )
    }

    /// Waits until every message accepted so far has reached `until`, or was dropped or lost,
    /// whatever becomes of later ones. [`Stage::Acknowledged`] counts as [`Stage::Written`] where
    /// nothing is acknowledged. Cancel-safe.
    pub async fn flush(&self, until: Stage) {
        if until == Stage::Queued {
            return;
        }
        let Some(waiting) = self.begin(until == Stage::Acknowledged) else {
            return;
        };
        poll_fn(|cx| waiting.poll(cx)).await;
    }

    /// Registers a flush; `None` if there is nothing to wait for.
    fn begin(&self, end: bool) -> Option<Waiting<'_>> {
        let mut book = self.lock();
        let left = book.open(self.acknowledged && end);
        if left == 0 {
            return None;
        }
        let key = book.flushes.last().map_or(0, |flush| flush.key + 1);
        let target = book.next;
        book.flushes.push(Flush {
            key,
            target,
            left,
            end,
            waker: None,
        });
        Some(Waiting { ledger: self, key })
    }

    /// Gives up every message that has no end yet: they are lost, and what is said of them later
    /// is ignored. For messages that are out of reach, such as in a call that does not return.
    pub fn abandon(&self) {
        let mut book = self.lock();
        let open = book.open(self.acknowledged);
        if self.acknowledged {
            book.counters.written = book.counters.acknowledged;
        }
        book.counters.lost += open;
        book.abandoned = book.next;
        let mut complete = Vec::new();
        for flush in &mut book.flushes {
            flush.left = 0;
            complete.extend(flush.waker.take());
        }
        drop(book);
        complete.into_iter().for_each(Waker::wake);
        self.tell(open);
    }

    /// Accepted messages that have no end yet.
    pub fn open(&self) -> u64 {
        self.lock().open(self.acknowledged)
    }

    /// The counts so far.
    pub fn counters(&self) -> PublisherCounters {
        self.lock().counters
    }

    /// One step of message `number`.
    fn step(
        &self,
        number: u64,
        reached: Reached,
        count: impl FnOnce(&mut PublisherCounters),
    ) -> bool {
        let mut book = self.lock();
        if number < book.abandoned {
            return false;
        }
        count(&mut book.counters);
        let complete = book.reach(number, reached);
        drop(book);
        complete.into_iter().for_each(Waker::wake);
        true
    }

    fn tell(&self, count: u64) {
        if count > 0 {
            self.events.emit(Event::Dropped {
                topic: self.topic.clone(),
                count,
            });
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({}, {:?})", self.topic, self.counters())
    }
}

/// The place of a flush in the book, given up when it is dropped.
struct Waiting<'a> {
    ledger: &'a Ledger,
    key: u64,
}

impl Waiting<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut book = self.ledger.lock();
        let flush = book.flushes.iter_mut().find(|flush| flush.key == self.key);
        match flush {
            Some(flush) if flush.left > 0 => {
                flush.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut book = self.ledger.lock();
        book.flushes.retain(|flush| flush.key != self.key);
    }
}

/// One accepted message. Dropped unsettled, it counts as lost, and its token says so.
#[must_use = "an entry that is dropped counts as lost"]
pub struct Entry {
    /// `None` once it is settled.
    ledger: Option<Arc<Ledger>>,
    number: u64,
    written: bool,
    acknowledger: Option<Acknowledger>,
}

impl Entry {
    /// The token of the message: pending where messages are acknowledged, at the cost of one
    /// allocation, else settled. To be asked for once.
    pub fn token(&mut self) -> DeliveryToken {
        match &self.ledger {
            Some(ledger) if ledger.acknowledged => {
                let (acknowledger, token) = DeliveryToken::pending();
                self.acknowledger = Some(acknowledger);
                token
            }
            _ => DeliveryToken::queued(),
        }
    }

    /// The message, with a payload of `bytes`, was handed to the library or socket. Saying it again
    /// for a message that is sent again changes nothing. Settles it where nothing is acknowledged.
    pub fn written(&mut self, bytes: usize) {
        let Some(ledger) = &self.ledger else { return };
        if self.written {
            return;
        }
        self.written = true;
        let reached = Reached {
            written: true,
            end: !ledger.acknowledged,
        };
        ledger.step(self.number, reached, |counters| {
            counters.written += 1;
            counters.bytes += bytes as u64;
        });
        if reached.end {
            self.ledger = None;
        }
    }

    /// The acknowledgement of a written message arrived.
    pub fn acknowledged(mut self) {
        if !self.written {
            // Nobody acknowledges what was not written, so this is the library's slip.
            self.written(0);
        }
        let Some(ledger) = self.ledger.take() else {
            return;
        };
        let reached = Reached {
            written: false,
            end: true,
        };
        ledger.step(self.number, reached, |counters| counters.acknowledged += 1);
        if let Some(acknowledger) = self.acknowledger.take() {
            acknowledger.settle(Ok(Stage::Acknowledged));
        }
    }

    /// The overflow policy gave up the message before it was written.
    pub fn give_up(mut self) {
        let Some(ledger) = self.ledger.take() else {
            return;
        };
        let count = |counters: &mut PublisherCounters| counters.dropped += 1;
        let counted = ledger.step(self.number, self.rest(), count);
        if let Some(acknowledger) = self.acknowledger.take() {
            acknowledger.settle(Err(ledger.full()));
        }
        ledger.tell(u64::from(counted));
    }

    /// The message is lost, or may be, for a reason that its token shall tell.
    pub fn lose(mut self, cause: Error) {
        self.end(Some(cause));
    }

    /// The message is not accepted after all.
    pub fn refuse(mut self) {
        // Nobody has the token.
        if let Some(ledger) = self.ledger.take() {
            ledger.step(self.number, self.rest(), |counters| {
                counters.accepted -= 1;
                counters.refused += 1;
            });
        }
    }

    /// What an end brings that is no good one.
    fn rest(&self) -> Reached {
        Reached {
            written: !self.written,
            end: true,
        }
    }

    fn end(&mut self, cause: Option<Error>) {
        let Some(ledger) = self.ledger.take() else {
            return;
        };
        let counted = ledger.step(self.number, self.rest(), |counters| {
            counters.lost += 1;
            counters.written -= u64::from(self.written);
        });
        // Without a cause the acknowledger has words of its own.
        if let (Some(acknowledger), Some(cause)) = (self.acknowledger.take(), cause) {
            acknowledger.settle(Err(cause));
        }
        ledger.tell(u64::from(counted));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry(#{})", self.number)
    }
}

/// A close under way: what was open when it began, and what it makes of that.
#[derive(Debug)]
pub struct Closing {
    ledgers: Vec<Arc<Ledger>>,
    open: u64,
    lost: u64,
}

impl Closing {
    /// Begins to account for a close of the publishers with these ledgers, which take no more
    /// messages.
    pub fn begin(ledgers: impl IntoIterator<Item = Arc<Ledger>>) -> Self {
        let ledgers: Vec<_> = ledgers.into_iter().collect();
        let open = ledgers.iter().map(|ledger| ledger.open()).sum();
        let lost = lost(&ledgers);
        Self {
            ledgers,
            open,
            lost,
        }
    }

    /// Waits until every message has its end. Cancel-safe.
    pub async fn settled(&self) {
        for ledger in &self.ledgers {
            ledger.flush(Stage::Acknowledged).await;
        }
    }

    /// Gives up what has no end yet and reports.
    pub fn report(self) -> CloseReport {
        self.ledgers.iter().for_each(|ledger| ledger.abandon());
        let abandoned = lost(&self.ledgers) - self.lost;
        CloseReport {
            flushed: self.open.saturating_sub(abandoned),
            abandoned,
        }
    }
}

fn lost(ledgers: &[Arc<Ledger>]) -> u64 {
    let counters = ledgers.iter().map(|ledger| ledger.counters());
    counters.map(|counters| counters.lost).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(scope: AckScope) -> (Arc<Ledger>, crate::Events) {
        let hub = Arc::new(EventHub::default());
        let events = hub.subscribe();
        let topic = TopicName::parse("a").unwrap();
        (Ledger::new(topic, scope, hub), events)
    }

    fn is_pending(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        future.poll(&mut cx).is_pending()
    }

    #[test]
    fn every_message_has_one_end_and_the_counts_add_up() {
        let (ledger, mut events) = ledger(AckScope::NextHop);
        let mut entries: Vec<Entry> = (0..6).map(|_| ledger.accept()).collect();
        for entry in &mut entries[..4] {
            entry.written(5);
            // Sent again after a reconnect.
            entry.written(5);
        }
        let mut entries = entries.into_iter();
        let mut next = || entries.next().unwrap();
        next().acknowledged();
        // Lost with and without a cause.
        next().lose(Error::closed("deliver"));
        drop(next());
        let written = next();
        next().give_up();
        next().refuse();
        let counters = ledger.counters();
        let expected = PublisherCounters {
            accepted: 5,
            refused: 1,
            written: 2,
            acknowledged: 1,
            dropped: 1,
            lost: 2,
            bytes: 20,
        };
        assert_eq!(counters, expected);
        assert_eq!(ledger.open(), 1);
        written.acknowledged();
        assert_eq!((ledger.open(), ledger.counters().acknowledged), (0, 2));
        let told = std::iter::from_fn(|| {
            let mut cx = Context::from_waker(Waker::noop());
            match std::pin::pin!(events.next()).poll(&mut cx) {
                Poll::Ready(Some(Event::Dropped { count, .. })) => Some(count),
                _ => None,
            }
        });
        assert_eq!(told.sum::<u64>(), 3);
    }

    #[test]
    fn flush_waits_for_the_messages_before_it_and_for_no_others() {
        let (ledger, _events) = ledger(AckScope::Nothing);
        let mut in_hand = ledger.accept();
        let queued = ledger.accept();
        let mut flush = std::pin::pin!(ledger.flush(Stage::Written));
        assert!(is_pending(flush.as_mut()));
        // Later ones end first, and one of those before gives way: no progress of the one in hand.
        for _ in 0..10 {
            ledger.accept().give_up();
        }
        ledger.delivered(1);
        queued.give_up();
        assert!(is_pending(flush.as_mut()));
        // Accepted later and still open: not waited for.
        let _later = ledger.accept();
        in_hand.written(1);
        assert!(!is_pending(flush.as_mut()));
    }

    #[test]
    fn flush_tells_written_from_acknowledged() {
        let (ledger, _events) = ledger(AckScope::EndToEnd);
        let mut entry = ledger.accept();
        let mut written = std::pin::pin!(ledger.flush(Stage::Written));
        let mut acknowledged = std::pin::pin!(ledger.flush(Stage::Acknowledged));
        assert!(is_pending(written.as_mut()) && is_pending(acknowledged.as_mut()));
        assert!(!is_pending(std::pin::pin!(ledger.flush(Stage::Queued))));
        entry.written(1);
        assert!(!is_pending(written.as_mut()) && is_pending(acknowledged.as_mut()));
        // A loss after it was written ends it as well.
        drop(entry);
        assert!(!is_pending(acknowledged.as_mut()));
        assert_eq!(ledger.counters().written, 0);
    }

    #[test]
    fn a_flush_that_is_given_up_leaves_nothing_behind() {
        let (ledger, _events) = ledger(AckScope::Nothing);
        let mut entry = ledger.accept();
        for _ in 0..3 {
            assert!(is_pending(std::pin::pin!(ledger.flush(Stage::Written))));
        }
        assert!(ledger.lock().flushes.is_empty());
        entry.written(1);
    }

    #[test]
    fn what_is_abandoned_is_lost_whatever_is_said_of_it_later() {
        for scope in [AckScope::Nothing, AckScope::NextHop] {
            let (ledger, _events) = ledger(scope);
            let mut stuck = ledger.accept();
            let mut underway = ledger.accept();
            underway.written(1);
            let closing = Closing::begin([Arc::clone(&ledger)]);
            let open = ledger.open();
            let mut flush = std::pin::pin!(ledger.flush(Stage::Acknowledged));
            assert!(is_pending(flush.as_mut()));
            let report = closing.report();
            assert_eq!((report.flushed, report.abandoned), (0, open));
            assert!(!is_pending(flush.as_mut()));
            stuck.written(1);
            drop((stuck, underway));
            let counters = ledger.counters();
            assert_eq!((counters.lost, counters.written), (open, 2 - open));
        }
    }

    #[test]
    fn tokens_tell_the_end() {
        let (ledger, _events) = ledger(AckScope::NextHop);
        let outcome = |end: fn(Entry)| {
            let mut entry = ledger.accept();
            let mut token = std::pin::pin!(entry.token());
            end(entry);
            match token.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome.map_err(|error| error.kind()),
                Poll::Pending => panic!("settled above"),
            }
        };
        assert_eq!(outcome(Entry::acknowledged), Ok(Stage::Acknowledged));
        assert_eq!(outcome(Entry::give_up), Err(ErrorKind::Dropped));
        assert_eq!(outcome(drop), Err(ErrorKind::Disconnected));
        let closed = |entry: Entry| entry.lose(Error::closed("deliver"));
        assert_eq!(outcome(closed), Err(ErrorKind::Closed));
    }
}
