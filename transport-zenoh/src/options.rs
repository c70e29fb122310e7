//! The options of a URL.

use std::time::Duration;

use serde::Deserialize;
use transport_api::config::ByteSize;
use transport_api::{Error, OptionHelp, Result};

/// What this side is in the Zenoh network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Peer,
    Client,
    Router,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Client => "client",
            Self::Router => "router",
        }
    }
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Listen,
    Connect,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Link {
    Tcp,
    Tls,
    Quic,
}

/// When a message is sent at once instead of waiting up to 1 ms for company.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Express {
    /// From [`EXPRESS_PRIORITY`] on.
    Auto,
    Always,
    Never,
}

/// Lowest priority whose messages never wait for company.
pub(crate) const EXPRESS_PRIORITY: u8 = 6;

/// Most batches the library's transmission queue holds per priority.
const LARGEST_TX_QUEUE: usize = 16;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    pub(crate) mode: Option<Mode>,
    pub(crate) role: Option<Role>,
    pub(crate) link: Link,
    pub(crate) port: u16,
    #[serde(with = "humantime_serde")]
    pub(crate) connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) match_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) block_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) lease: Duration,
    pub(crate) express: Express,
    pub(crate) tx_queue: usize,
    pub(crate) rx_buffer: ByteSize,
    pub(crate) scouting: bool,
    pub(crate) shared_memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: None,
            role: None,
            link: Link::Tcp,
            port: 0,
            connect_timeout: Duration::from_secs(5),
            match_timeout: Duration::from_secs(1),
            block_timeout: Duration::from_secs(3),
            lease: Duration::from_secs(10),
            express: Express::Auto,
            tx_queue: LARGEST_TX_QUEUE,
            rx_buffer: ByteSize(4 << 20),
            scouting: false,
            shared_memory: false,
        }
    }
}

pub(crate) const HELP: &[OptionHelp] = &[
    OptionHelp {
        key: "mode",
        default: "peer",
        help: "`peer`, `client` (of a router such as zenohd) or `router` (this process is one)",
    },
    OptionHelp {
        key: "role",
        default: "connect; a router listens",
        help: "whether a peer opens the connection (`connect`) or waits for it (`listen`)",
    },
    OptionHelp {
        key: "link",
        default: "tcp",
        help: "`tcp`; `quic` and `tls` are refused with the reason",
    },
    OptionHelp {
        key: "port",
        default: "0",
        help: "port of `zenoh:peer` and `zenoh:router` on 127.0.0.1; 0 takes a free one",
    },
    OptionHelp {
        key: "connect_timeout",
        default: "5s",
        help: "longest wait for the first connection",
    },
    OptionHelp {
        key: "match_timeout",
        default: "1s",
        help: "longest wait for the answers of the other side when something is declared",
    },
    OptionHelp {
        key: "block_timeout",
        default: "3s",
        help: "longest stay of one message before a blocked connection, which is then given up",
    },
    OptionHelp {
        key: "lease",
        default: "10s",
        help: "silence after which a connection counts as lost; a quarter of it between signs of life",
    },
    OptionHelp {
        key: "express",
        default: "auto",
        help: "whether messages are sent without waiting for company: `auto` (priority 6 and 7), `always`, `never`",
    },
    OptionHelp {
        key: "tx_queue",
        default: "16",
        help: "batches of 64 KiB in transmission per priority, 1 to 16",
    },
    OptionHelp {
        key: "rx_buffer",
        default: "4MiB",
        help: "receive buffers of one connection",
    },
    OptionHelp {
        key: "scouting",
        default: "false",
        help: "whether a listening peer or router seeks others by UDP multicast",
    },
    OptionHelp {
        key: "shared_memory",
        default: "false",
        help: "whether peers of one host exchange payloads through shared memory; keep it off for figures about the network",
    },
];

/// Longest duration an option may have; beyond it a mistake is more likely than a wish.
const LONGEST: Duration = Duration::from_secs(3600);

impl Options {
    /// Refuses values that Zenoh would take for something else or could not hold.
    pub(crate) fn check(&self) -> Result<()> {
        for (key, value) in [
            ("connect_timeout", self.connect_timeout),
            ("match_timeout", self.match_timeout),
            ("block_timeout", self.block_timeout),
            ("lease", self.lease),
        ] {
            if value < Duration::from_millis(1) || value > LONGEST {
                return Err(Error::config(format!(
                    "option `{key}`: {value:?} is not in 1 ms ..= 1 h"
                )));
            }
        }
        if self.lease < self.block_timeout * 2 {
            return Err(Error::config(format!(
                "option `lease`: {:?} is less than twice `block_timeout` ({:?}); a peer that passes \
                 messages on reads nothing while one of its connections blocks, and would give up \
                 the others",
                self.lease, self.block_timeout
            )));
        }
        if !(1..=LARGEST_TX_QUEUE).contains(&self.tx_queue) {
            return Err(Error::config(format!(
                "option `tx_queue`: {} is not in 1..={LARGEST_TX_QUEUE}",
                self.tx_queue
            )));
        }
        let buffer = self.rx_buffer.0;
        if !(64 << 10..=1 << 30).contains(&buffer) {
            return Err(Error::config(format!(
                "option `rx_buffer`: {buffer} B is not in 64 KiB ..= 1 GiB"
            )));
        }
        match self.link {
            Link::Tcp => {}
            Link::Tls => {
                return Err(Error::config(
                    "option `link` = `tls`: Zenoh shares one TLS stream between two threads without \
                     a lock, which loses messages and can abort the process; use `link=tcp` inside \
                     a tunnel that encrypts, or end TLS outside",
                ));
            }
            Link::Quic => {
                return Err(Error::config(
                    "option `link` = `quic`: not built in; use `link=tcp` inside a tunnel that \
                     encrypts",
                ));
            }
        }
        if self.shared_memory && !cfg!(feature = "shared-memory") {
            return Err(Error::config(
                "option `shared_memory` = `true`: not built in; build with the feature \
                 `shared-memory` of transport-zenoh",
            ));
        }
        Ok(())
    }
}
