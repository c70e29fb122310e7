//! A topic that this node publishes: its publishers here and its subscribers anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{Notify, watch};
use transport_api::event::EventHub;
use transport_api::ledger::Ledger;
use transport_api::queue::{self, Producer, Pushed};
use transport_api::{Granted, Overflow, TopicName};

use crate::frame::Frame;
use crate::header::{Header, Type};
use crate::link::{Flow, Link};

/// Definition of `rosgraph_msgs/Log`, without its comments.
const ROSOUT: &str = "\
byte DEBUG=1
byte INFO=2
byte WARN=4
byte ERROR=8
byte FATAL=16
Header header
byte level
string name
string msg
string file
string function
uint32 line
string[] topics
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
";

/// A topic that this node publishes.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) topic: TopicName,
    /// The type it was first published with.
    pub(crate) kind: Type,
    state: Mutex<State>,
    /// Connections now.
    audience: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    outlets: Vec<Arc<Outlet>>,
    links: Vec<Arc<Link>>,
    /// Nodes that were refused and the sum they asked for; at most [`REFUSED`].
    refused: BTreeMap<String, String>,
    complete: bool,
}

/// Refused subscribers remembered per topic; they only shorten the wait of new publishers.
const REFUSED: usize = 256;

impl Publication {
    pub(crate) fn new(topic: &TopicName, kind: Type) -> Arc<Self> {
        Arc::new(Self {
            topic: topic.clone(),
            kind,
            state: Mutex::default(),
            audience: watch::Sender::new(0),
        })
    }

    /// The topic of log messages. Every node publishes it, which makes the node known.
    pub(crate) fn rosout() -> Arc<Self> {
        let topic = TopicName::parse("rosout").expect("`rosout` is a legal name");
        let kind = Type {
            name: "rosgraph_msgs/Log".to_owned(),
            sum: "acffd30cd6b6de30f120938c17c593fb".to_owned(),
            definition: ROSOUT.to_owned(),
        };
        Self::new(&topic, kind)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The type to send to a subscriber with this header, else why there is none. Publishers of one
    /// topic may differ in type; each subscriber gets what it asks for.
    pub(crate) fn admit(&self, header: &Header) -> Result<Type, String> {
        let mut state = self.lock();
        let kinds = state.outlets.iter().map(|outlet| &outlet.kind);
        let admitting = kinds.chain([&self.kind]).find(|kind| kind.admits(header));
        if let Some(kind) = admitting {
            return Ok(kind.clone());
        }
        let (node, sum) = (header.get("callerid"), header.get("md5sum"));
        if let (Some(node), Some(sum)) = (node, sum)
            && state.refused.len() < REFUSED
        {
            state.refused.insert(node.to_owned(), sum.to_owned());
        }
        let connected = state.links.len();
        self.audience.send_replace(connected);
        Err(self.kind.refuse(header))
    }

    /// Whether `node` is known to ask for another type than `outlet` sends.
    pub(crate) fn differs(&self, node: &str, outlet: &Outlet) -> bool {
        let state = self.lock();
        state
            .refused
            .get(node)
            .is_some_and(|sum| *sum != outlet.kind.sum)
    }

    /// Adds a publisher.
    pub(crate) fn publish(
        &self,
        kind: Type,
        granted: Granted,
        events: &Arc<EventHub>,
    ) -> Arc<Outlet> {
        let outlet = Arc::new(Outlet {
            kind,
            granted,
            ledger: Ledger::new(self.topic.clone(), granted.scope, Arc::clone(events)),
            closed: AtomicBool::new(false),
            ports: Mutex::default(),
            changed: Notify::new(),
        });
        let mut state = self.lock();
        for link in &state.links {
            outlet.connect(link);
        }
        state.outlets.push(Arc::clone(&outlet));
        outlet
    }

    /// Takes a publisher away and says whether it was the last; what it accepted is still sent.
    pub(crate) fn retire(&self, outlet: &Arc<Outlet>) -> bool {
        outlet.close();
        let mut state = self.lock();
        state.outlets.retain(|known| !Arc::ptr_eq(known, outlet));
        state.outlets.is_empty()
    }

    /// Adds a subscriber: from now on messages are queued for it. `false` if the topic is no longer
    /// published.
    pub(crate) fn attach(&self, link: &Arc<Link>) -> bool {
        let mut state = self.lock();
        if state.complete {
            return false;
        }
        for outlet in &state.outlets {
            outlet.connect(link);
        }
        state.links.push(Arc::clone(link));
        state.refused.remove(link.node());
        self.audience.send_replace(state.links.len());
        true
    }

    /// Takes a subscriber away.
    pub(crate) fn detach(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        state.links.retain(|known| !Arc::ptr_eq(known, link));
        for outlet in &state.outlets {
            outlet.disconnect(link);
        }
        self.audience.send_replace(state.links.len());
    }

    /// Nothing more will be published: links end once they have written what they have.
    pub(crate) fn complete(&self) {
        let mut state = self.lock();
        state.complete = true;
        for outlet in state.outlets.drain(..) {
            outlet.close();
        }
        for link in &state.links {
            link.complete();
        }
    }

    pub(crate) fn audience(&self) -> watch::Receiver<usize> {
        self.audience.subscribe()
    }

    /// Names of the nodes connected now.
    pub(crate) fn subscribers(&self) -> Vec<String> {
        let state = self.lock();
        state
            .links
            .iter()
            .map(|link| link.node().to_owned())
            .collect()
    }
}

/// The sending end of one publisher: a bounded queue for each subscriber.
#[derive(Debug)]
pub(crate) struct Outlet {
    kind: Type,
    granted: Granted,
    pub(crate) ledger: Arc<Ledger>,
    closed: AtomicBool,
    ports: Mutex<Vec<Port>>,
    /// Woken when ports come and go.
    changed: Notify,
}

#[derive(Debug)]
struct Port {
    link: Arc<Link>,
    queue: Producer<Arc<Frame>>,
}

/// What [`Outlet::send`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Queued for every subscriber.
    Queued,
    /// Given up for every subscriber.
    Discarded,
}

