//! What a trial leaves behind.

use std::collections::HashMap;

use exchange::{Outage, Source};
use latency_timeline::{ClockPair, Point, Status, Timeline};
use serde::{Deserialize, Serialize};
use transport_api::{PublisherCounters, SubscriberCounters};

use crate::answers::{Answer, EchoPoint};
use crate::operation::{Listed, Operation};
use crate::schedule::Sent;

/// One measured scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// Its number in the sequence of the vehicle's messages, as on the wire.
    pub seq: u64,
    /// What became of it.
    pub status: Status,
    /// Its stamps.
    pub timeline: Timeline,
    /// The clock of the edge's stamps; `None` without an answer.
    pub edge_clock: Option<u32>,
    /// Payload bytes, vehicle to edge.
    pub bytes_up: usize,
    /// Payload bytes, edge to vehicle.
    pub bytes_down: usize,
    /// Objects in the answer.
    pub objects: usize,
    /// How often the answer arrived again.
    pub repeats: u32,
    /// The list that the vehicle acted on; `None` if the frame was given up before there was one for
    /// it or a newer one.
    pub listed: Option<Listed>,
}

/// Messages missed by direction, warm-up included, from the sequence numbers of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Accepted scans that the edge did not answer.
    pub up: u64,
    /// Answers that did not reach the vehicle.
    pub down: u64,
}

/// A trial as the vehicle saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The source number of its scans on the wire.
    pub source: u64,
    /// Time from one scheduled scan to the next, in nanoseconds; 0 if a sensor said when.
    pub period_ns: i64,
    /// The vehicle's clocks when it began.
    pub began: ClockPair,
    /// The vehicle's clocks at its end.
    pub ended: ClockPair,
    /// When the vehicle was disconnected, by its clock.
    pub outages: Vec<Outage>,
    /// The measured scans, in the order they were sent.
    pub samples: Vec<SampleRecord>,
    /// Messages missed by direction; `None` if the last echo was not answered, so the split is unknown.
    pub missed: Option<Missed>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Whether the transport ended before it.
    pub cut_short: bool,
    /// Answers to others.
    pub unrelated: u64,
    /// Answers that were no object lists.
    pub undecodable: u64,
    /// Arrivals that the transport refused, such as another type.
    pub refused: u64,
    /// Answers to scans that another edge had answered already.
    pub answered_by_two: u64,
    /// Why the first rejected scan was rejected.
    pub rejection: Option<String>,
    /// How the vehicle stayed operational.
    pub operation: Operation,
    /// Frames that each viewer or recorder had no room for, in the order of
    /// [`crate::Settings::frames`].
    pub unseen_frames: Vec<u64>,
    /// Turns of a sensor that were not sent: a newer one was there, or they could not be sent as what
    /// the others are.
    pub skipped: u64,
    /// Why a sensor or a recording gave no more, if that was before the trial's end.
    pub source_end: Option<String>,
    /// The publisher of poses, if they were said.
    pub poses: Option<PublisherCounters>,
    /// The publisher of scans.
    pub publisher: PublisherCounters,
    /// The subscriber of object lists.
    pub subscriber: SubscriberCounters,
}

impl Trial {
    /// Whether it ran to its end and every scan was answered.
    pub fn is_complete(&self) -> bool {
        !self.interrupted
            && self.source_end.is_none()
            && !self.samples.is_empty()
            && self.count(Status::Answered) == self.samples.len()
    }

    /// How late a scan may be sent, in nanoseconds, before it counts as late: a twentieth of the
    /// period, but a millisecond at least.
    pub fn late_after(&self) -> i64 {
        (self.period_ns / 20).max(1_000_000)
    }

    /// Measured scans that were sent late. They are sent all the same, and those after them keep to
    /// the schedule.
    pub fn late(&self) -> usize {
        self.sent_later_than(self.late_after())
    }

    /// Whether this machine did not keep the schedule, so that the figures say more about it than
    /// about the transport: more than one in a hundred scans were sent late, or a whole period late.
    pub fn is_generator_limited(&self) -> bool {
        let bound = self.late_after().min(self.period_ns);
        100 * self.sent_later_than(bound) > self.samples.len()
    }

