//! What this node has registered at the master, and what it wants to have registered.
//!
//! One task brings the two together, so that calls for one topic never overtake each other, and a
//! master that comes back empty is told everything again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};
use transport_api::{Error, ErrorKind, Event, Result};

use crate::http::CallError;
use crate::master::{Role, SystemState};
use crate::node::Node;

type Key = (Role, String);

/// Registrations, wanted and present.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    entries: Mutex<BTreeMap<Key, Entry>>,
    changed: Notify,
    /// Changes whenever the master was told something.
    progress: watch::Sender<()>,
}

#[derive(Debug)]
struct Entry {
    kind: String,
    wanted: bool,
    registered: bool,
    waiters: Vec<oneshot::Sender<Result<(), Arc<Error>>>>,
}

/// What to do next.
enum Step {
    Register(Key, String),
    Unregister(Key),
}

impl Graph {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants a registration and waits for it.
    pub(crate) async fn register(&self, role: Role, topic: &str, kind: &str) -> Result<()> {
        let registered = {
            let mut entries = self.lock();
            let entry = entries
                .entry((role, topic.to_owned()))
                .or_insert_with(|| Entry {
                    kind: kind.to_owned(),
                    wanted: false,
                    registered: false,
                    waiters: Vec::new(),
                });
            if !entry.wanted {
                // Also when the master still has the last one: registering again makes it tell the
                // other side.
                entry.wanted = true;
                entry.registered = false;
                kind.clone_into(&mut entry.kind);
            }
            if entry.registered {
                return Ok(());
            }
            let (waiter, registered) = oneshot::channel();
            entry.waiters.push(waiter);
            registered
        };
        self.changed.notify_one();
        match registered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => {
                Err(Error::new(cause.kind(), "register", cause.message()).with_source(cause))
            }
            Err(_) => Err(Error::closed("register")),
        }
    }

    /// No longer wants a registration. Does not wait.
    pub(crate) fn unregister(&self, role: Role, topic: &str) {
        if let Some(entry) = self.lock().get_mut(&(role, topic.to_owned())) {
            entry.wanted = false;
        }
        self.changed.notify_one();
    }

    /// Makes the master repeat who is on the other side.
    pub(crate) fn refresh(&self, role: Role, topic: &str) {
        if let Some(entry) = self.lock().get_mut(&(role, topic.to_owned())) {
            entry.registered = false;
        }
        self.changed.notify_one();
    }

    /// Wants nothing any more, and waits until the master has nothing of ours.
    pub(crate) async fn clear(&self) {
        for entry in self.lock().values_mut() {
            entry.wanted = false;
        }
        self.changed.notify_one();
        self.told(|entries| entries.is_empty()).await;
    }

    /// Waits until the master no longer has a registration that is not wanted.
    pub(crate) async fn unregistered(&self, role: Role, topic: &str) {
        let key = (role, topic.to_owned());
        self.told(|entries| entries.get(&key).is_none_or(|entry| entry.wanted))
            .await;
    }

    async fn told(&self, done: impl Fn(&BTreeMap<Key, Entry>) -> bool) {
        let mut progress = self.progress.subscribe();
        while !done(&self.lock()) {
            // The graph holds the sender.
            let _ = progress.changed().await;
        }
    }

    /// The next step, other than for `refused`.
    fn next(&self, refused: &BTreeSet<Key>) -> Option<Step> {
        let mut entries = self.lock();
        // Nothing to take back for what never was registered.
        self.retain(&mut entries);
        let open = entries.iter().filter(|(key, _)| !refused.contains(*key));
        open.into_iter().find_map(|(key, entry)| match entry {
            Entry { wanted: false, .. } => Some(Step::Unregister(key.clone())),
            Entry {
                registered: false,
                kind,
                ..
            } => Some(Step::Register(key.clone(), kind.clone())),
            _ => None,
        })
    }

    fn added(&self, key: &Key) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.registered = true;
            for waiter in entry.waiters.drain(..) {
                // Whoever no longer waits needs no answer.
                let _ = waiter.send(Ok(()));
            }
        }
    }

    fn removed(&self, key: &Key) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key) {
            entry.registered = false;
        }
        self.retain(&mut entries);
    }

    fn retain(&self, entries: &mut BTreeMap<Key, Entry>) {
        entries.retain(|_, entry| entry.wanted || entry.registered);
        self.progress.send_replace(());
    }

    /// Tells who waits for `key` (all, if there is none) that it failed.
    fn failed(&self, key: Option<&Key>, cause: &Arc<Error>) {
        for (at, entry) in self.lock().iter_mut() {
            if key.is_none_or(|key| key == at) {
                for waiter in entry.waiters.drain(..) {
                    let _ = waiter.send(Err(Arc::clone(cause)));
                }
            }
        }
    }

    /// Compares with what the master says, and notes what it has forgotten.
    fn compare(&self, node: &str, state: &SystemState) {
        for ((role, topic), entry) in self.lock().iter_mut() {
            let known = state.nodes(*role, topic).iter().any(|name| name == node);
            entry.registered &= known;
        }
    }
}

