//! A ROS master in this process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dxr::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use transport_api::throttle::Throttle;
use transport_api::{Error, ErrorKind, Host, Result, TransportConfig};

use crate::address::Endpoint;
use crate::http::{CallError, Caller, Responder, Server};
use crate::registry::{Notice, Registry};
use crate::xmlrpc::Reply;

/// Longest wait for a node that is told or asked something.
const CALL: Duration = Duration::from_secs(3);

/// How often nodes are asked whether they are still there.
const PROBE: Duration = Duration::from_secs(1);

/// Refusals in a row after which a node is gone; one may be a restart.
const REFUSALS: u32 = 2;

/// A node that cannot be reached for so long is gone.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// Name of the master in calls to nodes.
const CALLER: &str = "/master";

/// A running master on the loopback interface.
pub(crate) struct Embedded {
    address: SocketAddr,
    /// Present until it is stopped.
    server: Option<Server>,
    shared: Arc<Shared>,
}

/// Values to tell, by method and subject.
type Letters = BTreeMap<(&'static str, String), Value>;

struct Shared {
    registry: Mutex<Registry>,
    /// What each node still has to be told, by its address. A node with an entry has a task.
    letters: Mutex<HashMap<String, Letters>>,
    tasks: Mutex<JoinSet<()>>,
    /// For warnings about nodes.
    strangers: Throttle,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Embedded {
    /// Starts a master on `port`, or on a free one.
    pub(crate) async fn start(port: Option<u16>) -> Result<Self> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
        let failed = |error: std::io::Error| {
            let text = format!(
                "the embedded master cannot listen on {wanted}: {error}; give another port by the \
                 option `port`, or none for a free one"
            );
            Error::new(ErrorKind::Connect, "start master", text).with_source(error)
        };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let uri = Endpoint::new(&Ipv4Addr::LOCALHOST.to_string(), port).uri();
        let shared = Arc::new(Shared {
            registry: Mutex::new(Registry::new(uri)),
            letters: Mutex::default(),
            tasks: Mutex::default(),
            strangers: Throttle::default(),
        });
        let server = Server::start(listener, Api(Arc::clone(&shared))).map_err(failed)?;
        let probing = Arc::clone(&shared);
        lock(&shared.tasks).spawn(async move { probe(probing).await });
        Ok(Self {
            address: server.address(),
            server: Some(server),
            shared,
        })
    }

    /// The configuration of a node at this master, like `config`, which asked for it.
    pub(crate) fn join(&self, config: &TransportConfig) -> Result<TransportConfig> {
        let joined = TransportConfig::parse(&format!(
            "rosmaster://{}?max_payload={}",
            self.address,
            config.max_payload()
        ))?;
        let options = config.options().iter().filter(|(key, _)| *key != "port");
        let joined = options.fold(joined, |joined, (key, value)| {
            joined.with_option(key, value)
        });
        Ok(joined.with_peer(config.peer().clone()))
    }

    /// Stops it; the port is free when this returns.
    pub(crate) async fn end(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        let mut tasks = std::mem::take(&mut *lock(&self.shared.tasks));
        tasks.shutdown().await;
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // They hold what holds them.
        lock(&self.shared.tasks).abort_all();
    }
}

#[async_trait]
impl Host for Embedded {
    async fn stop(mut self: Box<Self>) {
        self.end().await;
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedded({})", self.address)
    }
}

struct Api(Arc<Shared>);

impl Responder for Api {
    async fn respond(&self, method: &str, params: Vec<Value>) -> Option<Reply> {
        let mut notices = Vec::new();
        let reply = lock(&self.0.registry).call(method, &params, &mut notices);
        self.0.post(notices);
        reply
    }
}

impl Shared {
    /// Hands notices over for delivery. Each node has a task of its own, so that one that does not
    /// answer delays nobody, and is told the latest only.
    fn post(self: &Arc<Self>, notices: Vec<Notice>) {
        let mut letters = lock(&self.letters);
        for notice in notices {
            let node = letters.get_mut(&notice.api);
            let subject = (notice.method, notice.subject);
            match node {
                Some(letters) => {
                    letters.insert(subject, notice.value);
                }
                None => {
                    let first = BTreeMap::from([(subject, notice.value)]);
                    letters.insert(notice.api.clone(), first);
                    let shared = Arc::clone(self);
                    let mut tasks = lock(&self.tasks);
                    while tasks.try_join_next().is_some() {}
                    tasks.spawn(async move { shared.deliver(&notice.api).await });
                }
            }
        }
    }

    async fn deliver(&self, api: &str) {
        let caller = Endpoint::of_uri(api).map(|endpoint| Caller::new(endpoint, CALL));
        while let Some(((method, subject), value)) = self.next_letter(api) {
            let Some(caller) = &caller else {
                if let Some(left_out) = self.strangers.admit() {
                    tracing::warn!(
                        api,
                        method,
                        subject,
                        left_out,
                        "a node has no usable address"
                    );
                }
                continue;
            };
            let text = |text: &str| Value::String(text.to_owned());
            let mut params = vec![text(CALLER), text(&subject)];
            if method != "shutdown" {
                params.push(value);
            }
            match caller.call(method, params).await {
                // Some nodes answer anything; what counts is that they were told.
                Ok(_) | Err(CallError::Answer(_)) => {}
                Err(error) => tracing::debug!(api, method, subject, %error, "a node was not told"),
            }
        }
    }

    /// The next thing to tell; without one the node's entry goes.
    fn next_letter(&self, api: &str) -> Option<((&'static str, String), Value)> {
        let mut letters = lock(&self.letters);
        let next = letters.get_mut(api)?.pop_first();
        if next.is_none() {
            letters.remove(api);
        }
        next
    }
}

/// Buries nodes that ended without unregistering, so that nobody dials them for ever.
async fn probe(shared: Arc<Shared>) {
    let mut tick = interval(PROBE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ailing: BTreeMap<(String, String), (u32, Instant)> = BTreeMap::new();
    loop {
        tick.tick().await;
        let nodes = lock(&shared.registry).nodes();
        let mut probes = JoinSet::new();
        for node in nodes {
            probes.spawn(async move {
                let alive = match Endpoint::of_uri(&node.1) {
                    Some(endpoint) => is_alive(endpoint).await,
                    None => Some(false),
                };
                (node, alive)
            });
        }
        let mut still = BTreeMap::new();
        while let Some(probed) = probes.join_next().await {
            let Ok((node, alive)) = probed else {
                continue;
            };
            let (refusals, since) = ailing.get(&node).copied().unwrap_or((0, Instant::now()));
            let refusals = match alive {
                Some(true) => continue,
                Some(false) => refusals + 1,
                None => refusals,
            };
            if refusals < REFUSALS && since.elapsed() < UNREACHABLE {
                still.insert(node, (refusals, since));
                continue;
            }
            tracing::info!(
                node = node.0,
                api = node.1,
                "a node is gone; its entries are removed"
            );
            let mut notices = Vec::new();
            lock(&shared.registry).bury(&node.0, &node.1, &mut notices);
            shared.post(notices);
        }
        ailing = still;
    }
}

/// Whether a node answers; `Some(false)` if surely nobody is there, `None` if that is unclear.
async fn is_alive(endpoint: Endpoint) -> Option<bool> {
    let caller = Caller::new(endpoint, CALL);
    match caller
        .call("getPid", vec![Value::String(CALLER.to_owned())])
        .await
    {
        Ok(_) | Err(CallError::Answer(_)) => Some(true),
        Err(error) if error.is_refused() => Some(false),
        Err(_) => None,
    }
}
