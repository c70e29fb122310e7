//! What publishers and subscribers count.

use serde::{Deserialize, Serialize};

/// Counts of one publisher since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublisherCounters {
    /// Messages taken over; each ends in exactly one of the counts below.
    pub accepted: u64,
    /// Messages handed back to the caller (not accepted).
    pub refused: u64,
    /// Accepted messages handed to the transport's library or socket, and not lost since.
    pub written: u64,
    /// Written messages whose acknowledgement arrived.
    pub acknowledged: u64,
    /// Accepted messages given up by the overflow policy before they were written.
    pub dropped: u64,
    /// Accepted messages that are known to be lost, or may be lost, for another reason.
    pub lost: u64,
    /// Payload bytes handed to the transport's library or socket, of each message once.
    pub bytes: u64,
}

/// Counts of one subscriber since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberCounters {
    /// Samples handed to the app.
    pub received: u64,
    /// Payload bytes of those samples.
    pub bytes: u64,
    /// Messages that never reached the app, from gaps in the sequences; includes `dropped`.
    pub missed: u64,
    /// Messages seen again. Under exactly-once they are held back, else delivered again.
    pub duplicates: u64,
    /// Messages that arrived after a later one of their sequence.
    pub reordered: u64,
    /// Messages given up by the overflow policy of the local queue.
    pub dropped: u64,
    /// Arrivals whose metadata could not be decoded; not delivered.
    pub undecodable: u64,
    /// Arrivals of another schema than the expected one; not delivered.
    pub mismatched: u64,
}
