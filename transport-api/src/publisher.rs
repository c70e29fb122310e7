//! Publishers.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;

use crate::counters::PublisherCounters;
use crate::error::{Error, Result};
use crate::message::Message;
use crate::qos::Granted;
use crate::token::{DeliveryToken, Stage};

/// A message that was not accepted; it always comes back.
#[derive(Debug)]
pub struct Refused {
    /// The message, unchanged.
    pub message: Message,
    /// Why.
    pub why: Why,
}

/// Why a message was not accepted.
#[derive(Debug)]
pub enum Why {
    /// The queue is full and the policy is [`crate::Overflow::Block`]; await
    /// [`Publisher::ready`] and try again.
    Full,
    /// It will not be accepted: too large, closed, …
    Fatal(Error),
}

/// Publishes messages to one topic.
///
/// A message that `try_publish` accepted is written, or its token and the counters say that it is
/// lost; nothing is lost silently. A loss of the connection keeps the handle alive. Order is kept
/// per publisher. Dropping a publisher lets the transport send what was accepted; it never blocks.
#[async_trait]
pub trait Publisher: Send + Sync + fmt::Debug + 'static {
    /// What was granted.
    fn granted(&self) -> Granted;

    /// Hands a message to the bounded queue of this publisher; synchronous, never blocks, allocates
    /// only for a pending token.
    ///
    /// # Errors
    /// [`Refused`] with the message: the queue is full, or the cause is fatal.
    fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused>;

    /// Waits until a message would be accepted. Cancel-safe.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Closed`].
    async fn ready(&self) -> Result<()>;

    /// Waits until everything accepted so far has reached `until`, or was counted as dropped or
    /// lost. [`Stage::Acknowledged`] counts as [`Stage::Written`] where nothing is acknowledged.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Closed`] if the transport was closed before.
    async fn flush(&self, until: Stage) -> Result<()>;

    /// What was counted.
    fn counters(&self) -> PublisherCounters;
}

/// Everyday methods of publishers.
pub trait PublisherExt: Publisher {
    /// Publishes a message and waits for room where the policy is [`crate::Overflow::Block`].
    /// Cancel-safe: a future dropped before acceptance never half-sends.
    ///
    /// # Errors
    /// The fatal cause of a refusal.
    fn publish(&self, message: Message) -> impl Future<Output = Result<DeliveryToken>> + Send {
        async move {
            let mut message = message;
            loop {
                match self.try_publish(message) {
                    Ok(token) => return Ok(token),
                    Err(Refused {
                        why: Why::Fatal(error),
                        ..
                    }) => return Err(error),
                    Err(Refused {
                        message: back,
                        why: Why::Full,
                    }) => message = back,
                }
                self.ready().await?;
            }
        }
    }
}

impl<P: Publisher + ?Sized> PublisherExt for P {}
