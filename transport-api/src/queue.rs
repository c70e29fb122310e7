//! The bounded queue that every transport uses, so that a comparison measures transports and not
//! queues.
//!
//! `push` is synchronous and may be called from any thread, also from a library's callback.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::qos::Overflow;

/// What became of a pushed item.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed<T> {
    /// It is in the queue.
    Queued,
    /// It is in the queue, and this older item gave way ([`Overflow::DropOldest`]); counted.
    Evicted(T),
    /// It was given up ([`Overflow::DropNewest`]); counted.
    Discarded(T),
    /// There is no room ([`Overflow::Block`]); not counted, since the caller still has it.
    Full(T),
    /// The other end is gone or closed.
    Closed(T),
}

/// Makes a queue of `depth` items that does `overflow` when full.
pub fn bounded<T>(depth: NonZeroUsize, overflow: Overflow) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared {
        depth: depth.get(),
        overflow,
        state: Mutex::new(State {
            // A deep queue grows as it fills; the usual shallow one never allocates again.
            items: VecDeque::with_capacity(depth.get().min(64)),
            reader: None,
            waiting: Vec::new(),
            reserved: 0,
            dropped: 0,
            closed: false,
        }),
    });
    (Producer(Arc::clone(&shared)), Consumer(shared))
}

/// The end that puts items in.
pub struct Producer<T>(Arc<Shared<T>>);

/// The end that takes items out. Dropping it closes the queue and drops what is in it.
pub struct Consumer<T>(Arc<Shared<T>>);

struct Shared<T> {
    depth: usize,
    overflow: Overflow,
    state: Mutex<State<T>>,
}

struct State<T> {
    items: VecDeque<T>,
    reader: Option<Waker>,
    waiting: Vec<Waker>,
    /// Places promised by [`Producer::reserve`].
    reserved: usize,
    dropped: u64,
    closed: bool,
}

/// Adds the task to those that are woken, once. Tasks that gave up waiting stay in the list, so it
/// is emptied when it grows long: who still waits comes back.
pub fn enlist(waiting: &mut Vec<Waker>, cx: &Context<'_>) {
    if waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
        return;
    }
    if waiting.len() == MOST_WAITING {
        waiting.drain(..).for_each(Waker::wake);
    }
    waiting.push(cx.waker().clone());
}

const MOST_WAITING: usize = 64;

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let reader = state.reader.take();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        reader.into_iter().chain(waiting).for_each(Waker::wake);
    }
}

impl<T> Producer<T> {
    /// Puts an item in, as far as the overflow policy allows. Never blocks.
    pub fn push(&self, item: T) -> Pushed<T> {
        let mut state = self.0.lock();
        if state.closed {
            return Pushed::Closed(item);
        }
        let mut evicted = None;
        if state.items.len() + state.reserved >= self.0.depth {
            match self.0.overflow {
                Overflow::Block => return Pushed::Full(item),
                Overflow::DropNewest => {
                    state.dropped += 1;
                    return Pushed::Discarded(item);
                }
                Overflow::DropOldest => {
                    state.dropped += 1;
                    evicted = state.items.pop_front();
                }
            }
        }
        Self::append(state, item);
        evicted.map_or(Pushed::Queued, Pushed::Evicted)
    }

    /// Promises a place, so that one item can go to several queues or to none. `false` when there
    /// is no room or the queue is closed. Each promise is redeemed by [`Producer::push_reserved`]
    /// or given back by [`Producer::release`].
    pub fn reserve(&self) -> bool {
        let mut state = self.0.lock();
        let free = !state.closed && state.items.len() + state.reserved < self.0.depth;
        state.reserved += usize::from(free);
        free
    }

    /// Puts an item into a promised place; a queue closed since then lets it go.
    pub fn push_reserved(&self, item: T) {
        let mut state = self.0.lock();
        state.reserved = state.reserved.saturating_sub(1);
        if !state.closed {
            Self::append(state, item);
        }
    }

