//! Which other peers are there, from what is kept under the presence topic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use transport_api::event::{EventHub, PEERS};
use transport_api::throttle::Throttle;
use transport_api::{Event, PeerId};

use crate::status::Status;

/// How long a peer that was there before may take to come back after a broker forgot everything.
const GRACE: Duration = Duration::from_secs(5);

/// The other peers that are there.
#[derive(Debug)]
pub(crate) struct Peers {
    prefix: String,
    own: PeerId,
    /// Rung when this peer itself was taken for lost.
    withdrawn: Arc<Notify>,
    hub: Arc<EventHub>,
    /// Told when everybody is back.
    status: Arc<Status>,
    /// With whether the broker has confirmed it since it forgot everything.
    known: BTreeMap<PeerId, bool>,
    /// For warnings about more peers than are kept account of.
    beyond: Throttle,
    /// When those that are not confirmed count as lost.
    doubt: Option<Instant>,
}

impl Peers {
    pub(crate) fn new(
        topic: &str,
        own: PeerId,
        withdrawn: Arc<Notify>,
        hub: Arc<EventHub>,
        status: Arc<Status>,
    ) -> Self {
        Self {
            prefix: format!("{topic}/"),
            own,
            withdrawn,
            hub,
            status,
            known: BTreeMap::new(),
            beyond: Throttle::default(),
            doubt: None,
        }
    }

    /// The filter that selects all announcements.
    pub(crate) fn filter(&self) -> String {
        format!("{}+", self.prefix)
    }

    /// Takes note of an arrival; `false` if it is no announcement.
    pub(crate) fn observe(&mut self, topic: &[u8], payload: &[u8]) -> bool {
        let Some(name) = topic.strip_prefix(self.prefix.as_bytes()) else {
            return false;
        };
        let peer = std::str::from_utf8(name)
            .ok()
            .and_then(|name| PeerId::parse(name).ok());
        if let Some(peer) = peer {
            if peer == self.own {
                // The broker noticed the end of a former connection late, or another transport of
                // the same name was closed.
                if payload.is_empty() {
                    self.withdrawn.notify_one();
                }
            } else if payload.is_empty() {
                if self.known.remove(&peer).is_some() {
                    self.hub.emit(Event::PeerLost(peer));
                }
            } else if self.known.len() == PEERS && !self.known.contains_key(&peer) {
                if let Some(left_out) = self.beyond.admit() {
                    tracing::warn!(
                        %peer,
                        left_out,
                        "more than {PEERS} peers are announced; this one is not reported"
                    );
                }
            } else {
                if self.known.insert(peer.clone(), true).is_none() {
                    self.hub.emit(Event::PeerAlive(peer));
                }
                if self.doubt.is_some() && self.known.values().all(|confirmed| *confirmed) {
                    self.doubt = None;
                    self.status.reunite();
                }
            }
        }
        true
    }

    /// The broker has forgotten what was kept; peers announce themselves again as they reconnect.
    pub(crate) fn doubt(&mut self) {
        if !self.known.is_empty() {
            self.known
                .values_mut()
                .for_each(|confirmed| *confirmed = false);
            self.doubt = Some(Instant::now() + GRACE);
        }
    }

    /// Waits until peers in doubt are overdue, and tells that they are lost. Cancel-safe.
    pub(crate) async fn settle(&mut self) {
        let Some(doubt) = self.doubt else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(doubt).await;
        self.doubt = None;
        let hub = &self.hub;
        self.known.retain(|peer, confirmed| {
            if !*confirmed {
                hub.emit(Event::PeerLost(peer.clone()));
            }
            *confirmed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn seen(events: &mut transport_api::Events) -> Vec<String> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut seen = Vec::new();
        while let Poll::Ready(Some(event)) = std::pin::pin!(events.next()).poll(&mut cx) {
            seen.push(format!("{event:?}"));
        }
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn peers_come_and_go_once_each() {
        let hub = Arc::new(EventHub::default());
        let mut events = hub.subscribe();
        let own = PeerId::parse("me").unwrap();
        let status = Arc::new(Status::new(Arc::clone(&hub)));
        let mut peers = Peers::new("here", own, Arc::default(), hub, status);
        assert_eq!(peers.filter(), "here/+");
        for (topic, payload) in [
            ("here/other", "online"),
            ("here/other", "online"),
            ("here/me", "online"),
            ("here/not a peer", "online"),
            ("here/nobody", ""),
        ] {
            assert!(peers.observe(topic.as_bytes(), payload.as_bytes()));
        }
        assert!(!peers.observe(b"elsewhere/other", b"online"));
        assert_eq!(seen(&mut events), ["PeerAlive(PeerId(\"other\"))"]);

        assert!(peers.observe(b"here/second", b"online"));
        peers.doubt();
        assert!(peers.observe(b"here/second", b"online"));
        peers.settle().await;
        assert!(peers.observe(b"here/second", b""));
        assert_eq!(
            seen(&mut events),
            [
                "PeerAlive(PeerId(\"second\"))",
                "PeerLost(PeerId(\"other\"))",
                "PeerLost(PeerId(\"second\"))"
            ]
        );
    }

    #[tokio::test]
    async fn strangers_cannot_fill_the_memory_with_peers() {
        let hub = Arc::new(EventHub::default());
        let own = PeerId::parse("me").unwrap();
        let status = Arc::new(Status::new(Arc::clone(&hub)));
        let mut peers = Peers::new("here", own, Arc::default(), Arc::clone(&hub), status);
        let mut tell = |n: usize, payload: &str| {
            assert!(peers.observe(format!("here/p{n}").as_bytes(), payload.as_bytes()));
            peers.known.len()
        };
        for n in 0..2 * PEERS {
            assert_eq!(tell(n, "online"), PEERS.min(n + 1));
        }
        // Who leaves makes room, and who was left out is not told to be lost.
        assert_eq!(tell(0, ""), PEERS - 1);
        let mut events = hub.subscribe();
        drop(seen(&mut events));
        assert_eq!(tell(PEERS, ""), PEERS - 1);
        assert_eq!(tell(PEERS, "online"), PEERS);
        let alive = format!("PeerAlive(PeerId(\"p{PEERS}\"))");
        assert_eq!(seen(&mut events), [alive]);
    }

    #[tokio::test(start_paused = true)]
    async fn all_are_reunited_when_the_last_one_is_back() {
        let hub = Arc::new(EventHub::default());
        let status = Arc::new(Status::new(Arc::clone(&hub)));
        let own = PeerId::parse("me").unwrap();
        let mut peers = Peers::new("here", own, Arc::default(), hub, Arc::clone(&status));
        let reunited = || {
            let mut cx = Context::from_waker(Waker::noop());
            std::pin::pin!(status.reunited()).poll(&mut cx).is_ready()
        };
        let back = |peers: &mut Peers, name: &str| {
            assert!(peers.observe(format!("here/{name}").as_bytes(), b"online"));
        };
        // Nobody is known: whoever is there may be of another kind.
        peers.doubt();
        status.restored(false);
        back(&mut peers, "a");
        assert!(!reunited());
        back(&mut peers, "b");
        peers.doubt();
        back(&mut peers, "b");
        assert!(!reunited());
        back(&mut peers, "a");
        assert!(reunited());
    }
}