    fn sent_later_than(&self, nanos: i64) -> usize {
        let lateness = self.samples.iter().filter_map(|s| s.timeline.lateness());
        lateness.filter(|late| *late > nanos).count()
    }

    /// The numbers of the missed scans: first and last of each stretch without another one between.
    pub fn missing(&self) -> Vec<[u64; 2]> {
        let mut ranges: Vec<[u64; 2]> = Vec::new();
        let missed = |sample: &&SampleRecord| sample.status == Status::Missed;
        for SampleRecord { seq, .. } in self.samples.iter().filter(missed) {
            match ranges.last_mut() {
                Some([_, last]) if last.checked_add(1) == Some(*seq) => *last = *seq,
                _ => ranges.push([*seq, *seq]),
            }
        }
        ranges
    }

    /// Measured frames with a list of their own from `source`.
    pub fn lists(&self, source: Source) -> usize {
        self.ages(Some(source)).len()
    }

    /// From T0 of each measured frame until it had the list of `source`, or for `None` until a newer
    /// frame had one first, in nanoseconds.
    pub fn ages(&self, source: Option<Source>) -> Vec<i64> {
        let samples = self.samples.iter();
        let ages = samples.filter_map(|sample| {
            let listed = sample.listed.filter(|listed| listed.source == source)?;
            Some(
                listed
                    .at_ns
                    .wrapping_sub(sample.timeline.get(Point::Start)?),
            )
        });
        ages.collect()
    }

    /// Measured frames that were given up: sixteen newer ones were overdue, or the trial ended, before
    /// there was a list for it or a newer one.
    pub fn unlisted(&self) -> usize {
        let samples = self.samples.iter();
        samples.filter(|sample| sample.listed.is_none()).count()
    }

    /// The longest time in which the vehicle got no new list, in nanoseconds, from T0 of the first
    /// measured frame to T0 of the last one, or the last list if that came later.
    pub fn largest_gap(&self) -> Option<i64> {
        let start = |sample: &SampleRecord| sample.timeline.get(Point::Start);
        let lists = self.samples.iter().filter_map(|sample| sample.listed);
        let mut moments: Vec<_> = lists.map(|listed| listed.at_ns).collect();
        moments.push(start(self.samples.first()?)?);
        moments.push(start(self.samples.last()?)?);
        moments.sort_unstable();
        let gaps = moments.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        gaps.max()
    }

    /// Measured scans that ended as `status`; the counts of all add up to `samples`.
    pub fn count(&self, status: Status) -> usize {
        self.samples
            .iter()
            .filter(|sample| sample.status == status)
            .count()
    }
}

impl Missed {
    /// Between two answered echoes, of which the second ends the trial.
    pub(crate) fn between(before: EchoPoint, after: EchoPoint, rejected: u64, down: u64) -> Self {
        let offered = after
            .sent
            .saturating_sub(before.sent)
            .saturating_sub(rejected);
        let answered = after.edge.saturating_sub(before.edge);
        Self {
            up: offered.saturating_sub(answered),
            down,
        }
    }
}

/// Joins what was sent and what was answered; the first `warmup` scans after `first` are left out.
pub(crate) fn join(
    sent: &[Sent],
    mut answers: HashMap<u64, Answer>,
    first: u64,
    warmup: u64,
    interrupted: bool,
) -> Vec<SampleRecord> {
    sent.iter()
        .filter(|sent| sent.id.seq >= first + warmup)
        .map(|sent| {
            let answer = answers.remove(&sent.id.seq);
            let status = match (&answer, sent.accepted()) {
                (Some(_), _) => Status::Answered,
                (None, true) if interrupted => Status::Interrupted,
                (None, true) => Status::Missed,
                (None, false) => Status::Rejected,
            };
            let mut timeline = sent.timeline;
            if let Some(receipt) = &sent.receipt {
                receipt.stamp(&mut timeline, Point::ScanReturned, Point::ScanAcknowledged);
            }
            if let Some(answer) = &answer {
                timeline.merge(&answer.timeline);
            }
            SampleRecord {
                seq: sent.id.seq,
                status,
                timeline,
                edge_clock: answer.as_ref().and_then(|answer| answer.edge_clock),
                bytes_up: sent.bytes,
                bytes_down: answer.as_ref().map_or(0, |answer| answer.bytes),
                objects: answer.as_ref().map_or(0, |answer| answer.objects),
                repeats: answer.as_ref().map_or(0, |answer| answer.repeats),
                listed: None,
            }
        })
        .collect()
}

