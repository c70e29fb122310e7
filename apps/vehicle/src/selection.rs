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
    /// The frame that the vehicle detects in.
    running: Option<u64>,
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
        let local = self.switch.is_some_and(|s| s.mode() == Mode::Local);
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
    pub(crate) fn job(&mut self) -> Option<Job> {
        self.switch?;
        let wanted = |waiting: &&Waiting| waiting.need == Need::Detection;
        let newest = self.waiting.iter().rfind(wanted)?;
        let job = Job {
            seq: newest.offer.seq,
            payload: newest.offer.payload.clone(),
        };
        self.running = Some(job.seq);
        self.operation.detections += 1;
        Some(job)
    }

    /// The vehicle's own detection ended at `now`.
    pub(crate) fn detected(&mut self, done: Done, now: i64) {
        self.running = None;
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

    /// Whether the vehicle is still to find a list by itself.
    pub(crate) fn is_busy(&self) -> bool {
        let expected = |waiting: &Waiting| waiting.need != Need::LateAnswer;
        self.switch.is_some() && self.waiting.iter().any(expected)
    }

    /// The trial is over: what still waits is given up. Returns what each frame got, by number, how that
    /// came, and how many frames the viewers had no room for.
    pub(crate) fn end(mut self) -> (Vec<(u64, Listed)>, Operation, u64) {
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
        let oldest = self
            .waiting
            .iter()
            .position(|waiting| is_overdue(waiting) && Some(waiting.offer.seq) != self.running);
        if let Some(waiting) = oldest.and_then(|oldest| self.waiting.remove(oldest)) {
            self.outlet.tell(waiting.offer, None);
        }
    }

    fn place(&self, seq: u64) -> Option<usize> {
        let place = self.waiting.binary_search_by_key(&seq, |w| w.offer.seq);
        place.ok()
    }
}
