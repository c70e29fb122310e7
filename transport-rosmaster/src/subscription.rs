//! A topic that this node subscribes to: its subscribers here and its publishers anywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use transport_api::reception::{Arrived, Inlet};
use transport_api::{Error, SchemaId, TopicName};

use crate::feed;
use crate::node::Node;

/// How far the connection to a publisher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first attempt is under way.
    Dialling,
    Connected,
    /// The last attempt failed; it is repeated.
    Failed,
}

/// A subscriber here.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    id: u64,
    inlet: Inlet,
    expected: Option<SchemaId>,
}

/// A topic that this node subscribes to.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) topic: TopicName,
    /// Name of the type it was first registered with.
    pub(crate) kind: String,
    state: Mutex<State>,
    /// Where each feed is; changes are what [`Subscription::settled`] waits for.
    stages: watch::Sender<BTreeMap<String, Stage>>,
    complete: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    listeners: Arc<[Listener]>,
    next_id: u64,
    /// Whether each publisher that has a feed is still registered.
    feeds: BTreeMap<String, watch::Sender<bool>>,
    /// How often the master told us the publishers.
    updates: u64,
}

impl Subscription {
    pub(crate) fn new(topic: &TopicName, kind: &str) -> Arc<Self> {
        Arc::new(Self {
            topic: topic.clone(),
            kind: kind.to_owned(),
            state: Mutex::new(State {
                listeners: Arc::new([]),
                next_id: 0,
                feeds: BTreeMap::new(),
                updates: 0,
            }),
            stages: watch::Sender::default(),
            complete: watch::Sender::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber; returns what [`Subscription::leave`] takes.
    pub(crate) fn join(&self, inlet: Inlet, expected: Option<SchemaId>) -> u64 {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        let listener = Listener {
            id,
            inlet,
            expected,
        };
        state.listeners = state.listeners.iter().cloned().chain([listener]).collect();
        id
    }

    /// Takes a subscriber away and says whether it was the last.
    pub(crate) fn leave(&self, id: u64) -> bool {
        let mut state = self.lock();
        let rest = state.listeners.iter().filter(|listener| listener.id != id);
        state.listeners = rest.cloned().collect();
        state.listeners.is_empty()
    }

    /// Ends every subscriber, once what it has is received, and every feed.
    pub(crate) fn complete(&self) {
        let mut state = self.lock();
        for listener in state.listeners.iter() {
            listener.inlet.close();
        }
        state.listeners = Arc::new([]);
        self.complete.send_replace(true);
    }

    async fn completed(&self) {
        // The sender lives as long as this subscription.
        let _ = self
            .complete
            .subscribe()
            .wait_for(|complete| *complete)
            .await;
    }

    /// Changes with every subscriber that joins.
    pub(crate) fn joined(&self) -> u64 {
        self.lock().next_id
    }

    /// How often the publishers were told.
    pub(crate) fn updates(&self) -> u64 {
        self.lock().updates
    }

    /// Publishers known now.
    pub(crate) fn publishers(&self) -> usize {
        let state = self.lock();
        state
            .feeds
            .values()
            .filter(|wanted| *wanted.borrow())
            .count()
    }

    /// The master says that the publishers are those at `uris`; feeds are started and ended
    /// accordingly, and those that wait for their next attempt make it now.
    pub(crate) fn update(self: &Arc<Self>, node: &Arc<Node>, uris: &[String]) {
        let mut state = self.lock();
        state.updates += 1;
        self.end_others(&state, uris);
        self.start(&mut state, node, uris, true);
    }

    /// The master answered a registration with `uris`. If it has told us newer ones since `updates`
    /// was read, these only add to them.
    pub(crate) fn answer(self: &Arc<Self>, node: &Arc<Node>, uris: &[String], updates: u64) {
        let mut state = self.lock();
        if state.updates == updates {
            self.end_others(&state, uris);
        }
        self.start(&mut state, node, uris, false);
    }

    fn end_others(&self, state: &State, uris: &[String]) {
        for (uri, wanted) in &state.feeds {
            if !uris.contains(uri) {
                wanted.send_replace(false);
            }
        }
    }

    fn start(self: &Arc<Self>, state: &mut State, node: &Arc<Node>, uris: &[String], wake: bool) {
        if state.listeners.is_empty() {
            return;
        }
        for uri in uris {
            if let Some(wanted) = state.feeds.get(uri) {
                wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true) || wake);
                continue;
            }
            let (wanted, watching) = watch::channel(true);
            state.feeds.insert(uri.clone(), wanted);
            self.stages.send_modify(|stages| {
                stages.insert(uri.clone(), Stage::Dialling);
            });
            let (this, feeding, uri) = (Arc::clone(self), Arc::clone(node), uri.clone());
            node.spawn(async move {
                tokio::select! {
                    () = feed::run(&this, &feeding, &uri, watching) => {}
                    () = this.completed() => {}
                }
            });
        }
    }

    /// Notes how far a feed is.
    pub(crate) fn reach(&self, uri: &str, stage: Stage) {
        self.stages.send_modify(|stages| {
            stages.insert(uri.to_owned(), stage);
        });
    }

    /// Takes a feed away unless its publisher has come back in the meantime.
    pub(crate) fn end(&self, uri: &str) -> bool {
        let mut state = self.lock();
        if state.feeds.get(uri).is_some_and(|wanted| *wanted.borrow()) {
            return false;
        }
        state.feeds.remove(uri);
        self.stages.send_modify(|stages| {
            stages.remove(uri);
        });
        true
    }

    /// Waits until every known publisher is connected or has failed once, at most `limit`.
    pub(crate) async fn settled(&self, limit: Duration) {
        let mut stages = self.stages.subscribe();
        let done = stages.wait_for(|stages| !stages.values().any(|s| *s == Stage::Dialling));
        // The sender lives as long as this subscription, so only time can end this early; the feeds
        // go on in the background then.
        let _ = tokio::time::timeout(limit, done).await;
    }

    /// The connections to publishers: address and stage.
    pub(crate) fn stages(&self) -> BTreeMap<String, Stage> {
        self.stages.borrow().clone()
    }

    fn listeners(&self) -> Arc<[Listener]> {
        Arc::clone(&self.lock().listeners)
    }

    /// Hands an arrival to every subscriber here.
    pub(crate) fn deliver(&self, arrived: Arrived) {
        let listeners = self.listeners();
        let Some((last, others)) = listeners.split_last() else {
            return;
        };
        // What a full queue gives up is counted by the queue; a closed one belongs to a subscriber
        // that is just leaving.
        for listener in others {
            let _ = listener.inlet.offer(arrived.clone());
        }
        let _ = last.inlet.offer(arrived);
    }

    /// Counts an arrival that could not be decoded.
    pub(crate) fn reject(&self, error: &Error) {
        for listener in self.listeners().iter() {
            listener.inlet.reject(&self.topic, error);
        }
    }

    /// The schema that all subscribers here expect; `None` if they differ or take any.
    pub(crate) fn expected(&self) -> Option<SchemaId> {
        let listeners = self.listeners();
        let first = listeners.first()?.expected.clone();
        first.filter(|first| {
            listeners
                .iter()
                .all(|other| other.expected.as_ref() == Some(first))
        })
    }

    /// What the subscribers here expect, if none of them takes messages of schema `found`.
    pub(crate) fn refusing(&self, found: &SchemaId) -> Option<Vec<SchemaId>> {
        let listeners = self.listeners();
        let expected = listeners.iter().map(|listener| {
            let expected = listener.expected.as_ref()?;
            (expected != found).then(|| expected.clone())
        });
        // One that takes it makes the whole `None`, and so does nobody being here.
        let expected: Option<Vec<SchemaId>> = expected.collect();
        expected.filter(|expected| !expected.is_empty())
    }
}
