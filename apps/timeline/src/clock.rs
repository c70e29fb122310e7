//! The monotonic clock of one side.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// A monotonic clock with an identity: readings of different clocks are never subtracted.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    shift: i64,
    id: u32,
}

impl Clock {
    /// A clock of this process.
    pub fn start() -> Self {
        Self::shifted(0)
    }

    /// A clock that is off by `shift` nanoseconds, to check that no reported latency depends on it.
    pub fn shifted(shift: i64) -> Self {
        let id = RandomState::new().hash_one(std::process::id()) as u32;
        Self {
            origin: Instant::now(),
            shift,
            id,
        }
    }

    /// The identity: random, so unique among the few clocks of a trial.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The reading, in nanoseconds since an arbitrary origin.
    pub fn now(&self) -> i64 {
        self.at(Instant::now())
    }

    /// The reading that belongs to `instant`.
    pub fn at(&self, instant: Instant) -> i64 {
        let nanos = |span: Duration| span.as_nanos() as i64;
        let elapsed = match instant.checked_duration_since(self.origin) {
            Some(after) => nanos(after),
            None => -nanos(self.origin - instant),
        };
        elapsed.wrapping_add(self.shift)
    }
}