impl Outlet {
    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Port>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, link: &Arc<Link>) {
        if !link.takes(&self.kind) {
            return;
        }
        // Back-pressure comes from looking for room first; a link that stalls is not waited for,
        // and then its oldest messages give way.
        let overflow = match self.granted.overflow {
            Overflow::Block => Overflow::DropOldest,
            other => other,
        };
        let (queue, lane) = queue::bounded(self.granted.depth, overflow);
        link.add(lane);
        self.ports().push(Port {
            link: Arc::clone(link),
            queue,
        });
        self.changed.notify_waiters();
    }

    /// Names of the nodes that get what is sent.
    pub(crate) fn subscribers(&self) -> BTreeSet<String> {
        let ports = self.ports();
        ports
            .iter()
            .map(|port| port.link.node().to_owned())
            .collect()
    }

    fn disconnect(&self, link: &Arc<Link>) {
        self.ports().retain(|port| !Arc::ptr_eq(&port.link, link));
        self.changed.notify_waiters();
    }

    /// Whether it is closed and nothing of it is under way.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_closed() && self.ledger.open() == 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Accepts nothing more; what is queued is still written.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for port in self.ports().iter() {
            port.queue.close();
        }
        self.changed.notify_waiters();
    }

    /// Queues the frame that `make` returns for every subscriber, or calls it not at all: `None`
    /// says that under [`Overflow::Block`] there is no room.
    pub(crate) fn send(&self, make: impl FnOnce() -> Arc<Frame>) -> Option<Sent> {
        // Declared before the lock, so dropped after it: the end of a message wakes whoever waits.
        let frame;
        let mut evicted = Vec::new();
        let ports = self.ports();
        // Only this publisher puts messages into these queues, under this lock: room stays room.
        if self.granted.overflow == Overflow::Block {
            let states = ports
                .iter()
                .map(|port| (port.link.flow(), port.queue.has_room()));
            if is_blocked(states) {
                return None;
            }
        }
        frame = make();
        let mut discarded = 0;
        for port in ports.iter() {
            match port.queue.push(Arc::clone(&frame)) {
                Pushed::Queued => {}
                Pushed::Evicted(old) => {
                    old.give_up();
                    evicted.push(old);
                }
                Pushed::Discarded(new) | Pushed::Full(new) => {
                    new.give_up();
                    discarded += 1;
                }
                // The subscriber has just gone: the message is not for it.
                Pushed::Closed(_) => {}
            }
        }
        if discarded > 0 && discarded == ports.len() {
            return Some(Sent::Discarded);
        }
        Some(Sent::Queued)
    }

    /// Waits until [`Outlet::send`] would find room, or the publisher is closed.
    pub(crate) async fn room(&self) {
        if self.granted.overflow != Overflow::Block {
            return;
        }
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on a change is not missed.
            changed.as_mut().enable();
            let room = poll_fn(|cx| {
                let ports = self.ports();
                // Every port is asked, so that each of them wakes this.
                let states: Vec<_> = ports
                    .iter()
                    .map(|port| {
                        (
                            port.link.watch_flow(cx),
                            port.queue.poll_room(cx).is_ready(),
                        )
                    })
                    .collect();
                if self.is_closed() || !is_blocked(states.into_iter()) {
                    return Poll::Ready(());
                }
                Poll::Pending
            });
            tokio::select! {
                () = room => return,
                () = changed => {}
            }
        }
    }
}

/// Whether a publisher has to wait, by flow and room of its subscribers: for each that is full and
/// moving, and for those that stall, unless another one moves on.
fn is_blocked(states: impl Iterator<Item = (Flow, bool)>) -> bool {
    let (mut stalled, mut moving) = (false, false);
    for (flow, room) in states {
        match (flow, room) {
            (Flow::Ended, _) => {}
            (Flow::Moving, false) => return true,
            (Flow::Moving, true) => moving = true,
            (Flow::Stalled, room) => stalled |= !room,
        }
    }
    stalled && !moving
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_subscriber_is_waited_for_only_when_it_is_alone() {
        use Flow::{Ended, Moving, Stalled};
        for (states, blocked) in [
            (&[][..], false),
            (&[(Moving, true)], false),
            (&[(Moving, false)], true),
            (&[(Stalled, false)], true),
            (&[(Stalled, true)], false),
            (&[(Stalled, false), (Moving, true)], false),
            (&[(Stalled, false), (Moving, false)], true),
            (&[(Stalled, false), (Ended, false)], true),
            (&[(Ended, false)], false),
        ] {
            assert_eq!(is_blocked(states.iter().copied()), blocked, "{states:?}");
        }
    }
}
