//! Where the time of a round trip went.
//!
//! The vehicle stamps its own points, the edge stamps its own, and the edge's stamps travel back in
//! the answer. [`Timeline::parts`] splits the total into the stages of the study's Table I. The two
//! communication legs appear only as their sum, `(WI − VO) − (EO − CI)`, in which the unknown offset
//! between the two clocks cancels exactly: no clock synchronisation is needed, and adding any
//! constant to all edge stamps changes nothing. A difference in speed does not cancel: it adds the
//! skew times the time at the edge, 2.5 us for 50 ppm and 50 ms. Single directions have only what
//! [`Directions`] says of them.

pub mod clock;
pub mod direction;
mod skew;
pub mod statistics;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use clock::{Clock, ClockPair};
pub use direction::{Directions, Offset};
pub use statistics::{Quantile, Summary};

/// A point of the data flow that is stamped: S to T9 in order, then what the calls that publish
/// told.
///
/// "Out" is immediately before the bytes are handed to the transport, never after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Point {
    /// S: when the schedule wanted the scan to be sent (vehicle).
    Scheduled = 0,
    /// T0: scan in memory, publishing begins (vehicle).
    Start = 1,
    /// VI: vehicle interface in, scan (vehicle).
    VehicleIn = 2,
    /// VO: vehicle interface out, scan (vehicle).
    VehicleOut = 3,
    /// CI: edge interface in, scan (edge).
    EdgeIn = 4,
    /// CO: edge interface out, scan decoded (edge).
    EdgeOut = 5,
    /// D0: conversion to a cloud done (edge).
    Converted = 6,
    /// D1: detector in (edge).
    DetectorIn = 7,
    /// D2: detector out (edge).
    DetectorOut = 8,
    /// EI: edge interface in, objects (edge).
    AnswerIn = 9,
    /// EO: edge interface out, objects (edge).
    AnswerOut = 10,
    /// WI: vehicle interface in, objects (vehicle).
    ReplyIn = 11,
    /// WO: vehicle interface out, objects decoded (vehicle).
    ReplyOut = 12,
    /// T9: objects in the app (vehicle).
    End = 13,
    /// RET_V: the call that publishes the scan returned (vehicle).
    ScanReturned = 14,
    /// ACK_V: the scan was acknowledged, as far as was granted (vehicle).
    ScanAcknowledged = 15,
    /// RET_E: the call that publishes the objects returned (edge).
    AnswerReturned = 16,
    /// ACK_E: the objects were acknowledged, as far as was granted (edge).
    AnswerAcknowledged = 17,
}

/// Number of points.
pub const POINTS: usize = 18;

impl Point {
    /// All points, in the order of the data flow.
    pub const ALL: [Point; POINTS] = [
        Point::Scheduled,
        Point::Start,
        Point::VehicleIn,
        Point::VehicleOut,
        Point::EdgeIn,
        Point::EdgeOut,
        Point::Converted,
        Point::DetectorIn,
        Point::DetectorOut,
        Point::AnswerIn,
        Point::AnswerOut,
        Point::ReplyIn,
        Point::ReplyOut,
        Point::End,
        Point::ScanReturned,
        Point::ScanAcknowledged,
        Point::AnswerReturned,
        Point::AnswerAcknowledged,
    ];

    /// The points that the edge stamps before it answers, and that travel in the answer.
    pub const EDGE: [Point; 7] = [
        Point::EdgeIn,
        Point::EdgeOut,
        Point::Converted,
        Point::DetectorIn,
        Point::DetectorOut,
        Point::AnswerIn,
        Point::AnswerOut,
    ];

    /// The points that the edge stamps after it has answered, and that travel in its next answer:
    /// there are no side messages on the link that is measured.
    pub const EDGE_AFTER: [Point; 2] = [Point::AnswerReturned, Point::AnswerAcknowledged];

