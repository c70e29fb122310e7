//! Pauses between attempts to connect.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A connection that lasts this long was a success: the next loss is retried at once.
const STEADY: Duration = Duration::from_secs(5);

/// Connections in a row that end as soon as they are made, after which the pauses grow further.
const BRIEF: u32 = 3;

/// First pause after somebody else took our place.
const CONTESTED: Duration = Duration::from_secs(1);

/// Pauses that double up to a limit, each shortened by up to a half at random, so that peers which
/// lost the same host do not return in step. They start over after a connection that lasted.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    /// Longest pause after too many connections that did not last.
    restless: Duration,
    next: Duration,
    attempts: u32,
    brief: u32,
}

impl Backoff {
    /// Pauses from `least` to `most`.
    pub fn new(least: Duration, most: Duration) -> Self {
        let most = most.max(least);
        Self {
            least,
            most,
            restless: most,
            next: least,
            attempts: 0,
            brief: 0,
        }
    }

    /// The same with pauses up to `longest` after several connections in a row that did not last, as
    /// when two clients take the same name from each other.
    #[must_use]
    pub fn with_restless(mut self, longest: Duration) -> Self {
        self.restless = longest.max(self.most);
        self
    }

    /// Takes note that a connection ended that was made and lasted for `lasted`; `contested` if
    /// somebody else took our place. Attempts are counted anew.
    pub fn ended(&mut self, lasted: Duration, contested: bool) {
        self.attempts = 0;
        if lasted >= STEADY && !contested {
            self.next = self.least;
            self.brief = 0;
        } else {
            self.brief += 1;
        }
        if contested {
            self.next = self.next.max(CONTESTED);
        }
    }

    /// The pause before the next attempt: between half of the step and all of it.
    pub fn pause(&mut self) -> Duration {
        let step = self.next;
        let most = if self.is_restless() {
            self.restless
        } else {
            self.most
        };
        self.next = (step * 2).min(most.max(step));
        self.attempts = self.attempts.saturating_add(1);
        spread(step)
    }

    /// Attempts since the last connection, from 1 after the first [`Backoff::pause`].
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Connections in a row that were made and did not last.
    pub fn brief(&self) -> u32 {
        self.brief
    }

    /// Whether so many of them did not last that something ends them.
    pub fn is_restless(&self) -> bool {
        self.brief > BRIEF
    }

    /// How long others, who lost the same host and pause as we do, may still pause once we are
    /// back: the jitter puts them two steps behind at most.
    pub fn laggards(&self) -> Duration {
        (self.next * 2).min(self.most)
    }
}

/// A time between half of `step` and all of it, at random.
pub fn spread(step: Duration) -> Duration {
    // RandomState is seeded by the operating system: no further dependency for one number.
    let random = RandomState::new().hash_one(step) % 1024;
    step / 2 + step / 2 * random as u32 / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_limit_and_start_over_after_a_steady_connection() {
        let mut backoff = Backoff::new(100 * MS, 2000 * MS);
        for (n, step) in [100, 200, 400, 800, 1600, 2000, 2000]
            .into_iter()
            .enumerate()
        {
            let pause = backoff.pause();
            assert!(
                pause >= step * MS / 2 && pause <= step * MS,
                "{step}: {pause:?}"
            );
            assert_eq!(backoff.attempts(), n as u32 + 1);
        }
        backoff.ended(MS, false);
        assert_eq!(backoff.attempts(), 0);
        assert!(backoff.pause() >= 1000 * MS);
        backoff.ended(2 * STEADY, false);
        assert!(backoff.pause() <= 100 * MS);
    }

    #[test]
    fn a_contested_name_is_retried_ever_more_slowly() {
        let mut backoff = Backoff::new(100 * MS, 2000 * MS).with_restless(30_000 * MS);
        let mut waited = Duration::ZERO;
        let mut attempts = 0;
        while waited < 30 * 1000 * MS {
            backoff.ended(10 * MS, true);
            waited += backoff.pause();
            attempts += 1;
        }
        assert!(attempts <= 10, "{attempts}");
    }
}
