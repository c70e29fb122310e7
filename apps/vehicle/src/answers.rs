//! The answers as they arrive, and single echoes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use exchange::{ObjectsFormat, unpack};
use latency_timeline::{Clock, Point, Timeline};
use tokio::sync::watch;
use transport_api::{
    Error, ErrorKind, Message, MessageId, Publisher, PublisherExt, Result, Sample, Sequence,
    Subscriber, SubscriberCounters, SubscriberExt,
};

use crate::schedule::Sent;
use crate::selection::Arrived;
use crate::{Progress, stopped};

/// One answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The stamps of the edge and the vehicle's stamps of the way back.
    pub(crate) timeline: Timeline,
    /// The edge's clock.
    pub(crate) edge_clock: Option<u32>,
    /// Payload bytes.
    pub(crate) bytes: usize,
    /// Objects in the list.
    pub(crate) objects: usize,
    /// How often it arrived again.
    pub(crate) repeats: u32,
    /// Which edge it is of; `None` if it does not say.
    pub(crate) edge: Option<u64>,
}

/// Receives answers and notes them by the sequence number of the scan they answer.
pub(crate) struct Answers<'a> {
    subscriber: Box<dyn Subscriber>,
    format: ObjectsFormat,
    source: u64,
    clock: Clock,
    progress: &'a dyn Fn(Progress),
    noted: HashMap<u64, Answer>,
    /// Which scan each of the edge's answers was for.
    scans: HashMap<MessageId, u64>,
    /// The first scan whose answer is noted; answers to earlier ones are late echoes.
    from: u64,
    /// The answer that came last: the scan's number and the edge's own number.
    last: Option<EchoPoint>,
    missed_before: u64,
    unrelated: u64,
    undecodable: u64,
    refused: u64,
    /// Repeats that were answers of another edge.
    rivals: u64,
    /// Why the last refused arrival was refused.
    refusal: Option<String>,
    /// Whether the subscription has ended.
    ended: bool,
}