    /// The point's number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The point of a number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Column name in result files.
    pub fn column(self) -> &'static str {
        match self {
            Point::Scheduled => "S",
            Point::Start => "T0",
            Point::VehicleIn => "VI",
            Point::VehicleOut => "VO",
            Point::EdgeIn => "CI",
            Point::EdgeOut => "CO",
            Point::Converted => "D0",
            Point::DetectorIn => "D1",
            Point::DetectorOut => "D2",
            Point::AnswerIn => "EI",
            Point::AnswerOut => "EO",
            Point::ReplyIn => "WI",
            Point::ReplyOut => "WO",
            Point::End => "T9",
            Point::ScanReturned => "RET_V",
            Point::ScanAcknowledged => "ACK_V",
            Point::AnswerReturned => "RET_E",
            Point::AnswerAcknowledged => "ACK_E",
        }
    }
}

/// The stamps of one sample: nanoseconds of a monotonic clock, one clock per side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline([Option<i64>; POINTS]);

/// One stage of the round trip, in the order of the data flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// VI − T0.
    PropagationVehicleOut,
    /// VO − VI.
    VehicleInterfaceOut,
    /// (WI − VO) − (EO − CI): both legs, valid only as a sum.
    Communication,
    /// CO − CI.
    EdgeInterfaceIn,
    /// D0 − CO.
    Conversion,
    /// D1 − D0.
    PropagationDetectorIn,
    /// D2 − D1.
    Detection,
    /// EI − D2.
    PropagationDetectorOut,
    /// EO − EI.
    EdgeInterfaceOut,
    /// WO − WI.
    VehicleInterfaceIn,
    /// T9 − WO.
    PropagationVehicleIn,
}

impl Stage {
    /// All stages, in the order of the data flow.
    pub const ALL: [Stage; 11] = [
        Stage::PropagationVehicleOut,
        Stage::VehicleInterfaceOut,
        Stage::Communication,
        Stage::EdgeInterfaceIn,
        Stage::Conversion,
        Stage::PropagationDetectorIn,
        Stage::Detection,
        Stage::PropagationDetectorOut,
        Stage::EdgeInterfaceOut,
        Stage::VehicleInterfaceIn,
        Stage::PropagationVehicleIn,
    ];

    /// Row label.
    pub fn label(self) -> &'static str {
        match self {
            Stage::PropagationVehicleOut => "propagation, vehicle, scan",
            Stage::VehicleInterfaceOut => "vehicle interface, scan out",
            Stage::Communication => "communication, up + down",
            Stage::EdgeInterfaceIn => "edge interface, scan in",
            Stage::Conversion => "conversion to cloud",
            Stage::PropagationDetectorIn => "propagation to detector",
            Stage::Detection => "object detection",
            Stage::PropagationDetectorOut => "propagation from detector",
            Stage::EdgeInterfaceOut => "edge interface, objects out",
            Stage::VehicleInterfaceIn => "vehicle interface, objects in",
            Stage::PropagationVehicleIn => "propagation, vehicle, objects",
        }
    }
}

/// The partial latencies of one sample, in nanoseconds. They add up to `total` exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    stages: [i64; Stage::ALL.len()],
    /// T9 − T0.
    pub total: i64,
    /// T9 − S: from the intended instant, free of coordinated omission.
    pub response: i64,
}

impl Parts {
    /// One stage, in nanoseconds. Communication may be negative only if a clock was stepped.
    pub fn stage(&self, stage: Stage) -> i64 {
        self.stages[stage as usize]
    }
}

/// A point that was not stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub Point);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stamp {} is missing", self.0.column())
    }
}

impl std::error::Error for Missing {}

impl Timeline {
    /// Stamps a point; a second stamp replaces the first.
    pub fn set(&mut self, point: Point, nanos: i64) {
        self.0[point as usize] = Some(nanos);
    }

    /// The stamp of a point.
    pub fn get(&self, point: Point) -> Option<i64> {
        self.0[point as usize]
    }

