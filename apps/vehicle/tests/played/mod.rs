//! An edge that a test plays, over the in-process transport.

#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use exchange::{Topics, pack};
use latency_timeline::{Clock, Point, Timeline};
use lidar_messages::Detection3DArray;
use transport_api::{
    Message, MessageId, Metadata, Publisher, Qos, Sample, Sequence, SubscriberExt, TopicFilter,
    Transport, TransportConfig, TransportFactory, local,
};
use vehicle::{Limits, Settings};

/// Echoes before the trial.
pub(crate) const HANDSHAKE: u64 = 3;

/// The edge's clock.
pub(crate) const CLOCK: u32 = 77;

/// The edge that a test plays.
pub(crate) struct Answering {
    pub(crate) objects: Box<dyn Publisher>,
    pub(crate) ids: Sequence,
    /// What the edge stamped after its last answer.
    pub(crate) previous: Timeline,
}

impl Answering {
    /// Answers `scan` with a list that has the edge's stamps in it.
    pub(crate) fn answer(&mut self, scan: MessageId) {
        let id = self.ids.next_id();
        self.send(list(), Some(id), Some(scan));
    }

    pub(crate) fn send(
        &mut self,
        payload: Bytes,
        id: Option<MessageId>,
        correlation: Option<MessageId>,
    ) {
        let mut own = Timeline::default();
        for (n, point) in Point::EDGE.into_iter().enumerate() {
            own.set(point, n as i64);
        }
        let meta = Metadata {
            id,
            correlation,
            stamps: pack(&own, &self.previous, CLOCK),
            ..Metadata::default()
        };
        drop(self.objects.try_publish(Message { payload, meta }).unwrap());
        if let Some(id) = id {
            self.previous = Timeline::default();
            self.previous.set(Point::AnswerReturned, returned(id.seq));
        }
    }
}

pub(crate) fn list() -> Bytes {
    Detection3DArray::default().encode()
}

/// What the edge stamps after its answer number `seq`.
pub(crate) fn returned(seq: u64) -> i64 {
    1000 + seq as i64
}

/// An edge that answers the handshake by itself and hands every other scan, with its position behind
/// the handshake, to `play`; after the last sample comes the last echo.
pub(crate) struct PlayedEdge {
    pub(crate) transport: Arc<dyn Transport>,
    task: tokio::task::JoinHandle<()>,
}

impl PlayedEdge {
    pub(crate) async fn start(
        factory: &local::Factory,
        config: &TransportConfig,
        mut play: impl FnMut(&mut Answering, u64, &Sample) + Send + 'static,
    ) -> Self {
        let transport = factory.open(config).await.unwrap();
        let topics = Topics::below("").unwrap();
        let schema = exchange::scan_schema().unwrap();
        let filter = TopicFilter::from(&topics.scan);
        let mut scans = transport
            .subscriber(&filter, &schema, Qos::default())
            .await
            .unwrap();
        let schema = exchange::ObjectsFormat::default().schema().unwrap();
        let objects = transport
            .publisher(&topics.objects, &schema, Qos::default())
            .await
            .unwrap();
        let task = tokio::spawn(async move {
            let mut answering = Answering {
                objects,
                ids: Sequence::random(),
                previous: Timeline::default(),
            };
            while let Some(scan) = scans.recv().await {
                let scan = scan.unwrap();
                let id = scan.meta.id.unwrap();
                match id.seq.checked_sub(HANDSHAKE) {
                    None => answering.answer(id),
                    Some(n) => play(&mut answering, n, &scan),
                }
            }
        });
        Self { transport, task }
    }

    pub(crate) async fn end(self) {
        self.transport.close(Duration::from_secs(1)).await;
        self.task.await.unwrap();
    }
}

pub(crate) fn settings(samples: u64, rate: f64) -> Settings {
    Settings {
        topics: Topics::below("").unwrap(),
        scan_qos: Qos::default(),
        objects_qos: Qos::default(),
        rate,
        handshake: HANDSHAKE,
        warmup: 0,
        samples,
        ready_timeout: Duration::from_secs(30),
        pose: None,
        clock: Clock::start(),
        limits: Limits::default(),
        selected: false,
        frames: Vec::new(),
        lists: Default::default(),
    }
}
