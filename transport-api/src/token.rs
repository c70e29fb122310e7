//! Delivery tokens: how far a published message has come.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{Error, ErrorKind, Result};

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// In the local queue.
    Queued,
    /// Handed to the transport's library or socket.
    Written,
    /// Acknowledged as far as [`crate::Granted::scope`] says.
    Acknowledged,
}

/// Resolves when the acknowledgement arrives, or at once with [`Stage::Queued`] where the granted
/// delivery has none. An error means that the message is lost or may be lost.
///
/// Dropping it neither cancels nor loses the message. Cancel-safe: polling it is all it does.
#[must_use = "`drop` it if the outcome does not matter"]
pub struct DeliveryToken(State);

enum State {
    Settled(Option<Result<Stage>>),
    Pending(Arc<Shared>),
}

/// The transport's end of a [`DeliveryToken`]; dropping it unsettled reports the message as lost.
pub struct Acknowledger(Option<Arc<Shared>>);

#[derive(Default)]
struct Shared(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    outcome: Option<Result<Stage>>,
    waker: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeliveryToken {
    /// A token that is settled already; allocates nothing.
    pub fn settled(outcome: Result<Stage>) -> Self {
        Self(State::Settled(Some(outcome)))
    }

    /// The token of a message without acknowledgement.
    pub fn queued() -> Self {
        Self::settled(Ok(Stage::Queued))
    }

    /// A token and the end that settles it; one allocation.
    pub fn pending() -> (Acknowledger, Self) {
        let shared = Arc::new(Shared::default());
        (
            Acknowledger(Some(Arc::clone(&shared))),
            Self(State::Pending(shared)),
        )
    }
}

impl Future for DeliveryToken {
    type Output = Result<Stage>;

    /// # Panics
    /// If polled after it resolved.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Settled(outcome) => Poll::Ready(
                outcome
                    .take()
                    .expect("a token is not polled after it resolved"),
            ),
            State::Pending(shared) => {
                let mut progress = shared.lock();
                match progress.outcome.take() {
                    Some(outcome) => {
                        drop(progress);
                        self.0 = State::Settled(None);
                        Poll::Ready(outcome)
                    }
                    None => {
                        progress.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl Acknowledger {
    /// Settles the token.
    pub fn settle(mut self, outcome: Result<Stage>) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Result<Stage>) {
        if let Some(shared) = self.0.take() {
            let mut progress = shared.lock();
            progress.outcome = Some(outcome);
            let waker = progress.waker.take();
            drop(progress);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Drop for Acknowledger {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.finish(Err(Error::new(
                ErrorKind::Disconnected,
                "deliver",
                "the transport ended before the acknowledgement; the message may be lost",
            )));
        }
    }
}

impl fmt::Debug for DeliveryToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Settled(_) => "DeliveryToken(settled)",
            State::Pending(_) => "DeliveryToken(pending)",
        })
    }
}

impl fmt::Debug for Acknowledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acknowledger")
    }
}
