//! The options in the URL.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use transport_api::{Error, OptionHelp, Result, TransportConfig};

/// Which side of the connection this peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Accepts the other peers and passes messages on between them.
    Listen,
    /// Connects to the peer that listens.
    Connect,
}

/// The options of this transport; each field is one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Which side this peer is.
    pub role: Role,
    /// How long connecting may take, on opening and again after a loss.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// Longest pause between two attempts to reconnect.
    #[serde(with = "humantime_serde")]
    pub reconnect_pause: Duration,
    /// How long nothing may come from the other side before it counts as lost.
    #[serde(with = "humantime_serde")]
    pub silence: Duration,
    /// Messages that wait for one connection besides those in the publishers' queues.
    pub backlog: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            role: Role::Connect,
            connect_timeout: Duration::from_secs(5),
            reconnect_pause: Duration::from_secs(2),
            silence: Duration::from_secs(20),
            // Few, since what waits here is not the newest any more.
            backlog: NonZeroUsize::new(4).expect("4 is not zero"),
        }
    }
}

/// The options as told to users.
pub const HELP: &[OptionHelp] = &[
    OptionHelp {
        key: "role",
        default: "connect",
        help: "`listen` accepts the other peers and passes messages on, `connect` dials it",
    },
    OptionHelp {
        key: "connect_timeout",
        default: "5s",
        help: "how long connecting may take",
    },
    OptionHelp {
        key: "reconnect_pause",
        default: "2s",
        help: "longest pause between two attempts to reconnect",
    },
    OptionHelp {
        key: "silence",
        default: "20s",
        help: "how long nothing may come from the other side before it counts as lost",
    },
    OptionHelp {
        key: "backlog",
        default: "4",
        help: "messages that wait for one connection, besides the publishers' queues",
    },
];

/// Where to listen or connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address.
    pub host: String,
    /// Port; 0 where listening means any free one.
    pub port: u16,
}

impl Address {
    /// Reads the address of a URL `tcp://host:port`.
    ///
    /// # Errors
    /// [`transport_api::ErrorKind::Config`] naming the URL.
    pub fn of(config: &TransportConfig) -> Result<Self> {
        let url = config.url();
        let plain = url.username().is_empty() && matches!(url.path(), "" | "/");
        match (url.host_str(), url.port()) {
            (Some(host), Some(port)) if plain => Ok(Self {
                // The URL writes `[::1]`, sockets want `::1`.
                host: host.trim_matches(['[', ']']).to_owned(),
                port,
            }),
            _ => Err(Error::config(format!(
                "`{config}` is not an address; write `tcp://host:port`"
            ))),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
