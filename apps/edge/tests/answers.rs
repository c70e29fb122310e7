//! What an edge answers, over the in-process transport.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use edge::{Edge, Report, Served, Settings, Vehicle};
use exchange::{EdgeStamps, Topics, unpack};
use latency_timeline::{Clock, Point};
use lidar_detector::{DetectError, Detection, Detector, FixedDelay};
use lidar_messages::{Detection3DArray, PointCloud2, VelodyneScan};
use lidar_sensor::Convention;
use lidar_sensor::source::SourceSpec;
use tokio::sync::{mpsc, watch};
use transport_api::{
    Message, MessageId, Publisher, Qos, Result, Sample, Sequence, Subscriber, SubscriberExt,
    TopicFilter, Transport, TransportConfig, TransportFactory, local,
};

/// Generous: a watchdog, not a promise.
const WATCHDOG: Duration = Duration::from_secs(30);

/// An edge at work and, on the other side, what a vehicle would have.
struct Bench {
    scans: Box<dyn Publisher>,
    clouds: Box<dyn Publisher>,
    objects: Box<dyn Subscriber>,
    ids: Sequence,
    stop: watch::Sender<bool>,
    edge: tokio::task::JoinHandle<Result<Report>>,
    _transports: [Arc<dyn Transport>; 2],
}

impl Bench {
    async fn start(detector: impl Detector + 'static) -> Self {
        Self::with(detector, |_| {}).await
    }

    /// With other settings; object lists are received as they are sent.
    async fn with(detector: impl Detector + 'static, change: impl FnOnce(&mut Settings)) -> Self {
        let factory = local::Factory::default();
        let config = TransportConfig::parse("local:bench").unwrap();
        let here = factory.open(&config).await.unwrap();
        let there = factory.open(&config).await.unwrap();
        let topics = Topics::below("").unwrap();
        let mut settings = Settings {
            vehicles: vec![Vehicle {
                name: "vehicle".to_owned(),
                topics: topics.clone(),
                pose: None,
            }],
            collective: None,
            scan_qos: Qos::default(),
            objects_qos: Qos::default(),
            lists: Default::default(),
            max_age: None,
            convention: Convention::RosCompat,
            clock: Clock::start(),
        };
        change(&mut settings);
        let objects_qos = settings.objects_qos;
        let edge = Edge::open(&*there, Box::new(detector), &settings)
            .await
            .unwrap();
        let (stop, stopped) = watch::channel(false);
        let qos = Qos::default();
        let (scan, cloud) = (exchange::scan_schema(), exchange::cloud_schema());
        let objects = exchange::ObjectsFormat::default().schema().unwrap();
        let filter = TopicFilter::from(&topics.objects);
        Self {
            scans: here
                .publisher(&topics.scan, &scan.unwrap(), qos)
                .await
                .unwrap(),
            clouds: here
                .publisher(&topics.cloud, &cloud.unwrap(), qos)
                .await
                .unwrap(),
            objects: here
                .subscriber(&filter, &objects, objects_qos)
                .await
                .unwrap(),
            ids: Sequence::random(),
            stop,
            edge: tokio::spawn(edge.run(stopped)),
            _transports: [here, there],
        }
    }

    fn message(&mut self, payload: impl Into<Bytes>) -> Message {
        Message::new(payload).with_id(self.ids.next_id())
    }

    fn send_scan(&mut self, payload: impl Into<Bytes>) -> MessageId {
        let message = self.message(payload);
        let id = message.meta.id.unwrap();
        drop(self.scans.try_publish(message).unwrap());
        id
    }

    fn send_cloud(&mut self, cloud: &PointCloud2) -> MessageId {
        let message = self.message(cloud.encode());
        let id = message.meta.id.unwrap();
        drop(self.clouds.try_publish(message).unwrap());
        id
    }

    async fn answer(&mut self) -> Sample {
        let sample = tokio::time::timeout(WATCHDOG, self.objects.recv()).await;
        sample.expect("an answer").unwrap().unwrap()
    }

