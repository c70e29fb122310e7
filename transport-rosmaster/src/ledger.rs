//! What became of the messages of one publisher.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use transport_api::PublisherCounters;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Handed to the sockets of all subscribers, also when there are none.
    Written,
    /// Given up by the overflow policy for at least one subscriber.
    Dropped,
    /// The connection of at least one subscriber ended before it was written.
    Lost,
}

/// Counts messages and knows up to which one all have ended.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    counters: PublisherCounters,
    /// Number of the first message that has not ended.
    open: u64,
    /// Whether each message from `open` on has ended; as long as the queues are deep.
    ended: VecDeque<bool>,
    waiters: Vec<Waker>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message over and numbers it.
    pub(crate) fn accept(&self) -> u64 {
        let mut book = self.lock();
        book.counters.accepted += 1;
        book.ended.push_back(false);
        book.open + book.ended.len() as u64 - 1
    }

    pub(crate) fn refuse(&self) {
        self.lock().counters.refused += 1;
    }

    /// Notes how message `number`, with a payload of `bytes`, ended.
    pub(crate) fn settle(&self, number: u64, fate: Fate, bytes: usize) {
        let mut book = self.lock();
        match fate {
            Fate::Written => {
                book.counters.written += 1;
                book.counters.bytes += bytes as u64;
            }
            Fate::Dropped => book.counters.dropped += 1,
            Fate::Lost => book.counters.lost += 1,
        }
        let at = (number - book.open) as usize;
        if let Some(ended) = book.ended.get_mut(at) {
            *ended = true;
        }
        while book.ended.front() == Some(&true) {
            book.ended.pop_front();
            book.open += 1;
        }
        let waiters = std::mem::take(&mut book.waiters);
        drop(book);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Waits until every message accepted so far has ended. Cancel-safe.
    pub(crate) async fn settled(&self) {
        let target = {
            let book = self.lock();
            book.open + book.ended.len() as u64
        };
        poll_fn(|cx| {
            let mut book = self.lock();
            if book.open >= target {
                return Poll::Ready(());
            }
            if !book.waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                book.waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether every message has ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().ended.is_empty()
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        self.lock().counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settled_waits_for_the_oldest_and_not_for_a_number() {
        let ledger = Ledger::default();
        let numbers: Vec<u64> = (0..3).map(|_| ledger.accept()).collect();
        assert_eq!(numbers, [0, 1, 2]);
        ledger.settle(2, Fate::Dropped, 1);
        ledger.settle(1, Fate::Lost, 1);
        let mut settled = Box::pin(ledger.settled());
        let mut cx = std::task::Context::from_waker(Waker::noop());
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        // Accepted later: not waited for.
        assert_eq!(ledger.accept(), 3);
        ledger.settle(0, Fate::Written, 5);
        settled.await;
        let counters = ledger.counters();
        assert_eq!(
            (
                counters.written,
                counters.dropped,
                counters.lost,
                counters.bytes
            ),
            (1, 1, 1, 5)
        );
    }
}
