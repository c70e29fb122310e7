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
    block_timeout: Option<Duration>,
    #[serde(with = "humantime_serde")]
    lease: Option<Duration>,
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
            block_timeout: None,
            lease: None,
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
        default: "5s; where it connects, max_payload at 4 MiB/s if that is longer",
        help: "longest stay of one message before a blocked connection, which is then given up",
    },
    OptionHelp {
        key: "lease",
        default: "twice block_timeout",
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

/// Longest stay of a message before a blocked connection; the library's own default.
const BLOCK: Duration = Duration::from_secs(5);

/// A link that carries fewer bytes per second is no link for payloads of the size asked for.
const SLOWEST: usize = 4 << 20;

/// How long a connection may be blocked and how long it may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    pub(crate) block: Duration,
    pub(crate) lease: Duration,
}

/// Longest duration an option may have; beyond it a mistake is more likely than a wish.
const LONGEST: Duration = Duration::from_secs(3600);

impl Options {
    /// Refuses values that Zenoh would take for something else or could not hold.
    pub(crate) fn check(&self) -> Result<()> {
        for (key, value) in [
            ("connect_timeout", self.connect_timeout),
            ("match_timeout", self.match_timeout),
            ("block_timeout", self.block_timeout.unwrap_or(BLOCK)),
            ("lease", self.lease.unwrap_or(BLOCK)),
        ] {
            if value < Duration::from_millis(1) || value > LONGEST {
                return Err(Error::config(format!(
                    "option `{key}`: {value:?} is not in 1 ms ..= 1 h"
                )));
            }
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
                "option `shared_memory` = `true`: not built in; build with \
                 `--features shared-memory`",
            ));
        }
        Ok(())
    }

    /// The times in force on a side with this role, for payloads up to `max_payload`.
    ///
    /// A side that passes messages on reads nothing while one of its connections blocks, and to the
    /// others it then seems that they are silent. So there is a limit that all sides can rely on:
    /// who listens blocks no longer than half the lease of who connects, whatever the payloads.
    pub(crate) fn patience(&self, role: Role, max_payload: usize) -> Result<Patience> {
        let agreed = self.block_timeout.unwrap_or(BLOCK);
        let lease = self.lease.unwrap_or(agreed * 2);
        if lease < agreed * 2 {
            return Err(Error::config(format!(
                "option `lease`: {lease:?} is less than twice `block_timeout` ({agreed:?}); raise \
                 the one or lower the other"
            )));
        }
        let passage = Duration::from_secs_f64(max_payload as f64 / SLOWEST as f64);
        let block = match (role, self.block_timeout) {
            (Role::Connect, None) => agreed.max(passage),
            _ => agreed,
        };
        Ok(Patience { block, lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_of_a_connecting_side_grows_with_its_payloads() {
        let seconds = |block, lease| Patience {
            block: Duration::from_secs(block),
            lease: Duration::from_secs(lease),
        };
        let options = Options::default();
        for (role, limit, expected) in [
            (Role::Connect, 16 << 20, seconds(5, 10)),
            (Role::Connect, 64 << 20, seconds(16, 10)),
            (Role::Listen, 64 << 20, seconds(5, 10)),
        ] {
            assert_eq!(options.patience(role, limit).unwrap(), expected);
        }
        let long = Options {
            block_timeout: Some(Duration::from_secs(20)),
            ..Options::default()
        };
        let found = long.patience(Role::Connect, 64 << 20).unwrap();
        assert_eq!(found, seconds(20, 40));
        let short = Options {
            lease: Some(Duration::from_secs(5)),
            ..Options::default()
        };
        let error = short.patience(Role::Connect, 1).unwrap_err();
        assert!(
            error.to_string().contains("twice `block_timeout`"),
            "{error}"
        );
    }
}
