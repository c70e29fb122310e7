//! The difference in speed between two clocks, seen in the fastest messages of both directions.
//!
//! If the edge's clock runs fast by `s`, the legs up grow by `s` times the elapsed time and those
//! down shrink by it, whatever else delays them. The line below all legs of a direction that is
//! closest to them (Moon, Skelly and Towsley: the edge of the lower convex hull over the mean time)
//! has that slope.

/// Fewer legs than these say nothing of the clocks.
const ENOUGH: usize = 50;

/// Oscillators differ by less, in parts per billion; more is a change of the delay.
const PLAUSIBLE: i64 = 500_000;

/// A leg: when it was sent, and how long it took relative to the first; both in nanoseconds.
pub(crate) type Leg = (i64, i64);

/// How much faster the edge's clock runs than the vehicle's, in parts per billion; 0 where that is
/// not evident. The legs of both directions are in the order of sending.
pub(crate) fn skew(ups: &[Leg], downs: &[Leg]) -> i64 {
    if ups.len() < ENOUGH {
        return 0;
    }
    let (Some(up), Some(down)) = (slope(ups), slope(downs)) else {
        return 0;
    };
    let (clocks, delays) = ((up - down) / 2, (up + down) / 2);
    // What both directions share is a change of the delay. It must not pass for skew.
    let evident = clocks.abs() <= i128::from(PLAUSIBLE) && delays.abs() < clocks.abs() / 2;
    if evident { clocks as i64 } else { 0 }
}

/// What `skew` adds to a leg after `elapsed` nanoseconds.
pub(crate) fn share(skew: i64, elapsed: i64) -> i64 {
    (i128::from(skew) * i128::from(elapsed) / 1_000_000_000) as i64
}

/// The slope of the line below all legs, in parts per billion.
fn slope(legs: &[Leg]) -> Option<i128> {
    let wide = |(sent, took): Leg| (i128::from(sent), i128::from(took));
    let mut hull: Vec<(i128, i128)> = Vec::new();
    for leg in legs.iter().copied().map(wide) {
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (leg.1 - a.1) <= (b.1 - a.1) * (leg.0 - a.0)
        {
            hull.pop();
        }
        hull.push(leg);
    }
    let total: i128 = legs.iter().map(|leg| i128::from(leg.0)).sum();
    let mean = total / legs.len() as i128;
    let edge = hull.windows(2).find(|edge| edge[1].0 >= mean)?;
    let (time, change) = (edge[1].0 - edge[0].0, edge[1].1 - edge[0].1);
    (time > 0).then(|| change * 1_000_000_000 / time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Legs each 100 ms for a minute, with delays that vary and a clock that is fast by `ppb`.
    fn legs(ppb: i64, sign: i64, trend: i64) -> Vec<Leg> {
        (0..600)
            .map(|n: i64| {
                let sent = n * 100_000_000;
                let delay = (n * 7919 % 101) * 3_000 + share(trend, sent);
                (sent, delay + sign * share(ppb, sent))
            })
            .collect()
    }

    #[test]
    fn a_hundred_parts_per_million_are_found_within_one() {
        for ppb in [100_000, -100_000, 20_000] {
            let found = skew(&legs(ppb, 1, 0), &legs(ppb, -1, 0));
            assert!((found - ppb).abs() < 1_000, "{ppb}: {found}");
        }
    }

    #[test]
    fn a_delay_that_grows_in_both_directions_is_no_skew() {
        assert_eq!(skew(&legs(0, 1, 50_000), &legs(0, -1, 50_000)), 0);
        assert_eq!(skew(&legs(900_000, 1, 0), &legs(900_000, -1, 0)), 0);
        assert_eq!(
            skew(&legs(100_000, 1, 0)[..49], &legs(100_000, -1, 0)[..49]),
            0
        );
        assert_eq!(skew(&[(5, 1); 60], &[(5, 1); 60]), 0);
    }
}
