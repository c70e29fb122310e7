//! The open-loop schedule: an absolute instant for every scan, kept by a thread of its own, or the
//! pace of a sensor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use exchange::Receipt;
use latency_timeline::{Clock, Point, Timeline};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use transport_api::{Error, Message, MessageId, Publisher, Refused, Result, Why};

use crate::beacon::Beacon;
use crate::feed::{Feed, Next, Payload};
use crate::selection::Offer;

/// What was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: MessageId,
    /// The vehicle's stamps of the way out.
    pub(crate) timeline: Timeline,
    /// Payload bytes.
    pub(crate) bytes: usize,
    /// `None` if the transport did not take it.
    pub(crate) receipt: Option<Receipt>,
}

impl Sent {
    /// Whether the transport took it.
    pub(crate) fn accepted(&self) -> bool {
        self.receipt.is_some()
    }
}

/// Everything that was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Sent>,
    /// Why the first refused scan was refused.
    pub(crate) rejection: Option<String>,
    /// Frames of which nobody could be told.
    pub(crate) unwatched: u64,
    /// Turns of a sensor that were not sent.
    pub(crate) skipped: u64,
    /// Why a sensor gave no more, before there were enough.
    pub(crate) source_end: Option<String>,
}

/// A payload and when it is due.
struct Due {
    scheduled: Instant,
    /// When it began to be sent: a turn of a sensor does when it is complete, also while nobody
    /// takes it yet.
    start: Instant,
    payload: Payload,
}

pub(crate) struct Sender {
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) feed: Feed,
    pub(crate) ids: Vec<MessageId>,
    pub(crate) period: Duration,
    pub(crate) clock: Clock,
    pub(crate) runtime: Handle,
    pub(crate) stop: watch::Receiver<bool>,
    /// Says where the vehicle is, before each scan.
    pub(crate) beacon: Option<Arc<Beacon>>,
    /// Where each frame is told of once it is sent.
    pub(crate) offers: mpsc::Sender<Offer>,
}

/// The last part of a wait is spun: `sleep` wakes about 0.1 ms late on a quiet machine.
const SPIN: Duration = Duration::from_micros(200);

/// Longest sleep before looking for a stop.
const NAP: Duration = Duration::from_millis(100);