/// Sets what each sample's frame got; `listed` is sorted by sequence number.
pub(crate) fn set_lists(samples: &mut [SampleRecord], listed: &[(u64, Listed)]) {
    for sample in samples {
        let place = listed.binary_search_by_key(&sample.seq, |(seq, _)| *seq);
        sample.listed = place.ok().map(|place| listed[place].1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::Receipt;
    use latency_timeline::Clock;
    use tokio::runtime::Handle;
    use transport_api::MessageId;

    fn sent(seq: u64, accepted: bool) -> Sent {
        let id = MessageId { source: 1, seq };
        Sent {
            id,
            timeline: Timeline::default(),
            bytes: 10,
            receipt: accepted.then(|| {
                let token = transport_api::DeliveryToken::queued();
                Receipt::of(token, Clock::start(), &Handle::current())
            }),
        }
    }

    #[tokio::test]
    async fn every_measured_scan_ends_in_exactly_one_status() {
        let sent = [
            sent(5, true),
            sent(6, true),
            sent(7, true),
            sent(8, false),
            sent(9, true),
        ];
        let answer = Answer {
            timeline: Timeline::default(),
            edge_clock: Some(1),
            bytes: 3,
            objects: 2,
            repeats: 1,
            edge: None,
        };
        let answers = HashMap::from([(5, answer), (6, answer), (9, answer)]);
        let samples = join(&sent, answers, 5, 1, false);
        let statuses: Vec<_> = samples.iter().map(|sample| sample.status).collect();
        use Status::{Answered, Rejected};
        assert_eq!(statuses, [Answered, Status::Missed, Rejected, Answered]);
        assert_eq!(samples[0].seq, 6);
    }

    #[test]
    fn messages_missed_are_split_by_the_numbers_of_both_sides() {
        let before = EchoPoint { sent: 20, edge: 19 };
        let after = EchoPoint {
            sent: 121,
            edge: 117,
        };
        assert_eq!(
            Missed::between(before, after, 1, 4),
            Missed { up: 2, down: 4 }
        );
    }

    #[test]
    fn scans_that_were_sent_late_are_counted() {
        let pair = ClockPair {
            realtime_ns: 0,
            monotonic_ns: 0,
        };
        let trial = |period_ns, lateness: &[i64]| Trial {
            source: 1,
            period_ns,
            began: pair,
            ended: pair,
            outages: Vec::new(),
            samples: lateness
                .iter()
                .map(|late| {
                    let mut timeline = Timeline::default();
                    timeline.set(Point::Scheduled, 5);
                    timeline.set(Point::Start, 5 + late);
                    SampleRecord {
                        seq: 0,
                        status: Status::Answered,
                        timeline,
                        edge_clock: None,
                        bytes_up: 0,
                        bytes_down: 0,
                        objects: 0,
                        repeats: 0,
                        listed: None,
                    }
                })
                .collect(),
            missed: None,
            interrupted: false,
            cut_short: false,
            unrelated: 0,
            undecodable: 0,
            refused: 0,
            answered_by_two: 0,
            rejection: None,
            operation: Operation::default(),
            unseen_frames: Vec::new(),
            skipped: 0,
            source_end: None,
            poses: None,
            publisher: PublisherCounters::default(),
            subscriber: SubscriberCounters::default(),
        };
        // At 10 Hz 5 ms are late; at 10 kHz a whole period is, though 1 ms is the least that counts.
        let mut lateness = vec![0; 198];
        lateness.extend([5_000_000, 5_000_001]);
        let slow = trial(100_000_000, &lateness);
        assert_eq!((slow.late_after(), slow.late()), (5_000_000, 1));
        assert!(!slow.is_generator_limited());
        lateness.extend([9_000_000; 2]);
        assert!(trial(100_000_000, &lateness).is_generator_limited());
        let fast = trial(100_000, &[0, 200_000]);
        assert_eq!((fast.late_after(), fast.late()), (1_000_000, 0));
        assert!(fast.is_generator_limited());
        assert!(!trial(100_000, &[]).is_generator_limited());
    }
}