    async fn end(self) -> Result<Report> {
        self.stop.send_replace(true);
        let report = tokio::time::timeout(WATCHDOG, self.edge)
            .await
            .unwrap()
            .unwrap();
        for served in report.iter().flat_map(|report| &report.vehicles) {
            let Served {
                counts,
                scans,
                clouds,
                ..
            } = served;
            // Each received message is in one of the counts.
            let counted = counts.answered
                + counts.expired
                + counts.undecodable
                + counts.undetected
                + counts.unpublished
                + counts.unfinished;
            assert_eq!(counted, scans.received + clouds.received, "{counts:?}");
        }
        report
    }
}

/// A detector that says when it has a cloud and waits until it may go on.
#[derive(Debug)]
struct Gated {
    busy: mpsc::Sender<()>,
    go: std::sync::mpsc::Receiver<()>,
}

impl Detector for Gated {
    fn name(&self) -> &str {
        "gated"
    }

    fn detect(&mut self, _: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        self.busy.try_send(()).unwrap();
        self.go.recv_timeout(WATCHDOG).unwrap();
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_busy_detector_the_newest_scan_comes_first_and_the_others_are_dropped() {
    let (busy, mut entered) = mpsc::channel(4);
    let (go, gate) = std::sync::mpsc::sync_channel(4);
    let scan_qos = exchange::freshest();
    let mut bench = Bench::with(Gated { busy, go: gate }, |settings| {
        settings.scan_qos = scan_qos
    })
    .await;
    let first = bench.send_scan(scan());
    entered.recv().await.unwrap();
    let waiting: Vec<_> = (0..5).map(|_| bench.send_scan(scan())).collect();
    for expected in [first, waiting[4]] {
        go.send(()).unwrap();
        assert_eq!(bench.answer().await.meta.correlation, Some(expected));
    }
    let scans = bench.end().await.unwrap().vehicles[0].scans;
    assert_eq!((scans.received, scans.dropped), (2, 4));
    assert_eq!(scans.missed, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_older_than_allowed_are_counted_as_expired() {
    let limit = Duration::from_secs(60);
    let mut bench = Bench::with(quick(), |settings| settings.max_age = Some(limit)).await;
    // The vehicle's clock is an hour behind; that alone makes no scan old.
    let vehicle = Clock::shifted(-3_600_000_000_000);
    for (age, answered) in [(0, true), (3600, false), (120, false), (1, true)] {
        let mut message = bench.message(scan());
        let start = vehicle.now() - age * 1_000_000_000;
        message.meta.stamps = exchange::pack_start(start, vehicle.id());
        let id = message.meta.id;
        drop(bench.scans.try_publish(message).unwrap());
        if answered {
            assert_eq!(bench.answer().await.meta.correlation, id);
        }
    }
    // Without a stamp nothing is known of its age.
    let id = bench.send_scan(scan());
    assert_eq!(bench.answer().await.meta.correlation, Some(id));
    let counts = bench.end().await.unwrap().vehicles[0].counts;
    assert_eq!((counts.expired, counts.answered), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_in_hand_at_the_end_is_counted() {
    let (busy, mut entered) = mpsc::channel(4);
    let (go, gate) = std::sync::mpsc::sync_channel(4);
    // Nobody takes the answers: the first one fills the queue and the second one waits.
    let qos = Qos::blocking().with_depth(1);
    let gated = Gated { busy, go: gate };
    let mut bench = Bench::with(gated, |settings| settings.objects_qos = qos).await;
    bench.send_scan(scan());
    bench.send_scan(scan());
    entered.recv().await.unwrap();
    go.send(()).unwrap();
    entered.recv().await.unwrap();
    bench.stop.send_replace(true);
    go.send(()).unwrap();
    let counts = bench.end().await.unwrap().vehicles[0].counts;
    assert_eq!((counts.answered, counts.unfinished), (1, 1), "{counts:?}");
}

fn quick() -> FixedDelay {
    FixedDelay::new(Duration::ZERO)
}

fn scan() -> Bytes {
    let spec: SourceSpec = "synthetic:1?turns=1".parse().unwrap();
    let turn = spec.open().unwrap().next_scan().unwrap().unwrap();
    turn.scan.encode()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_scan_is_counted_and_the_next_one_is_answered() {
    let mut bench = Bench::start(quick()).await;
    let good = scan();
    bench.send_scan(Bytes::from_static(b"no scan"));
    bench.send_scan(good.slice(..good.len() - 1));
    bench.send_scan(Bytes::new());
    let id = bench.send_scan(good);
    let answer = bench.answer().await;
    assert_eq!(answer.meta.correlation, Some(id));
    let report = bench.end().await.unwrap();
    let Served { counts, scans, .. } = &report.vehicles[0];
    assert_eq!((counts.undecodable, counts.answered), (3, 1));
    assert_eq!(scans.received, 4);
    assert!(report.began.monotonic_ns < report.ended.monotonic_ns);
    assert_eq!(report.outages, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_and_clouds_without_a_point_are_answered() {
    let mut bench = Bench::start(quick()).await;
    let wide = PointCloud2 {
        height: 1,
        ..PointCloud2::default()
    };
    let ids = [
        bench.send_scan(VelodyneScan::default().encode()),
        bench.send_cloud(&PointCloud2::default()),
        bench.send_cloud(&wide),
    ];
    let mut answered = Vec::new();
    for _ in ids {
        let answer = bench.answer().await;
        assert!(Detection3DArray::decode(answer.payload).is_ok());
        answered.push(answer.meta.correlation.unwrap());
    }
    // Scans and clouds are two streams, so only the order within each is kept.
    answered.sort_unstable();
    assert_eq!(answered, ids);
    assert_eq!(bench.end().await.unwrap().vehicles[0].counts.answered, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_brings_the_stamps_that_the_one_before_could_not() {
    let mut bench = Bench::start(quick()).await;
    let mut stamps: Vec<EdgeStamps> = Vec::new();
    for _ in 0..3 {
        bench.send_scan(scan());
        stamps.push(unpack(&bench.answer().await.meta.stamps));
    }
    for edge in &stamps {
        let readings: Vec<_> = Point::EDGE
            .iter()
            .map(|point| edge.own.get(*point))
            .collect();
        assert!(readings.iter().all(Option::is_some) && readings.is_sorted());
        assert_eq!(edge.clock, stamps[0].clock);
    }
    assert_eq!(stamps[0].previous.get(Point::AnswerReturned), None);
    for pair in stamps.windows(2) {
        let returned = pair[1].previous.get(Point::AnswerReturned);
        assert!(returned > pair[0].own.get(Point::AnswerOut));
        assert!(returned < pair[1].own.get(Point::EdgeIn));
        // In process, nothing is acknowledged.
        assert_eq!(pair[1].previous.get(Point::AnswerAcknowledged), None);
    }
    bench.end().await.unwrap();
}

/// Refuses every second cloud.
#[derive(Debug, Default)]
struct Moody(u64);

impl Detector for Moody {
    fn name(&self) -> &str {
        "moody"
    }

    fn detect(&mut self, _: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        self.0 += 1;
        match self.0 % 2 {
            1 => Err(DetectError::Network("not today".to_owned())),
            _ => Ok(Vec::new()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_the_detector_refuses_is_counted_and_the_next_one_is_answered() {
    let mut bench = Bench::start(Moody::default()).await;
    bench.send_scan(scan());
    let id = bench.send_scan(scan());
    assert_eq!(bench.answer().await.meta.correlation, Some(id));
    let counts = bench.end().await.unwrap().vehicles[0].counts;
    assert_eq!((counts.undetected, counts.answered), (1, 1));
}

#[derive(Debug)]
struct Panicking;

impl Detector for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn detect(&mut self, _: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        panic!("this detector panics")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detector_that_panics_ends_the_edge_with_an_error() {
    let mut bench = Bench::start(Panicking).await;
    bench.send_scan(scan());
    let edge = tokio::time::timeout(WATCHDOG, bench.edge).await;
    let error = edge.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_ends_with_its_transport() {
    let bench = Bench::start(quick()).await;
    bench._transports[1].close(WATCHDOG).await;
    let report = tokio::time::timeout(WATCHDOG, bench.edge).await;
    assert_eq!(report.unwrap().unwrap().unwrap().answered(), 0);
}
