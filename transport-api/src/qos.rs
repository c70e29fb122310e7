//! Quality of service: what an app asks for and what a transport grants.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// Delivery guarantee.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// A message arrives once or not at all.
    #[default]
    AtMostOnce,
    /// A message arrives once or more often, or its token says that it may be lost.
    AtLeastOnce,
    /// A message arrives once, or its token says that it may be lost.
    ExactlyOnce,
}

/// How far an acknowledgement reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckScope {
    /// There is none.
    Nothing,
    /// It comes from the next hop, such as a broker.
    NextHop,
    /// It comes from the subscribers.
    EndToEnd,
}

/// What a full queue does with the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The publisher waits (`publish`) or gets the message back (`try_publish`).
    Block,
    /// The oldest queued message gives way and is counted.
    DropOldest,
    /// The new message is given up and counted.
    DropNewest,
}

/// What to do when the transport cannot give what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmet {
    /// Fail with [`crate::ErrorKind::Unsupported`].
    Fail,
    /// Give the nearest weaker guarantee, visible in [`Granted`].
    Degrade,
}

/// What an app asks for, per publisher and per subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Qos {
    /// Delivery guarantee. Negotiated against the capabilities.
    pub delivery: Delivery,
    /// Overflow policy of the local queue. `Block` on a subscriber is negotiated
    /// ([`crate::Capabilities::block_on_receive`]).
    pub overflow: Overflow,
    /// Depth of the local queue, in messages.
    pub depth: NonZeroUsize,
    /// 0 (lowest) to 7; ignored by transports without [`crate::Capabilities::priority`].
    pub priority: u8,
    /// Whether the last message is kept for late subscribers. Negotiated.
    pub retain: bool,
    /// What to do when the transport cannot give this.
    pub unmet: Unmet,
}

impl Default for Qos {
    /// At most once, freshest first: depth 8, oldest dropped, fail when unmet.
    fn default() -> Self {
        Self {
            delivery: Delivery::AtMostOnce,
            overflow: Overflow::DropOldest,
            depth: NonZeroUsize::new(8).expect("8 is not zero"),
            priority: 4,
            retain: false,
            unmet: Unmet::Fail,
        }
    }
}

impl Qos {
    /// At most once with back-pressure: a publisher that outruns the link waits.
    pub fn blocking() -> Self {
        Self {
            overflow: Overflow::Block,
            ..Self::default()
        }
    }

    /// At least once with back-pressure.
    pub fn at_least_once() -> Self {
        Self {
            delivery: Delivery::AtLeastOnce,
            ..Self::blocking()
        }
    }

    /// Exactly once with back-pressure.
    pub fn exactly_once() -> Self {
        Self {
            delivery: Delivery::ExactlyOnce,
            ..Self::blocking()
        }
    }

    /// The same with another queue depth; 0 counts as 1.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = NonZeroUsize::new(depth).unwrap_or(NonZeroUsize::MIN);
        self
    }
}

/// What a transport grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Granted {
    /// The guarantee.
    pub delivery: Delivery,
    /// How far acknowledgements reach; [`AckScope::Nothing`] means that tokens resolve at once.
    pub scope: AckScope,
    /// Overflow policy of the local queue.
    pub overflow: Overflow,
    /// Depth of the local queue.
    pub depth: NonZeroUsize,
    /// Priority in force; `None` where the transport has none.
    pub priority: Option<u8>,
    /// Whether the last message is kept for late subscribers.
    pub retain: bool,
}
