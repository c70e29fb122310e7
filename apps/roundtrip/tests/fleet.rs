//! Several vehicles on one edge, in real processes: all are served, none harms another, and what they
//! see comes in one list.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::collections::BTreeSet;
use std::time::Duration;

use lidar_messages::{Detection3D, Detection3DArray};
use nix::sys::signal::Signal;
use process::{Host, Process, WATCHDOG, arms, only_folder, roundtrip};
use tokio::sync::Mutex;
use transport_api::{
    Message, PublisherExt, Qos, Sequence, SubscriberExt, TopicFilter, TopicName, Transport,
    TransportConfig,
};

/// Each test starts several processes that keep a schedule; side by side they would take the
/// processor from each other.
static ALONE: Mutex<()> = Mutex::const_new(());

#[test]
fn three_vehicles_are_served_over_every_transport_and_told_side_by_side() {
    let _alone = ALONE.blocking_lock();
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--vehicles=3", "--samples=10", "--warmup=2"]);
    command.args(["--queue=30", "--detector=fixed-delay:1ms"]);
    command.args(["--source=synthetic:5?turns=1", "--results"]);
    let output = command.arg(results.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    let arms = arms(results.path());
    let transports: BTreeSet<_> = arms.iter().map(transport).collect();
    assert!(
        transports.contains("local") && transports.contains("mqtt"),
        "{transports:?}"
    );
    assert_eq!(arms.len(), 3 * transports.len());
    for (n, arm) in arms.iter().enumerate() {
        let vehicle = format!("vehicle{}", n % 3 + 1);
        let label = format!("{}/{vehicle}", transport(arm));
        assert_eq!(arm["label"], *label);
        assert_eq!(arm["vehicle"], *vehicle);
        assert_eq!(arm["answered"], 10, "{arm:#}");
        assert_eq!(arm["edge"]["report"]["vehicle"], *vehicle);
        assert_eq!(
            arm["source"]["name"],
            format!("synthetic:{}?turns=1", n % 3 + 5)
        );
        assert!(said.contains(&label), "{said}");
        let samples = only_folder(results.path()).join(&label).join("samples.csv");
        assert_eq!(
            std::fs::read_to_string(samples).unwrap().lines().count(),
            11
        );
        let report = &arm["edge"]["report"];
        assert_eq!(report["counts"]["undecodable"], 0, "{report:#}");
        // Synthetic vehicles say where they are.
        assert_ne!(report["share"]["included"], 0, "{report:#}");
        assert_ne!(report["collective"]["counts"]["objects"], 0, "{report:#}");
    }
}

fn transport(arm: &serde_json::Value) -> String {
    let label = arm["label"].as_str().unwrap();
    label.split_once('/').unwrap().0.to_owned()
}

#[test]
fn mistakes_in_the_fleet_are_refused_before_anything_starts() {
    for (arguments, wrong) in [
        (&["run", "--vehicles=65"][..], "65 is not in 1..=64"),
        (
            &["run", "--vehicles=2", "--source=udp:2368?turns=1"],
            "is one sensor, and 2 vehicles need one each",
        ),
        (
            &["run", "--vehicles=2", "--pose=vehicle3=0,0,0,0"],
            "pose of `vehicle3`",
        ),
        (&["run", "--pose=a=0,0,0"], "3 numbers"),
        (
            &[
                "edge",
                "--vehicle=a",
                "--vehicle=a",
                "--transport=mqtt://127.0.0.1:1",
            ],
            "vehicle `a` is given twice",
        ),
        (
            &["edge", "--vehicle=a/b"],
            "what comes before it is the prefix",
        ),
        (&["edge", "--collective-rate=1000"], "from 0.1 to 100"),
    ] {
        let output = roundtrip(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(wrong), "{arguments:?}: {said}");
    }
}

/// An edge and the place where its vehicles find it.
struct Yard {
    host: Host,
    edge: Process,
}

impl Yard {
    fn open(more: &[&str]) -> Self {
        let host = Host::start("mqtt:embedded");
        let edge = edge(&host, more);
        Self { host, edge }
    }

    fn vehicle(&self, id: &str, more: &[&str]) -> Process {
        let mut command = roundtrip(&["vehicle", "--transport", &self.host.vehicle]);
        command.args([
            "--source=synthetic:1?turns=1",
            "--warmup=0",
            "--vehicle",
            id,
        ]);
        command.args(more);
        Process::start(command)
    }

    /// A vehicle all of whose few scans are answered.
    fn is_served(&self, id: &str) {
        let more = ["--rate=5", "--samples=10", "--queue=30"];
        let mut vehicle = self.vehicle(id, &more);
        assert_eq!(
            vehicle.code(),
            Some(0),
            "{}\n{}",
            vehicle.said,
            self.edge.said
        );
    }

    async fn open_transport(&self) -> std::sync::Arc<dyn Transport> {
        let config = TransportConfig::parse(&self.host.vehicle).unwrap();
        backends::builtin().open(&config).await.unwrap()
    }
}

fn edge(host: &Host, more: &[&str]) -> Process {
    let mut command = roundtrip(&["edge", "--transport", &host.edge, "--queue=30"]);
    command.arg("--detector=fixed-delay:1ms").args(more);
    let mut edge = Process::start(command);
    edge.says("edge ready");
    edge
}

/// The number after `what` in the line of vehicle `id`.
fn told(said: &str, id: &str, what: &str) -> u64 {
    let line = said
        .lines()
        .find(|line| line.starts_with(&format!("{id}: answered")));
    let line = line.unwrap_or_else(|| panic!("nothing of {id}:\n{said}"));
    let (_, rest) = line
        .split_once(what)
        .unwrap_or_else(|| panic!("no `{what}` in {line}"));
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vehicle_that_floods_stops_dies_or_sends_garbage_harms_none_of_the_others() {
    let _alone = ALONE.lock().await;
    let mut yard = Yard::open(&["--vehicle=a", "--vehicle=b", "--vehicle=c"]);
    // Few packets a scan: the broker is not what is tested.
    let flood = ["--rate=200", "--samples=100000", "--size=5"];
    let mut flooding = yard.vehicle("a", &flood);
    flooding.says("measuring");
    let transport = yard.open_transport().await;
    let (topic, schema) = (
        TopicName::parse("c/velodyne_packets").unwrap(),
        exchange::scan_schema().unwrap(),
    );
    let garbage = transport.publisher(&topic, &schema, Qos::default()).await;
    let garbage = garbage.unwrap();
    let spoil = tokio::spawn(async move {
        let mut ids = Sequence::random();
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            let message = Message::new(&b"no scan"[..]).with_id(ids.next_id());
            drop(garbage.publish(message).await.unwrap());
        }
    });
    tokio::task::block_in_place(|| {
        yard.is_served("b");
        flooding.send(Signal::SIGSTOP);
        yard.is_served("b");
        flooding.send(Signal::SIGKILL);
        flooding.code();
        yard.is_served("b");
        // It may come back under its id.
        yard.is_served("a");
    });
    spoil.abort();
    yard.edge.send(Signal::SIGINT);
    assert_eq!(yard.edge.code(), Some(0), "{}", yard.edge.said);
    let said = &yard.edge.said;
    assert_eq!(told(said, "b", "missed"), 0, "{said}");
    assert_eq!(told(said, "b", "not decodable"), 0, "{said}");
    assert!(told(said, "b", "answered") >= 30, "{said}");
    assert!(told(said, "a", "answered") > 10, "{said}");
    assert_eq!(told(said, "c", "answered"), 0, "{said}");
    assert!(told(said, "c", "not decodable") > 0, "{said}");
}

#[test]
fn two_edges_that_answer_one_vehicle_are_told() {
    let _alone = ALONE.blocking_lock();
    let yard = Yard::open(&["--vehicle=a"]);
    let _second = edge(&yard.host, &["--vehicle=a"]);
    let mut vehicle = yard.vehicle("a", &["--rate=20", "--samples=10", "--queue=30"]);
    assert_eq!(vehicle.code(), Some(0), "{}", vehicle.said);
    assert!(
        vehicle.said.contains("two edges answer a:"),
        "{}",
        vehicle.said
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collective_list_has_the_objects_of_all_vehicles_in_the_map() {
    let _alone = ALONE.lock().await;
    let yard = Yard::open(&["--vehicle=a", "--vehicle=b", "--pose=a=1000,0,2,90"]);
    let transport = yard.open_transport().await;
    let filter = TopicFilter::parse("collective/objects").unwrap();
    let schema = exchange::ObjectsFormat::Detection3d.schema().unwrap();
    let mut lists = transport
        .subscriber(&filter, &schema, Qos::default())
        .await
        .unwrap();
    let endless = ["--rate=10", "--samples=100000"];
    let _a = yard.vehicle("a", &endless);
    let _b = yard.vehicle("b", &endless);
    let both = async {
        loop {
            let sample = lists.recv().await.unwrap().unwrap();
            let list = Detection3DArray::decode(sample.payload).unwrap();
            assert_eq!(list.header.frame_id, "map");
            if list.detections.len() == 40 {
                return list;
            }
        }
    };
    let list = tokio::time::timeout(WATCHDOG, both).await.unwrap();
    // Twenty cars in a row ahead of each: `a` looks along y, and `b` is in the street of seed 1.
    let of = |vehicle: &str| -> Vec<[i64; 3]> {
        let objects = list
            .detections
            .iter()
            .filter(|object| origin(object) == vehicle);
        let mut places: Vec<_> = objects.map(place).collect();
        places.sort_unstable();
        places
    };
    let cars = 0..20;
    let a: Vec<_> = cars
        .clone()
        .map(|n| [996_500, 5_000 + 6_000 * n, 900])
        .collect();
    assert_eq!(of("a/velodyne"), a);
    let b = of("b/velodyne");
    assert_eq!(b.len(), 20);
    for (n, [x, y, _]) in cars.zip(b) {
        assert_eq!([x, y], [5_000 + 6_000 * n, 203_500]);
    }
}

fn origin(object: &Detection3D) -> &str {
    &object.source_cloud.header.frame_id
}

/// In millimetres.
fn place(object: &Detection3D) -> [i64; 3] {
    let center = object.bbox.center.position;
    [center.x, center.y, center.z].map(|value| (value * 1000.0).round() as i64)
}
