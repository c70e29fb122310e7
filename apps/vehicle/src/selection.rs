//! Which object list each frame gets: a function of what happens and when, without clocks and threads.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use exchange::Source;
use latency_timeline::{Point, Timeline};

use crate::local::{Done, Job};
use crate::mode::{Mode, Switch, Verdict};
use crate::operation::{Limits, Listed, Operation, Switched};
use crate::outlet::Outlet;

/// A frame that was sent, or that the transport refused.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) seq: u64,
    /// The vehicle's stamps of the way out.
    pub(crate) timeline: Timeline,
    pub(crate) payload: Bytes,
    /// Whether the transport took it.
    pub(crate) accepted: bool,
}

/// An answer of the edge.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) seq: u64,
    /// The stamps of the edge and the vehicle's of the way back.
    pub(crate) timeline: Timeline,
    pub(crate) edge_clock: Option<u32>,
    pub(crate) list: Bytes,
}

/// A list that is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) source: Source,
    pub(crate) list: Bytes,
    pub(crate) edge_clock: Option<u32>,
    /// From T0 until it was there.
    pub(crate) age: Duration,
}

/// A frame without a list.
#[derive(Debug)]
struct Waiting {
    offer: Offer,
    need: Need,
}

/// What a frame waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The edge's answer, until its deadline.
    Answer,
    /// The vehicle's own detection, or a late answer.
    Detection,
    /// A late answer: the vehicle's own detection failed.
    LateAnswer,
}

/// Frames whose deadline has passed at most, and answers that came too early; the oldest is given up
/// for one more.
const OVERDUE: usize = 16;

/// Finds a list for each frame, the newest first.
#[derive(Debug)]
pub(crate) struct Selection {
    deadline_ns: i64,
    /// `None` without a detector of the vehicle's own.
    switch: Option<Switch>,
    outlet: Outlet,
    /// Frames without a list, the oldest first.
    waiting: VecDeque<Waiting>,
    /// Frames whose answer may still be in time, the oldest first, with the end of that time.
    undecided: VecDeque<(u64, i64)>,
    /// The frame that the vehicle detects in, and since when.
    running: Option<(u64, i64)>,
    /// Answers that came before the sending thread told of their frame.
    early: BTreeMap<u64, Arrived>,
    /// The last frame it was told of.
    newest: Option<u64>,
    listed: Vec<(u64, Listed)>,
    operation: Operation,
}

impl Selection {
    /// `detector`: the name of the vehicle's own, if it has one.
    pub(crate) fn new(
        limits: Limits,
        detector: Option<String>,
        outlet: Outlet,
        frames: usize,
    ) -> Self {
        let deadline_ns = i64::try_from(limits.deadline.as_nanos()).unwrap_or(i64::MAX);
        let switch = Switch::new(limits.misses, limits.recoveries);
        Self {
            deadline_ns,
            switch: detector.is_some().then_some(switch),
            outlet,
            waiting: VecDeque::new(),
            undecided: VecDeque::new(),
            running: None,
            early: BTreeMap::new(),
            newest: None,
            listed: Vec::with_capacity(frames),
            operation: Operation {
                deadline_ns,
                misses: limits.misses,
                recoveries: limits.recoveries,
                detector,
                ..Operation::default()
            },
        }
    }

    /// A frame was sent, or refused, before `now`.
    pub(crate) fn offered(&mut self, mut offer: Offer, now: i64) {
        let seq = offer.seq;
        self.newest = Some(seq);
        let start = offer.timeline.get(Point::Start).unwrap_or(now);
        let (answer, accepted) = (self.early.remove(&seq), offer.accepted);
        // What is left was for frames that nobody told of.
        self.early = self.early.split_off(&seq);
        if self.switch.is_none() && !self.outlet.takes_payload() {
            // It may be a megabyte, and nobody will ask for it.
            offer.payload = Bytes::new();
        }
        if accepted {
            let end = start.saturating_add(self.deadline_ns);
            self.undecided.push_back((seq, end));
        } else {
            self.operation.refused += 1;
            self.decide(seq, Verdict::Refused, now);
        }
        let local = self.mode() == Mode::Local;
        let need = match local || !accepted {
            true => Need::Detection,
            false => Need::Answer,
        };
        self.waiting.push_back(Waiting { offer, need });
        self.give_up_overdue();
        if let Some(answer) = answer {
            self.answered(answer);
        }
    }

