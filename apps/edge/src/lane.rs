//! One vehicle as the edge serves it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use exchange::{DataType, Receipt, pack};
use latency_timeline::{Clock, Point, Timeline};
use lidar_messages::PoseStamped;
use perception::{Fault, Found, Lister, Perception};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use transport_api::{
    DeliveryToken, Error, Message, Metadata, Publisher, PublisherCounters, PublisherExt, Refused,
    Result, Sample, Sequence, Stage, Subscriber, SubscriberCounters, TopicFilter, Transport, Why,
};

use crate::age::Ages;
use crate::collective::{Contribution, POSES, Share};
use crate::{Settings, Vehicle};

/// What became of the messages that an edge received of one vehicle; each is in one of these.
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

/// What an edge has done for one vehicle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Its name.
    pub vehicle: String,
    /// What became of the messages that were received.
    pub counts: Counts,
    /// The subscriber of scans.
    pub scans: SubscriberCounters,
    /// The subscriber of clouds.
    pub clouds: SubscriberCounters,
    /// The publisher of object lists.
    pub objects: PublisherCounters,
    /// The publisher of markers, if there are any.
    pub markers: Option<PublisherCounters>,
    /// What it gave to the collective list, if there is one.
    pub share: Option<Share>,
    /// The subscriber of poses, if they matter.
    pub poses: Option<SubscriberCounters>,
    /// Poses that could not be used.
    pub poses_refused: u64,
}

/// The subscriptions and answers of one vehicle. Nothing in it grows with what the vehicle sends.
pub(crate) struct Lane {
    vehicle: String,
    scans: Box<dyn Subscriber>,
    clouds: Box<dyn Subscriber>,
    publisher: Arc<dyn Publisher>,
    lister: Lister,
    markers: Option<Box<dyn Publisher>>,
    answers: Sequence,
    clock: Clock,
    max_age: Option<Duration>,
    ages: Ages,
    /// Of the last answer, if it was taken; its stamps travel in the next one.
    previous: Option<Receipt>,
    /// An answer that waits for room. The next scan is taken when it has left: who does not take
    /// answers waits, and nobody else with it.
    waiting: Option<JoinHandle<Result<DeliveryToken>>>,
    counts: Counts,
    pub(crate) contribution: Option<Contribution>,
    poses: Option<Box<dyn Subscriber>>,
    poses_refused: u64,
}

impl Lane {
    pub(crate) async fn open(
        transport: &dyn Transport,
        vehicle: &Vehicle,
        settings: &Settings,
    ) -> Result<Self> {
        let Vehicle { name, topics, pose } = vehicle;
        let objects = settings.lists.format.schema()?;
        let publisher = transport.publisher(&topics.objects, &objects, settings.objects_qos);
        let publisher = Arc::from(publisher.await?);
        let markers = match settings.lists.markers {
            true => {
                let schema = exchange::markers_schema()?;
                let qos = exchange::freshest();
                Some(transport.publisher(&topics.markers, &schema, qos).await?)
            }
            false => None,
        };
        let subscribe = async |topic, schema, qos| {
            transport
                .subscriber(&TopicFilter::from(topic), &schema, qos)
                .await
        };
        let wrong_pose = |reason| Error::config(format!("pose of {name}: {reason}"));
        let contribution = match settings.collective {
            Some(_) => Some(Contribution::new(name, pose.as_ref()).map_err(wrong_pose)?),
            None => None,
        };
        let poses = match (&contribution, pose) {
            (Some(_), None) => {
                let qos = transport_api::Qos::default().with_depth(POSES);
                Some(subscribe(&topics.pose, exchange::pose_schema()?, qos).await?)
            }
            _ => None,
        };
        let qos = settings.scan_qos;
        Ok(Self {
            vehicle: name.clone(),
            scans: subscribe(&topics.scan, exchange::scan_schema()?, qos).await?,
            clouds: subscribe(&topics.cloud, exchange::cloud_schema()?, qos).await?,
            publisher,
            lister: Lister::new(settings.lists, 1),
            markers,
            answers: Sequence::random(),
            clock: settings.clock,
            max_age: settings.max_age,
            ages: Ages::default(),
            previous: None,
            waiting: None,
            counts: Counts::default(),
            contribution,
            poses,
            poses_refused: 0,
        })
    }

