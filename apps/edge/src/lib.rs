//! The edge: receives scans or clouds, converts, detects, answers.
//!
//! It names no transport. One dedicated thread receives, works and publishes, so a scan changes
//! threads only inside the transport and, if it has one, the detector's thread pool. How many scans
//! wait while the detector works is [`Settings::scan_qos`]; with `exchange::freshest` it is the newest
//! one, and the others are dropped and counted.
//!
//! Every scan and every cloud is answered, also one without points. A message that is neither, a scan
//! older than [`Settings::max_age`], and a cloud that the detector refuses, are counted and not
//! answered; the next one is.

mod age;

use std::fmt;
use std::task::Poll;
use std::time::Duration;

use exchange::{DataType, Outage, Outages, Receipt, Topics, pack};
use latency_timeline::{Clock, ClockPair, Point, Timeline};
use lidar_detector::Detector;
use lidar_sensor::Convention;
use perception::{Fault, ListSettings, Lister, Perception};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::watch;
use transport_api::{
    Error, ErrorKind, Message, Metadata, Publisher, PublisherCounters, PublisherExt, Qos, Result,
    Sample, Sequence, Stage, Subscriber, SubscriberCounters, TopicFilter, Transport,
};

use age::Ages;

/// How an edge works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where scans come in and objects go out.
    pub topics: Topics,
    /// Quality of service of scans.
    pub scan_qos: Qos,
    /// Quality of service of object lists.
    pub objects_qos: Qos,
    /// How lists are made.
    pub lists: ListSettings,
    /// Scans older than this on arrival are not answered; `None`: all are. The age is the delay of a
    /// scan beyond that of the fastest one of the same vehicle, so no clocks need to agree.
    pub max_age: Option<Duration>,
    /// Angle convention of the conversion.
    pub convention: Convention,
    /// The clock of the stamps.
    pub clock: Clock,
}

/// What an edge has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What became of the messages that were received.
    pub counts: Counts,
    /// The clocks when it had subscribed.
    pub began: ClockPair,
    /// The clocks at its end.
    pub ended: ClockPair,
    /// When it was disconnected, by its clock.
    pub outages: Vec<Outage>,
    /// The subscriber of scans.
    pub scans: SubscriberCounters,
    /// The subscriber of clouds.
    pub clouds: SubscriberCounters,
    /// The publisher of object lists.
    pub objects: PublisherCounters,
    /// The publisher of markers, if there are any.
    pub markers: Option<PublisherCounters>,
}

/// What became of the messages that an edge received; each is in one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Object lists published.
    pub answered: u64,
    /// Scans older than allowed.
    pub expired: u64,
    /// Messages that were no scan or cloud.
    pub undecodable: u64,
    /// Clouds that the detector refused.
    pub undetected: u64,
    /// Object lists that the transport did not take.
    pub unpublished: u64,
    /// Messages in hand when the edge was told to stop.
    pub unfinished: u64,
}

/// An edge whose subscriptions are active.
pub struct Edge {
    scans: Box<dyn Subscriber>,
    clouds: Box<dyn Subscriber>,
    stage: DetectionStage,
    began: ClockPair,
    outages: Outages,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge")
            .field("detector", &self.stage.perception.detector())
            .finish()
    }
}

/// From a received message to a published answer.
struct DetectionStage {
    perception: Perception,
    max_age: Option<Duration>,
    ages: Ages,
    lister: Lister,
    publisher: Box<dyn Publisher>,
    markers: Option<Box<dyn Publisher>>,
    answers: Sequence,
    clock: Clock,
    runtime: Handle,
    /// Of the last answer, if it was taken; its stamps travel in the next one.
    previous: Option<Receipt>,
    counts: Counts,
}

