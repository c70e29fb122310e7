//! A vehicle whose edge is late or gone.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod played;

use std::sync::Arc;
use std::time::Duration;

use exchange::Topics;
use latency_timeline::{Clock, Point, Status};
use lidar_detector::{DetectError, Detection, Detector, FIXED_OBJECTS, FixedDelay};
use lidar_messages::{Detection3DArray, PointCloud2};
use lidar_sensor::Convention;
use perception::Perception;
use tokio::sync::watch;
use transport_api::{
    Qos, Sample, SubscriberExt, TopicFilter, Transport, TransportConfig, TransportFactory, local,
};
use vehicle::{DataType, Feed, Mode, Settings, Source, Trial, Verdict};

use played::{Answering, HANDSHAKE, PlayedEdge, settings};

fn perception(detector: impl Detector + 'static) -> Perception {
    Perception::new(Box::new(detector), Convention::RosCompat, Clock::start())
}

fn fixed() -> Perception {
    perception(FixedDelay::new(Duration::from_millis(2)))
}

async fn drive(
    transport: &Arc<dyn Transport>,
    settings: Settings,
    local: Option<Perception>,
) -> Trial {
    let feed = Feed::new(Vec::new(), DataType::Scan, Convention::RosCompat).unwrap();
    let (_stop, stopped) = watch::channel(false);
    vehicle::drive(&**transport, feed, &settings, local, stopped, |_| {})
        .await
        .unwrap()
}

/// An edge that is silent from scan 10 to scan 29, at 20 scans a second.
async fn silent_for_a_second(local: Option<Perception>, selected: bool) -> (Trial, Vec<Sample>) {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:silent").unwrap();
    let play = |edge: &mut Answering, n: u64, scan: &Sample| {
        if !(10..30).contains(&n) {
            edge.answer(scan.meta.id.unwrap());
        }
    };
    let edge = PlayedEdge::start(&factory, &config, play).await;
    let filter = TopicFilter::from(&Topics::below("").unwrap().selected);
    let schema = exchange::ObjectsFormat::default().schema().unwrap();
    let qos = Qos::default().with_depth(100);
    let mut acting = edge
        .transport
        .subscriber(&filter, &schema, qos)
        .await
        .unwrap();
    let here = factory.open(&config).await.unwrap();
    let settings = Settings {
        selected,
        ..settings(50, 20.0)
    };
    let trial = drive(&here, settings, local).await;
    edge.end().await;
    let mut lists = Vec::new();
    while let Some(list) = acting.recv().await {
        lists.push(list.unwrap());
    }
    (trial, lists)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vehicle_detects_by_itself_while_its_edge_is_silent_and_returns_to_it() {
    let (trial, lists) = silent_for_a_second(Some(fixed()), true).await;
    // The round trip is measured as ever: what the edge did not answer is missed.
    assert_eq!(trial.count(Status::Answered), 30);
    assert_eq!(trial.count(Status::Missed), 20);
    assert_eq!(trial.unlisted(), 0);
    let source = |n: usize| trial.samples[n].listed.unwrap().source;
    for n in 10..30 {
        assert_ne!(source(n), Some(Source::Edge), "scan {n}");
    }
    assert!(trial.lists(Source::Local) > 0);
    let operation = &trial.operation;
    assert!(operation.late >= 20, "{operation:?}");
    let first = operation.switches.iter().find(|s| s.to == Mode::Local);
    assert_eq!(first.unwrap().cause, Verdict::Late);
    let last = operation.switches.last().unwrap();
    assert_eq!((last.to, last.cause), (Mode::Edge, Verdict::InTime));
    assert!(last.seq >= HANDSHAKE + 30, "{operation:?}");
    assert_eq!(source(49), Some(Source::Edge));
    let failures = (operation.failed, operation.unfinished, operation.unwatched);
    assert_eq!(failures, (0, 0, 0), "{operation:?}");

    // Who acts on the lists gets each of them once, in order, and is told who made it.
    let listed: Vec<_> = trial
        .samples
        .iter()
        .filter_map(|sample| Some((sample.seq, sample.listed?.source?)))
        .collect();
    let told: Vec<_> = lists
        .iter()
        .map(|list| {
            let scan = list.meta.correlation.unwrap();
            assert_eq!(scan.source, trial.source);
            let source = exchange::source(&list.meta.stamps);
            let objects = Detection3DArray::decode(list.payload.clone()).unwrap();
            let own = objects.detections.len() == FIXED_OBJECTS;
            assert_eq!(own, source == Source::Local);
            (scan.seq, source)
        })
        .collect();
    assert_eq!(told, listed);
    assert_eq!(operation.selected.unwrap().accepted, listed.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_detector_of_its_own_a_vehicle_waits_and_says_what_it_lacks() {
    let (trial, lists) = silent_for_a_second(None, false).await;
    let operation = &trial.operation;
    assert_eq!(trial.lists(Source::Local), 0);
    assert_eq!((operation.detections, operation.switches.len()), (0, 0));
    assert!(operation.late >= 20);
    assert_eq!(
        (operation.detector.as_deref(), operation.selected),
        (None, None)
    );
    // Twenty frames without an answer: the newest are kept in the hope of one, and then overtaken.
    assert!(trial.unlisted() > 0);
    assert_eq!(trial.unlisted() + trial.ages(None).len(), 20);
    let silence = trial.largest_gap().unwrap();
    assert!(silence >= 1_000_000_000, "{silence} ns");
    assert!(lists.is_empty());
}

/// Detects until it is asked for the `n`-th time.
struct Panicking(u32);

impl Detector for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn detect(&mut self, _: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        self.0 = self.0.checked_sub(1).expect("told to panic");
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detector_that_panics_takes_nothing_else_along() {
    // It is asked once to warm up.
    let (trial, _) = silent_for_a_second(Some(perception(Panicking(3))), false).await;
    assert_eq!(trial.count(Status::Answered), 30);
    let operation = &trial.operation;
    assert_eq!((operation.detections, operation.failed), (3, 1));
    assert!(operation.failure.as_ref().unwrap().contains("panicked"));
    assert_eq!(trial.samples[49].listed.unwrap().source, Some(Source::Edge));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_that_is_gone_leaves_the_vehicle_its_own_lists() {
    let factory = local::Factory::default();
    let config = TransportConfig::parse("local:gone").unwrap();
    let play = |edge: &mut Answering, _: u64, scan: &Sample| {
        edge.answer(scan.meta.id.unwrap());
    };
    let edge = PlayedEdge::start(&factory, &config, play).await;
    let here = factory.open(&config).await.unwrap();
    let closing = Arc::clone(&here);
    let (frames, mut seen) = tokio::sync::mpsc::channel::<vehicle::Frame>(100);
    tokio::spawn(async move {
        // It ends in the middle of the trial.
        while let Some(frame) = seen.recv().await {
            if frame.seq == HANDSHAKE + 10 {
                closing.close(Duration::from_secs(1)).await;
            }
        }
    });
    let settings = Settings {
        frames: vec![frames],
        ..settings(40, 20.0)
    };
    let trial = drive(&here, settings, Some(fixed())).await;
    edge.end().await;
    assert!(trial.cut_short && trial.count(Status::Rejected) > 0);
    assert_eq!(trial.unlisted(), 0);
    let last = trial.samples.last().unwrap();
    assert_eq!(last.listed.unwrap().source, Some(Source::Local));
    assert!(last.timeline.get(Point::End).is_none());
    let switch = trial.operation.switches.last().unwrap();
    assert_eq!((switch.to, switch.cause), (Mode::Local, Verdict::Refused));
}
