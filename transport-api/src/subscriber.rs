//! Subscribers.

use std::fmt;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use async_trait::async_trait;

use crate::counters::SubscriberCounters;
use crate::error::Result;
use crate::message::Sample;
use crate::qos::Granted;

/// Receives the messages of one topic filter.
///
/// A subscriber that exists is active: messages published after it was returned reach it. It
/// survives the loss of the connection. Dropping it unsubscribes without waiting.
#[async_trait]
pub trait Subscriber: Send + fmt::Debug + 'static {
    /// What was granted.
    fn granted(&self) -> Granted;

    /// The next sample; `None` once closed and drained. Cancel-safe: a sample is taken out only
    /// when it is returned.
    ///
    /// # Errors
    /// An item may be an error ([`crate::ErrorKind::Schema`], …); the subscriber stays usable.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>>;

    /// What was counted.
    fn counters(&self) -> SubscriberCounters;

    /// Unsubscribes and waits until that is done. Not cancel-safe: a dropped future leaves the rest
    /// to the background, as dropping the subscriber does.
    ///
    /// # Errors
    /// The transport could not be told.
    async fn close(self: Box<Self>) -> Result<()>;
}

/// Everyday methods of subscribers.
pub trait SubscriberExt: Subscriber {
    /// The next sample; `None` once closed and drained. Cancel-safe.
    fn recv(&mut self) -> impl Future<Output = Option<Result<Sample>>> + Send {
        poll_fn(move |cx| self.poll_recv(cx))
    }
}

impl<S: Subscriber + ?Sized> SubscriberExt for S {}
