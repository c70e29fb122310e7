//! Paths compared with each other: they take turns, so that what drifts drifts for all.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use latency_timeline::statistics::{Quantile, Summary, quantile};

use crate::path::Path;
use crate::stand::Stand;

/// When round trips are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other.
    BackToBack,
    /// Ten a second, as a lidar turns: caches are cold and cores asleep.
    TenPerSecond,
}

/// The period of [`Pace::TenPerSecond`].
pub const PERIOD: Duration = Duration::from_millis(100);

/// Turns of each path, and round trips in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How often each path has its turn.
    pub turns: usize,
    /// Counted round trips in one turn.
    pub block: usize,
    /// Round trips at the begin of a turn that are not counted: other paths had the caches.
    pub before: usize,
}

impl Pace {
    /// A name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "back to back",
            Self::TenPerSecond => "10 Hz",
        }
    }

    /// How much is measured.
    pub fn plan(self) -> Plan {
        match self {
            // Enough for a p99: ten values lie beyond it.
            Self::BackToBack => Plan {
                turns: 40,
                block: 25,
                before: 3,
            },
            Self::TenPerSecond => Plan {
                turns: 100,
                block: 1,
                before: 0,
            },
        }
    }
}

/// The times of one path, in nanoseconds, in the order they were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series(Vec<i64>);

/// Parts that a series is cut into for the spread of a ratio.
const PARTS: usize = 10;

/// How many times longer one path takes than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median over median, over the whole run.
    pub value: f64,
    /// The quartiles of the same over tenths of the run.
    pub spread: (f64, f64),
}

impl Series {
    /// The median, in nanoseconds; `None` if nothing was measured.
    pub fn median(&self) -> Option<f64> {
        Summary::of(&self.0).map(|summary| summary.median)
    }

    /// The 99th percentile, in nanoseconds; `None` if there are too few values for it.
    pub fn p99(&self) -> Option<f64> {
        match quantile(&self.0, 0.99) {
            Quantile::Value(value) => Some(value),
            Quantile::TooFew { .. } => None,
        }
    }

    /// Round trips measured.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many times longer this took than `reference`, which took turns with it; `None` if one of
    /// them is incomplete.
    pub fn over(&self, reference: &Self) -> Option<Ratio> {
        if self.count() != reference.count() {
            return None;
        }
        let ratio = |these: &[i64], those: &[i64]| {
            let (these, those) = (Summary::of(these)?, Summary::of(those)?);
            (those.median > 0.0).then(|| these.median / those.median)
        };
        let value = ratio(&self.0, &reference.0)?;
        let part = self.count().div_ceil(PARTS);
        let mut parts: Vec<f64> = (self.0.chunks(part).zip(reference.0.chunks(part)))
            .filter_map(|(these, those)| ratio(these, those))
            .collect();
        parts.sort_by(f64::total_cmp);
        let at = |quarter: usize| parts.get((parts.len() - 1) * quarter / 4).copied();
        Some(Ratio {
            value,
            spread: (at(1)?, at(3)?),
        })
    }
}

/// What was measured for each path, by its name.
pub type Measured = HashMap<&'static str, Series>;

/// Lets `paths` take turns with payloads of `size` bytes.
pub fn compare(
    stand: &mut Stand,
    paths: &[&'static Path],
    size: usize,
    pace: Pace,
    plan: Plan,
) -> Measured {
    let mut measured = Measured::new();
    let begun = Instant::now();
    for turn in 0..plan.turns {
        for place in 0..paths.len() {
            let path = match pace {
                // Another path begins each time, so that none has an advantage.
                Pace::BackToBack => paths[(turn + place) % paths.len()],
                Pace::TenPerSecond => {
                    // Each path has its own moment in the period.
                    let due = PERIOD * turn as u32 + PERIOD * place as u32 / paths.len() as u32;
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                    paths[place]
                }
            };
            let times = stand.round_trips(path, size, plan.before, plan.block);
            let times = times.iter().map(|time| time.as_nanos() as i64);
            measured.entry(path.name).or_default().0.extend(times);
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_that_both_have_is_not_in_the_ratio() {
        let drifting = |factor: i64| Series((0..1000).map(|n| factor * (1000 + n)).collect());
        let ratio = drifting(3).over(&drifting(2)).unwrap();
        assert!((ratio.value - 1.5).abs() < 1e-9);
        assert!((ratio.spread.0 - 1.5).abs() < 1e-9 && (ratio.spread.1 - 1.5).abs() < 1e-9);
    }

    #[test]
    fn there_is_no_ratio_of_incomplete_series_and_no_p99_of_few_values() {
        let few = Series(vec![1; 10]);
        assert!(few.over(&Series(vec![1; 9])).is_none());
        assert!(Series::default().over(&Series::default()).is_none());
        assert!(few.p99().is_none());
        assert!(Series(vec![1; 1000]).p99().is_some());
    }
}
