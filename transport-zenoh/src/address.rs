//! What a URL says about where to listen or connect.

use std::fmt;

use transport_api::{Error, Result, TransportConfig};

use crate::options::{Mode, Options, Role};

/// Port of a Zenoh router unless another is given.
const DEFAULT_PORT: u16 = 7447;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Name or address; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where one side listens or connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) mode: Mode,
    pub(crate) role: Role,
    pub(crate) endpoint: Endpoint,
    /// The URL names no endpoint: `zenoh:peer` or `zenoh:router`.
    pub(crate) embedded: bool,
}

impl Address {
    pub(crate) fn of(config: &TransportConfig, options: &Options) -> Result<Self> {
        let url = config.url();
        if url.cannot_be_a_base() {
            return Self::embedded(url.path(), options);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::config(
                "the URL has a user; access by user and password is not supported for zenoh",
            ));
        }
        if !matches!(url.path(), "" | "/") {
            return Err(Error::config(format!(
                "the URL has a path `{}`; write zenoh://host:port",
                url.path()
            )));
        }
        if options.port != 0 {
            return Err(Error::config(
                "option `port` is for zenoh:peer and zenoh:router; write zenoh://host:port",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(Error::config(
                "the URL has no host; write zenoh://host:port",
            ));
        }
        if host.contains('%') {
            return Err(Error::config(format!(
                "host `{host}` has characters that no host name has"
            )));
        }
        let mode = options.mode.unwrap_or(Mode::Peer);
        let role = match (mode, options.role) {
            (Mode::Peer, role) => role.unwrap_or(Role::Connect),
            (Mode::Client, None | Some(Role::Connect)) => Role::Connect,
            (Mode::Router, None | Some(Role::Listen)) => Role::Listen,
            (mode, Some(_)) => {
                return Err(Error::config(format!(
                    "option `role` does not fit `mode` = `{}`: a client connects, a router listens",
                    mode.name()
                )));
            }
        };
        if options.scouting && role == Role::Connect {
            return Err(Error::config(
                "option `scouting` is for peers and routers that listen; this side has the address \
                 it connects to",
            ));
        }
        let port = url.port().unwrap_or(DEFAULT_PORT);
        if port == 0 && role == Role::Connect {
            return Err(Error::config(format!(
                "port 0 of `{host}` cannot be connected to"
            )));
        }
        Ok(Self {
            mode,
            role,
            endpoint: Endpoint {
                host: host.to_owned(),
                port,
            },
            embedded: false,
        })
    }

    fn embedded(path: &str, options: &Options) -> Result<Self> {
        let mode = match path {
            "peer" => Mode::Peer,
            "router" => Mode::Router,
            _ => {
                return Err(Error::config(format!(
                    "`zenoh:{}` is none of zenoh:peer, zenoh:router and zenoh://host:port",
                    path.chars().take(80).collect::<String>().escape_debug()
                )));
            }
        };
        if options.mode.is_some() || options.role.is_some() {
            return Err(Error::config(format!(
                "options `mode` and `role` are for zenoh://host:port, not for zenoh:{path}"
            )));
        }
        Ok(Self {
            mode,
            role: Role::Listen,
            endpoint: Endpoint {
                host: "127.0.0.1".to_owned(),
                port: options.port,
            },
            embedded: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<Address> {
        let config = TransportConfig::parse(text)?;
        let options: Options = config.backend()?;
        options.check()?;
        Address::of(&config, &options)
    }

    #[test]
    fn every_form_of_url_is_understood() {
        for (text, mode, role, endpoint) in [
            ("zenoh:peer", Mode::Peer, Role::Listen, "127.0.0.1:0"),
            (
                "zenoh:router?port=9",
                Mode::Router,
                Role::Listen,
                "127.0.0.1:9",
            ),
            ("zenoh://host", Mode::Peer, Role::Connect, "host:7447"),
            (
                "zenoh://host:1?mode=client",
                Mode::Client,
                Role::Connect,
                "host:1",
            ),
            (
                "zenoh://[::1]:1?mode=peer&role=listen",
                Mode::Peer,
                Role::Listen,
                "[::1]:1",
            ),
            (
                "zenoh://[::1]:1/?mode=router",
                Mode::Router,
                Role::Listen,
                "[::1]:1",
            ),
        ] {
            let found = address(text).unwrap();
            assert_eq!((found.mode, found.role), (mode, role), "{text}");
            assert_eq!(found.endpoint.to_string(), endpoint, "{text}");
        }
    }

    #[test]
    fn every_mistake_in_a_url_is_named() {
        for (text, expected) in [
            ("zenoh:mesh", "none of zenoh:peer"),
            ("zenoh:peer?mode=client", "not for zenoh:peer"),
            ("zenoh://host:0", "port 0 of `host`"),
            ("zenoh://host:65536", "invalid port"),
            ("zenoh://a%20b:1", "host `a%20b`"),
            ("zenoh://ho st:1", "invalid"),
            ("zenoh://user@host", "has a user"),
            ("zenoh://host/path", "path `/path`"),
            ("zenoh://host?port=1", "option `port`"),
            ("zenoh://host?mode=client&role=listen", "a client connects"),
            ("zenoh://host?mode=router&role=connect", "a router listens"),
            ("zenoh://host?scouting=true", "option `scouting`"),
            ("zenoh://host?link=tls", "without a lock"),
            ("zenoh://host?tx_queue=17", "not in 1..=16"),
            ("zenoh://host?lease=0s", "option `lease`"),
            ("zenoh://host?leese=1s", "did you mean `lease`?"),
            ("zenoh://host?rx_buffer=1KiB", "option `rx_buffer`"),
        ] {
            let error = address(text).unwrap_err();
            assert_eq!(error.kind(), transport_api::ErrorKind::Config, "{text}");
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
