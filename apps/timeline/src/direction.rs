//! What can be said about each direction without synchronised clocks.
//!
//! One leg of one sample is its delay plus the unknown offset θ of the edge's clock: `u = CI − VO`
//! is up + θ, `d = WI − EO` is down − θ. No delay is negative, so θ lies in `[−min d, min u]`; and
//! how much later than the fastest a message came, `u − min u` and `d − min d`, is free of θ.

use std::collections::BTreeMap;

use serde::Serialize;

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

/// Where the offset θ of an edge's clock against the vehicle's lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// The edge's clock.
    pub clock: u32,
    /// −min d, in nanoseconds.
    pub from_ns: i64,
    /// min u, in nanoseconds.
    pub to_ns: i64,
}

impl Directions {
    /// Of samples with the identity of the edge's clock; those without the four stamps are left
    /// out. The clocks are taken to run at one speed over the trial: skew is not removed.
    pub fn of<'a>(samples: impl IntoIterator<Item = (u32, &'a Timeline)>) -> Self {
        let mut legs: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
        for (clock, timeline) in samples {
            legs.entry(clock).or_default().extend(both(timeline));
        }
        let mut directions = Self::default();
        for (clock, legs) in legs {
            let Some(&(up, down)) = legs.first() else {
                continue;
            };
            // Relative to the first, the legs are small whatever θ is, also where it wraps around.
            let (ups, downs): (Vec<_>, Vec<_>) = legs
                .iter()
                .map(|leg| (leg.0.wrapping_sub(up), leg.1.wrapping_sub(down)))
                .unzip();
            let fastest = |legs: &[i64]| legs.iter().copied().min().unwrap_or_default();
            let (up_min, down_min) = (fastest(&ups), fastest(&downs));
            directions.offsets.push(Offset {
                clock,
                from_ns: down.wrapping_add(down_min).wrapping_neg(),
                to_ns: up.wrapping_add(up_min),
            });
            let variation =
                |legs: Vec<i64>, min: i64| legs.into_iter().map(move |leg| leg.wrapping_sub(min));
            directions.up.extend(variation(ups, up_min));
            directions.down.extend(variation(downs, down_min));
        }
        directions
    }
}

/// `u` and `d` of one sample.
fn both(timeline: &Timeline) -> Option<(i64, i64)> {
    let span = |from, to| Some(timeline.get(to)?.wrapping_sub(timeline.get(from)?));
    Some((
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
            };
            assert_eq!(directions.offsets, [expected]);
        }
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
            delays in prop::collection::vec((0i64..1 << 40, 0i64..1 << 40), 1..20),
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
