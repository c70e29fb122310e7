//! Paths that can be cut, stalled and healed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
pub use transport_relay::{Path, Proxy};

/// Control over the path of each peer. Never called for [`crate::FIRST`] where the fixture has no
/// server.
#[async_trait]
pub trait LinkControl: Send + Sync {
    /// Resets the connections of `peer`; new ones are reset too, until [`LinkControl::heal`].
    async fn cut(&self, peer: &str);

    /// Lets the connections of `peer` stand and passes nothing in either direction, as a radio gap
    /// does, until [`LinkControl::heal`].
    async fn stall(&self, peer: &str);

    /// Ends a cut or a stall; what was held back by a stall is passed on.
    async fn heal(&self, peer: &str);
}

/// A path through a [`Proxy`] for each peer to one address.
pub struct Links {
    upstream: SocketAddr,
    proxies: Mutex<BTreeMap<String, Proxy>>,
}

impl Links {
    /// Paths to `upstream`; each comes into being with the first call of [`Links::address`].
    pub fn to(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            proxies: Mutex::default(),
        }
    }

    /// The address at which `peer` finds the other side.
    ///
    /// # Panics
    /// If there is no free port on 127.0.0.1, or outside of a tokio runtime.
    pub fn address(&self, peer: &str) -> SocketAddr {
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        let proxy = proxies
            .entry(peer.to_owned())
            .or_insert_with(|| Proxy::to(self.upstream).expect("a free port on 127.0.0.1"));
        proxy.address()
    }

    fn set(&self, peer: &str, path: Path) {
        let proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        proxies
            .get(peer)
            .expect("a path is controlled after its peer asked for it")
            .set(path);
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LinkControl for Links {
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
