//! Transports.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::capability::Capabilities;
use crate::error::Result;
use crate::event::Events;
use crate::publisher::Publisher;
use crate::qos::Qos;
use crate::schema::Schema;
use crate::subscriber::Subscriber;
use crate::topic::{TopicFilter, TopicName};

/// What is running and where it is connected to; printed at start and kept with results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportInfo {
    /// URL scheme it was opened with.
    pub scheme: String,
    /// Name and version of the library below, such as `rumqttc 0.25.1`.
    pub implementation: String,
    /// Where it is connected to, without secrets.
    pub endpoint: String,
    /// Settings in force that decide about latency and loss, as `key = value`.
    pub settings: Vec<(String, String)>,
}

/// What `close` could still do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CloseReport {
    /// Accepted messages that were written (and acknowledged, where granted) before the end.
    pub flushed: u64,
    /// Accepted messages that were given up at the deadline.
    pub abandoned: u64,
}

/// An open connection to a broker, router, master or set of peers.
///
/// A transport that was returned is connected. Later losses are events, and handles outlive them.
/// Several transports may be open in one process.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// What is running and where it is connected to.
    fn info(&self) -> &TransportInfo;

    /// What this transport can do.
    fn capabilities(&self) -> Capabilities;

    /// A publisher of `topic` whose payloads follow `schema`. Not cancel-safe: a dropped future may
    /// leave the topic declared until the transport is closed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] by negotiation, [`crate::ErrorKind::Closed`], or what the
    /// other side answered.
    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>>;

    /// A subscriber of `filter` that expects `schema` (opaque: any). Resolves once the subscription
    /// is active. Not cancel-safe: a dropped future may leave it active until the transport is
    /// closed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Unsupported`] by negotiation or for a wildcard,
    /// [`crate::ErrorKind::Closed`], or what the other side answered.
    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>>;

    /// A stream of events, beginning with the current connection state and the peers that are alive.
    fn events(&self) -> Events;

    /// Sends what was accepted, then disconnects, at `deadline` at the latest. Idempotent: a second
    /// call returns the report of the first. Publishers then refuse with
    /// [`crate::ErrorKind::Closed`]; subscribers drain and end. Not cancel-safe.
    async fn close(&self, deadline: Duration) -> CloseReport;

    /// Escape hatch to the transport's own type.
    fn as_any(&self) -> &dyn Any;
}
