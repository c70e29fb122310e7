//! Precision over recall, and the numbers that are read off it.

use crate::tally::{Errors, Score};

/// Recalls from 0 to 1 at which the curve is read.
const RECALLS: usize = 101;

/// Recalls up to this one, in hundredths, and precisions up to it are left out: they are noise.
const LEAST: usize = 10;

/// Detections, best first, until `curve` is asked for.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    found: u32,
    claimed: u32,
    recalls: Vec<f64>,
    precisions: Vec<f64>,
    scores: Vec<f64>,
    /// Scores of those that found something.
    found_scores: Vec<f64>,
    /// Mean error of the first of those, of the first two, and so on.
    mean_errors: [Vec<f64>; 3],
    sums: Errors,
}

impl Curve {
    /// Adds the next best detection; `objects` is how many there are to be found.
    pub(crate) fn push(&mut self, score: f64, errors: Option<Errors>, objects: u32) {
        self.claimed += 1;
        if let Some(errors) = errors {
            self.found += 1;
            self.found_scores.push(score);
            for ((sum, error), means) in self.sums.iter_mut().zip(errors).zip(&mut self.mean_errors)
            {
                *sum += error;
                means.push(*sum / f64::from(self.found));
            }
        }
        self.recalls
            .push(f64::from(self.found) / f64::from(objects));
        self.precisions
            .push(f64::from(self.found) / f64::from(self.claimed));
        self.scores.push(score);
    }

    /// Mean over the recalls above the least one of how far the precision is above the least one, as
    /// a share of how far it could be.
    pub(crate) fn average_precision(&self) -> f64 {
        if self.found == 0 {
            return 0.0;
        }
        let least = LEAST as f64 / 100.0;
        let kept = LEAST + 1..RECALLS;
        let count = kept.len() as f64;
        let sum: f64 = kept
            .map(|n| interpolate(recall(n), &self.recalls, &self.precisions, Some(0.0)))
            .map(|precision| (precision - least).max(0.0))
            .sum();
        sum / count / (1.0 - least)
    }

    pub(crate) fn score(&self) -> Score {
        let average_precision = self.average_precision();
        let at: [f64; RECALLS] = std::array::from_fn(|n| match self.found {
            0 => 0.0,
            _ => interpolate(recall(n), &self.recalls, &self.scores, Some(0.0)),
        });
        let last = at.iter().rposition(|&score| score != 0.0).unwrap_or(0);
        let ascending: Vec<f64> = self.found_scores.iter().rev().copied().collect();
        let [translation, scale, orientation] = self.mean_errors.each_ref().map(|means| {
            if last <= LEAST {
                return 1.0;
            }
            let means: Vec<f64> = means.iter().rev().copied().collect();
            let kept = &at[LEAST + 1..=last];
            let errors = kept
                .iter()
                .map(|&score| interpolate(score, &ascending, &means, None));
            errors.sum::<f64>() / kept.len() as f64
        });
        Score {
            average_precision,
            translation,
            scale,
            orientation,
        }
    }
}

fn recall(n: usize) -> f64 {
    // As the definition's own program counts them: 7 * 0.01 is not 0.07.
    if n + 1 == RECALLS {
        1.0
    } else {
        n as f64 * 0.01
    }
}

/// `y` at `x` on the line through points with ascending `xs`, of which there is at least one. Before
/// them it is the first `y`, behind them `after` or else the last; of points with the same `x` the last
/// one counts.
fn interpolate(x: f64, xs: &[f64], ys: &[f64], after: Option<f64>) -> f64 {
    let next = xs.partition_point(|&value| value <= x);
    if next == 0 {
        return ys[0];
    }
    let (x0, y0) = (xs[next - 1], ys[next - 1]);
    if x0 == x {
        return y0;
    }
    match (xs.get(next), ys.get(next)) {
        (Some(x1), Some(y1)) => (y1 - y0) / (x1 - x0) * (x - x0) + y0,
        _ => after.unwrap_or(y0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_between_before_and_behind_their_points() {
        let (xs, ys) = ([1.0, 2.0, 2.0, 4.0], [1.0, 5.0, 3.0, 7.0]);
        for (x, y) in [(0.0, 1.0), (1.5, 3.0), (2.0, 3.0), (3.0, 5.0), (4.0, 7.0)] {
            assert_eq!(interpolate(x, &xs, &ys, Some(0.0)), y, "at {x}");
        }
        assert_eq!(interpolate(4.1, &xs, &ys, Some(0.0)), 0.0);
        assert_eq!(interpolate(4.1, &xs, &ys, None), 7.0);
    }

    #[test]
    fn half_of_the_objects_without_a_mistake_is_nearly_half() {
        let mut curve = Curve::default();
        for n in 0..50 {
            curve.push(1.0 - f64::from(n) / 100.0, Some([0.5, 0.1, 0.2]), 100);
        }
        // Recalls 0.11 to 0.50 of those from 0.11 to 1.
        let score = curve.score();
        assert!((score.average_precision - 40.0 / 90.0).abs() < 1e-12);
        assert!((score.translation - 0.5).abs() < 1e-12);
    }

    #[test]
    fn too_few_found_have_the_worst_errors() {
        let mut curve = Curve::default();
        curve.push(0.9, Some([0.1; 3]), 100);
        let score = curve.score();
        assert_eq!((score.average_precision, score.scale), (0.0, 1.0));
    }
}
