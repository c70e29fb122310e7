//! What a transport is in the ROS graph: one node with its listeners, topics and tasks.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dxr::Value;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use transport_api::backoff::Backoff;
use transport_api::event::EventHub;
use transport_api::ledger::Closing;
use transport_api::reception::{Reception, reception};
use transport_api::throttle::Throttle;
use transport_api::{
    CloseReport, Error, ErrorKind, Event, Events, Granted, Result, Schema, TopicName,
    TransportConfig,
};

use crate::acceptor;
use crate::address::{Advertised, Endpoint};
use crate::graph::{self, Graph};
use crate::header::{ANY, Type};
use crate::http::{Caller, Server};
use crate::master::{Master, Role, SystemState};
use crate::name;
use crate::options::{Options, Switch};
use crate::outage::{Outage, Outages};
use crate::peers;
use crate::publication::{Outlet, Publication};
use crate::slave::Slave;
use crate::subscription::Subscription;

/// Longest time for closing a node in the background.
const ABANDONED: Duration = Duration::from_secs(2);

/// Shortest and longest pause between attempts to reach the master or a publisher.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    name: String,
    uri: String,
    host: String,
    data: SocketAddr,
    options: Options,
    max_payload: usize,
    master: Master,
    graph: Graph,
    /// For warnings about strangers.
    strangers: Throttle,
    /// What the master knew when it was asked last.
    state: watch::Sender<SystemState>,
    hub: Arc<EventHub>,
    topics: Mutex<Topics>,
    /// Links to subscribers, which outlive their publication until they are drained.
    links: Mutex<JoinSet<()>>,
    tasks: Mutex<JoinSet<()>>,
    server: Mutex<Option<Server>>,
    runtime: Handle,
    outages: Arc<Outages>,
    closing: AtomicBool,
    report: OnceCell<CloseReport>,
}

#[derive(Debug, Default)]
struct Topics {
    publications: HashMap<String, Arc<Publication>>,
    subscriptions: HashMap<String, Arc<Subscription>>,
    /// Every publisher that may still have messages under way.
    outlets: Vec<Arc<Outlet>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Starts the node and registers it.
    pub(crate) async fn start(config: &TransportConfig) -> Result<Arc<Self>> {
        let options = Options::of(config)?;
        options.check_external()?;
        let endpoint = Endpoint::of_master(config)?;
        let unreachable = |text: String| {
            Error::new(
                ErrorKind::Connect,
                "connect to master",
                format!("ROS master at {endpoint}: {text}; start one there, such as `roscore`"),
            )
        };
        let stream = timeout(options.connect_timeout, endpoint.connect())
            .await
            .map_err(|_| unreachable(format!("no answer within {:?}", options.connect_timeout)))?
            .map_err(|error| unreachable(error.to_string()).with_source(error))?;
        let ends = stream
            .local_addr()
            .and_then(|local| Ok((local, stream.peer_addr()?)));
        let (local, remote) =
            ends.map_err(|error| unreachable(error.to_string()).with_source(error))?;
        drop(stream);

        let wish = options.advertised();
        let decided = Advertised::decide(wish.as_deref(), local.ip(), remote.ip()).await;
        let (advertised, doubts) = decided;
        for doubt in doubts {
            tracing::warn!(
                host = advertised.host,
                %doubt,
                "other nodes may not reach the advertised host; change option `hostname` or `ip`"
            );
        }
        let bound = |error: std::io::Error| {
            let text = format!("listening on {}: {error}", advertised.bind);
            Error::new(ErrorKind::Connect, "start node", text).with_source(error)
        };
        let slave = TcpListener::bind((advertised.bind, 0))
            .await
            .map_err(bound)?;
        let data = TcpListener::bind((advertised.bind, 0))
            .await
            .map_err(bound)?;
        let port = slave.local_addr().map_err(bound)?.port();
        let name = name::node(config.peer());
        let hub = Arc::<EventHub>::default();
        let node = Arc::new(Self {
            uri: Endpoint::new(&advertised.host, port).uri(),
            host: advertised.host.clone(),
            data: data.local_addr().map_err(bound)?,
            master: Master::new(endpoint.clone(), &name, options.connect_timeout),
            name,
            max_payload: config.max_payload(),
            graph: Graph::default(),
            strangers: Throttle::default(),
            state: watch::Sender::default(),
            outages: Outages::new(Arc::clone(&hub)),
            hub,
            topics: Mutex::default(),
            links: Mutex::default(),
            tasks: Mutex::default(),
            server: Mutex::default(),
            runtime: Handle::current(),
            closing: AtomicBool::new(false),
            report: OnceCell::new(),
            options,
        });
        let server = Server::start(slave, Slave::new(&node)).map_err(bound)?;
        *lock(&node.server) = Some(server);
        node.spawn(acceptor::run(Arc::clone(&node), data));
        node.spawn(graph::run(Arc::clone(&node)));
        node.spawn(peers::run(Arc::clone(&node), node.state.subscribe()));

        // Every ROS node publishes its log, also when it has nothing to say: this makes it known.
        let rosout = Publication::rosout();
        let (topic, kind) = (name::topic(&rosout.topic), rosout.kind.name.clone());
        lock(&node.topics)
            .publications
            .insert(topic.clone(), rosout);
        let registered = node.graph.register(Role::Publisher, &topic, &kind).await;
        if let Err(error) = registered {
            node.abort().await;
            return Err(unreachable(error.message().to_owned()).with_source(error));
        }
        node.hub.emit(Event::Connected);
        Ok(node)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The address of our XML-RPC server.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The endpoint of our data connections.
    pub(crate) fn data(&self) -> (&str, u16) {
        (&self.host, self.data.port())
    }

    pub(crate) fn master(&self) -> &Master {
        &self.master
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.options.connect_timeout
    }

    pub(crate) fn poll(&self) -> Duration {
        self.options.poll
    }

    pub(crate) fn silence(&self) -> Duration {
        self.options.silence
    }

    /// Pauses between attempts to reach the master or a publisher.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(PAUSES.0, PAUSES.1)
    }

