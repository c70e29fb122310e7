//! Where masters, nodes and data connections are.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use transport_api::{Error, Result, TransportConfig};
use url::Url;

/// Port of a master when the URL names none.
pub(crate) const MASTER_PORT: u16 = 11311;

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// An endpoint; an IPv6 address may come with or without brackets.
    pub(crate) fn new(host: &str, port: u16) -> Self {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        Self {
            host: bare.to_owned(),
            port,
        }
    }

    /// The master that a transport's URL names.
    pub(crate) fn of_master(config: &TransportConfig) -> Result<Self> {
        let url = config.url();
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(Error::config(format!(
                "`{config}` names no host; write `rosmaster://host:{MASTER_PORT}`"
            )));
        };
        if !matches!(url.path(), "" | "/") || !url.username().is_empty() {
            return Err(Error::config(format!(
                "`{config}` has a path or a user; write `rosmaster://host:{MASTER_PORT}`"
            )));
        }
        match url.port().unwrap_or(MASTER_PORT) {
            0 => Err(Error::config(format!("`{config}` names port 0"))),
            port => Ok(Self::new(host, port)),
        }
    }

    /// The server that an `http://host:port/` address of the ROS graph names.
    pub(crate) fn of_uri(uri: &str) -> Option<Self> {
        let url = Url::parse(uri).ok()?;
        if url.scheme() != "http" {
            return None;
        }
        Some(Self::new(url.host_str()?, url.port_or_known_default()?))
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://{self}/")
    }

    /// Dials the addresses that the host resolves to, one after the other, and keeps the first
    /// connection: a multi-homed host is one peer, not several. The caller bounds the time.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(
            io::ErrorKind::NotFound,
            format!("`{}` has no address", self.host),
        );
        for address in lookup_host((self.host.as_str(), self.port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
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

/// Makes the kernel notice within `limit` that the other side of `stream` is gone, whether data
/// is under way or not: a link that was cut without a word otherwise stays up for hours.
pub(crate) fn bound_silence(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    // Three probes after a first quiet quarter.
    let step = (limit / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new()
        .with_time(step)
        .with_interval(step)
        .with_retries(3);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(limit))
}

/// How other nodes reach us.
#[derive(Clone, Debug)]
pub(crate) struct Advertised {
    /// What is written into addresses of the ROS graph.
    pub(crate) host: String,
    /// What our listeners bind to.
    pub(crate) bind: IpAddr,
}

impl Advertised {
    /// Decides from the wish of the user, or from `local`, our end of the connection to the master
    /// at `remote`: who reaches the master most likely reaches us by the same route.
    ///
    /// What looks unreachable is warned about and not refused, since a name may be known elsewhere
    /// only.
    pub(crate) async fn decide(wish: Option<&str>, local: IpAddr, remote: IpAddr) -> Self {
        let unspecified = |address: &IpAddr| match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let bind = |address: &IpAddr| {
            if address.is_loopback() {
                *address
            } else {
                unspecified(address)
            }
        };
        let Some(wish) = wish else {
            return Self {
                host: local.to_string(),
                bind: bind(&local),
            };
        };
        let found: Vec<IpAddr> = match lookup_host((wish, 0)).await {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(error) => {
                tracing::warn!(
                    hostname = wish, %error,
                    "the advertised host name does not resolve here; other nodes may not reach us"
                );
                Vec::new()
            }
        };
        if wish.contains('_') {
            tracing::warn!(
                hostname = wish,
                "a host name with `_` is refused by some nodes"
            );
        }
        let loopback = !found.is_empty() && found.iter().all(IpAddr::is_loopback);
        if loopback && !remote.is_loopback() {
            tracing::warn!(
                hostname = wish, master = %remote,
                "the advertised address is a loopback one while the master is on another host; \
                 nodes there cannot reach us"
            );
        }
        for address in &found {
            if let Err(error) = std::net::TcpListener::bind(SocketAddr::new(*address, 0)) {
                tracing::warn!(
                    hostname = wish, %address, %error,
                    "the advertised address is not one of this host; other nodes may not reach us"
                );
            }
        }
        let bind = match found.first() {
            Some(first) if loopback => *first,
            Some(first) => unspecified(first),
            None => bind(&local),
        };
        Self {
            host: wish.to_owned(),
            bind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(url: &str) -> Result<String> {
        Endpoint::of_master(&TransportConfig::parse(url)?).map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn addresses_of_masters_are_read_strictly() {
        assert_eq!(master("rosmaster://car").unwrap(), "car:11311");
        assert_eq!(master("rosmaster://car:1/").unwrap(), "car:1");
        assert_eq!(master("rosmaster://[::1]:11312").unwrap(), "[::1]:11312");
        for bad in [
            "rosmaster:",
            "rosmaster://car/x",
            "rosmaster://me@car",
            "rosmaster://car:0",
        ] {
            assert!(master(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_of_nodes_are_read_with_and_without_a_path() {
        for uri in ["http://[::1]:5", "http://[::1]:5/", "http://[::1]:5/x"] {
            assert_eq!(Endpoint::of_uri(uri), Some(Endpoint::new("::1", 5)));
        }
        for uri in ["", "car:5", "rosrpc://car:5", "http://"] {
            assert_eq!(Endpoint::of_uri(uri), None, "{uri}");
        }
    }
}
