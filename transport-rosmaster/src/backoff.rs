//! When to try again.

use std::time::Duration;

use rand::Rng;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double up to a limit, each shortened by up to a half at random, so that the nodes
/// that lost the same host do not return in step.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Attempts since the last success.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// The pause before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.attempts.min(5)).min(LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        pause.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_start_again_after_success() {
        let mut backoff = Backoff::default();
        let pauses: Vec<Duration> = (0..40).map(|_| backoff.pause()).collect();
        assert!(pauses[0] >= FIRST / 2 && pauses[0] <= FIRST);
        assert!(pauses[39] >= LONGEST / 2 && pauses[39] <= LONGEST);
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
        assert_eq!(backoff.attempts(), 1);
    }
}
