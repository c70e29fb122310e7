//! The state of one open transport, shared by its handles and tasks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use transport_api::envelope::Decoder;
use transport_api::event::EventHub;
use transport_api::outbox;
use transport_api::queue::Pushed;
use transport_api::reception::{Arrived, Inlet};
use transport_api::throttle::Throttle;
use transport_api::{Error, ErrorKind, Overflow, TopicFilter, TopicName};

use crate::connection::{Connection, Outgoing};
use crate::frame::{Frame, Kind};
use crate::options::{Options, Role};

/// The live connections: at most one where this peer connects.
type Connections = Arc<[Arc<Connection>]>;

/// One open transport.
#[derive(Debug)]
pub struct Node {
    /// What the URL says.
    pub options: Options,
    /// Largest payload, in bytes.
    pub limit: usize,
    /// Tells what happens.
    pub events: Arc<EventHub>,
    /// For warnings about strangers.
    pub strangers: Throttle,
    /// Everything that runs for this transport.
    pub tasks: Mutex<JoinSet<()>>,
    closed: AtomicBool,
    local: RwLock<Vec<Local>>,
    connections: watch::Sender<Connections>,
    syncs: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    next: AtomicU64,
}

/// A subscription of this transport.
#[derive(Debug)]
struct Local {
    number: u64,
    filter: TopicFilter,
    inlet: Inlet,
}

