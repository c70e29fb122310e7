//! A viewer and its streams.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use vehicle::Frame;

use crate::board::{Board, State};
use crate::relay;
use crate::server::{Shared, serve};

/// Serves the page. It has a thread and a runtime of its own, so that nothing it does delays the
/// tasks of a side that is measured in the same process. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Viewer {
    address: SocketAddr,
    board: Arc<Board>,
    runtime: Handle,
    /// For sockets of vehicles; only this user can look into it.
    folder: TempDir,
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

impl Viewer {
    /// Serves at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had, or no thread or folder be made.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let folder = tempfile::Builder::new()
            .prefix("roundtrip-view-")
            .tempdir()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let board = Arc::new(Board::new());
        let run = format!("{:016x}", RandomState::new().hash_one(address));
        let shared = Arc::new(Shared::new(Arc::clone(&board), run));
        let (stop, told) = oneshot::channel();
        let (done, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(serve(listener, shared, told));
            // Nobody may wait for it.
            let _ = done.send(());
        };
        std::thread::Builder::new()
            .name("view".to_owned())
            .spawn(work)?;
        Ok(Self {
            address,
            board,
            runtime: handle,
            folder,
            stop,
            stopped,
        })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new stream, waiting, under a label of its own.
    pub fn stream(&self, label: impl Into<String>) -> Stream {
        let label = label.into();
        let place = self.board.add(label);
        Stream {
            place,
            board: Arc::clone(&self.board),
            runtime: self.runtime.clone(),
            socket: self.folder.path().join(place.to_string()),
        }
    }

    /// Tells the pages that look that it is over, and stops. Cancel-safe: it stops anyway.
    pub async fn close(self) {
        // A thread that is gone has stopped.
        let _ = self.stop.send(());
        let _ = self.stopped.await;
    }
}

/// The scans of one vehicle over one transport, on the page.
#[derive(Debug)]
pub struct Stream {
    place: usize,
    board: Arc<Board>,
    runtime: Handle,
    socket: PathBuf,
}

impl Stream {
    /// Says where it is.
    pub fn enter(&self, state: State) {
        self.board.enter(self.place, state);
    }

    /// Shows the frames of a vehicle in this process.
    pub fn feed(&self, mut frames: mpsc::Receiver<Frame>) {
        let (board, place) = (Arc::clone(&self.board), self.place);
        self.runtime.spawn(async move {
            while let Some(frame) = frames.recv().await {
                board.push(place, frame);
            }
        });
    }

    /// Shows the frames of a vehicle in another process, which finds the way by
    /// [`Relay`](crate::Relay) and the path that this returns.
    ///
    /// # Errors
    /// The socket cannot be made, or this stream has one already.
    pub fn listen(&self) -> io::Result<&Path> {
        let _inside = self.runtime.enter();
        let listener = UnixListener::bind(&self.socket)?;
        let (board, place) = (Arc::clone(&self.board), self.place);
        self.runtime
            .spawn(async move { relay::take(listener, &board, place).await });
        Ok(&self.socket)
    }
}
