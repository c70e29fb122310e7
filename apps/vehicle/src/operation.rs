//! How a vehicle stays operational when its edge is late or gone, and what came of it.

use std::time::Duration;

use exchange::Source;
use serde::{Deserialize, Serialize};
use transport_api::PublisherCounters;

use crate::mode::{Mode, Verdict};

/// When a vehicle no longer waits for its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From T0: when an answer is late and the vehicle detects by itself.
    pub deadline: Duration,
    /// Answers in a row that must be late before the vehicle no longer waits for them; at least 1.
    pub misses: u32,
    /// Answers in a row that must be in time before it waits for them again; at least 1.
    pub recoveries: u32,
}

impl Default for Limits {
    /// 100 ms, 3 and 5: at 10 Hz one period of the sensor, and the edge is relied on again after half
    /// a second.
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(100),
            misses: 3,
            recoveries: 5,
        }
    }
}

/// The list that a frame got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Whose list it is; `None` if a newer frame had its list first, so that one for this frame would
    /// have been stale.
    pub source: Option<Source>,
    /// When it, or that of the newer frame, was there, in nanoseconds of the vehicle's clock.
    pub at_ns: i64,
}

/// A change of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// When, in nanoseconds of the vehicle's clock.
    pub at_ns: i64,
    /// The frame whose verdict was the last in a row.
    pub seq: u64,
    /// To which mode.
    pub to: Mode,
    /// That verdict.
    pub cause: Verdict,
}

/// How a vehicle stayed operational during a trial, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// From T0: when an answer is late, in nanoseconds.
    pub deadline_ns: i64,
    /// Answers in a row that were late, or refused, before each change to local detection.
    pub misses: u32,
    /// Answers in a row that were in time before each change back.
    pub recoveries: u32,
    /// The vehicle's own detector; `None` if it has none, and so never detects or switches.
    pub detector: Option<String>,
    /// Changes of the mode, in their order.
    pub switches: Vec<Switched>,
    /// Answers that were not there by the deadline, whether they came later or not.
    pub late: u64,
    /// Scans that the transport did not take.
    pub refused: u64,
    /// Detections that the vehicle began by itself; each is a list of its own, or one of the next
    /// three.
    pub detections: u64,
    /// The longest of them, in nanoseconds.
    pub longest_detection_ns: i64,
    /// Those of them that the edge's answer, or the list of a newer frame, came before.
    pub unneeded: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that were under way at the end.
    pub unfinished: u64,
    /// Why the first of those failed, or what ended the detector.
    pub failure: Option<String>,
    /// Frames that were sent and, because this process hung, not watched.
    pub unwatched: u64,
    /// The publisher of the lists that the vehicle acts on; `None` if it was not asked for.
    pub selected: Option<PublisherCounters>,
}
