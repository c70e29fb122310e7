//! Who else is there: one liveliness token per transport.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use transport_api::event::{EventHub, PEERS};
use transport_api::throttle::Throttle;
use transport_api::{Event, PeerId, Result};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

use crate::barrier::off_worker;

/// A leading `@` keeps these keys out of every subscription of an app.
const PREFIX: &str = "@roundtrip/alive/";

/// The other peers, as far as they are known.
#[derive(Debug)]
pub(crate) struct Presence {
    own: PeerId,
    others: Mutex<BTreeSet<PeerId>>,
    /// For warnings about more peers than are kept account of.
    beyond: Throttle,
    events: Arc<EventHub>,
}

/// What keeps a peer announced.
#[derive(Debug)]
pub(crate) struct Announced {
    _token: LivelinessToken,
    _watch: Subscriber<()>,
}

impl Presence {
    pub(crate) fn new(own: PeerId, events: Arc<EventHub>) -> Self {
        Self {
            own,
            others: Mutex::default(),
            beyond: Throttle::default(),
            events,
        }
    }

    /// Announces this peer and follows the others.
    pub(crate) async fn announce(self: &Arc<Self>, session: &Session) -> Result<Announced> {
        let session = session.clone();
        let presence = Arc::clone(self);
        off_worker("open", move || {
            let token = session
                .liveliness()
                .declare_token(format!("{PREFIX}{}", presence.own))
                .wait()?;
            let watch = session
                .liveliness()
                .declare_subscriber(format!("{PREFIX}*"))
                .history(true)
                .callback(move |sample| presence.note(&sample))
                .wait()?;
            Ok(Announced {
                _token: token,
                _watch: watch,
            })
        })
        .await
    }

    fn note(&self, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let name = key.strip_prefix(PREFIX).unwrap_or_default();
        let Ok(peer) = PeerId::parse(name) else {
            tracing::debug!(key, "token of a peer with an unusual name");
            return;
        };
        if peer != self.own {
            self.heard(peer, sample.kind());
        }
    }

    fn heard(&self, peer: PeerId, kind: SampleKind) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        // Emitted under the lock, so that the events of one peer keep their order.
        match kind {
            SampleKind::Put if others.len() == PEERS && !others.contains(&peer) => {
                if let Some(left_out) = self.beyond.admit() {
                    tracing::warn!(
                        %peer,
                        left_out,
                        "more than {PEERS} peers are announced; this one is not reported"
                    );
                }
            }
            SampleKind::Put => {
                if others.insert(peer.clone()) {
                    self.events.emit(Event::PeerAlive(peer));
                }
            }
            SampleKind::Delete => {
                if others.remove(&peer) {
                    self.events.emit(Event::PeerLost(peer));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_the_memory_with_peers() {
        let own = PeerId::parse("me").unwrap();
        let presence = Presence::new(own, Arc::default());
        let tell = |n: usize, kind| {
            let peer = PeerId::parse(&format!("p{n}")).unwrap();
            presence.heard(peer, kind);
            presence.others.lock().unwrap().len()
        };
        for n in 0..2 * PEERS {
            assert_eq!(tell(n, SampleKind::Put), PEERS.min(n + 1));
        }
        // Who leaves makes room; who was left out has none to leave.
        assert_eq!(tell(0, SampleKind::Delete), PEERS - 1);
        assert_eq!(tell(PEERS, SampleKind::Delete), PEERS - 1);
        assert_eq!(tell(PEERS, SampleKind::Put), PEERS);
    }
}
