//! A TCP relay on 127.0.0.1 that can be cut, stalled, slowed down and healed: a bad link without
//! privileges.
//!
//! It relays one address, so it is for transports that keep to the address that they are given.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a [`Proxy`] does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// It passes them on.
    Live,
    /// It passes so many a second on, in each direction of each connection.
    Slow(NonZeroU32),
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
        let read = match read? {
            0 => {
                moving(&mut path).await?;
                return to.shutdown().await;
            }
            length => length,
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let (now, pause) = match moving(&mut path).await? {
                Some(rate) => slice(rate, rest.len()),
                None => (rest.len(), Duration::ZERO),
            };
            to.write_all(&rest[..now]).await?;
            rest = &rest[now..];
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Waits until something may pass, and says how much a second if that is limited.
async fn moving(path: &mut watch::Receiver<Path>) -> io::Result<Option<NonZeroU32>> {
    let moving = path.wait_for(|path| matches!(path, Path::Live | Path::Slow(_)));
    match moving.await.map(|path| *path) {
        Ok(Path::Slow(rate)) => Ok(Some(rate)),
        Ok(_) => Ok(None),
        // The proxy is gone.
        Err(_) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// How many of `length` bytes pass at once at `rate`, and the pause that they are worth.
fn slice(rate: NonZeroU32, length: usize) -> (usize, Duration) {
    let most = (rate.get() / SLICES).max(1) as usize;
    let now = most.min(length);
    (
        now,
        Duration::from_secs_f64(now as f64 / f64::from(rate.get())),
    )
}

/// Slices a second of a slow path: short enough to look even, long enough for a timer.
const SLICES: u32 = 50;
