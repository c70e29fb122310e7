//! Messages, samples and the metadata beside the payload.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

use crate::schema::SchemaId;
use crate::stamp::Stamps;
use crate::topic::TopicName;

/// Who sent a message and which one of its sequence it is. The origin assigns it once; it stays the
/// same over every hop, so loss is counted end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// Random number of one sequence; new for each publisher and each start.
    pub source: u64,
    /// Position in the sequence, from 0, without gaps.
    pub seq: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}#{}", self.source, self.seq)
    }
}

/// Hands out the ids of one sequence, from 0, without gaps.
#[derive(Debug)]
pub struct Sequence {
    next: MessageId,
}

impl Sequence {
    /// A sequence with a random source number.
    pub fn random() -> Self {
        // RandomState is seeded by the operating system: no further dependency for one number.
        let source = RandomState::new().hash_one(std::process::id());
        Self {
            next: MessageId { source, seq: 0 },
        }
    }

    /// The next id; call it only for messages that are really handed to a publisher.
    pub fn next_id(&mut self) -> MessageId {
        let id = self.next;
        self.next.seq += 1;
        id
    }

    /// How many ids were handed out.
    pub fn count(&self) -> u64 {
        self.next.seq
    }

    /// The source number.
    pub fn source(&self) -> u64 {
        self.next.source
    }
}

/// W3C trace context: enough to join the spans of two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id.
    pub trace: u128,
    /// Id of the parent span.
    pub span: u64,
    /// Trace flags (bit 0: sampled).
    pub flags: u8,
}

/// What belongs to a message but not into its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Identity. `None` for messages of foreign clients, whose loss cannot be counted.
    pub id: Option<MessageId>,
    /// The request that this message answers.
    pub correlation: Option<MessageId>,
    /// Clock readings of the way so far.
    pub stamps: Stamps,
    /// Trace context.
    pub trace: Option<TraceContext>,
    /// Schema of the payload. Publishers fill it in from their declaration if it is `None`.
    pub schema: Option<SchemaId>,
}

/// A message on its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The payload; moved, never copied without need.
    pub payload: Bytes,
    /// The metadata.
    pub meta: Metadata,
}

impl Message {
    /// A message without metadata.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            meta: Metadata::default(),
        }
    }

    /// Sets the identity.
    #[must_use]
    pub fn with_id(mut self, id: MessageId) -> Self {
        self.meta.id = Some(id);
        self
    }
}

/// A received message.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The topic it was published to.
    pub topic: TopicName,
    /// The payload.
    pub payload: Bytes,
    /// The metadata.
    pub meta: Metadata,
    /// Messages of the same source that are missing between the previous sample and this one.
    pub missed: u64,
}