    /// The next message; `None` when both subscriptions have ended. Nothing while an answer waits.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        runtime: &Handle,
    ) -> Poll<Option<(DataType, Result<Sample>)>> {
        if let Some(waiting) = &mut self.waiting {
            let Poll::Ready(published) = Pin::new(waiting).poll(cx) else {
                return Poll::Pending;
            };
            self.waiting = None;
            // It is aborted only at the end, when nobody polls any more.
            self.settle(
                published.unwrap_or_else(|_| Err(Error::closed("publish"))),
                runtime,
            );
        }
        let scan = self.scans.poll_recv(cx);
        if let Poll::Ready(Some(sample)) = scan {
            return Poll::Ready(Some((DataType::Scan, sample)));
        }
        match (scan, self.clouds.poll_recv(cx)) {
            (_, Poll::Ready(Some(sample))) => Poll::Ready(Some((DataType::Cloud, sample))),
            (Poll::Ready(None), Poll::Ready(None)) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Works on a message and answers it. Blocks for as long as the detector does.
    pub(crate) fn answer(
        &mut self,
        data_type: DataType,
        sample: &Sample,
        perception: &mut Perception,
        runtime: &Handle,
        list_age: Option<Duration>,
    ) {
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
            return warn_sometimes(self.counts.expired, sample, &why);
        }
        let bytes = sample.payload.clone();
        let found = match perception.detect(data_type, bytes, &mut timeline) {
            Ok(found) => found,
            Err(fault) => {
                let count = match &fault {
                    Fault::Undecodable(_) | Fault::Unconvertible(_) => &mut self.counts.undecodable,
                    Fault::Undetected(_) => &mut self.counts.undetected,
                };
                *count += 1;
                return warn_sometimes(*count, sample, &fault);
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
        match self.publisher.try_publish(Message { payload, meta }) {
            Ok(token) => self.settle(Ok(token), runtime),
            Err(Refused {
                why: Why::Fatal(error),
                ..
            }) => self.settle(Err(error), runtime),
            Err(Refused {
                message,
                why: Why::Full,
            }) => {
                let publisher = Arc::clone(&self.publisher);
                let publish = async move { publisher.publish(message).await };
                self.waiting = Some(runtime.spawn(publish));
            }
        }
        if let Some(markers) = &self.markers {
            let message = Message::new(self.lister.markers(&found));
            // What is refused is counted by the publisher; the next ones are newer.
            drop(markers.try_publish(message));
        }
        if let Some(list_age) = list_age {
            self.contribute(&found, now, list_age);
        }
    }

    /// Takes note of whether the transport took an answer.
    fn settle(&mut self, published: Result<DeliveryToken>, runtime: &Handle) {
        match published {
            Ok(token) => {
                self.counts.answered += 1;
                self.previous = Some(Receipt::of(token, self.clock, runtime));
            }
            Err(error) => {
                self.counts.unpublished += 1;
                let count = self.counts.unpublished;
                if count.is_power_of_two() {
                    tracing::warn!(vehicle = self.vehicle, count, %error, "list not published");
                }
            }
        }
    }

    /// Adds what was found in a scan that came at `now` to what all vehicles see.
    fn contribute(&mut self, found: &Found, now: i64, max_age: Duration) {
        let Some(contribution) = &mut self.contribution else {
            return;
        };
        if let Some(poses) = &mut self.poses {
            let mut cx = Context::from_waker(Waker::noop());
            // No more than fit into the queue, so that a flood does not keep the edge here.
            for _ in 0..POSES {
                let Poll::Ready(Some(pose)) = poses.poll_recv(&mut cx) else {
                    break;
                };
                let taken = pose.map_err(|error| error.to_string()).and_then(|sample| {
                    let pose = PoseStamped::decode(sample.payload);
                    let pose = pose.map_err(|error| error.to_string())?;
                    contribution.locate(&pose, now)
                });
                if let Err(error) = taken {
                    self.poses_refused += 1;
                    let count = self.poses_refused;
                    if count.is_power_of_two() {
                        tracing::warn!(vehicle = self.vehicle, count, %error, "pose not used");
                    }
                }
            }
        }
        contribution.list(found.to_array(), now, max_age);
    }

    /// Takes note of a message that is given up at the end.
    pub(crate) fn end(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
            self.counts.unfinished += 1;
        }
    }

    /// Waits until what was published has been written. Cancel-safe.
    pub(crate) async fn flush(&self) {
        // The transport may be closed already; then there is nothing left to flush.
        let _ = self.publisher.flush(Stage::Written).await;
    }

    pub(crate) fn served(self) -> Served {
        Served {
            vehicle: self.vehicle,
            counts: self.counts,
            scans: self.scans.counters(),
            clouds: self.clouds.counters(),
            objects: self.publisher.counters(),
            markers: self.markers.map(|markers| markers.counters()),
            share: self.contribution.as_ref().map(Contribution::share),
            poses: self.poses.map(|poses| poses.counters()),
            poses_refused: self.poses_refused,
        }
    }
}

/// Logs the first, the second, the fourth, the eighth … of a kind of failure.
fn warn_sometimes(count: u64, sample: &Sample, error: &dyn fmt::Display) {
    if count.is_power_of_two() {
        tracing::warn!(topic = %sample.topic, bytes = sample.payload.len(), count, %error,
            "message not answered");
    }
}