    pub(crate) fn metadata(&self) -> bool {
        self.options.metadata == Switch::On
    }

    pub(crate) fn max_payload(&self) -> usize {
        self.max_payload
    }

    pub(crate) fn events(&self) -> Events {
        self.hub.subscribe()
    }

    pub(crate) fn emit(&self, event: Event) {
        self.hub.emit(event);
    }

    /// For warnings about what anybody can send here.
    pub(crate) fn strangers(&self) -> &Throttle {
        &self.strangers
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Runs a task until it ends or the node is closed.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.tasks, &self.runtime, task);
    }

    /// Runs the writer of a link until it ends or the node is closed.
    pub(crate) fn serve(&self, link: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.links, &self.runtime, link);
    }

    /// A connection to the master or a publisher is lost, until the outage is dropped.
    pub(crate) fn lose(&self, cause: &Arc<Error>) -> Outage {
        self.outages.begin(cause)
    }

    /// Takes note of what the master knows.
    pub(crate) fn observe(&self, state: SystemState) {
        self.state.send_replace(state);
    }

    /// Asks the master again for the publishers of a topic.
    pub(crate) fn refresh(&self, topic: &str) {
        self.graph.refresh(Role::Subscriber, topic);
    }

    pub(crate) fn publication(&self, topic: &str) -> Option<Arc<Publication>> {
        lock(&self.topics).publications.get(topic).cloned()
    }

    pub(crate) fn publications(&self) -> Vec<Arc<Publication>> {
        lock(&self.topics).publications.values().cloned().collect()
    }

    pub(crate) fn subscription(&self, topic: &str) -> Option<Arc<Subscription>> {
        lock(&self.topics).subscriptions.get(topic).cloned()
    }

    pub(crate) fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        lock(&self.topics).subscriptions.values().cloned().collect()
    }

    /// How many publishers each of our subscriptions knows.
    pub(crate) fn publishers_of_subscriptions(&self) -> Vec<(String, usize)> {
        self.subscriptions()
            .iter()
            .map(|subscription| (name::topic(&subscription.topic), subscription.publishers()))
            .collect()
    }

    /// How often the publishers of a topic were told to us.
    pub(crate) fn updates(&self, topic: &str) -> u64 {
        self.subscription(topic)
            .map_or(0, |subscription| subscription.updates())
    }

    /// The master has answered the registration of a subscription.
    pub(crate) fn answered(self: &Arc<Self>, topic: &str, uris: &[String], updates: u64) {
        if let Some(subscription) = self.subscription(topic) {
            subscription.answer(self, uris, updates);
        }
    }

    /// Publishes a topic, and waits, for a limited time, until the subscribers that the master
    /// knows are connected: the first message is for them, too.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        topic: &TopicName,
        schema: &Schema,
        granted: Granted,
    ) -> Result<(Arc<Publication>, Arc<Outlet>)> {
        let key = name::topic(topic);
        let kind = Type::of(schema);
        let (publication, outlet) = {
            let mut topics = lock(&self.topics);
            if self.is_closing() {
                return Err(Error::closed("publish"));
            }
            let publication = topics
                .publications
                .entry(key.clone())
                .or_insert_with(|| Publication::new(topic, kind.clone()));
            let publication = Arc::clone(publication);
            if publication.kind != kind {
                // The master takes one type per topic and tells nobody of a second one, unless the
                // topic is registered again.
                self.graph.refresh(Role::Publisher, &key);
            }
            let outlet = publication.publish(kind.clone(), granted, &self.hub);
            topics.outlets.retain(|outlet| !outlet.is_finished());
            topics.outlets.push(Arc::clone(&outlet));
            (publication, outlet)
        };
        if let Err(error) = self.graph.register(Role::Publisher, &key, &kind.name).await {
            self.retire(&publication, &outlet);
            return Err(error);
        }
        self.meet(&publication, &outlet, &key).await;
        Ok((publication, outlet))
    }

    /// Waits until the subscribers that the master knows have connected; those that are not there
    /// any more are not waited for.
    async fn meet(&self, publication: &Publication, outlet: &Outlet, topic: &str) {
        let mut audience = publication.audience();
        let deadline = Instant::now() + self.options.connect_timeout;
        let Ok(state) = self.master.system_state().await else {
            return;
        };
        let mut dead = JoinSet::new();
        for node in state.nodes(Role::Subscriber, topic) {
            let (node, limit) = (node.clone(), self.options.connect_timeout);
            let uri = self.master.lookup_node(&node).await;
            dead.spawn(async move { slave_is_dead(uri.ok(), limit).await.then_some(node) });
        }
        let mut expected = state.nodes(Role::Subscriber, topic).to_vec();
        loop {
            audience.mark_unchanged();
            let connected = outlet.subscribers();
            expected.retain(|node| !connected.contains(node) && !publication.differs(node, outlet));
            if expected.is_empty() {
                return;
            }
            tokio::select! {
                Some(gone) = dead.join_next() => {
                    if let Ok(Some(gone)) = gone {
                        expected.retain(|node| *node != gone);
                    }
                }
                // The publication holds the sender.
                _ = audience.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    tracing::warn!(
                        topic, ?expected,
                        "subscribers that the master knows have not connected; they may miss the \
                         first messages"
                    );
                    return;
                }
            }
        }
    }

    /// Takes a publisher away; the last one of its topic takes the topic along.
    pub(crate) fn retire(&self, publication: &Arc<Publication>, outlet: &Arc<Outlet>) {
        let mut topics = lock(&self.topics);
        if !publication.retire(outlet) {
            return;
        }
        let key = name::topic(&publication.topic);
        let current = topics.publications.get(&key);
        if current.is_some_and(|current| Arc::ptr_eq(current, publication)) {
            topics.publications.remove(&key);
            self.graph.unregister(Role::Publisher, &key);
            publication.complete();
        }
    }

    /// Subscribes to a topic, and waits until the publishers that the master knows are connected
    /// or have failed once.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        topic: &TopicName,
        schema: &Schema,
        granted: Granted,
    ) -> Result<(Arc<Subscription>, u64, Reception)> {
        let key = name::topic(topic);
        let kind = schema.id().map_or(ANY, |id| id.name());
        let (inlet, reception) = reception(granted, schema);
        let (subscription, id) = {
            let mut topics = lock(&self.topics);
            if self.is_closing() {
                return Err(Error::closed("subscribe"));
            }
            let subscription = topics
                .subscriptions
                .entry(key.clone())
                .or_insert_with(|| Subscription::new(topic, kind));
            let id = subscription.join(inlet, schema.id().cloned());
            (Arc::clone(subscription), id)
        };
        if let Err(error) = self.graph.register(Role::Subscriber, &key, kind).await {
            self.leave(&subscription, id);
            return Err(error);
        }
        subscription.settled(self.options.connect_timeout).await;
        Ok((subscription, id, reception))
    }

    /// Takes a subscriber away; the last one of its topic takes the subscription along.
    pub(crate) fn leave(&self, subscription: &Arc<Subscription>, id: u64) {
        let mut topics = lock(&self.topics);
        if !subscription.leave(id) {
            return;
        }
        let key = name::topic(&subscription.topic);
        let current = topics.subscriptions.get(&key);
        if current.is_some_and(|current| Arc::ptr_eq(current, subscription)) {
            topics.subscriptions.remove(&key);
            self.graph.unregister(Role::Subscriber, &key);
            subscription.complete();
        }
    }

    /// Waits until the master knows that a topic is not subscribed to any more.
    pub(crate) async fn left(&self, topic: &TopicName) -> Result<()> {
        let topic = name::topic(topic);
        let told = self.graph.unregistered(Role::Subscriber, &topic);
        timeout(self.options.connect_timeout, told)
            .await
            .map_err(|_| {
                let text = format!("the master could not be told that `{topic}` is unsubscribed");
                Error::new(ErrorKind::Timeout, "unsubscribe", text)
            })
    }

    /// Tells that the number of subscribers of a topic has changed.
    pub(crate) fn matched(&self, publication: &Publication) {
        let subscribers = *publication.audience().borrow();
        self.emit(Event::Matched {
            topic: publication.topic.clone(),
            subscribers,
        });
    }

    /// Closes the node; once.
    pub(crate) async fn close(&self, deadline: Duration) -> CloseReport {
        let report = self.report.get_or_init(|| async {
            let end = Instant::now() + deadline;
            let closing = self.stop();
            // A subscriber that takes nothing must not use up the time for telling the master.
            let drained = Instant::now() + deadline.mul_f32(0.75);
            let mut links = std::mem::take(&mut *lock(&self.links));
            let drain = async { while links.join_next().await.is_some() {} };
            let on_time = timeout_at(drained, drain).await.is_ok();
            links.shutdown().await;
            if !on_time {
                tracing::warn!(?deadline, "messages not taken by subscribers were given up");
            }
            if timeout_at(end, self.graph.clear()).await.is_err() {
                tracing::warn!(
                    node = self.name,
                    "the master could not be told that this node is gone"
                );
            }
            self.abort().await;
            let report = closing.report();
            self.hub.emit(Event::Closed);
            report
        });
        *report.await
    }

    /// Closes the node because the graph says so.
    pub(crate) fn shut_down(self: &Arc<Self>, reason: &str) {
        let text = format!("node {} was told to shut down: {reason}", self.name);
        self.emit(Event::Disconnected {
            cause: Arc::new(Error::new(ErrorKind::Closed, "run node", text)),
        });
        self.abandon();
    }

    /// Closes the node in the background.
    pub(crate) fn abandon(self: &Arc<Self>) {
        if !self.is_closing() {
            let node = Arc::clone(self);
            self.runtime
                .spawn(async move { node.close(ABANDONED).await });
        }
    }

    /// Stops accepting.
    fn stop(&self) -> Closing {
        let (publications, subscriptions, outlets) = {
            let mut topics = lock(&self.topics);
            self.closing.store(true, Ordering::Release);
            self.outages.close();
            let topics = std::mem::take(&mut *topics);
            (topics.publications, topics.subscriptions, topics.outlets)
        };
        let ledgers = outlets.iter().map(|outlet| Arc::clone(&outlet.ledger));
        let closing = Closing::begin(ledgers);
        publications
            .values()
            .for_each(|publication| publication.complete());
        subscriptions
            .values()
            .for_each(|subscription| subscription.complete());
        closing
    }

    /// Ends everything that runs.
    async fn abort(&self) {
        let server = lock(&self.server).take();
        if let Some(server) = server {
            server.stop().await;
        }
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }
}

fn spawn(
    tasks: &Mutex<JoinSet<()>>,
    runtime: &Handle,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let mut tasks = lock(tasks);
    while tasks.try_join_next().is_some() {}
    tasks.spawn_on(task, runtime);
}

/// Whether there is nobody any more where a node is registered.
async fn slave_is_dead(uri: Option<String>, limit: Duration) -> bool {
    let Some(endpoint) = uri.as_deref().and_then(Endpoint::of_uri) else {
        return true;
    };
    let caller = Caller::new(endpoint, limit);
    let answer = caller.call("getPid", vec![Value::String("/".to_owned())]);
    matches!(answer.await, Err(error) if error.is_refused())
}
