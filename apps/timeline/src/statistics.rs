//! Statistics of a set of latencies.

use serde::Serialize;

/// Statistics of `n` latencies, in nanoseconds. There is none for an empty set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Middle value, as a quantile of type 7.
    pub median: f64,
    /// Largest value.
    pub max: f64,
    /// Corrected standard deviation, the study's jitter; `None` for one value.
    pub std: Option<f64>,
}

/// A quantile, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Quantile {
    /// The value, in nanoseconds.
    Value(f64),
    /// Fewer than ten values lie beyond it, so it would be noise; this many are needed.
    TooFew {
        /// Values needed.
        needed: usize,
    },
}

impl Summary {
    /// Summarises `values`, in nanoseconds; `None` if there are none.
    pub fn of(values: &[i64]) -> Option<Self> {
        let sorted = sorted(values);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = values.len();
        let mean = values.iter().map(|&value| value as f64).sum::<f64>() / n as f64;
        let squares = values
            .iter()
            .map(|&value| (value as f64 - mean).powi(2))
            .sum::<f64>();
        Some(Self {
            n,
            mean,
            min: min as f64,
            median: interpolate(&sorted, 0.5),
            max: max as f64,
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        })
    }
}

/// The quantile `q` of `values` by Hyndman and Fan's type 7, refused where fewer than ten values lie
/// beyond it.
pub fn quantile(values: &[i64], q: f64) -> Quantile {
    let tail = 1.0 - q.clamp(0.0, 1.0);
    let needed = if tail > 0.0 {
        (10.0 / tail - 1e-9).ceil() as usize
    } else {
        usize::MAX
    };
    if values.len() < needed {
        return Quantile::TooFew { needed };
    }
    Quantile::Value(interpolate(&sorted(values), q))
}

fn sorted(values: &[i64]) -> Vec<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted
}

fn interpolate(sorted: &[i64], q: f64) -> f64 {
    let at = (sorted.len() - 1) as f64 * q;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] as f64 + (at - low as f64) * (sorted[high] - sorted[low]) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed with `numpy` (`mean`, `std(ddof=1)`, `quantile`, which is type 7).
    #[test]
    fn figures_agree_with_an_independent_computation() {
        let values = [31, 41, 59, 26, 53, 58, 97, 93, 23, 84];
        let summary = Summary::of(&values).unwrap();
        assert_eq!((summary.n, summary.min, summary.max), (10, 23.0, 97.0));
        assert_eq!(summary.median, 55.5);
        assert!((summary.mean - 56.5).abs() < 1e-12);
        assert!((summary.std.unwrap() - 27.269_233_782_985_378).abs() < 1e-9);
        assert!((interpolate(&sorted(&values), 0.9) - 93.4).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_refused_below_the_needed_number() {
        let values: Vec<i64> = (0..600).collect();
        assert!(matches!(quantile(&values, 0.98), Quantile::Value(_)));
        assert_eq!(quantile(&values, 0.99), Quantile::TooFew { needed: 1000 });
        assert_eq!(
            quantile(&values, 0.999),
            Quantile::TooFew { needed: 10_000 }
        );
    }

    #[test]
    fn an_empty_set_has_no_figures_and_one_value_no_deviation() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[7]).unwrap().std, None);
    }
}