/// An answered scan: its number, and how many answers the edge had sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EchoPoint {
    pub(crate) sent: u64,
    pub(crate) edge: u64,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(
        subscriber: Box<dyn Subscriber>,
        format: ObjectsFormat,
        source: u64,
        clock: Clock,
        progress: &'a dyn Fn(Progress),
    ) -> Self {
        Self {
            subscriber,
            format,
            source,
            clock,
            progress,
            noted: HashMap::new(),
            scans: HashMap::new(),
            from: u64::MAX,
            last: None,
            missed_before: 0,
            unrelated: 0,
            undecodable: 0,
            refused: 0,
            rivals: 0,
            refusal: None,
            ended: false,
        }
    }

    /// Notes the answers to scan `from` and later ones: they are the trial.
    pub(crate) fn begin(&mut self, from: u64) {
        self.from = from;
        self.missed_before = self.subscriber.counters().missed;
    }

    /// Receives and notes one arrival, and returns it if it is the first answer to a scan of the trial;
    /// never resolves once the subscription has ended, which is noted too. An arrival that the
    /// transport refuses, such as another type from a foreign publisher, is counted. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Arrived> {
        if self.ended {
            std::future::pending::<()>().await;
        }
        let sample = self.subscriber.recv().await;
        let reply_in = self.clock.now();
        match sample {
            Some(Ok(sample)) => return self.note(sample, reply_in),
            Some(Err(error)) => {
                self.refused += 1;
                tracing::warn!(%error, count = self.refused, "arrival refused");
                self.refusal = Some(error.to_string());
            }
            None => self.ended = true,
        }
        None
    }

    fn note(&mut self, sample: Sample, reply_in: i64) -> Option<Arrived> {
        let Some(scan) = sample
            .meta
            .correlation
            .filter(|scan| scan.source == self.source)
        else {
            self.unrelated += 1;
            return None;
        };
        if let Some(answer) = self.noted.get_mut(&scan.seq) {
            answer.repeats += 1;
            let edge = sample.meta.id.map(|id| id.source);
            // One edge that was started anew answers no scan twice but by delivery at least once.
            if edge.is_some() && edge != answer.edge {
                self.rivals += 1;
                if self.rivals == 1 {
                    tracing::warn!(topic = %sample.topic,
                        "two edges answer this vehicle; stop one, or give it another prefix");
                }
            }
            return None;
        }
        let edge = unpack(&sample.meta.stamps);
        let mut timeline = edge.own;
        timeline.set(Point::ReplyIn, reply_in);
        let bytes = sample.payload.len();
        let list = sample.payload;
        let objects = match self.format.count(list.clone()) {
            Ok(objects) => objects,
            Err(error) => {
                self.undecodable += 1;
                if self.undecodable.is_power_of_two() {
                    tracing::warn!(%error, count = self.undecodable, "answer not decodable");
                }
                return None;
            }
        };
        timeline.set(Point::ReplyOut, self.clock.now());
        timeline.set(Point::End, self.clock.now());
        if let Some(id) = sample.meta.id {
            self.last = Some(EchoPoint {
                sent: scan.seq,
                edge: id.seq,
            });
            self.scans.insert(id, scan.seq);
            self.complete(id, &edge.previous);
        }
        if scan.seq < self.from {
            return None;
        }
        self.noted.insert(
            scan.seq,
            Answer {
                timeline,
                edge_clock: edge.clock,
                bytes,
                objects,
                repeats: 0,
                edge: sample.meta.id.map(|id| id.source),
            },
        );
        self.tell(Progress::Answered(self.noted.len() as u64));
        Some(Arrived {
            seq: scan.seq,
            timeline,
            edge_clock: edge.clock,
            list,
        })
    }

    /// Gives the answer before `id` the stamps that the edge took after sending it.
    fn complete(&mut self, id: MessageId, stamps: &Timeline) {
        let before = id.seq.checked_sub(1).map(|seq| MessageId { seq, ..id });
        let scan = before.and_then(|before| self.scans.remove(&before));
        if let Some(answer) = scan.and_then(|scan| self.noted.get_mut(&scan)) {
            answer.timeline.merge(stamps);
        }
    }

    /// Tells how far the trial is.
    pub(crate) fn tell(&self, progress: Progress) {
        (self.progress)(progress);
    }

    /// Answers of different scans.
    pub(crate) fn count(&self) -> usize {
        self.noted.len()
    }

    /// Answers that got lost on the way back since [`Answers::begin`], by the edge's numbers.
    pub(crate) fn missed(&self) -> u64 {
        self.subscriber
            .counters()
            .missed
            .saturating_sub(self.missed_before)
    }

    /// The longest round trip so far.
    pub(crate) fn slowest(&self, sent: &[Sent]) -> Duration {
        let longest = sent.iter().filter_map(|sent| {
            let end = self.noted.get(&sent.id.seq)?.timeline.get(Point::End)?;
            Some(end.wrapping_sub(sent.timeline.get(Point::Start)?))
        });
        Duration::from_nanos(u64::try_from(longest.max().unwrap_or(0)).unwrap_or(0))
    }

    pub(crate) fn take(&mut self) -> HashMap<u64, Answer> {
        std::mem::take(&mut self.noted)
    }

    pub(crate) fn unrelated(&self) -> u64 {
        self.unrelated
    }

    pub(crate) fn undecodable(&self) -> u64 {
        self.undecodable
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn rivals(&self) -> u64 {
        self.rivals
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn counters(&self) -> SubscriberCounters {
        self.subscriber.counters()
    }
}

/// Sends an empty scan and waits for its answer: the whole path without its load.
pub(crate) struct Echo {
    publisher: Arc<dyn Publisher>,
    payload: Bytes,
    stop: watch::Receiver<bool>,
}

/// How long one echo may take before the next try.
const TRY: Duration = Duration::from_millis(500);

impl Echo {
    pub(crate) fn new(
        publisher: Arc<dyn Publisher>,
        payload: Bytes,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            publisher,
            payload,
            stop,
        }
    }

    /// One echo, tried again until `deadline`; `None` if stopped before. Not cancel-safe.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] without an answer; what the transport answers.
    pub(crate) async fn once(
        &mut self,
        sequence: &mut Sequence,
        answers: &mut Answers<'_>,
        deadline: Instant,
    ) -> Result<Option<EchoPoint>> {
        if answers.ended {
            return Err(Error::closed("receive answers"));
        }
        let begun = sequence.count();
        let end = tokio::time::sleep_until(deadline.into());
        tokio::pin!(end);
        loop {
            let mut message = Message::new(self.payload.clone()).with_id(sequence.next_id());
            let clock = answers.clock;
            message.meta.stamps = exchange::pack_start(clock.now(), clock.id());
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Ok(None),
                // A queue that stays full must not hold up the end.
                token = self.publisher.publish(message) => drop(token?),
                () = &mut end => break,
            }
            let again = tokio::time::sleep(TRY);
            tokio::pin!(again);
            loop {
                tokio::select! {
                    biased;
                    () = stopped(&mut self.stop) => return Ok(None),
                    _ = answers.next() => {}
                    () = &mut again => break,
                    () = &mut end => break,
                }
                // The answer to any try will do: a slow one may take longer than a try.
                if answers.last.is_some_and(|last| last.sent >= begun) {
                    return Ok(answers.last);
                }
            }
            if end.is_elapsed() {
                break;
            }
        }
        let mut message = "no answer to an empty scan; is an edge running with the same transport \
                           and topics?"
            .to_owned();
        if let Some(refusal) = &answers.refusal {
            message.push_str(&format!(" What did arrive was refused: {refusal}"));
        }
        Err(Error::new(ErrorKind::Timeout, "wait for the edge", message))
    }
}
