//! Which object list each frame has.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use exchange::DataType;
use latency_timeline::{Point, Timeline};
use tokio::sync::mpsc;

use crate::frame::{Frame, Objects, Source};

/// A frame that was sent, or that the transport refused.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) seq: u64,
    /// The vehicle's stamps of the way out.
    pub(crate) timeline: Timeline,
    pub(crate) payload: Bytes,
}

/// An answer of the edge.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) seq: u64,
    /// The stamps of the edge and the vehicle's of the way back.
    pub(crate) timeline: Timeline,
    pub(crate) list: Bytes,
}

/// Frames that wait for a list at most; the oldest is given up for one more.
const WAITING: usize = 16;

/// Finds a list for each frame.
#[derive(Debug)]
pub(crate) struct Selection {
    data_type: DataType,
    viewers: Option<mpsc::Sender<Frame>>,
    /// Frames without a list, the oldest first.
    waiting: VecDeque<Offer>,
    /// Answers that came before the sending thread told of their frame.
    early: BTreeMap<u64, Arrived>,
    /// Frames that the viewers had no room for.
    unseen: u64,
}

impl Selection {
    pub(crate) fn new(data_type: DataType, viewers: Option<mpsc::Sender<Frame>>) -> Self {
        Self {
            data_type,
            viewers,
            waiting: VecDeque::with_capacity(WAITING + 1),
            early: BTreeMap::new(),
            unseen: 0,
        }
    }

    /// A frame was sent.
    pub(crate) fn offered(&mut self, offer: Offer) {
        let answer = self.early.remove(&offer.seq);
        self.waiting.push_back(offer);
        if let Some(answer) = answer {
            self.answered(answer);
        } else if self.waiting.len() > WAITING {
            let oldest = self.waiting.pop_front();
            oldest.into_iter().for_each(|offer| self.tell(offer, None));
        }
    }

    /// An answer came. Frames before its own are given up: what comes for them is stale.
    pub(crate) fn answered(&mut self, answer: Arrived) {
        let known = self.waiting.binary_search_by_key(&answer.seq, |o| o.seq);
        let Ok(place) = known else {
            if self.waiting.back().is_none_or(|last| last.seq < answer.seq) {
                self.early.insert(answer.seq, answer);
            }
            return;
        };
        for offer in self.waiting.drain(..place).collect::<Vec<_>>() {
            self.tell(offer, None);
        }
        let Some(mut offer) = self.waiting.pop_front() else {
            return;
        };
        let end = answer.timeline.get(Point::End);
        let age = end.zip(offer.timeline.get(Point::Start));
        let age = age.map_or(0, |(end, start)| end.wrapping_sub(start));
        offer.timeline.merge(&answer.timeline);
        let objects = Objects {
            source: Source::Edge,
            list: answer.list,
            age: Duration::from_nanos(u64::try_from(age).unwrap_or(0)),
        };
        self.tell(offer, Some(objects));
    }

    /// The trial is over: what still waits is given up. Returns how many frames the viewers had no
    /// room for.
    pub(crate) fn end(mut self) -> u64 {
        for offer in std::mem::take(&mut self.waiting) {
            self.tell(offer, None);
        }
        self.unseen
    }

    fn tell(&mut self, offer: Offer, objects: Option<Objects>) {
        let Some(viewers) = &self.viewers else {
            return;
        };
        let frame = Frame {
            seq: offer.seq,
            start_ns: offer.timeline.get(Point::Start).unwrap_or(0),
            data_type: self.data_type,
            payload: offer.payload,
            objects,
            timeline: offer.timeline,
        };
        if viewers.try_send(frame).is_err() {
            self.unseen += 1;
        }
    }
}