/// Keeps the master's view and ours the same until the node is closed.
pub(crate) async fn run(node: Arc<Node>) {
    let mut tick = interval(node.poll());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = tokio::select! {
            _ = tick.tick() => true,
            () = node.graph().changed.notified() => false,
        };
        let mut outcome = Ok(());
        if due {
            outcome = check(&node).await;
        }
        if outcome.is_ok() {
            outcome = reconcile(&node).await;
        }
        if let Err(cause) = outcome {
            recover(&node, cause).await;
        }
    }
}

/// Asks the master what it knows.
async fn check(node: &Arc<Node>) -> Result<(), CallError> {
    let state = node.master().system_state().await?;
    node.graph().compare(node.name(), &state);
    for (topic, publishers) in node.publishers_of_subscriptions() {
        // An update of the master did not get through.
        if state.nodes(Role::Publisher, &topic).len() != publishers {
            node.graph().refresh(Role::Subscriber, &topic);
        }
    }
    node.observe(state);
    Ok(())
}

/// Brings the master's view in line with ours.
async fn reconcile(node: &Arc<Node>) -> Result<(), CallError> {
    let graph = node.graph();
    let mut refused = BTreeSet::new();
    // What is refused is tried again at the next tick.
    while let Some(step) = graph.next(&refused) {
        match step {
            Step::Register(key, kind) => {
                let (role, topic) = &key;
                let updates = node.updates(topic);
                match node
                    .master()
                    .register(*role, topic, &kind, node.uri())
                    .await
                {
                    Ok(others) => {
                        if *role == Role::Subscriber {
                            node.answered(topic, &others, updates);
                        }
                        graph.added(&key);
                    }
                    Err(CallError::Answer(text)) => {
                        let text = format!("the master refuses `{topic}` of type {kind}: {text}");
                        tracing::warn!("{text}");
                        let cause = Error::new(ErrorKind::Backend, "register", text);
                        graph.failed(Some(&key), &Arc::new(cause));
                        refused.insert(key);
                    }
                    Err(error) => return Err(error),
                }
            }
            Step::Unregister(key) => {
                let (role, topic) = &key;
                match node.master().unregister(*role, topic, node.uri()).await {
                    Ok(()) | Err(CallError::Answer(_)) => graph.removed(&key),
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// Tries until the master is back and has been told everything again. Data connections are not
/// touched: they need no master.
async fn recover(node: &Arc<Node>, cause: CallError) {
    let mut cause = Arc::new(lost(node, cause));
    tracing::warn!(error = %cause, "the master is gone");
    let _outage = node.lose(&cause);
    let mut backoff = node.backoff();
    loop {
        node.graph().failed(None, &cause);
        let pause = tokio::time::sleep(backoff.pause());
        let mut pause = std::pin::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                // Whoever wants to register now is told at once.
                () = node.graph().changed.notified() => node.graph().failed(None, &cause),
            }
        }
        node.emit(Event::Reconnecting {
            attempt: backoff.attempts(),
            cause: Arc::clone(&cause),
        });
        let mut outcome = check(node).await;
        if outcome.is_ok() {
            outcome = reconcile(node).await;
        }
        match outcome {
            Ok(()) => return,
            Err(error) => cause = Arc::new(lost(node, error)),
        }
    }
}

fn lost(node: &Node, error: CallError) -> Error {
    let text = format!("master at {}: {error}", node.master().endpoint());
    Error::new(ErrorKind::Disconnected, "call master", text).with_source(error)
}
