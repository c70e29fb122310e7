//! Paths of ROS nodes that can be cut and stalled.
//!
//! The connections of a ROS graph go from everyone to everyone, to addresses that travel in
//! XML-RPC. So that all traffic of a peer passes a relay of its own, these addresses are replaced
//! on the way: what a peer tells the master leads to a gate before it, and what a peer is told
//! leads through its own relays. Data connections are replaced in the answers that announce them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use transport_conformance::LinkControl;
use transport_conformance::link::{Path, Proxy};

/// Largest XML-RPC message of the tests.
const LARGEST: usize = 1 << 20;

/// What is replaced in the messages that pass a relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Relay {
    /// From a peer to the master.
    Master(String),
    /// From anyone to a peer.
    Gate(String),
    /// From a peer to the gate of another one.
    Route(String),
}

/// The paths of all peers of one master.
#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<State>>);

struct State {
    master: SocketAddr,
    paths: BTreeMap<String, Path>,
    proxies: HashMap<(String, SocketAddr), Proxy>,
    relays: HashMap<(Relay, SocketAddr), (SocketAddr, JoinHandle<()>)>,
    /// Gates, and the peer that each leads to.
    gates: BTreeMap<u16, String>,
}

impl State {
    /// Takes everything away that led to an earlier life of `peer`.
    fn forget(&mut self, peer: &str) {
        let mut gone: BTreeSet<SocketAddr> = BTreeSet::new();
        self.gates.retain(|port, owner| {
            let stays = owner != peer;
            if !stays {
                gone.insert(local(*port));
            }
            stays
        });
        let master = self
            .relays
            .get(&(Relay::Master(peer.to_owned()), self.master));
        let master = master.map(|(address, _)| *address);
        let own = self
            .proxies
            .iter()
            .filter(|((owner, upstream), _)| owner == peer && Some(*upstream) != master);
        gone.extend(own.map(|(_, proxy)| proxy.address()));
        let mut before = 0;
        // What led to something that is gone is gone, too.
        while before < gone.len() {
            before = gone.len();
            let ends = self.proxies.iter().filter(|((_, to), _)| gone.contains(to));
            let ends: Vec<_> = ends.map(|(_, proxy)| proxy.address()).collect();
            let relays = self.relays.iter().filter(|((_, to), _)| gone.contains(to));
            let ends = ends
                .into_iter()
                .chain(relays.map(|(_, (address, _))| *address));
            gone.extend(ends.collect::<Vec<_>>());
        }
        self.proxies
            .retain(|_, proxy| !gone.contains(&proxy.address()));
        self.relays.retain(|_, (address, task)| {
            let stays = !gone.contains(address);
            if !stays {
                task.abort();
            }
            stays
        });
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for (_, task) in self.relays.values() {
            task.abort();
        }
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Network {
    pub(crate) fn around(master: SocketAddr) -> Self {
        Self(Arc::new(Mutex::new(State {
            master,
            paths: BTreeMap::new(),
            proxies: HashMap::new(),
            relays: HashMap::new(),
            gates: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The address at which `peer` finds the master.
    pub(crate) fn address(&self, peer: &str) -> SocketAddr {
        let master = self.lock().master;
        let relay = self.relay(Relay::Master(peer.to_owned()), master);
        self.proxy(peer, relay)
    }

    /// The way of `peer` to `upstream`.
    fn proxy(&self, peer: &str, upstream: SocketAddr) -> SocketAddr {
        let mut state = self.lock();
        let path = state.paths.get(peer).copied().unwrap_or(Path::Live);
        let key = (peer.to_owned(), upstream);
        let proxy = state.proxies.entry(key).or_insert_with(|| {
            let proxy = Proxy::to(upstream).unwrap();
            proxy.set(path);
            proxy
        });
        proxy.address()
    }

    fn relay(&self, relay: Relay, upstream: SocketAddr) -> SocketAddr {
        let mut state = self.lock();
        let key = (relay.clone(), upstream);
        if let Some((address, _)) = state.relays.get(&key) {
            return *address;
        }
        let listener = std::net::TcpListener::bind(local(0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        // Without a count of its own: the state owns the tasks.
        let network = Arc::downgrade(&self.0);
        let task = tokio::spawn(async move {
            // Ends its connections when it is aborted.
            let mut passing = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                while passing.try_join_next().is_some() {}
                let (relay, network) = (relay.clone(), Weak::clone(&network));
                passing.spawn(async move {
                    let rewrite = |text: &str, request: bool| match network.upgrade() {
                        Some(state) => Network(state).rewrite(&relay, text, request),
                        None => text.to_owned(),
                    };
                    // A connection that ends early is the business of its two ends.
                    let _ = pass(near, upstream, rewrite).await;
                });
            }
        });
        state.relays.insert(key, (address, task));
        address
    }

    fn rewrite(&self, relay: &Relay, text: &str, request: bool) -> String {
        let is_gate = |port| self.lock().gates.contains_key(&port);
        let route = |peer: &str, port| {
            if !is_gate(port) {
                return port;
            }
            let route = self.relay(Relay::Route(peer.to_owned()), local(port));
            self.proxy(peer, route).port()
        };
        match (relay, request) {
            (Relay::Master(peer), true) => map_uris(text, |port| {
                if !self
                    .lock()
                    .proxies
                    .contains_key(&(peer.clone(), local(port)))
                {
                    // An earlier life may still be taking its leave.
                    if text.contains("<methodName>unregister") {
                        return port;
                    }
                    self.lock().forget(peer);
                }
                let gate = self.relay(Relay::Gate(peer.clone()), self.proxy(peer, local(port)));
                self.lock().gates.insert(gate.port(), peer.clone());
                gate.port()
            }),
            (Relay::Master(peer), false) | (Relay::Gate(peer), true) => {
                map_uris(text, |port| route(peer, port))
            }
            (Relay::Route(_), true) => text.to_owned(),
            (Relay::Gate(peer) | Relay::Route(peer), false) => {
                map_data(text, |port| self.proxy(peer, local(port)).port())
            }
        }
    }

    fn set(&self, peer: &str, path: Path) {
        let mut state = self.lock();
        state.paths.insert(peer.to_owned(), path);
        for ((owner, _), proxy) in &state.proxies {
            if owner == peer {
                proxy.set(path);
            }
        }
    }
}

#[async_trait]
impl LinkControl for Network {
    async fn cut(&self, peer: &str) {
        self.set(peer, Path::Cut);
    }

    async fn stall(&self, peer: &str) {
        self.set(peer, Path::Stalled);
    }

    async fn heal(&self, peer: &str) {
        self.set(peer, Path::Live);
    }
}

/// Replaces the ports of all addresses.
fn map_uris(text: &str, port: impl Fn(u16) -> u16) -> String {
    const HOST: &str = "http://127.0.0.1:";
    let mut parts = text.split(HOST);
    let mut mapped = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        mapped += HOST;
        mapped += &map_number(part, &port);
    }
    mapped
}

/// Replaces the port of a data connection.
fn map_data(text: &str, port: impl Fn(u16) -> u16) -> String {
    let Some((before, after)) = text.split_once("TCPROS") else {
        return text.to_owned();
    };
    let Some((host, rest)) = after.split_once("<i4>") else {
        return text.to_owned();
    };
    format!("{before}TCPROS{host}<i4>{}", map_number(rest, port))
}

/// Replaces the number that `text` begins with.
fn map_number(text: &str, port: impl Fn(u16) -> u16) -> String {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number = text[..end].parse().unwrap();
    format!("{}{}", port(number), &text[end..])
}

/// Passes requests and answers on until one side ends.
async fn pass(
    mut near: TcpStream,
    upstream: SocketAddr,
    rewrite: impl Fn(&str, bool) -> String,
) -> io::Result<()> {
    let mut far = TcpStream::connect(upstream).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    while let Some((head, body)) = read(&mut near).await? {
        write(&mut far, &head, &rewrite(&body, true)).await?;
        let Some((head, body)) = read(&mut far).await? else {
            break;
        };
        write(&mut near, &head, &rewrite(&body, false)).await?;
    }
    Ok(())
}

/// Reads one HTTP message: the lines of its head but for the length, and its body.
async fn read(stream: &mut TcpStream) -> io::Result<Option<(Vec<String>, String)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > LARGEST {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let is_length = |line: &str| line.to_ascii_lowercase().starts_with("content-length:");
    let length = head.lines().find(|line| is_length(line));
    let length: usize = length
        .and_then(|l| l[15..].trim().parse().ok())
        .unwrap_or(0);
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await? == 0 || bytes.len() > LARGEST {
            return Ok(None);
        }
    }
    let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
    let head = head
        .lines()
        .filter(|line| !is_length(line))
        .map(str::to_owned);
    Ok(Some((head.collect(), body)))
}

async fn write(stream: &mut TcpStream, head: &[String], body: &str) -> io::Result<()> {
    let head = head.join("\r\n");
    let message = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(message.as_bytes()).await
}
