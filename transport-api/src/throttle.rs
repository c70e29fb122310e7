//! Warnings that strangers can cause at will, kept to one a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shortest time between two warnings.
const INTERVAL: Duration = Duration::from_secs(1);

/// Decides which of many equal warnings are logged.
#[derive(Debug)]
pub struct Throttle {
    origin: Instant,
    /// Milliseconds from `origin` to the time from which the next one may be logged.
    next: AtomicU64,
    left_out: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            next: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }
}

impl Throttle {
    /// Whether to log a warning now: `None`, or how many were left out since the last one.
    ///
    /// # Examples
    ///
    /// ```
    /// let throttle = transport_api::throttle::Throttle::default();
    /// assert_eq!(throttle.admit(), Some(0));
    /// assert_eq!(throttle.admit(), None);
    /// ```
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(self.origin.elapsed())
    }

    fn admit_at(&self, now: Duration) -> Option<u64> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now, then) = (millis(now), millis(now + INTERVAL));
        let admit = |next: u64| (now >= next).then_some(then);
        match self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit)
        {
            Ok(_) => Some(self.left_out.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_admitted_with_the_count_of_the_others() {
        let throttle = Throttle::default();
        let at = |millis| throttle.admit_at(Duration::from_millis(millis));
        assert_eq!(at(5), Some(0));
        for n in 0..300 {
            assert_eq!(at(5 + n), None);
        }
        assert_eq!(at(1005), Some(300));
        assert_eq!(at(1006), None);
        assert_eq!(at(9000), Some(1));
    }
}