impl Edge {
    /// Subscribes; the edge answers from the moment [`Edge::run`] is called. Not cancel-safe.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the transport carries no metadata; what it answers.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn open(
        transport: &dyn Transport,
        detector: Box<dyn Detector>,
        settings: &Settings,
    ) -> Result<Self> {
        exchange::check_metadata(transport)?;
        let topics = &settings.topics;
        let publisher = transport
            .publisher(
                &topics.objects,
                &settings.lists.format.schema()?,
                settings.objects_qos,
            )
            .await?;
        let markers = match settings.lists.markers {
            true => {
                let schema = exchange::markers_schema()?;
                let qos = exchange::freshest();
                Some(transport.publisher(&topics.markers, &schema, qos).await?)
            }
            false => None,
        };
        let subscribe = async |topic, schema| {
            transport
                .subscriber(&TopicFilter::from(topic), &schema, settings.scan_qos)
                .await
        };
        Ok(Self {
            scans: subscribe(&topics.scan, exchange::scan_schema()?).await?,
            clouds: subscribe(&topics.cloud, exchange::cloud_schema()?).await?,
            stage: DetectionStage {
                perception: Perception::new(detector, settings.convention, settings.clock),
                max_age: settings.max_age,
                ages: Ages::default(),
                lister: Lister::new(settings.lists, 1),
                publisher,
                markers,
                answers: Sequence::random(),
                clock: settings.clock,
                runtime: Handle::current(),
                previous: None,
                counts: Counts::default(),
            },
            began: settings.clock.pair(),
            outages: Outages::watch(transport.events(), settings.clock),
        })
    }

    /// Answers until `stop` becomes true or its sender is gone, or the transport ends. Not
    /// cancel-safe: a dropped future leaves the thread running until `stop`.
    ///
    /// # Errors
    /// The thread could not be started or ended by a panic.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Report> {
        let runtime = Handle::current();
        let (done, finished) = tokio::sync::oneshot::channel();
        let work = move || {
            // The receiver is gone only if `run` was dropped; then nobody wants the report.
            let _ = done.send(runtime.block_on(self.answer_all(stop)));
        };
        std::thread::Builder::new()
            .name("edge".to_owned())
            .spawn(work)
            .map_err(|error| Error::config("the edge's thread").with_source(error))?;
        finished
            .await
            .map_err(|_| Error::new(ErrorKind::Backend, "run edge", "the edge's thread panicked"))
    }

    async fn answer_all(mut self, mut stop: watch::Receiver<bool>) -> Report {
        loop {
            let next = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                next = receive(&mut *self.scans, &mut *self.clouds) => next,
            };
            match next {
                Some((data_type, Ok(sample))) => tokio::select! {
                    biased;
                    // A transport that cannot send must not hold up the end.
                    _ = stop.wait_for(|stop| *stop) => {
                        self.stage.counts.unfinished += 1;
                        break;
                    }
                    () = self.stage.answer(data_type, sample) => {}
                },
                // It names both types and the topic.
                Some((_, Err(error))) => tracing::error!(%error, "messages are refused"),
                None => break,
            }
        }
        let flushed = self.stage.publisher.flush(Stage::Written);
        // The transport may be closed already; then there is nothing left to flush.
        let _ = tokio::time::timeout(FLUSH, flushed).await;
        Report {
            scans: self.scans.counters(),
            clouds: self.clouds.counters(),
            objects: self.stage.publisher.counters(),
            markers: self
                .stage
                .markers
                .as_ref()
                .map(|markers| markers.counters()),
            counts: self.stage.counts,
            began: self.began,
            ended: self.stage.clock.pair(),
            outages: self.outages.so_far(),
        }
    }
}

/// The next message of either subscriber; `None` when both have ended.
async fn receive(
    scans: &mut dyn Subscriber,
    clouds: &mut dyn Subscriber,
) -> Option<(DataType, Result<Sample>)> {
    std::future::poll_fn(|cx| {
        let scan = scans.poll_recv(cx);
        if let Poll::Ready(Some(sample)) = scan {
            return Poll::Ready(Some((DataType::Scan, sample)));
        }
        match (scan, clouds.poll_recv(cx)) {
            (_, Poll::Ready(Some(sample))) => Poll::Ready(Some((DataType::Cloud, sample))),
            (Poll::Ready(None), Poll::Ready(None)) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}

impl DetectionStage {
    async fn answer(&mut self, data_type: DataType, sample: Sample) {
        let clock = self.clock;
        let mut timeline = Timeline::default();
        let now = clock.now();
        timeline.set(Point::EdgeIn, now);
        let age = self.ages.of(&sample.meta.stamps, now);
        if let (Some(age), Some(max)) = (age, self.max_age)
            && age > max
        {
            self.counts.expired += 1;
            let why = format_args!("{age:.1?} old, more than {max:?}");
            return warn_sometimes(self.counts.expired, &sample, &why);
        }
        let bytes = sample.payload.clone();
        let found = match self.perception.detect(data_type, bytes, &mut timeline) {
            Ok(found) => found,
            Err(fault) => {
                let count = match &fault {
                    Fault::Undecodable(_) | Fault::Unconvertible(_) => &mut self.counts.undecodable,
                    Fault::Undetected(_) => &mut self.counts.undetected,
                };
                *count += 1;
                return warn_sometimes(*count, &sample, &fault);
            }
        };
        timeline.set(Point::AnswerIn, clock.now());
        let payload = self.lister.list(&found);
        let mut previous = Timeline::default();
        if let Some(receipt) = self.previous.take() {
            receipt.stamp(
                &mut previous,
                Point::AnswerReturned,
                Point::AnswerAcknowledged,
            );
        }
        timeline.set(Point::AnswerOut, clock.now());
        let meta = Metadata {
            id: Some(self.answers.next_id()),
            correlation: sample.meta.id,
            stamps: pack(&timeline, &previous, clock.id()),
            trace: sample.meta.trace,
            schema: None,
        };
        match self.publisher.publish(Message { payload, meta }).await {
            Ok(token) => {
                self.counts.answered += 1;
                self.previous = Some(Receipt::of(token, clock, &self.runtime));
            }
            Err(error) => {
                self.counts.unpublished += 1;
                warn_sometimes(self.counts.unpublished, &sample, &error);
            }
        }
        if let Some(markers) = &self.markers {
            let message = Message::new(self.lister.markers(&found));
            // What is refused is counted by the publisher; the next ones are newer.
            drop(markers.try_publish(message));
        }
    }
}

/// How long the last answers may take to leave when the edge ends.
const FLUSH: Duration = Duration::from_millis(300);

/// Logs the first, the second, the fourth, the eighth … of a kind of failure.
fn warn_sometimes(count: u64, sample: &Sample, error: &dyn fmt::Display) {
    if count.is_power_of_two() {
        tracing::warn!(topic = %sample.topic, bytes = sample.payload.len(), count, %error,
            "message not answered");
    }
}
