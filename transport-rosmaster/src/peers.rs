//! Which other nodes are alive: the master lists them, and each is asked, since the master does
//! not notice the end of a node that was killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dxr::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use transport_api::{Event, PeerId};

use crate::address::Endpoint;
use crate::http::Caller;
use crate::master::SystemState;
use crate::name;
use crate::node::Node;

/// Node that collects log messages; a part of every master's surroundings and nobody's peer.
const ROSOUT: &str = "/rosout";

/// Most nodes watched; a graph with more is announced in part.
const WATCHED: usize = 256;

/// Longest wait for the answer of a node.
const ANSWER: Duration = Duration::from_secs(2);

/// Answers in a row that may be missing; a refused connection counts at once.
const MISSES: u32 = 2;

/// A node other than ours.
#[derive(Debug, Default)]
struct Peer {
    caller: Option<Caller>,
    alive: bool,
    misses: u32,
}

/// Tells of peers that come and go, whenever the master's view arrives.
pub(crate) async fn run(node: Arc<Node>, mut states: watch::Receiver<SystemState>) {
    let mut peers: BTreeMap<PeerId, Peer> = BTreeMap::new();
    while states.changed().await.is_ok() {
        let listed = listed(&node, &states.borrow_and_update());
        peers.retain(|id, peer| {
            let stays = listed.contains_key(id);
            if !stays && peer.alive {
                node.emit(Event::PeerLost(id.clone()));
            }
            stays
        });
        let mut asked = JoinSet::new();
        for (id, name) in listed {
            let mut peer = peers.remove(&id).unwrap_or_default();
            let node = Arc::clone(&node);
            asked.spawn(async move {
                peer.ask(&node, &name).await;
                (id, peer)
            });
        }
        while let Some(answered) = asked.join_next().await {
            let Ok((id, mut peer)) = answered else {
                continue;
            };
            let alive = peer.caller.is_some() && peer.misses <= MISSES;
            if alive != peer.alive {
                peer.alive = alive;
                node.emit(match alive {
                    true => Event::PeerAlive(id.clone()),
                    false => Event::PeerLost(id.clone()),
                });
            }
            peers.insert(id, peer);
        }
    }
}

/// The peers that the master lists, with the names of their nodes.
fn listed(node: &Node, state: &SystemState) -> BTreeMap<PeerId, String> {
    [&state.publishers, &state.subscribers, &state.services]
        .into_iter()
        .flat_map(|topics| topics.values().flatten())
        .filter(|name| *name != node.name() && *name != ROSOUT)
        .filter_map(|name| Some((name::peer(name)?, name.clone())))
        .take(WATCHED)
        .collect()
}

impl Peer {
    /// Asks whether it is there; without a caller afterwards it is not.
    async fn ask(&mut self, node: &Node, name: &str) {
        if self.caller.is_none() {
            let uri = node.master().lookup_node(name).await.ok();
            let endpoint = uri.as_deref().and_then(Endpoint::of_uri);
            self.caller = endpoint.map(|endpoint| Caller::new(endpoint, ANSWER));
            // Not counted as there before its first answer.
            self.misses = MISSES;
        }
        let Some(caller) = &self.caller else {
            return;
        };
        match caller
            .call("getPid", vec![Value::String(node.name().to_owned())])
            .await
        {
            Ok(_) => self.misses = 0,
            Err(error) if error.is_refused() => self.caller = None,
            Err(_) => self.misses = self.misses.saturating_add(1),
        }
    }
}
