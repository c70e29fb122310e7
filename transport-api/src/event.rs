//! What happens to a transport between calls.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use crate::config::PeerId;
use crate::error::Error;
use crate::topic::TopicName;

/// Events kept for a reader that does not keep up; older ones are counted and dropped.
pub const BACKLOG: usize = 64;

/// Peers that a transport keeps account of; whoever may announce peers could fill its memory with them.
pub const PEERS: usize = 1024;

/// A change of state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Connected, at first or again.
    Connected,
    /// The connection ended and is being re-established.
    Reconnecting {
        /// Attempts since the connection ended, from 1.
        attempt: u32,
        /// Why the connection ended or the last attempt failed.
        cause: Arc<Error>,
    },
    /// The connection ended.
    Disconnected {
        /// Why.
        cause: Arc<Error>,
    },
    /// The transport was closed; the last event.
    Closed,
    /// A peer was announced. Beyond [`PEERS`] peers at once, further ones are not told of.
    PeerAlive(PeerId),
    /// A peer went away or stopped answering.
    PeerLost(PeerId),
    /// The number of subscribers of a topic that this transport publishes has changed.
    Matched {
        /// The topic.
        topic: TopicName,
        /// Subscribers now.
        subscribers: usize,
    },
    /// Accepted messages were given up by an overflow policy, or are lost or may be.
    Dropped {
        /// The topic.
        topic: TopicName,
        /// How many.
        count: u64,
    },
}

/// A bounded stream of events. Falling behind loses the oldest, counted; it never blocks the
/// transport. It starts with the current connection state and the peers that are alive, and ends
/// after [`Event::Closed`].
#[derive(Debug)]
pub struct Events(Arc<Mutex<Backlog>>);

#[derive(Debug, Default)]
struct Backlog {
    events: VecDeque<Event>,
    lagged: u64,
    waker: Option<Waker>,
    ended: bool,
}

/// Fans events out to every [`Events`] stream; the transport's end.
#[derive(Debug, Default)]
pub struct EventHub(Mutex<Hub>);

#[derive(Debug, Default)]
struct Hub {
    readers: Vec<Weak<Mutex<Backlog>>>,
    /// The last event about the connection, told to new readers first.
    state: Option<Event>,
    /// Peers alive, told to new readers next; as many as a backlog takes.
    alive: Vec<PeerId>,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventHub {
    /// Tells every reader.
    pub fn emit(&self, event: Event) {
        let mut hub = lock(&self.0);
        if hub.closed {
            return;
        }
        match &event {
            Event::Connected | Event::Disconnected { .. } | Event::Closed => {
                hub.state = Some(event.clone());
            }
            Event::PeerAlive(peer)
                if !hub.alive.contains(peer) && hub.alive.len() + 1 < BACKLOG =>
            {
                hub.alive.push(peer.clone());
            }
            Event::PeerLost(peer) => hub.alive.retain(|other| other != peer),
            _ => {}
        }
        hub.closed = matches!(event, Event::Closed);
        let ended = hub.closed;
        hub.readers.retain(|reader| {
            let Some(reader) = reader.upgrade() else {
                return false;
            };
            push(&reader, event.clone(), ended);
            true
        });
    }

    /// A new stream, beginning with the current connection state and the peers that are alive.
    pub fn subscribe(&self) -> Events {
        let mut hub = lock(&self.0);
        let backlog = Arc::new(Mutex::new(Backlog::default()));
        if let Some(state) = hub.state.clone() {
            push(&backlog, state, hub.closed);
        }
        if !hub.closed {
            for peer in &hub.alive {
                push(&backlog, Event::PeerAlive(peer.clone()), false);
            }
        }
        hub.readers.retain(|reader| reader.strong_count() > 0);
        hub.readers.push(Arc::downgrade(&backlog));
        Events(backlog)
    }
}

fn push(reader: &Mutex<Backlog>, event: Event, ended: bool) {
    let mut backlog = lock(reader);
    if backlog.events.len() == BACKLOG {
        backlog.events.pop_front();
        backlog.lagged += 1;
    }
    backlog.events.push_back(event);
    backlog.ended = ended;
    let waker = backlog.waker.take();
    drop(backlog);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Events {
    /// The next event; `None` after [`Event::Closed`]. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// How many events were lost because this reader fell behind.
    pub fn lagged(&self) -> u64 {
        lock(&self.0).lagged
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut backlog = lock(&self.0);
        match backlog.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if backlog.ended => Poll::Ready(None),
            None => {
                backlog.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl futures_core::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(cx)
    }
}