impl Node {
    /// A node without connections.
    pub fn new(options: Options, limit: usize) -> Self {
        Self {
            options,
            limit,
            events: Arc::default(),
            strangers: Throttle::default(),
            tasks: Mutex::default(),
            closed: AtomicBool::new(false),
            local: RwLock::default(),
            connections: watch::Sender::new(Arc::default()),
            syncs: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Everything that runs for this transport.
    pub fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self) -> RwLockReadGuard<'_, Vec<Local>> {
        self.local.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Local>)) {
        change(&mut self.local.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn syncs(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the transport was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes no more publishers, subscribers and peers from now on.
    pub fn shut(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Ends all subscriptions; what has arrived can still be received.
    pub fn end_subscriptions(&self) {
        self.change(|local| {
            local.drain(..).for_each(|local| local.inlet.close());
        });
    }

    /// Lets each connection end once what it has queued was written.
    pub fn finish_connections(&self) {
        self.connections.borrow().iter().for_each(|c| c.finish());
    }

    /// Waits until there is no connection. Cancel-safe.
    pub async fn disconnected(&self) {
        // The sender is `self`, so this cannot fail.
        let _ = self
            .connections
            .subscribe()
            .wait_for(|all| all.is_empty())
            .await;
    }

    /// Gives a connection its place among the others, for as long as the answer is held.
    pub fn enter<'a>(&'a self, connection: &Arc<Connection>) -> Entry<'a> {
        let entry = Entry {
            node: self,
            connection: Arc::clone(connection),
        };
        entry.change(|all| all.push(Arc::clone(connection)));
        entry
    }

    /// Tells a new connection all subscriptions; the answer comes when they are in force.
    pub fn restore(&self, connection: &Connection) -> oneshot::Receiver<()> {
        for local in self.local().iter() {
            self.announce(connection, local.number, &local.filter);
        }
        self.sync(connection)
    }

    fn announce(&self, connection: &Connection, number: u64, filter: &TopicFilter) {
        // Fails for a connection that ended; the next one is told everything anew.
        connection.control(Frame::control(Kind::Subscribe, filter.as_str(), &[number]));
    }

    fn sync(&self, connection: &Connection) -> oneshot::Receiver<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.syncs().insert(number, answer);
        if !connection.control(Frame::control(Kind::Sync, "", &[number])) {
            self.syncs().remove(&number);
        }
        answered
    }

    /// The other side has read everything before the question `number`.
    pub fn synced(&self, number: u64) {
        if let Some(answer) = self.syncs().remove(&number) {
            // Who asked may have given up.
            let _ = answer.send(());
        }
    }

    /// Adds a subscription and waits until it is in force. Cancelled, it stays in force.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if there is no connection for too long.
    pub async fn subscribe(&self, filter: &TopicFilter, inlet: Inlet) -> Result<u64, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.change(|local| {
            local.push(Local {
                number,
                filter: filter.clone(),
                inlet,
            });
        });
        if self.options.role == Role::Listen {
            return Ok(number);
        }
        let mut connections = self.connections.subscribe();
        let in_force = async {
            loop {
                let live = connections.wait_for(|all| !all.is_empty()).await;
                // The sender is `self`, and one that is not empty has a first.
                let Some(live) = live.ok().and_then(|all| all.first().cloned()) else {
                    continue;
                };
                self.announce(&live, number, filter);
                if self.sync(&live).await.is_ok() {
                    return;
                }
            }
        };
        let patience = self.options.connect_timeout;
        if tokio::time::timeout(patience, in_force).await.is_err() {
            self.unsubscribe(number);
            return Err(Error::new(
                ErrorKind::Timeout,
                "subscribe",
                format!("`{filter}` is not in force after {patience:?}; is the peer reachable?"),
            ));
        }
        Ok(number)
    }

    /// Removes a subscription.
    pub fn unsubscribe(&self, number: u64) {
        self.change(|local| local.retain(|local| local.number != number));
        if self.options.role == Role::Connect {
            for connection in self.connections.borrow().iter() {
                connection.control(Frame::control(Kind::Unsubscribe, "", &[number]));
            }
        }
    }

    /// A message came in.
    pub fn arrived(&self, topic: TopicName, frame: Frame, decoder: &mut Decoder) {
        self.deliver(&topic, || {
            let meta = decoder.whole(frame.block())?;
            Ok(Arrived {
                topic: topic.clone(),
                payload: frame.payload(),
                meta,
            })
        });
        if self.options.role == Role::Listen {
            for connection in self.connections.borrow().iter().filter(|c| c.wants(&topic)) {
                // What is given up here is missing in the sequence at the other side.
                drop(connection.push(Outgoing::Passing(frame.clone())));
            }
        }
    }

    /// Hands an arrival to the subscriptions that select its topic; made only if there is one.
    fn deliver(&self, topic: &TopicName, arrived: impl FnOnce() -> Result<Arrived, Error>) {
        let local = self.local();
        let mut selected = local.iter().filter(|l| l.filter.matches(topic)).peekable();
        if selected.peek().is_none() {
            return;
        }
        match arrived() {
            Ok(arrived) => {
                while let Some(local) = selected.next() {
                    if selected.peek().is_none() {
                        drop(local.inlet.offer(arrived));
                        return;
                    }
                    drop(local.inlet.offer(arrived.clone()));
                }
            }
            Err(error) => selected.for_each(|local| local.inlet.reject(topic, &error)),
        }
    }

    /// Sends a message of a publisher here on its way.
    pub async fn dispatch(
        &self,
        topic: &TopicName,
        outbox::Outgoing { message, entry }: outbox::Outgoing,
        overflow: Overflow,
    ) {
        if self.options.role == Role::Connect {
            let mut outgoing = Outgoing::Own {
                topic: topic.clone(),
                message,
                entry: Some(entry),
            };
            let mut connections = self.connections.subscribe();
            loop {
                let live = connections.wait_for(|all| !all.is_empty()).await;
                let Some(live) = live.ok().and_then(|all| all.first().cloned()) else {
                    continue;
                };
                match live.push_when_room(outgoing).await {
                    None => return,
                    Some(back) => outgoing = back,
                }
                // It ended before there was room; wait until it is taken out.
                let _ = connections
                    .wait_for(|all| !all.iter().any(|c| Arc::ptr_eq(c, &live)))
                    .await;
            }
        }
        self.deliver(topic, || {
            Ok(Arrived {
                topic: topic.clone(),
                payload: message.payload.clone(),
                meta: message.meta.clone(),
            })
        });
        let all = Arc::clone(&self.connections.borrow());
        let last = all.iter().rposition(|connection| connection.wants(topic));
        let bytes = message.payload.len();
        let mut entry = Some(entry);
        for (n, connection) in all.iter().enumerate() {
            if !connection.wants(topic) {
                continue;
            }
            let outgoing = Outgoing::Own {
                topic: topic.clone(),
                message: message.clone(),
                // The last connection keeps the account.
                entry: entry.take_if(|_| Some(n) == last),
            };
            if overflow == Overflow::Block {
                drop(connection.push_when_room(outgoing).await);
                continue;
            }
            if let Pushed::Evicted(Outgoing::Own {
                entry: Some(entry), ..
            }) = connection.push(outgoing)
            {
                entry.give_up();
            }
        }
        if let Some(mut entry) = entry {
            // Wanted by nobody elsewhere.
            entry.written(bytes);
        }
    }

    /// Ends everything that still runs.
    pub fn abort(&self) {
        self.end_subscriptions();
        self.tasks().abort_all();
    }

    /// Waits until nothing runs any more, after [`Node::abort`].
    pub async fn ended(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        while tasks.join_next().await.is_some() {}
    }
}

/// A connection's place among those of its node; dropping it gives the place up.
#[derive(Debug)]
pub struct Entry<'a> {
    node: &'a Node,
    connection: Arc<Connection>,
}

impl Entry<'_> {
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Connection>>)) {
        self.node.connections.send_modify(|all| {
            let mut list = all.to_vec();
            change(&mut list);
            *all = list.into();
        });
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.change(|all| all.retain(|other| !Arc::ptr_eq(other, &self.connection)));
        if self.node.options.role == Role::Connect {
            // The answers to all questions went with the connection.
            self.node.syncs().clear();
        }
    }
}
