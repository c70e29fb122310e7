//! The connection to one subscriber of a topic that we publish.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use transport_api::queue::{Consumer, enlist};

use crate::frame::Frame;
use crate::header::Type;

/// How long a subscriber may take nothing at all before publishers stop waiting for it, if there are
/// others that take something. It then loses its oldest messages, counted, until it takes bytes
/// again.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// How long a subscriber may take to answer the end of the connection with its own end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the subscriber does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It takes what is sent, or nothing was sent.
    Moving,
    /// It has taken nothing for [`PATIENCE`].
    Stalled,
    /// It is gone.
    Ended,
}

/// A queue per publisher of the topic, and one task that empties them into the socket.
#[derive(Debug)]
pub(crate) struct Link {
    node: String,
    /// The type it takes; any, if there is none.
    kind: Option<Type>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    flow: Flow,
    lanes: VecDeque<Consumer<Arc<Frame>>>,
    /// No lane will be added.
    complete: bool,
    writer: Option<Waker>,
    /// Publishers that wait for room here.
    waiters: Vec<Waker>,
}

impl Link {
    /// A link to the subscriber `node`, which takes messages of type `kind`, or all.
    pub(crate) fn new(node: &str, kind: Option<Type>) -> Arc<Self> {
        Arc::new(Self {
            node: node.to_owned(),
            kind,
            state: Mutex::new(State {
                flow: Flow::Moving,
                lanes: VecDeque::new(),
                complete: false,
                writer: None,
                waiters: Vec::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Whether messages of this type are for the subscriber.
    pub(crate) fn takes(&self, kind: &Type) -> bool {
        self.kind.as_ref().is_none_or(|own| own == kind)
    }

    /// Adds the queue of a publisher.
    pub(crate) fn add(&self, lane: Consumer<Arc<Frame>>) {
        let mut state = self.lock();
        state.lanes.push_back(lane);
        wake(state.writer.take());
    }

    /// No queue will be added: the link ends once those it has are closed and empty.
    pub(crate) fn complete(&self) {
        let mut state = self.lock();
        state.complete = true;
        wake(state.writer.take());
    }

    pub(crate) fn flow(&self) -> Flow {
        self.lock().flow
    }

    /// The flow; wakes `cx` when it changes.
    pub(crate) fn watch_flow(&self, cx: &mut Context<'_>) -> Flow {
        let mut state = self.lock();
        enlist(&mut state.waiters, cx);
        state.flow
    }

    fn set_flow(&self, flow: Flow) {
        let mut state = self.lock();
        if state.flow == flow {
            return;
        }
        state.flow = flow;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        if flow == Flow::Stalled {
            tracing::warn!(subscriber = self.node, "a subscriber takes nothing");
        }
        waiters.into_iter().for_each(Waker::wake);
    }

    /// The next message, fair between publishers; `None` when there will be none.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Arc<Frame>>> {
        let mut state = self.lock();
        let mut left = state.lanes.len();
        while left > 0 {
            left -= 1;
            let Some(mut lane) = state.lanes.pop_front() else {
                break;
            };
            match lane.poll_pop(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(frame)) => {
                    state.lanes.push_back(lane);
                    return Poll::Ready(Some(frame));
                }
                Poll::Pending => state.lanes.push_back(lane),
            }
        }
        if state.complete && state.lanes.is_empty() {
            return Poll::Ready(None);
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Writes messages until the link is complete and empty, or the subscriber is gone. What is
    /// left then is lost, and counted as that.
    pub(crate) async fn serve(&self, stream: TcpStream) {
        let _ending = Ending(self);
        match self.write_all(&stream).await {
            Ok(()) => {
                // The subscriber sees the end behind the last message, and answers with its own end
                // once it has read up to there. Only then may the connection be taken apart.
                if SockRef::from(&stream).shutdown(Shutdown::Write).is_ok() {
                    let _ = tokio::time::timeout(FAREWELL, gone(&stream)).await;
                }
            }
            Err(error) => {
                tracing::debug!(subscriber = self.node, %error, "subscriber is gone");
            }
        }
    }

    async fn write_all(&self, stream: &TcpStream) -> io::Result<()> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = poll_fn(|cx| self.poll_next(cx)) => frame,
                () = gone(stream) => return Err(io::ErrorKind::ConnectionReset.into()),
            };
            let Some(frame) = frame else {
                return Ok(());
            };
            let mut sending = Sending(&frame, 0);
            while sending.1 < frame.len() {
                sending.1 += self.write(stream, &frame, sending.1).await?;
            }
        }
    }

    async fn write(&self, stream: &TcpStream, frame: &Frame, sent: usize) -> io::Result<usize> {
        loop {
            match stream.try_write_vectored(&frame.rest(sent)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.set_flow(Flow::Moving);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.flow() == Flow::Stalled {
                stream.writable().await?;
            } else if let Ok(ready) = tokio::time::timeout(PATIENCE, stream.writable()).await {
                ready?;
            } else {
                self.set_flow(Flow::Stalled);
            }
        }
    }
}

/// A message that is being written: lost if that ends early, also by cancellation.
struct Sending<'a>(&'a Frame, usize);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.1 < self.0.len() {
            self.0.lose();
        }
    }
}

/// The end of a link, also by cancellation: what is queued is lost, and nobody waits any more.
struct Ending<'a>(&'a Link);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.set_flow(Flow::Ended);
        let mut lanes = std::mem::take(&mut self.0.lock().lanes);
        let mut cx = Context::from_waker(Waker::noop());
        for lane in &mut lanes {
            lane.close();
            while let Poll::Ready(Some(frame)) = lane.poll_pop(&mut cx) {
                frame.lose();
            }
        }
    }
}

/// Waits until the other side has closed the connection. Subscribers send nothing after their
/// header; what they send all the same is thrown away.
async fn gone(stream: &TcpStream) {
    let mut scrap = [0; 256];
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut scrap) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
