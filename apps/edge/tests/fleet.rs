//! Several vehicles on one edge, over the in-process transport: who is served when, and what all of them
//! see.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use edge::collective::SAME_OBJECT;
use edge::{Edge, Report, Settings, Vehicle, collective};
use exchange::Topics;
use latency_timeline::Clock;
use lidar_detector::{Class, DetectError, Detection, Detector, FixedDelay};
use lidar_messages::{
    Detection3DArray, Header, Point, PointCloud2, Pose, PoseStamped, Quaternion, VelodyneScan,
};
use lidar_sensor::Convention;
use tokio::sync::{mpsc, watch};
use transport_api::{
    Message, MessageId, Publisher, Qos, Result, Sample, Sequence, Subscriber, SubscriberExt,
    TopicFilter, Transport, TransportConfig, TransportFactory, local,
};

/// Generous: a watchdog, not a promise.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Longer than any test: nothing becomes too old by itself.
const NEVER: Duration = Duration::from_secs(3_600);

/// An edge at work.
struct Yard {
    factory: local::Factory,
    stop: watch::Sender<bool>,
    edge: tokio::task::JoinHandle<Result<Report>>,
    transports: Vec<Arc<dyn Transport>>,
}

fn config() -> TransportConfig {
    TransportConfig::parse("local:yard").unwrap()
}

fn topics(name: &str) -> Topics {
    Topics::of("", &name.parse().unwrap()).unwrap()
}

impl Yard {
    /// Serves vehicles `a`, `b` …, those with a pose at it.
    async fn open(
        detector: impl Detector + 'static,
        poses: &[Option<Pose>],
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let factory = local::Factory::default();
        let transport = factory.open(&config()).await.unwrap();
        let vehicles = ["a", "b", "c"].into_iter().zip(poses);
        let mut settings = Settings {
            vehicles: vehicles
                .map(|(name, pose)| Vehicle {
                    name: name.to_owned(),
                    topics: topics(name),
                    pose: *pose,
                })
                .collect(),
            collective: None,
            scan_qos: exchange::freshest(),
            objects_qos: Qos::default(),
            max_age: None,
            lists: Default::default(),
            convention: Convention::RosCompat,
            clock: Clock::start(),
        };
        change(&mut settings);
        let edge = Edge::open(&*transport, Box::new(detector), &settings).await;
        let (stop, stopped) = watch::channel(false);
        Self {
            factory,
            stop,
            edge: tokio::spawn(edge.unwrap().run(stopped)),
            transports: vec![transport],
        }
    }

    /// A vehicle that takes its answers by `qos`.
    async fn vehicle(&mut self, name: &str, qos: Qos) -> Car {
        let transport = self.factory.open(&config()).await.unwrap();
        self.transports.push(Arc::clone(&transport));
        let topics = topics(name);
        let publish = async |topic, schema: Result<_>| {
            let schema = schema.unwrap();
            let publisher = transport.publisher(topic, &schema, Qos::default());
            publisher.await.unwrap()
        };
        Car {
            scans: publish(&topics.scan, exchange::scan_schema()).await,
            poses: publish(&topics.pose, exchange::pose_schema()).await,
            objects: self.lists(&topics.objects.into_filter(), qos).await,
            ids: Sequence::random(),
        }
    }

    async fn lists(&self, filter: &TopicFilter, qos: Qos) -> Box<dyn Subscriber> {
        let schema = exchange::ObjectsFormat::Detection3d.schema().unwrap();
        let transport = self.transports.last().unwrap();
        transport.subscriber(filter, &schema, qos).await.unwrap()
    }

    async fn end(self) -> Report {
        self.stop.send_replace(true);
        let report = tokio::time::timeout(WATCHDOG, self.edge).await;
        report.unwrap().unwrap().unwrap()
    }
}

trait IntoFilter {
    fn into_filter(self) -> TopicFilter;
}

impl IntoFilter for transport_api::TopicName {
    fn into_filter(self) -> TopicFilter {
        TopicFilter::from(&self)
    }
}

struct Car {
    scans: Box<dyn Publisher>,
    poses: Box<dyn Publisher>,
    objects: Box<dyn Subscriber>,
    ids: Sequence,
}

impl Car {
    fn send(&mut self, payload: impl Into<Bytes>) -> MessageId {
        let id = self.ids.next_id();
        drop(
            self.scans
                .try_publish(Message::new(payload).with_id(id))
                .unwrap(),
        );
        id
    }

    fn tell(&mut self, pose: &PoseStamped) {
        let message = Message::new(pose.encode()).with_id(self.ids.next_id());
        drop(self.poses.try_publish(message).unwrap());
    }

    async fn answers(&mut self, scan: MessageId) {
        let answer = next(&mut *self.objects).await;
        assert_eq!(answer.meta.correlation, Some(scan));
    }
}

