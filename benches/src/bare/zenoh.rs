//! `zenoh`: two peers, or two clients of a router.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Sample;
use zenoh::{Config, Session, Wait};

use super::address;
use crate::end::{Asker, Ready};
use crate::failure::{Failure, Result};
use crate::path::Use;
use crate::payload::answer;

/// Settings of `transport-zenoh` that decide about speed, by the library's keys.
const SETTINGS: [(&str, &str); 6] = [
    ("scouting/multicast/enabled", "false"),
    ("transport/unicast/lowlatency", "false"),
    ("transport/link/tx/queue/size/data_high", "16"),
    ("transport/link/rx/buffer_size", "4194304"),
    ("transport/link/rx/max_message_size", "16842752"),
    ("transport/shared_memory/enabled", "false"),
];

fn lost(error: impl fmt::Display) -> Failure {
    Failure::new("zenoh", error)
}

/// Which side of a connection a session is.
enum Side {
    /// A peer that listens.
    Listen(u16),
    /// A peer that connects, or with a router in between a client.
    Connect(&'static str, String),
}

fn session(side: &Side) -> Result<Session> {
    let mut config = Config::default();
    let mut set = |key: &str, value: &str| config.insert_json5(key, value).map_err(lost);
    for (key, value) in SETTINGS {
        set(key, value)?;
    }
    match side {
        Side::Listen(port) => {
            set("mode", "\"peer\"")?;
            set("listen/endpoints", &format!("[\"tcp/127.0.0.1:{port}\"]"))?;
        }
        Side::Connect(mode, address) => {
            set("mode", &format!("\"{mode}\""))?;
            set("listen/endpoints", "[]")?;
            set("connect/endpoints", &format!("[\"tcp/{address}\"]"))?;
        }
    }
    zenoh::open(config).wait().map_err(lost)
}

/// A client of the router at `url`, or a peer that connects to the one at an address.
fn joining(at: &str) -> Result<Side> {
    if at.contains("://") {
        let (host, port) = address(at)?;
        Ok(Side::Connect("client", format!("{host}:{port}")))
    } else {
        Ok(Side::Connect("peer", at.to_owned()))
    }
}

fn publisher(session: &Session, topic: &str) -> Result<Publisher<'static>> {
    session
        .declare_publisher(topic.to_owned())
        .congestion_control(CongestionControl::Block)
        .priority(Priority::DataHigh)
        .express(false)
        .wait()
        .map_err(lost)
}

/// The asking end. Answers come through a channel of the library in either use.
pub struct Zenoh {
    publisher: Publisher<'static>,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    _session: Session,
}

impl fmt::Debug for Zenoh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zenoh")
            .field(self.publisher.key_expr())
            .finish()
    }
}

impl Zenoh {
    /// Connects to the router of a URL or to the peer at an address.
    ///
    /// # Errors
    /// What the library answers.
    pub fn open(at: &str, requests: &str, answers: &str) -> Result<Self> {
        let session = session(&joining(at)?)?;
        Ok(Self {
            subscriber: session.declare_subscriber(answers).wait().map_err(lost)?,
            publisher: publisher(&session, requests)?,
            _session: session,
        })
    }
}

impl Asker for Zenoh {
    fn send(&mut self, payload: &Bytes) -> Result<()> {
        self.publisher.put(payload.clone()).wait().map_err(lost)
    }

    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<usize>> {
        let sample = match patience {
            None => self.subscriber.recv().map(Some),
            Some(patience) => self.subscriber.recv_timeout(patience),
        };
        let sample = sample.map_err(lost)?;
        Ok(sample.map(|sample| sample.payload().to_bytes().len()))
    }

    fn settings(&self) -> String {
        let settings = SETTINGS.map(|(key, value)| format!("{key}={value}"));
        format!(
            "zenoh: congestion=block, express=false, {}",
            settings.join(", ")
        )
    }
}

/// The answering end: a client of the router at `url`, or a peer that listens.
///
/// # Errors
/// What the library answers.
pub fn echo(
    url: Option<&str>,
    requests: &str,
    answers: &str,
    style: Use,
    ready: Ready<'_>,
) -> Result<()> {
    let (side, at) = match url {
        Some(url) => (joining(url)?, url.to_owned()),
        None => {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
            let free = free.map_err(lost)?;
            (Side::Listen(free.port()), free.to_string())
        }
    };
    let session = session(&side)?;
    let publisher = publisher(&session, answers)?;
    match style {
        Use::Bare => {
            let _subscriber = session
                .declare_subscriber(requests)
                .callback(move |sample| {
                    // A lost connection is seen by the asking end.
                    let _ = publisher.put(answer(sample.payload().len())).wait();
                })
                .wait()
                .map_err(lost)?;
            ready(&at);
            loop {
                std::thread::park();
            }
        }
        Use::HandedOver => {
            let subscriber = session.declare_subscriber(requests).wait().map_err(lost)?;
            ready(&at);
            loop {
                let sample = subscriber.recv().map_err(lost)?;
                // One piece, as every app with work to do needs it.
                let whole = sample.payload().to_bytes();
                publisher.put(answer(whole.len())).wait().map_err(lost)?;
            }
        }
    }
}
