//! Paths that can be cut, stalled and healed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

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

/// What a [`Proxy`] does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// It passes them on.
    Live,
    /// It leaves them where they are, so that back-pressure builds up on both sides.
    Stalled,
    /// It resets connections, old and new.
    Cut,
}

/// A TCP relay on 127.0.0.1 to one address. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    path: watch::Sender<Path>,
    listener: JoinHandle<()>,
}

impl Proxy {
    /// A live relay to `upstream` on a free port. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// There is no free port.
    pub fn to(upstream: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let (path, state) = watch::channel(Path::Live);
        let listener = tokio::spawn(listen(listener, upstream, state));
        Ok(Self {
            address,
            path,
            listener,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to bytes from now on.
    pub fn set(&self, path: Path) {
        self.path.send_replace(path);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The relays of single connections end with the sender of `path`.
        self.listener.abort();
    }
}

async fn listen(listener: TcpListener, upstream: SocketAddr, path: watch::Receiver<Path>) {
    loop {
        // A failed accept concerns the connection that failed, not the listener.
        if let Ok((near, _)) = listener.accept().await {
            tokio::spawn(relay(near, upstream, path.clone()));
        }
    }
}

async fn relay(near: TcpStream, upstream: SocketAddr, mut path: watch::Receiver<Path>) {
    let far = tokio::select! {
        biased;
        () = cut(&mut path) => None,
        far = TcpStream::connect(upstream) => far.ok(),
    };
    let Some(far) = far else {
        reset(&near);
        return;
    };
    for stream in [&near, &far] {
        // Only fails for a stream that is already gone, which the copy below finds out.
        let _ = stream.set_nodelay(true);
    }
    let (mut near, mut far) = (near, far);
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = far.split();
    let (up, down) = (path.clone(), path.clone());
    tokio::select! {
        biased;
        () = cut(&mut path) => {
            reset(&near);
            reset(&far);
        }
        // Each side's end of stream is passed on; the relay ends when both are through, or with the
        // first failure, which is a reset that the other side must see as well.
        through = async { tokio::try_join!(copy(near_in, far_out, up), copy(far_in, near_out, down)) } => {
            if through.is_err() {
                reset(&near);
                reset(&far);
            }
        }
    }
}

/// Waits until the path is cut or the proxy is gone.
async fn cut(path: &mut watch::Receiver<Path>) {
    // An error says that the proxy is gone.
    let _ = path.wait_for(|path| *path == Path::Cut).await;
}

fn reset(stream: &TcpStream) {
    // Without it the close below is a tidy one, which is a weaker check and no wrong one.
    let _ = stream.set_zero_linger();
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut path: watch::Receiver<Path>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await;
        if path.wait_for(|path| *path == Path::Live).await.is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match read? {
            0 => return to.shutdown().await,
            length => to.write_all(&buffer[..length]).await?,
        }
    }
}