async fn next(subscriber: &mut dyn Subscriber) -> Sample {
    let sample = tokio::time::timeout(WATCHDOG, subscriber.recv()).await;
    sample.expect("an answer").unwrap().unwrap()
}

/// The next list that `wanted` says yes to.
async fn list(
    subscriber: &mut dyn Subscriber,
    wanted: impl Fn(&Detection3DArray) -> bool,
) -> Detection3DArray {
    let found = async {
        loop {
            let list = Detection3DArray::decode(next(subscriber).await.payload).unwrap();
            if wanted(&list) {
                return list;
            }
        }
    };
    tokio::time::timeout(WATCHDOG, found).await.unwrap()
}

fn scan() -> Bytes {
    VelodyneScan::default().encode()
}

fn quick() -> FixedDelay {
    FixedDelay::new(Duration::ZERO)
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

    fn detect(&mut self, _: &PointCloud2) -> std::result::Result<Vec<Detection>, DetectError> {
        self.busy.try_send(()).unwrap();
        self.go.recv_timeout(WATCHDOG).unwrap();
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vehicles_are_served_by_turns_whatever_one_of_them_sends() {
    let (busy, mut entered) = mpsc::channel(1);
    let (go, gate) = std::sync::mpsc::sync_channel(1);
    let mut yard = Yard::open(Gated { busy, go: gate }, &[None; 3], |_| {}).await;
    let mut a = yard.vehicle("a", Qos::default()).await;
    let mut b = yard.vehicle("b", Qos::default()).await;
    let mut c = yard.vehicle("c", Qos::default()).await;
    let first = a.send(scan());
    entered.recv().await.unwrap();
    // While the detector is busy one vehicle floods, and another sends what is no scan.
    let flood: Vec<_> = (0..200).map(|_| a.send(scan())).collect();
    for _ in 0..200 {
        c.send(Bytes::from_static(b"no scan"));
    }
    let waiting = b.send(scan());
    // The one in hand, then the other vehicle, and only then the newest of the flood.
    go.send(()).unwrap();
    a.answers(first).await;
    entered.recv().await.unwrap();
    let second = b.send(scan());
    go.send(()).unwrap();
    b.answers(waiting).await;
    entered.recv().await.unwrap();
    go.send(()).unwrap();
    a.answers(flood[199]).await;
    entered.recv().await.unwrap();
    go.send(()).unwrap();
    b.answers(second).await;
    let vehicles = yard.end().await.vehicles;
    let [a, b, c] = &vehicles[..] else {
        panic!("{vehicles:?}");
    };
    assert_eq!((a.counts.answered, a.scans.dropped), (2, 199));
    assert_eq!((b.counts.answered, b.scans.dropped), (2, 0));
    assert_eq!((c.counts.undecodable, c.scans.dropped), (1, 199));
    assert_eq!([&a.vehicle, &b.vehicle, &c.vehicle], ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vehicle_that_takes_no_answers_holds_up_only_itself() {
    // Nobody takes the answers to `a`, and the edge may drop none.
    let blocking = Qos::blocking().with_depth(1);
    let mut yard = Yard::open(quick(), &[None; 2], |settings| {
        settings.objects_qos = blocking;
    })
    .await;
    let mut a = yard.vehicle("a", blocking).await;
    let mut b = yard.vehicle("b", blocking).await;
    for _ in 0..20 {
        a.send(scan());
    }
    for _ in 0..20 {
        let id = b.send(scan());
        b.answers(id).await;
    }
    next(&mut *a.objects).await;
    let vehicles = yard.end().await.vehicles;
    assert_eq!(vehicles[1].counts.answered, 20);
    assert!(vehicles[0].counts.answered < 20, "{vehicles:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vehicle_that_comes_back_is_served_again() {
    let mut yard = Yard::open(quick(), &[None; 2], |settings| {
        // By the clock of its first life it would be an hour old.
        settings.max_age = Some(Duration::from_secs(60));
    })
    .await;
    for life in 0..3 {
        let mut a = yard.vehicle("a", Qos::default()).await;
        let clock = Clock::shifted(-life * 3_600_000_000_000);
        let mut message = Message::new(scan()).with_id(a.ids.next_id());
        message.meta.stamps = exchange::pack_start(clock.now(), clock.id());
        let id = message.meta.id.unwrap();
        drop(a.scans.try_publish(message).unwrap());
        a.answers(id).await;
    }
    let vehicles = yard.end().await.vehicles;
    assert_eq!(
        (vehicles[0].counts.answered, vehicles[0].scans.missed),
        (3, 0)
    );
}

fn pose(x: f64, y: f64, degrees: f64) -> Pose {
    Pose {
        position: Point { x, y, z: 2.0 },
        orientation: Quaternion::from_yaw(degrees.to_radians()),
    }
}

fn found(class: Class, score: f32, center: [f32; 3]) -> Detection {
    Detection {
        class,
        score,
        center,
        size: [4.0, 2.0, 1.5],
        yaw: 0.0,
    }
}

fn collective_settings(max_age: Duration) -> Option<collective::Settings> {
    Some(collective::Settings {
        topic: exchange::collective_topic("").unwrap(),
        period: Duration::from_millis(10),
        max_age,
    })
}

/// Class, x, y, z and the vehicle, rounded to millimetres.
fn rows(list: &Detection3DArray) -> Vec<(i64, [i64; 3], String)> {
    let objects = list.detections.iter().map(|object| {
        assert_eq!(object.header.frame_id, "map");
        let Point { x, y, z } = object.bbox.center.position;
        let origin = &object.source_cloud.header.frame_id;
        let mm = [x, y, z].map(|value| (value * 1000.0).round() as i64);
        (object.results[0].id, mm, origin.to_string())
    });
    let mut rows: Vec<_> = objects.collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn all_vehicles_objects_come_in_one_frame() {
    let car = found(Class::Car, 0.9, [10.0, 0.0, -1.0]);
    let walker = found(Class::Pedestrian, 0.5, [5.0, 2.0, -1.0]);
    let detector = FixedDelay::with_objects(Duration::ZERO, vec![car, walker]);
    // Two that look at each other from 20 m see the car between them, once; `c` has to say where it is.
    let poses = [
        Some(pose(0.0, 0.0, 0.0)),
        Some(pose(20.0, 0.4, 180.0)),
        None,
    ];
    const { assert!(0.4 < SAME_OBJECT) };
    let mut yard = Yard::open(detector, &poses, |settings| {
        settings.collective = collective_settings(NEVER);
    })
    .await;
    let mut cars = Vec::new();
    for name in ["a", "b", "c"] {
        cars.push(yard.vehicle(name, Qos::default()).await);
    }
    let topic = exchange::collective_topic("").unwrap().into_filter();
    let mut all = yard.lists(&topic, Qos::default()).await;
    for car in &mut cars {
        let id = car.send(scan());
        car.answers(id).await;
    }
    let of_two = list(&mut *all, |list| list.detections.len() == 3).await;
    assert_eq!(of_two.header.frame_id, "map");
    assert_eq!(
        rows(&of_two),
        [
            (1, [10_000, 0, 1_000], "a".to_owned()),
            (3, [5_000, 2_000, 1_000], "a".to_owned()),
            (3, [15_000, -1_600, 1_000], "b".to_owned()),
        ]
    );
    // Until one that was made after all had answers; some before may still wait here.
    list(&mut *all, |list| list.header.seq > of_two.header.seq + 16).await;
    // Now `c` says that it is farther away, at right angles.
    let header = Header {
        frame_id: "map".into(),
        ..Header::default()
    };
    let c = &mut cars[2];
    c.tell(&PoseStamped {
        header,
        pose: pose(100.0, 50.0, 90.0),
    });
    let id = c.send(scan());
    c.answers(id).await;
    let of_three = list(&mut *all, |list| list.detections.len() == 5).await;
    assert_eq!(
        rows(&of_three),
        [
            (1, [10_000, 0, 1_000], "a".to_owned()),
            (1, [100_000, 60_000, 1_000], "c".to_owned()),
            (3, [5_000, 2_000, 1_000], "a".to_owned()),
            (3, [15_000, -1_600, 1_000], "b".to_owned()),
            (3, [98_000, 55_000, 1_000], "c".to_owned()),
        ]
    );
    let report = yard.end().await;
    let counts = report.collective.unwrap().counts;
    assert!(counts.merged > 0 && counts.unpublished == 0, "{counts:?}");
    for served in &report.vehicles {
        let share = served.share.unwrap();
        let sum = share.included + share.stale + share.unplaced + share.absent;
        assert_eq!(sum, counts.published, "{served:?}");
        assert_eq!(share.unplaced > 0, served.vehicle == "c");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_silent_vehicle_saw_leaves_the_list() {
    let mut yard = Yard::open(quick(), &[Some(pose(0.0, 0.0, 0.0)); 2], |settings| {
        settings.collective = collective_settings(Duration::from_millis(200));
    })
    .await;
    let mut a = yard.vehicle("a", Qos::default()).await;
    let topic = exchange::collective_topic("").unwrap().into_filter();
    let mut all = yard.lists(&topic, Qos::default()).await;
    // On a slow machine the list may be too old when its time has come; then there is another scan.
    loop {
        let id = a.send(scan());
        a.answers(id).await;
        let list = list(&mut *all, |_| true).await;
        if !list.detections.is_empty() {
            break;
        }
    }
    // Silence is told by lists without it.
    list(&mut *all, |list| list.detections.is_empty()).await;
    let report = yard.end().await;
    let share = report.vehicles[0].share.unwrap();
    assert!(share.included > 0 && share.stale > 0, "{share:?}");
    assert_eq!(
        report.vehicles[1].share.unwrap().absent,
        report.collective.unwrap().counts.published
    );
}
