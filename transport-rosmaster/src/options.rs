//! The options in the query of a transport's URL.

use std::time::Duration;

use serde::Deserialize;
use transport_api::{Error, OptionHelp, Result, TransportConfig};

/// An option that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    On,
    Off,
}

/// The options, with their defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    pub(crate) hostname: Option<String>,
    pub(crate) ip: Option<std::net::IpAddr>,
    pub(crate) metadata: Switch,
    #[serde(with = "humantime_serde")]
    pub(crate) connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) poll: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) silence: Duration,
    /// Only read for an embedded master.
    pub(crate) port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hostname: None,
            ip: None,
            metadata: Switch::On,
            connect_timeout: Duration::from_secs(5),
            poll: Duration::from_secs(1),
            silence: Duration::from_secs(6),
            port: None,
        }
    }
}

/// The options as they are documented.
pub(crate) const HELP: &[OptionHelp] = &[
    OptionHelp {
        key: "hostname",
        default: "the address of the route to the master",
        help: "host name under which other nodes reach this one",
    },
    OptionHelp {
        key: "ip",
        default: "the address of the route to the master",
        help: "address under which other nodes reach this one; instead of `hostname`",
    },
    OptionHelp {
        key: "metadata",
        default: "on",
        help: "`on`: metadata is sent as a trailer behind each message, which ROS nodes ignore; `off`",
    },
    OptionHelp {
        key: "connect_timeout",
        default: "5s",
        help: "longest wait for the master, a node or a connection",
    },
    OptionHelp {
        key: "poll",
        default: "1s",
        help: "how often the master is asked whether it still knows this node",
    },
    OptionHelp {
        key: "silence",
        default: "6s",
        help: "a data connection whose other side is silent for so long is given up and redialled",
    },
    OptionHelp {
        key: "port",
        default: "any free one",
        help: "port of the embedded master; only with `rosmaster:embedded`",
    },
];

impl Options {
    /// Reads and checks the options of `config`.
    /// Refuses what only an embedded master has a use for.
    pub(crate) fn check_external(&self) -> Result<()> {
        match self.port {
            Some(_) => Err(Error::config(
                "option `port` is for `rosmaster:embedded`; the master's port belongs behind its \
                 host",
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn of(config: &TransportConfig) -> Result<Self> {
        let options: Self = config.backend()?;
        if options.hostname.is_some() && options.ip.is_some() {
            return Err(Error::config(
                "options `hostname` and `ip` exclude each other; give one",
            ));
        }
        if options.hostname.as_deref() == Some("") {
            return Err(Error::config("option `hostname` is empty"));
        }
        for (key, value, least) in [
            (
                "connect_timeout",
                options.connect_timeout,
                Duration::from_millis(10),
            ),
            ("poll", options.poll, Duration::from_millis(10)),
            // The kernel counts keep-alive probes in seconds.
            ("silence", options.silence, Duration::from_secs(4)),
        ] {
            if value < least || value > Duration::from_secs(3600) {
                return Err(Error::config(format!(
                    "option `{key}` = `{value:?}` is not in {least:?} ..= 1 h"
                )));
            }
        }
        Ok(options)
    }

    /// The address to advertise, if the user has a wish.
    pub(crate) fn advertised(&self) -> Option<String> {
        self.hostname.clone().or(self.ip.map(|ip| ip.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Options> {
        Options::of(&TransportConfig::parse(&format!(
            "rosmaster://host?{query}"
        ))?)
    }

    #[test]
    fn wrong_options_are_refused_with_their_name() {
        let options = read("ip=10.0.0.1&connect_timeout=200ms&metadata=off").unwrap();
        assert_eq!(options.advertised().as_deref(), Some("10.0.0.1"));
        assert_eq!(options.metadata, Switch::Off);
        for (query, name) in [
            ("ip=car", "`ip`"),
            ("hostname=a&ip=10.0.0.1", "`hostname` and `ip`"),
            ("hostname=", "`hostname`"),
            ("connect_timeout=0s", "`connect_timeout`"),
            ("silence=1s", "`silence`"),
            ("metadata=false", "`metadata`"),
            ("metdata=off", "did you mean `metadata`?"),
        ] {
            let error = read(query).unwrap_err().to_string();
            assert!(error.contains(name), "{query}: {error}");
        }
    }
}
