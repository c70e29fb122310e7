//! Waiting times between attempts to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A connection that lasts this long was a success: the next loss is retried at once.
const STEADY: Duration = Duration::from_secs(5);

/// Longest wait after connections that end as soon as they are made, as when two clients take the
/// same client id from each other.
const RESTLESS: Duration = Duration::from_secs(30);

/// Time for connecting and subscribing.
const MARGIN: Duration = Duration::from_millis(100);

/// Exponential waiting times with jitter.
#[derive(Debug)]
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
    /// Connections in a row that were made and did not last.
    brief: u32,
}

impl Backoff {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        let most = most.max(least);
        Self {
            least,
            most,
            next: least,
            brief: 0,
        }
    }

    /// Takes note of a connection that was made and lasted for `lasted`; `contested` if another
    /// client took our place.
    pub(crate) fn connected(&mut self, lasted: Duration, contested: bool) {
        if lasted >= STEADY && !contested {
            self.next = self.least;
            self.brief = 0;
        } else {
            self.brief += 1;
        }
        if contested {
            self.next = self.next.max(Duration::from_secs(1));
        }
    }

    /// Connections in a row that were made and did not last.
    pub(crate) fn brief(&self) -> u32 {
        self.brief
    }

    /// How long others, who lost the same broker and wait as long as we do, may still take to be
    /// back once we are: the jitter puts them two steps behind at most.
    pub(crate) fn settle(&self) -> Duration {
        (self.next * 2).min(self.most) + MARGIN
    }

    /// How long to wait now: between half of the step and all of it.
    pub(crate) fn wait(&mut self) -> Duration {
        let step = self.next;
        let most = if self.brief > 3 { RESTLESS } else { self.most };
        self.next = (step * 2).min(most.max(step));
        // RandomState is seeded by the operating system: no further dependency for one number.
        let random = RandomState::new().hash_one(step) % 1024;
        step / 2 + step / 2 * random as u32 / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_double_up_to_the_limit_and_start_over_after_a_steady_connection() {
        let mut backoff = Backoff::new(100 * MS, 2000 * MS);
        for step in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = backoff.wait();
            assert!(
                wait >= step * MS / 2 && wait <= step * MS,
                "{step}: {wait:?}"
            );
        }
        backoff.connected(2 * STEADY, false);
        assert!(backoff.wait() <= 100 * MS);
    }

    #[test]
    fn a_contested_client_id_is_retried_ever_more_slowly() {
        let mut backoff = Backoff::new(100 * MS, 2000 * MS);
        let mut waited = Duration::ZERO;
        let mut attempts = 0;
        while waited < 30 * 1000 * MS {
            backoff.connected(10 * MS, true);
            waited += backoff.wait();
            attempts += 1;
        }
        assert!(attempts <= 10, "{attempts}");
    }
}
