//! Who else is there: one liveliness token per transport.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use transport_api::event::EventHub;
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
        if peer == self.own {
            return;
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        // Emitted under the lock, so that the events of one peer keep their order.
        match sample.kind() {
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
