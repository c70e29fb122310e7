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
    /// What looks unreachable is not refused, since a name may be known elsewhere only; the doubts
    /// are for the log.
    pub(crate) async fn decide(
        wish: Option<&str>,
        local: IpAddr,
        remote: IpAddr,
    ) -> (Self, Vec<Doubt>) {
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
            let advertised = Self {
                host: local.to_string(),
                bind: bind(&local),
            };
            return (advertised, Vec::new());
        };
        let mut doubts = Vec::new();
        let found: Vec<IpAddr> = match lookup_host((wish, 0)).await {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(error) => {
                doubts.push(Doubt::Unresolved(error));
                Vec::new()
            }
        };
        if wish.contains('_') {
            doubts.push(Doubt::Underscore);
        }
        let loopback = !found.is_empty() && found.iter().all(IpAddr::is_loopback);
        if loopback && !remote.is_loopback() {
            doubts.push(Doubt::Loopback(remote));
        }
        for address in &found {
            if let Err(error) = std::net::TcpListener::bind(SocketAddr::new(*address, 0)) {
                doubts.push(Doubt::Elsewhere(*address, error));
            }
        }
        let bind = match found.first() {
            Some(first) if loopback => *first,
            Some(first) => unspecified(first),
            None => bind(&local),
        };
        let advertised = Self {
            host: wish.to_owned(),
            bind,
        };
        (advertised, doubts)
    }
}

/// Why other nodes may not reach us at the advertised host.
#[derive(Debug)]
pub(crate) enum Doubt {
    Unresolved(io::Error),
    Underscore,
    /// The master is at this address, which is not of this host.
    Loopback(IpAddr),
    Elsewhere(IpAddr, io::Error),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(error) => write!(f, "it does not resolve here: {error}"),
            Self::Underscore => write!(f, "some nodes refuse a host name with `_`"),
            Self::Loopback(master) => write!(
                f,
                "it is a loopback address while the master, {master}, is on another host"
            ),
            Self::Elsewhere(address, error) => {
                write!(f, "{address} is not an address of this host: {error}")
            }
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

    #[tokio::test]
    async fn an_advertised_host_that_cannot_be_reached_is_doubted() {
        let here: IpAddr = Ipv4Addr::LOCALHOST.into();
        // An address for documentation; nothing is sent there.
        let far: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
        // Some systems let anybody listen on any address; there is nothing to doubt then.
        let elsewhere = match std::net::TcpListener::bind("192.0.2.2:0") {
            Ok(_) => &[][..],
            Err(_) => &["192.0.2.2 is not an address"],
        };
        for (wish, master, expected) in [
            (None, here, &[][..]),
            (Some("127.0.0.1"), here, &[]),
            (Some("localhost"), here, &[]),
            (Some("no-such-host.invalid"), here, &["does not resolve"]),
            (Some("my_host.invalid"), here, &["does not resolve", "`_`"]),
            (Some("127.0.0.1"), far, &["192.0.2.1, is on another host"]),
            (Some("192.0.2.2"), here, elsewhere),
        ] {
            let (advertised, doubts) = Advertised::decide(wish, here, master).await;
            assert_eq!(advertised.host, wish.unwrap_or("127.0.0.1"));
            let doubts: Vec<String> = doubts.iter().map(Doubt::to_string).collect();
            assert_eq!(doubts.len(), expected.len(), "{wish:?}: {doubts:?}");
            for (doubt, expected) in doubts.iter().zip(expected) {
                assert!(doubt.contains(expected), "{wish:?}: {doubt}");
            }
        }
    }
}