impl Sender {
    /// Starts sending; the receiver resolves when the last scan is sent or `stop` became true.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(self) -> Result<oneshot::Receiver<Outcome>> {
        let (done, sending) = oneshot::channel();
        let work = move || {
            // The receiver is gone only if the trial was dropped; then nobody wants the records.
            let _ = done.send(self.send_all());
        };
        std::thread::Builder::new()
            .name("schedule".to_owned())
            .spawn(work)
            .map_err(|error| Error::config("the schedule's thread").with_source(error))?;
        Ok(sending)
    }

    fn send_all(mut self) -> Outcome {
        let begin = Instant::now() + self.period;
        let ids = std::mem::take(&mut self.ids);
        let mut outcome = Outcome {
            sent: Vec::with_capacity(ids.len()),
            ..Outcome::default()
        };
        self.feed.begin();
        for (n, id) in ids.into_iter().enumerate() {
            let due = match self.feed.next(&self.stop) {
                // Never re-based: a late scan is sent at once and does not delay the next ones.
                None => self.on_schedule(n, begin + self.period.mul_f64(n as f64)),
                Some(Next::Payload(complete, payload)) => Some(Due {
                    scheduled: complete,
                    start: complete,
                    payload,
                }),
                Some(Next::Stopped) => None,
                Some(Next::Ended(why)) => {
                    outcome.source_end = Some(why);
                    None
                }
            };
            let Some(due) = due else { break };
            let (sent, payload, refused) = self.send(id, due);
            let offer = Offer {
                seq: id.seq,
                timeline: sent.timeline,
                payload,
                accepted: sent.accepted(),
            };
            // Full only if this process hangs: nothing else keeps the receiving side from it.
            outcome.unwatched += u64::from(self.offers.try_send(offer).is_err());
            outcome.sent.push(sent);
            outcome.rejection = outcome.rejection.or(refused);
        }
        outcome.skipped = self.feed.skipped();
        outcome
    }

    /// Payload `n` of the loop when it is due; `None` if stopped before.
    fn on_schedule(&self, n: usize, scheduled: Instant) -> Option<Due> {
        if !self.wait_until(scheduled) {
            return None;
        }
        let payload = self.feed.payload(n);
        if let Some(beacon) = &self.beacon {
            beacon.tell(payload.stamp());
        }
        Some(Due {
            scheduled,
            start: Instant::now(),
            payload,
        })
    }

    fn send(&self, id: MessageId, due: Due) -> (Sent, Bytes, Option<String>) {
        let mut timeline = Timeline::default();
        timeline.set(Point::Scheduled, self.clock.at(due.scheduled));
        let start = self.clock.at(due.start);
        timeline.set(Point::Start, start);
        timeline.set(Point::VehicleIn, self.clock.now());
        let payload = due.payload.encode(id.seq as u32);
        let bytes = payload.len();
        let mut message = Message::new(payload.clone()).with_id(id);
        message.meta.stamps = exchange::pack_start(start, self.clock.id());
        timeline.set(Point::VehicleOut, self.clock.now());
        let published = self.publisher.try_publish(message);
        let (receipt, refused) = match published {
            // Whether an accepted scan arrives is seen by its answer.
            Ok(token) => (Some(Receipt::of(token, self.clock, &self.runtime)), None),
            Err(Refused { why, .. }) => {
                timeline.set(Point::ScanReturned, self.clock.now());
                let reason = match why {
                    Why::Full => "the queue is full".to_owned(),
                    Why::Fatal(error) => error.to_string(),
                };
                (None, Some(reason))
            }
        };
        let sent = Sent {
            id,
            timeline,
            bytes,
            receipt,
        };
        (sent, payload, refused)
    }

    /// Sleeps, then spins, until `instant`; `false` if stopped before.
    fn wait_until(&self, instant: Instant) -> bool {
        loop {
            if *self.stop.borrow() {
                return false;
            }
            let left = instant.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if left > SPIN {
                std::thread::sleep((left - SPIN).min(NAP));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use lidar_sensor::Convention;
    use transport_api::{DeliveryToken, Granted, PublisherCounters, Qos, Sequence, Stage};

    use crate::DataType;

    /// Holds up the third call.
    #[derive(Debug)]
    struct Slow(Granted);

    const STALL: Duration = Duration::from_millis(40);

    #[async_trait]
    impl Publisher for Slow {
        fn granted(&self) -> Granted {
            self.0
        }

        fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused> {
            if message.meta.id.is_some_and(|id| id.seq == 2) {
                std::thread::sleep(STALL);
            }
            Ok(DeliveryToken::queued())
        }

        async fn ready(&self) -> Result<()> {
            Ok(())
        }

        async fn flush(&self, _: Stage) -> Result<()> {
            Ok(())
        }

        fn counters(&self) -> PublisherCounters {
            PublisherCounters::default()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_late_scan_is_sent_at_once_and_does_not_move_the_schedule() {
        let granted = transport_api::Capabilities::default().grant_publisher(&Qos::default());
        let mut sequence = Sequence::random();
        let (_stop, stopped) = watch::channel(false);
        let (offers, mut offered) = mpsc::channel(16);
        let sender = Sender {
            publisher: Arc::new(Slow(granted.unwrap())),
            feed: Feed::new(Vec::new(), DataType::Scan, Convention::RosCompat).unwrap(),
            ids: (0..10).map(|_| sequence.next_id()).collect(),
            period: Duration::from_millis(10),
            clock: Clock::start(),
            runtime: Handle::current(),
            stop: stopped,
            beacon: None,
            offers,
        };
        let sent = sender.start().unwrap().await.unwrap().sent;
        assert_eq!(sent.len(), 10);
        let told = std::iter::from_fn(|| offered.try_recv().ok()).count();
        assert_eq!(told, 10);
        let at = |n: usize, point| sent[n].timeline.get(point).unwrap();
        for n in 1..10 {
            let step = at(n, Point::Scheduled) - at(n - 1, Point::Scheduled);
            assert_eq!(step, 10_000_000);
        }
        // Call 2 ends 40 ms after its time at the earliest, so 3 is 30 ms late at least, 4 is 20 ms.
        for (n, least) in [(3, 30_000_000), (4, 20_000_000), (5, 10_000_000)] {
            assert!(sent[n].timeline.lateness().unwrap() >= least, "scan {n}");
        }
    }
}