    /// Takes over every stamp that `other` has.
    pub fn merge(&mut self, other: &Timeline) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.or(*mine);
        }
    }

    /// How much later than scheduled the scan was sent, in nanoseconds: T0 − S.
    pub fn lateness(&self) -> Option<i64> {
        let start = self.get(Point::Start)?;
        Some(start.wrapping_sub(self.get(Point::Scheduled)?))
    }

    /// Splits the total into its stages.
    ///
    /// # Errors
    /// [`Missing`] naming the first point without a stamp.
    pub fn parts(&self) -> Result<Parts, Missing> {
        let at = |point: Point| self.get(point).ok_or(Missing(point));
        // Wrapping: stamps come from another machine, and a wrong one must not end the process.
        let span = |from, to| Ok::<_, Missing>(at(to)?.wrapping_sub(at(from)?));
        let away = span(Point::VehicleOut, Point::ReplyIn)?;
        let residence = span(Point::EdgeIn, Point::AnswerOut)?;
        let stages = [
            span(Point::Start, Point::VehicleIn)?,
            span(Point::VehicleIn, Point::VehicleOut)?,
            away.wrapping_sub(residence),
            span(Point::EdgeIn, Point::EdgeOut)?,
            span(Point::EdgeOut, Point::Converted)?,
            span(Point::Converted, Point::DetectorIn)?,
            span(Point::DetectorIn, Point::DetectorOut)?,
            span(Point::DetectorOut, Point::AnswerIn)?,
            span(Point::AnswerIn, Point::AnswerOut)?,
            span(Point::ReplyIn, Point::ReplyOut)?,
            span(Point::ReplyOut, Point::End)?,
        ];
        Ok(Parts {
            stages,
            total: span(Point::Start, Point::End)?,
            response: span(Point::Scheduled, Point::End)?,
        })
    }
}

/// What became of one offered scan; every one ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its answer arrived.
    Answered,
    /// Its answer did not arrive before the end of the drain, whatever the reason.
    Missed,
    /// The transport did not take it.
    Rejected,
    /// The trial was stopped while its answer was still awaited.
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timeline(stamps: [i64; POINTS]) -> Timeline {
        let mut timeline = Timeline::default();
        for (point, nanos) in Point::ALL.into_iter().zip(stamps) {
            timeline.set(point, nanos);
        }
        timeline
    }

    proptest! {
        #[test]
        fn a_constant_added_to_all_edge_stamps_changes_nothing(
            stamps in prop::array::uniform18(-1_000_000_000_000_000i64..1_000_000_000_000_000),
            offset in any::<i64>(),
        ) {
            let before = timeline(stamps);
            let mut after = before;
            for point in Point::EDGE.into_iter().chain(Point::EDGE_AFTER) {
                after.set(point, before.get(point).unwrap().wrapping_add(offset));
            }
            prop_assert_eq!(before.parts(), after.parts());
        }

        #[test]
        fn the_stages_add_up_to_the_total(
            stamps in prop::array::uniform18(-1_000_000_000_000_000i64..1_000_000_000_000_000),
        ) {
            let parts = timeline(stamps).parts().unwrap();
            let sum: i64 = Stage::ALL.iter().map(|stage| parts.stage(*stage)).sum();
            prop_assert_eq!(sum, parts.total);
        }
    }

    #[test]
    fn absurd_edge_clocks_leave_the_total_alone() {
        let steps: [i64; POINTS] = std::array::from_fn(|n| n as i64 * 1_000_000);
        let honest = timeline(steps);
        for shift in [
            -2_000_000_000,
            2_000_000_000,
            -50 * 365 * 86_400_000_000_000,
            i64::MIN,
        ] {
            let mut odd = honest;
            for point in Point::EDGE.into_iter().chain(Point::EDGE_AFTER) {
                odd.set(point, honest.get(point).unwrap().wrapping_add(shift));
            }
            assert_eq!(odd.parts(), honest.parts());
        }
        let mut stepped = honest;
        stepped.set(Point::AnswerOut, 10_000_000 - 1_000_000_000);
        let parts = stepped.parts().unwrap();
        assert_eq!(parts.total, honest.parts().unwrap().total);
        let sum: i64 = Stage::ALL.iter().map(|stage| parts.stage(*stage)).sum();
        assert_eq!(sum, parts.total);
    }

    #[test]
    fn a_missing_stamp_is_named() {
        let mut timeline = Timeline::default();
        for point in Point::ALL
            .into_iter()
            .filter(|point| *point != Point::Converted)
        {
            timeline.set(point, 0);
        }
        assert_eq!(
            timeline.parts().unwrap_err().to_string(),
            "stamp D0 is missing"
        );
    }

    #[test]
    fn numbers_on_the_wire_lead_back_to_their_points() {
        for point in Point::ALL {
            assert_eq!(Point::from_number(point.number()), Some(point));
        }
        assert_eq!(Point::from_number(POINTS as u8), None);
    }
}
