//! What can be said about each direction without synchronised clocks.
//!
//! One leg of one sample is its delay plus the unknown offset θ of the edge's clock: `u = CI − VO`
//! is up + θ, `d = WI − EO` is down − θ. No delay is negative, so θ lies in `[−min d, min u]`; and
//! how much later than the fastest a message came, `u − min u` and `d − min d`, is free of θ. A
//! difference in speed between the clocks is removed from both first.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::skew::{Leg, share, skew};
use crate::{Point, Timeline};

/// Both directions of a set of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// For each clock of an edge, where its offset lies; several if the edge was started anew.
    pub offsets: Vec<Offset>,
    /// Packet delay variation up, `u − min u` of each sample, in nanoseconds.
    pub up: Vec<i64>,
    /// Packet delay variation down, `d − min d` of each sample, in nanoseconds.
    pub down: Vec<i64>,
}

/// Where the offset θ of an edge's clock against the vehicle's lies when its first sample is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// The edge's clock.
    pub clock: u32,
    /// −min d, in nanoseconds.
    pub from_ns: i64,
    /// min u, in nanoseconds.
    pub to_ns: i64,
    /// How much faster the edge's clock runs than the vehicle's, in parts per billion; 0 where that
    /// is not evident.
    pub skew_ppb: i64,
}

impl Directions {
    /// Of samples with the identity of the edge's clock, in the order of sending; those without the
    /// four stamps are left out.
    pub fn of<'a>(samples: impl IntoIterator<Item = (u32, &'a Timeline)>) -> Self {
        let mut legs: BTreeMap<u32, Vec<(i64, i64, i64)>> = BTreeMap::new();
        for (clock, timeline) in samples {
            legs.entry(clock).or_default().extend(both(timeline));
        }
        let mut directions = Self::default();
        for (clock, legs) in legs {
            let Some(&(began, up, down)) = legs.first() else {
                continue;
            };
            // Relative to the first, the legs are small whatever θ is, also where it wraps around.
            let (ups, downs): (Vec<Leg>, Vec<Leg>) = legs
                .iter()
                .map(|leg| {
                    let sent = leg.0.wrapping_sub(began);
                    let (up, down) = (leg.1.wrapping_sub(up), leg.2.wrapping_sub(down));
                    ((sent, up), (sent, down))
                })
                .unzip();
            let skew_ppb = skew(&ups, &downs);
            let level = |legs: Vec<Leg>, skew: i64| -> Vec<i64> {
                let level = |(sent, leg): Leg| leg.wrapping_sub(share(skew, sent));
                legs.into_iter().map(level).collect()
            };
            let (ups, downs) = (level(ups, skew_ppb), level(downs, -skew_ppb));
            let fastest = |legs: &[i64]| legs.iter().copied().min().unwrap_or_default();
            let (up_min, down_min) = (fastest(&ups), fastest(&downs));
            directions.offsets.push(Offset {
                clock,
                from_ns: down.wrapping_add(down_min).wrapping_neg(),
                to_ns: up.wrapping_add(up_min),
                skew_ppb,
            });
            let variation =
                |legs: Vec<i64>, min: i64| legs.into_iter().map(move |leg| leg.wrapping_sub(min));
            directions.up.extend(variation(ups, up_min));
            directions.down.extend(variation(downs, down_min));
        }
        directions
    }
}

/// When one sample was sent, its `u` and its `d`.
fn both(timeline: &Timeline) -> Option<(i64, i64, i64)> {
    let span = |from, to| Some(timeline.get(to)?.wrapping_sub(timeline.get(from)?));
    Some((
        timeline.get(Point::VehicleOut)?,
        span(Point::VehicleOut, Point::EdgeIn)?,
        span(Point::AnswerOut, Point::ReplyIn)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A round trip sent at `sent`, with delays `up` and `down`, over a clock that is off by
    /// `offset`.
    fn trip(sent: i64, up: i64, down: i64, offset: i64) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.set(Point::VehicleOut, sent);
        timeline.set(Point::EdgeIn, (sent + up).wrapping_add(offset));
        timeline.set(Point::AnswerOut, (sent + up + 7).wrapping_add(offset));
        timeline.set(Point::ReplyIn, sent + up + 7 + down);
        timeline
    }

    #[test]
    fn the_offset_lies_in_its_interval_and_the_variation_is_what_was_put_in() {
        for offset in [0, 3_600_000_000_000, -3_600_000_000_000] {
            let trips = [
                trip(0, 50, 30, offset),
                trip(1000, 40, 35, offset),
                trip(2000, 90, 20, offset),
            ];
            let directions = Directions::of(trips.iter().map(|trip| (9, trip)));
            assert_eq!(directions.up, [10, 0, 50]);
            assert_eq!(directions.down, [10, 15, 0]);
            let expected = Offset {
                clock: 9,
                from_ns: offset - 20,
                to_ns: offset + 40,
                skew_ppb: 0,
            };
            assert_eq!(directions.offsets, [expected]);
        }
    }

    #[test]
    fn skew_is_removed_from_the_variation_and_the_offset() {
        // An hour off, and fast by 100 ppm.
        let (offset, ppb) = (3_600_000_000_000, 100_000);
        let trips: Vec<_> = (0..600)
            .map(|n: i64| {
                let sent = n * 100_000_000;
                let (up, down) = (1_000 * (n % 7), 1_000 * (n % 5));
                trip(sent, up, down, offset + sent / 1_000_000_000 * ppb)
            })
            .collect();
        let directions = Directions::of(trips.iter().map(|trip| (9, trip)));
        let found = directions.offsets[0];
        assert!((found.skew_ppb - ppb).abs() < 2_000, "{found:?}");
        // The clock of this test is set once a second.
        let worst = |variation: &[i64]| variation.iter().copied().max().unwrap();
        assert!(worst(&directions.up) < 250_000 && worst(&directions.down) < 250_000);
        assert!((found.from_ns - offset).abs() < 250_000 && (found.to_ns - offset).abs() < 250_000);
    }

    #[test]
    fn an_edge_that_was_started_anew_is_another_clock() {
        let trips = [trip(0, 50, 30, 0), trip(1000, 60, 40, i64::MAX)];
        let directions = Directions::of([(1, &trips[0]), (2, &trips[1])]);
        assert_eq!(directions.offsets.len(), 2);
        assert_eq!((directions.up, directions.down), (vec![0, 0], vec![0, 0]));
        assert_eq!(Directions::of([(1, &Timeline::default())]).offsets, []);
    }

    proptest! {
        #[test]
        fn only_the_offset_moves_with_the_clock_of_the_edge(
            delays in prop::collection::vec((0i64..1 << 40, 0i64..1 << 40), 1..80),
            offset in any::<i64>(),
        ) {
            let at = |offset| {
                let trips: Vec<_> = delays
                    .iter()
                    .enumerate()
                    .map(|(n, (up, down))| trip(n as i64, *up, *down, offset))
                    .collect();
                Directions::of(trips.iter().map(|trip| (1, trip)))
            };
            let (honest, moved) = (at(0), at(offset));
            prop_assert_eq!(&honest.up, &moved.up);
            prop_assert_eq!(&honest.down, &moved.down);
            let (honest, moved) = (honest.offsets[0], moved.offsets[0]);
            prop_assert_eq!(moved.from_ns, honest.from_ns.wrapping_add(offset));
            prop_assert_eq!(moved.to_ns, honest.to_ns.wrapping_add(offset));
        }
    }
}
