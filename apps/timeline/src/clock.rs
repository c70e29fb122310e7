//! The monotonic clock of one side.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A monotonic clock with an identity: readings of different clocks are never subtracted.
///
/// It reads the host's `CLOCK_MONOTONIC`, which all processes of one kernel share. Nothing is
/// measured by that; it lets a test on one host know the true offset between two sides, which is
/// none.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// The reading at `origin`.
    base: i64,
    id: u32,
}

/// The wall clock and the monotonic clock of a side, read together: the only use of wall time, to
/// find a trial's place in the calendar and to see a stepped clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// Nanoseconds since 1970, UTC.
    pub realtime_ns: i64,
    /// The reading of the side's [`Clock`], in nanoseconds.
    pub monotonic_ns: i64,
}

impl Clock {
    /// The clock of this host.
    pub fn start() -> Self {
        Self::shifted(0)
    }

    /// A clock that is off by `shift` nanoseconds, to check that no reported latency depends on it.
    pub fn shifted(shift: i64) -> Self {
        let id = RandomState::new().hash_one(std::process::id()) as u32;
        let origin = Instant::now();
        // It fails only where the kernel has no such clock; then the origin is arbitrary.
        let host = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
            nanos(Duration::new(time.tv_sec() as u64, time.tv_nsec() as u32))
        });
        Self {
            origin,
            base: host.wrapping_add(shift),
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
        let elapsed = match instant.checked_duration_since(self.origin) {
            Some(after) => nanos(after),
            None => -nanos(self.origin - instant),
        };
        self.base.wrapping_add(elapsed)
    }

    /// Both clocks now.
    pub fn pair(&self) -> ClockPair {
        let realtime = SystemTime::now();
        let monotonic_ns = self.now();
        let realtime_ns = match realtime.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => nanos(after),
            Err(before) => -nanos(before.duration()),
        };
        ClockPair {
            realtime_ns,
            monotonic_ns,
        }
    }
}

fn nanos(span: Duration) -> i64 {
    span.as_nanos() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_one_host_agree_up_to_their_shift() {
        let honest = Clock::start();
        std::thread::sleep(Duration::from_millis(5));
        let shifted = Clock::shifted(1_000_000_000_000);
        let difference = shifted.now() - honest.now() - 1_000_000_000_000;
        assert!(difference.abs() < 1_000_000_000, "{difference} ns");
        let (before, after) = (honest.pair(), honest.pair());
        assert!(after.monotonic_ns >= before.monotonic_ns);
        assert!(before.realtime_ns > 0);
    }
}
