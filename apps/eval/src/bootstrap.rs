//! How far a number would be another one if other scenes had been drawn.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// A number and the interval in which it lies with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The number itself.
    pub value: f64,
    /// The interval, by the percentiles of resampled scenes; `None` where no scenes were resampled or
    /// there is only one.
    pub interval: Option<[f64; 2]>,
}

/// Percentile intervals of several `statistics` at once, from scenes drawn with replacement. The
/// statistics get how often each scene was drawn; one that is `None` for a draw is left out of it.
pub(crate) fn intervals(
    scenes: usize,
    resamples: u32,
    seed: u64,
    mut statistics: impl FnMut(&[u32]) -> Vec<Option<f64>>,
) -> Vec<Option<[f64; 2]>> {
    let values = statistics(&vec![1; scenes]).len();
    if scenes < 2 || resamples == 0 {
        return vec![None; values];
    }
    let mut drawn = vec![Vec::with_capacity(resamples as usize); values];
    let mut random = StdRng::seed_from_u64(seed);
    let mut weights = vec![0; scenes];
    for _ in 0..resamples {
        weights.fill(0);
        for _ in 0..scenes {
            weights[random.random_range(0..scenes)] += 1;
        }
        for (all, value) in drawn.iter_mut().zip(statistics(&weights)) {
            all.extend(value);
        }
    }
    drawn.into_iter().map(percentiles).collect()
}

/// Those at 2.5 and 97.5 %.
fn percentiles(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    // Rounded outwards, so that an interval of few values is not too narrow.
    let low = (0.025 * last as f64).floor() as usize;
    let high = (0.975 * last as f64).ceil() as usize;
    Some([values[low], values[high]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_as_wide_as_statistics_say() {
        // 400 draws of 0 and 1: deviation of the mean 0.025, so 95 % within 0.049.
        let scene = |n: usize| (n % 2) as f64;
        let mean = |weights: &[u32]| {
            let sum: f64 = weights
                .iter()
                .enumerate()
                .map(|(n, &weight)| f64::from(weight) * scene(n))
                .sum();
            vec![Some(sum / weights.len() as f64)]
        };
        let [low, high] = intervals(400, 2_000, 1, mean)[0].unwrap();
        assert!((0.445..0.457).contains(&low), "{low}");
        assert!((0.543..0.555).contains(&high), "{high}");
        assert_eq!(
            intervals(400, 2_000, 1, mean),
            intervals(400, 2_000, 1, mean)
        );
    }

    #[test]
    fn one_scene_has_no_interval() {
        assert_eq!(intervals(1, 100, 1, |_| vec![Some(1.0)]), [None]);
        assert_eq!(intervals(9, 0, 1, |_| vec![Some(1.0)]), [None]);
    }
}
