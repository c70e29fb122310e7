//! Which samples an outage touched.

use std::fmt;

use exchange::Outage;
use latency_timeline::{Offset, Point, Status};
use vehicle::SampleRecord;

/// Whose outages touched a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) vehicle: bool,
    pub(crate) edge: bool,
}

impl Mark {
    pub(crate) fn is_set(self) -> bool {
        self.vehicle || self.edge
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.vehicle, self.edge) {
            (false, false) => "",
            (true, false) => "vehicle",
            (false, true) => "edge",
            (true, true) => "both",
        })
    }
}

/// One mark per sample. A sample is touched by an outage between its start and its answer; a run of
/// samples without an answer is touched as a whole, from its first start to the next answer, since
/// a transport may notice an outage only after the first loss. Outages of the edge are placed by the
/// middle of the offset's interval.
pub(crate) fn marks(
    samples: &[SampleRecord],
    vehicle: &[Outage],
    edge: &[Outage],
    offset: Option<Offset>,
) -> Vec<Mark> {
    let vehicle: Vec<_> = vehicle.iter().map(|outage| span(outage, 0)).collect();
    let shift = offset
        .map(|Offset { from_ns, to_ns, .. }| from_ns.wrapping_add(to_ns.wrapping_sub(from_ns) / 2));
    let edge: Vec<_> = match shift {
        Some(shift) => edge.iter().map(|outage| span(outage, shift)).collect(),
        None => Vec::new(),
    };
    let mut marks = Vec::with_capacity(samples.len());
    while let Some(first) = samples.get(marks.len()) {
        let rest = &samples[marks.len()..];
        let unanswered = |sample: &&SampleRecord| sample.status != Status::Answered;
        let run = rest.iter().take_while(unanswered).count();
        let last = rest.get(run);
        let begin = first.timeline.get(Point::Start).unwrap_or(i64::MIN);
        let end = last.and_then(|last| last.timeline.get(Point::End));
        let end = end.unwrap_or(i64::MAX);
        let touches = |spans: &[(i64, i64)]| spans.iter().any(|(a, b)| *a <= end && begin <= *b);
        let mark = Mark {
            vehicle: touches(&vehicle),
            edge: touches(&edge),
        };
        // An answered sample is a run of its own; the one after a run is looked at by itself.
        marks.extend(std::iter::repeat_n(mark, run.max(1)));
    }
    marks
}

/// Begin and end of an outage on the vehicle's clock.
fn span(outage: &Outage, shift: i64) -> (i64, i64) {
    let until = outage.until_ns.map(|until| until.wrapping_sub(shift));
    (
        outage.from_ns.wrapping_sub(shift),
        until.unwrap_or(i64::MAX),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use latency_timeline::Timeline;

    fn sample(start: i64, end: Option<i64>) -> SampleRecord {
        let mut timeline = Timeline::default();
        timeline.set(Point::Start, start);
        if let Some(end) = end {
            timeline.set(Point::End, end);
        }
        SampleRecord {
            seq: 0,
            status: end.map_or(Status::Missed, |_| Status::Answered),
            timeline,
            edge_clock: None,
            bytes_up: 0,
            bytes_down: 0,
            objects: 0,
            repeats: 0,
            listed: None,
        }
    }

    fn outage(from_ns: i64, until_ns: Option<i64>) -> Outage {
        Outage {
            from_ns,
            until_ns,
            cause: "cut".to_owned(),
        }
    }

    #[test]
    fn samples_missed_or_late_in_an_outage_are_marked() {
        let samples = [
            sample(0, Some(5)),
            sample(10, None),
            sample(20, Some(25)),
            sample(30, None),
            sample(40, None),
            sample(50, Some(75)),
            sample(80, Some(85)),
            sample(90, None),
        ];
        // The transport noticed at 42 what was missed from 30 on; one missed before has another cause.
        let mark = |outages: &[Outage]| -> String {
            let marks = marks(&samples, outages, &[], None);
            marks
                .iter()
                .map(|mark| if mark.is_set() { 'x' } else { '.' })
                .collect()
        };
        assert_eq!(mark(&[outage(42, Some(70))]), "...xxx..");
        assert_eq!(mark(&[outage(88, None)]), ".......x");
        assert_eq!(mark(&[]), "........");
    }

    #[test]
    fn outages_of_the_edge_are_placed_by_the_offset_of_its_clock() {
        let samples = [sample(0, Some(5)), sample(10, Some(15))];
        let offset = |shift| Offset {
            clock: 1,
            from_ns: shift - 2,
            to_ns: shift + 2,
            skew_ppb: 0,
        };
        for shift in [0, 1_000_000, -1_000_000] {
            let edge = [outage(shift + 12, Some(shift + 14))];
            let marks = marks(&samples, &[], &edge, Some(offset(shift)));
            let texts: Vec<_> = marks.iter().map(Mark::to_string).collect();
            assert_eq!(texts, ["", "edge"]);
        }
        let edge = [outage(12, Some(14))];
        assert!(!marks(&samples, &[], &edge, None)[1].is_set());
    }
}