    /// Gives a promised place back.
    pub fn release(&self) {
        let mut state = self.0.lock();
        state.reserved = state.reserved.saturating_sub(1);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn append(mut state: MutexGuard<'_, State<T>>, item: T) {
        state.items.push_back(item);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Waits until there is room or the queue is closed (`false`). Cancel-safe.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.0.lock();
        if state.closed {
            return Poll::Ready(false);
        }
        if state.items.len() + state.reserved < self.0.depth {
            return Poll::Ready(true);
        }
        enlist(&mut state.waiting, cx);
        Poll::Pending
    }

    /// Whether a push would be taken now without dropping anything.
    pub fn has_room(&self) -> bool {
        let state = self.0.lock();
        !state.closed && state.items.len() + state.reserved < self.0.depth
    }

    /// Closes the queue; what is in it can still be taken out.
    pub fn close(&self) {
        self.0.close();
    }

    /// Whether the queue takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Items in the queue.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items dropped by the overflow policy.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// The overflow policy.
    pub fn overflow(&self) -> Overflow {
        self.0.overflow
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest item out; `None` when the queue is closed and empty. Cancel-safe.
    pub fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        match state.items.pop_front() {
            Some(item) => {
                let waiting = std::mem::take(&mut state.waiting);
                drop(state);
                waiting.into_iter().for_each(Waker::wake);
                Poll::Ready(Some(item))
            }
            None if state.closed => Poll::Ready(None),
            None => {
                if !state
                    .reader
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(cx.waker()))
                {
                    state.reader = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Takes the oldest item out. Cancel-safe.
    pub async fn pop(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| self.poll_pop(cx)).await
    }

    /// Items in the queue.
    pub fn len(&self) -> usize {
        self.0.lock().items.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items dropped by the overflow policy.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Closes the queue; what is in it can still be taken out.
    pub fn close(&self) {
        self.0.close();
    }
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.0.close();
        // Nobody can take them out any more, and a producer may live for long.
        let items = std::mem::take(&mut self.0.lock().items);
        drop(items);
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Producer({}/{}, {:?})",
            self.len(),
            self.0.depth,
            self.0.overflow
        )
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Consumer({}/{}, {:?})",
            self.len(),
            self.0.depth,
            self.0.overflow
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(overflow: Overflow) -> (Producer<u32>, Consumer<u32>) {
        let (producer, consumer) = bounded(NonZeroUsize::new(2).unwrap(), overflow);
        assert_eq!(producer.push(1), Pushed::Queued);
        assert_eq!(producer.push(2), Pushed::Queued);
        (producer, consumer)
    }

    fn drain(consumer: &mut Consumer<u32>) -> Vec<u32> {
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match consumer.poll_pop(&mut cx) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn each_policy_does_what_it_says_and_counts() {
        let (producer, mut consumer) = two(Overflow::Block);
        assert_eq!(producer.push(3), Pushed::Full(3));
        assert_eq!((drain(&mut consumer), producer.dropped()), (vec![1, 2], 0));

        let (producer, mut consumer) = two(Overflow::DropOldest);
        assert_eq!(producer.push(3), Pushed::Evicted(1));
        assert_eq!((drain(&mut consumer), producer.dropped()), (vec![2, 3], 1));

        let (producer, mut consumer) = two(Overflow::DropNewest);
        assert_eq!(producer.push(3), Pushed::Discarded(3));
        assert_eq!((drain(&mut consumer), producer.dropped()), (vec![1, 2], 1));
    }

    #[test]
    fn a_closed_queue_drains_and_then_ends() {
        let (producer, mut consumer) = two(Overflow::Block);
        producer.close();
        assert_eq!(producer.push(3), Pushed::Closed(3));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(consumer.poll_pop(&mut cx), Poll::Ready(Some(1)));
        assert_eq!(consumer.poll_pop(&mut cx), Poll::Ready(Some(2)));
        assert_eq!(consumer.poll_pop(&mut cx), Poll::Ready(None));
    }
}