    /// An answer came.
    pub(crate) fn answered(&mut self, answer: Arrived) {
        let seq = answer.seq;
        let end = answer.timeline.get(Point::End).unwrap_or(0);
        self.pass(end);
        let in_time = self.undecided.binary_search_by_key(&seq, |(seq, _)| *seq);
        if let Ok(place) = in_time {
            self.undecided.remove(place);
            self.decide(seq, Verdict::InTime, end);
        }
        let Some(place) = self.place(seq) else {
            if self.newest.is_none_or(|newest| newest < seq) && self.early.len() < OVERDUE {
                self.early.insert(seq, answer);
            }
            return;
        };
        let timeline = answer.timeline;
        self.serve(
            place,
            Source::Edge,
            answer.list,
            answer.edge_clock,
            end,
            &timeline,
        );
    }

    /// Takes notice of the deadlines that have passed at `now`.
    pub(crate) fn pass(&mut self, now: i64) {
        while let Some(&(seq, _)) = self.undecided.front().filter(|(_, until)| *until < now) {
            self.undecided.pop_front();
            self.late(seq, now);
        }
    }

    /// When the next deadline passes, by the vehicle's clock.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.undecided
            .front()
            .map(|(_, until)| until.saturating_add(1))
    }

    /// The newest frame to detect in, for a detector that is idle. Older ones are no longer of use once
    /// its list is there.
    pub(crate) fn job(&mut self, now: i64) -> Option<Job> {
        self.switch?;
        let wanted = |waiting: &&Waiting| waiting.need == Need::Detection;
        let newest = self.waiting.iter().rfind(wanted)?;
        let job = Job {
            seq: newest.offer.seq,
            payload: newest.offer.payload.clone(),
        };
        self.running = Some((job.seq, now));
        self.operation.detections += 1;
        Some(job)
    }

    /// The vehicle's own detection ended at `now`.
    pub(crate) fn detected(&mut self, done: Done, now: i64) {
        if let Some((_, since)) = self.running.take() {
            let longest = &mut self.operation.longest_detection_ns;
            *longest = (*longest).max(now.wrapping_sub(since));
        }
        match (done.list, self.place(done.seq)) {
            (Ok(list), Some(place)) => {
                let mut end = Timeline::default();
                end.set(Point::End, now);
                self.serve(place, Source::Local, list, None, now, &end);
            }
            (Ok(_), None) => self.operation.unneeded += 1,
            (Err(fault), place) => {
                self.operation.failed += 1;
                tracing::warn!(%fault, count = self.operation.failed, "no list of our own");
                self.operation.failure.get_or_insert(fault.to_string());
                // Again it would fail again; the edge may still answer.
                if let Some(place) = place {
                    self.waiting[place].need = Need::LateAnswer;
                }
            }
        }
    }

    /// The vehicle's own detector is gone for good: from now on it waits for the edge.
    pub(crate) fn bereft(&mut self) {
        let panicked = || "the local detector panicked".to_owned();
        self.operation.failure.get_or_insert_with(panicked);
        self.operation.failed += u64::from(self.running.take().is_some());
        self.switch = None;
    }

    /// On whom the vehicle relies.
    pub(crate) fn mode(&self) -> Mode {
        self.switch.map_or(Mode::Edge, |switch| switch.mode())
    }

    /// Whether the vehicle is still to find a list by itself.
    pub(crate) fn is_busy(&self) -> bool {
        let expected = |waiting: &Waiting| waiting.need != Need::LateAnswer;
        self.switch.is_some() && self.waiting.iter().any(expected)
    }

    /// The trial is over: what still waits is given up. Returns what each frame got, by number, how that
    /// came, and how many frames each of the viewers had no room for.
    pub(crate) fn end(mut self) -> (Vec<(u64, Listed)>, Operation, Vec<u64>) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.outlet.tell(waiting.offer, None);
        }
        self.operation.unfinished = u64::from(self.running.is_some());
        self.operation.selected = self.outlet.counters();
        self.listed.sort_unstable_by_key(|(seq, _)| *seq);
        (self.listed, self.operation, self.outlet.unseen)
    }

    /// Counts a frame that was sent and not told of.
    pub(crate) fn unwatched(&mut self, frames: u64) {
        self.operation.unwatched = frames;
    }

    fn late(&mut self, seq: u64, now: i64) {
        self.operation.late += 1;
        self.decide(seq, Verdict::Late, now);
        if let Some(place) = self.place(seq) {
            self.waiting[place].need = Need::Detection;
        }
        self.give_up_overdue();
    }

    fn decide(&mut self, seq: u64, verdict: Verdict, now: i64) {
        let Some(switch) = &mut self.switch else {
            return;
        };
        if switch.note(verdict) {
            let to = switch.mode();
            tracing::warn!(?to, cause = ?verdict, seq, "the source of object lists changes");
            self.operation.switches.push(Switched {
                at_ns: now,
                seq,
                to,
                cause: verdict,
            });
        }
    }

    /// Gives the frame at `place` its list. Frames before it are given up: theirs would be stale.
    fn serve(
        &mut self,
        place: usize,
        source: Source,
        list: Bytes,
        edge_clock: Option<u32>,
        at_ns: i64,
        stamps: &Timeline,
    ) {
        for _ in 0..place {
            if let Some(Waiting { offer, .. }) = self.waiting.pop_front() {
                let newer = Listed {
                    source: None,
                    at_ns,
                };
                self.listed.push((offer.seq, newer));
                self.outlet.tell(offer, None);
            }
        }
        let Some(Waiting { mut offer, .. }) = self.waiting.pop_front() else {
            return;
        };
        let own = Listed {
            source: Some(source),
            at_ns,
        };
        self.listed.push((offer.seq, own));
        let start = offer.timeline.get(Point::Start).unwrap_or(at_ns);
        offer.timeline.merge(stamps);
        let found = Found {
            source,
            list,
            edge_clock,
            age: Duration::from_nanos(u64::try_from(at_ns.wrapping_sub(start)).unwrap_or(0)),
        };
        self.outlet.tell(offer, Some(found));
    }

    /// Nothing is kept for an edge that may never answer.
    fn give_up_overdue(&mut self) {
        let is_overdue = |waiting: &Waiting| waiting.need != Need::Answer;
        if self.waiting.iter().filter(|w| is_overdue(w)).count() <= OVERDUE {
            return;
        }
        // The one that is detected in will have its list.
        let running = self.running.map(|(seq, _)| seq);
        let oldest = self
            .waiting
            .iter()
            .position(|waiting| is_overdue(waiting) && Some(waiting.offer.seq) != running);
        if let Some(waiting) = oldest.and_then(|oldest| self.waiting.remove(oldest)) {
            self.outlet.tell(waiting.offer, None);
        }
    }

    fn place(&self, seq: u64) -> Option<usize> {
        let place = self.waiting.binary_search_by_key(&seq, |w| w.offer.seq);
        place.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::DataType;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn selection(limits: Limits, local: bool) -> Selection {
        let outlet = Outlet {
            data_type: DataType::Scan,
            viewers: Vec::new(),
            selected: None,
            unseen: Vec::new(),
        };
        Selection::new(limits, local.then(|| "test".to_owned()), outlet, 0)
    }

    fn offer(seq: u64, start: i64, accepted: bool) -> Offer {
        let mut timeline = Timeline::default();
        timeline.set(Point::Start, start);
        Offer {
            seq,
            timeline,
            payload: Bytes::from_static(b"scan"),
            accepted,
        }
    }

    fn answer(seq: u64, end: i64) -> Arrived {
        let mut timeline = Timeline::default();
        timeline.set(Point::End, end);
        Arrived {
            seq,
            timeline,
            edge_clock: Some(1),
            list: Bytes::new(),
        }
    }

    fn done(seq: u64) -> Done {
        Done {
            seq,
            list: Ok(Bytes::new()),
        }
    }

    fn of(source: Source, at_ns: i64) -> Listed {
        Listed {
            source: Some(source),
            at_ns,
        }
    }

    /// What the edge does with each frame: answers so many milliseconds after T0, does not answer, or
    /// never gets it.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Answered(i64),
        Lost,
        Refused,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Offer(u64),
        Answer(u64),
        Done(u64),
        Deadline,
    }

    /// Plays a trial: a frame every `period` milliseconds, a local detector that takes `local`.
    fn play(fates: &[Fate], limits: Limits, period: i64, local: i64) -> (Selection, Vec<i64>) {
        let mut selection = selection(limits, true);
        let start = |seq: u64| seq as i64 * period * MS;
        let mut events: Vec<(i64, Event)> = Vec::new();
        for (seq, fate) in (0..).zip(fates) {
            events.push((start(seq), Event::Offer(seq)));
            if let Fate::Answered(after) = fate {
                events.push((start(seq) + after * MS, Event::Answer(seq)));
            }
        }
        let mut running = false;
        loop {
            let deadline = selection.next_deadline().map(|at| (at, Event::Deadline));
            let place = (0..events.len()).min_by_key(|place| events[*place]);
            let next = place.map(|place| events[place]);
            let Some((now, event)) = next.into_iter().chain(deadline).min() else {
                break;
            };
            if Some((now, event)) == next {
                events.swap_remove(place.unwrap());
            }
            match event {
                Event::Offer(seq) => {
                    let accepted = !matches!(fates[seq as usize], Fate::Refused);
                    selection.offered(offer(seq, now, accepted), now);
                }
                Event::Answer(seq) => selection.answered(answer(seq, now)),
                Event::Done(seq) => {
                    running = false;
                    selection.detected(done(seq), now);
                }
                Event::Deadline => selection.pass(now),
            }
            if !running && let Some(job) = selection.job(now) {
                running = true;
                events.push((now + local * MS, Event::Done(job.seq)));
            }
        }
        let starts = (0..fates.len() as u64).map(start).collect();
        (selection, starts)
    }

    fn fates() -> impl Strategy<Value = Vec<Fate>> {
        // Stretches of one kind, as links have them, and single ones.
        let fate = prop_oneof![
            4 => (1i64..90).prop_map(Fate::Answered),
            2 => (90i64..900).prop_map(Fate::Answered),
            2 => Just(Fate::Lost),
            1 => Just(Fate::Refused),
        ];
        let stretch = (fate, 1usize..12).prop_map(|(fate, length)| vec![fate; length]);
        prop::collection::vec(stretch, 1..12).prop_map(|stretches| stretches.concat())
    }

    proptest! {
        #[test]
        fn no_frame_is_without_a_list_beyond_the_deadline_and_one_detection(
            fates in fates(),
            deadline in 50u64..250,
            misses in 1u32..5,
            recoveries in 1u32..6,
            // It keeps up with the sensor, and with the deadline.
            local in 1i64..=50,
        ) {
            let limits = Limits { deadline: Duration::from_millis(deadline), misses, recoveries };
            let (selection, starts) = play(&fates, limits, 50, local);
            let (listed, operation, _) = selection.end();
            prop_assert_eq!(listed.len(), fates.len());
            // A deadline has passed a nanosecond after it.
            let bound = (deadline as i64 + local) * MS + 1;
            for ((seq, listed), start) in listed.iter().zip(&starts) {
                let age = listed.at_ns - start;
                prop_assert!(age <= bound, "frame {seq} after {age} ns: {:?}", listed.source);
            }
            // Each detection has one end.
            let own = |(_, listed): &&(u64, Listed)| listed.source == Some(Source::Local);
            let own = listed.iter().filter(own).count() as u64;
            prop_assert_eq!(operation.detections, own + operation.unneeded);
            prop_assert_eq!(operation.failed + operation.unfinished, 0);
            // The modes take turns.
            for pair in operation.switches.windows(2) {
                prop_assert_ne!(pair[0].to, pair[1].to);
                prop_assert!(pair[0].at_ns <= pair[1].at_ns);
            }
        }

        #[test]
        fn it_returns_to_an_edge_that_is_back(
            before in fates(),
            deadline in 100u64..250,
            recoveries in 1u32..6,
        ) {
            let limits = Limits { deadline: Duration::from_millis(deadline), misses: 2, recoveries };
            let outage = before.into_iter().chain([Fate::Lost; 2]);
            // What was sent before may be late still, up to 900 ms, before the last of the good ones.
            let fates: Vec<_> = outage.chain([Fate::Answered(20); 30]).collect();
            let (selection, _) = play(&fates, limits, 50, 10);
            let (listed, operation, _) = selection.end();
            prop_assert!(operation.switches.last().is_none_or(|last| last.to == Mode::Edge));
            // Once the deadlines of the lost ones are over, `recoveries` good answers are enough.
            let settled = fates.len() - 30 + deadline as usize / 50 + recoveries as usize + 2;
            for (seq, listed) in &listed[settled..] {
                prop_assert_eq!(listed.source, Some(Source::Edge), "frame {}", seq);
            }
        }

        #[test]
        fn nothing_piles_up_without_a_detector(fates in fates()) {
            let mut selection = selection(Limits::default(), false);
            for (seq, fate) in (0..).zip(&fates) {
                let now = seq as i64 * 50 * MS;
                let accepted = !matches!(fate, Fate::Refused);
                selection.offered(offer(seq, now, accepted), now);
                selection.pass(now);
                // Those of the deadline come on top.
                prop_assert!(selection.waiting.len() <= OVERDUE + 3);
                prop_assert_eq!(selection.waiting.back().unwrap().offer.payload.len(), 0);
                prop_assert!(selection.job(0).is_none());
            }
        }
    }

    #[test]
    fn the_first_list_is_the_frame_s_and_the_other_one_is_counted() {
        let mut selection = selection(Limits::default(), true);
        selection.offered(offer(0, 0, true), 0);
        assert!(selection.job(0).is_none());
        selection.pass(100 * MS + 1);
        assert_eq!(selection.job(0).unwrap().seq, 0);
        // Late, and still before the detection is done.
        selection.answered(answer(0, 120 * MS));
        selection.detected(done(0), 130 * MS);
        let (listed, operation, _) = selection.end();
        assert_eq!(listed, [(0, of(Source::Edge, 120 * MS))]);
        assert_eq!((operation.late, operation.unneeded), (1, 1));
    }

    #[test]
    fn a_frame_that_a_newer_one_overtook_is_neither_detected_in_nor_answered() {
        let mut selection = selection(
            Limits {
                misses: 1,
                ..Limits::default()
            },
            true,
        );
        for seq in 0..4 {
            selection.offered(offer(seq, seq as i64 * MS, false), seq as i64 * MS);
        }
        assert_eq!(selection.job(0).unwrap().seq, 3);
        selection.detected(done(3), 9 * MS);
        // Stale by now.
        selection.answered(answer(1, 10 * MS));
        assert!(selection.job(0).is_none());
        let (listed, operation, _) = selection.end();
        let newer = Listed {
            source: None,
            at_ns: 9 * MS,
        };
        let expected = [
            (0, newer),
            (1, newer),
            (2, newer),
            (3, of(Source::Local, 9 * MS)),
        ];
        assert_eq!(listed, expected);
        assert_eq!((operation.refused, operation.detections), (4, 1));
    }

    #[test]
    fn an_answer_may_come_before_its_frame_is_told_of() {
        let mut selection = selection(Limits::default(), true);
        selection.answered(answer(0, 5 * MS));
        selection.offered(offer(0, 0, true), 6 * MS);
        let (listed, operation, _) = selection.end();
        assert_eq!(listed, [(0, of(Source::Edge, 5 * MS))]);
        assert_eq!(operation.late, 0);
    }

    #[test]
    fn a_detector_that_is_gone_leaves_the_edge() {
        let mut selection = selection(
            Limits {
                misses: 1,
                ..Limits::default()
            },
            true,
        );
        selection.offered(offer(0, 0, false), 0);
        assert!(selection.job(0).is_some());
        selection.bereft();
        selection.offered(offer(1, MS, true), MS);
        assert!(selection.job(0).is_none() && !selection.is_busy());
        selection.answered(answer(1, 2 * MS));
        let (listed, operation, _) = selection.end();
        assert_eq!(listed[1], (1, of(Source::Edge, 2 * MS)));
        assert_eq!((operation.failed, operation.unfinished), (1, 0));
        assert!(operation.failure.unwrap().contains("panicked"));
    }
}
