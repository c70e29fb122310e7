//! The product among real ROS nodes: rospy, roscpp, rostopic and rosbag see its topics as those of any
//! node, and nothing of it stays behind in the master.
//!
//! Each test runs with the embedded master and with the one of the distribution. What is not
//! installed shows as ignored; with `CONFORMANCE_REQUIRE=all` it fails.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "ros_nodes/panicking.rs"]
mod panicking;
#[path = "ros_nodes/programs.rs"]
mod programs;
#[path = "ros_nodes/truth.rs"]
mod truth;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::{Arguments, Failed, Trial};
use lidar_detector::FIXED_OBJECTS;
use lidar_messages::{
    Detection3DArray, MarkerArray, MessageType, ObjectList, PointCloud2, VelodyneScan,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use transport_api::{PeerId, Qos, SubscriberExt, TopicFilter, TransportConfig};
use transport_conformance::server::{Server, find};

use programs::{PATIENCE, PYTHON, Program, ours, output, peer, ros};
use truth::Truth;

/// A master that runs, and what it runs in.
struct Master {
    address: String,
    /// Either of the two, for as long as the test needs it.
    _server: Option<Server>,
    _host: Option<Program>,
}

#[derive(Clone, Copy)]
enum Kind {
    Embedded,
    Rosmaster,
}

impl Kind {
    async fn start(self) -> Master {
        match self {
            Self::Embedded => {
                let mut command = ours(&["host", "--transport=rosmaster:embedded"]);
                let mut host = Program::start(&mut command);
                let line = host.line().await;
                let (_, rest) = line.split_once("rosmaster://").unwrap();
                let end = rest.find(['?', '/', '\'']).unwrap();
                Master {
                    address: rest[..end].to_owned(),
                    _server: None,
                    _host: Some(host),
                }
            }
            Self::Rosmaster => {
                let program = rosmaster().unwrap();
                let server = Server::start(move |port| {
                    let mut command = tokio::process::Command::new(&program);
                    command.args(["--core", "--port", &port.to_string()]);
                    command
                });
                let server = server.await.unwrap();
                Master {
                    address: server.address().to_string(),
                    _server: Some(server),
                    _host: None,
                }
            }
        }
    }
}

impl Master {
    fn url(&self, node: &str) -> String {
        format!("rosmaster://{}?peer={node}", self.address)
    }

    async fn edge(&self) -> Program {
        let url = self.url("edge");
        let mut command = ours(&["edge", "--transport", &url, "--detector=fixed-delay:1ms"]);
        let mut edge = Program::start(&mut command);
        assert!(edge.line().await.starts_with("edge ready"));
        edge
    }

    /// A vehicle that sends until it is told to stop.
    fn vehicle(&self, data_type: &str) -> Program {
        let url = self.url("vehicle");
        let mut command = ours(&["vehicle", "--transport", &url, "--samples=100000"]);
        command.args(["--rate=10", "--warmup=0", "--source", truth::SOURCE]);
        command.arg(format!("--data-type={data_type}"));
        Program::start(&mut command)
    }

    /// The nodes that are registered.
    async fn nodes(&self) -> Vec<String> {
        let listed = output(&mut peer("state.py", &self.address)).await;
        listed.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until exactly `nodes` are registered.
    async fn lists(&self, nodes: &[&str]) {
        let reached = async {
            while self.nodes().await != nodes {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, reached).await.is_err() {
            panic!("the master lists {:?}, not {nodes:?}", self.nodes().await);
        }
    }
}

fn rosmaster() -> Result<PathBuf, String> {
    tool("rosmaster", "python3-rosmaster")
}

fn tool(program: &str, package: &str) -> Result<PathBuf, String> {
    let variable = format!("ROUNDTRIP_{}", program.to_uppercase());
    find(program, &variable, &format!("apt-get install {package}"))
        .map_err(|missing| missing.to_string())
}

/// Whether Python has the ROS packages.
fn python() -> Result<(), String> {
    let found = std::process::Command::new(PYTHON)
        .args(["-c", "import rospy, rosbag, sensor_msgs.point_cloud2"])
        .output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("rospy not found; install it with scripts/install-peers".to_owned()),
    }
}

fn roscpp() -> Result<(), String> {
    tool("g++", "g++")?;
    let headers = ["ros/ros.h", "sensor_msgs/PointCloud2.h"];
    let missing = headers.map(|header| Path::new("/usr/include").join(header));
    match missing.into_iter().find(|header| !header.exists()) {
        None => Ok(()),
        Some(header) => Err(format!(
            "{} not found; install it with scripts/install-peers",
            header.display()
        )),
    }
}

/// Checks one message, as a Python program told of it, against what must have been sent; whether
/// there was anything in it.
fn check(told: &Value, kind: &MessageType, truth: &Truth) -> bool {
    assert_eq!(told["type"], kind.name, "{told}");
    assert_eq!(told["md5"], kind.md5, "{told}");
    assert_eq!(told["computed_md5"], kind.md5, "{told}");
    let raw = std::fs::read(told["path"].as_str().unwrap()).unwrap();
    let decoded = usize::try_from(told["decoded"].as_u64().unwrap()).unwrap();
    // Behind what was decoded there is our trailer, and it disturbs nobody.
    assert!(0 < decoded && decoded < raw.len(), "{told}");
    let payload = Bytes::copy_from_slice(&raw[..decoded]);
    let full = truth.is_full(kind, &payload);
    if *kind == VelodyneScan::TYPE {
        let scan = VelodyneScan::decode(payload).unwrap();
        assert_eq!(told["packets"], scan.packets.len());
    } else if *kind == Detection3DArray::TYPE {
        assert_eq!(told["detections"], FIXED_OBJECTS);
    }
    full
}

/// rostopic shows each topic with its type, its publisher and its contents, and rospy decodes it by the
/// definition that comes with it; both have only that to go by for types that are not installed.
async fn tools_see(master: Kind, data_type: &str, topic: &str, kind: &MessageType) {
    let truth = Truth::new();
    let folder = tempfile::tempdir().unwrap();
    let master = master.start().await;
    let _edge = master.edge().await;
    let _vehicle = master.vehicle(data_type);
    for (topic, kind, node) in [
        (topic, kind, "/vehicle"),
        ("/objects", &Detection3DArray::TYPE, "/edge"),
    ] {
        let mut listen = peer("listen.py", &master.address);
        let mut listen = Program::start(listen.arg(topic).arg(folder.path()));
        let mut full = 0;
        while full < 3 {
            let told: Value = serde_json::from_str(&listen.line().await).unwrap();
            full += u32::from(check(&told, kind, &truth));
        }

        let rostopic = |args: &[&str]| {
            let mut command = ros("rostopic", &master.address);
            command
                .args(args)
                .arg(topic)
                .env("PYTHONPATH", folder.path());
            async move { output(&mut command).await }
        };
        assert_eq!(rostopic(&["type"]).await.trim(), kind.name);
        let info = rostopic(&["info"]).await;
        assert!(info.contains(&format!("Type: {}", kind.name)), "{info}");
        assert!(info.contains(&format!("* {node} (http://")), "{info}");

        let mut packages = peer("packages.py", &master.address);
        output(packages.arg(topic).arg(folder.path())).await;
        let echo = rostopic(&["echo", "--noarr", "-n", "1"]).await;
        assert!(echo.contains("frame_id: \"velodyne\""), "{echo}");
    }
}

/// The edge answers with states and draws for viewers, if asked for: rostopic shows both by the
/// definitions that come with them.
async fn tools_see_states_and_markers(master: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let master = master.start().await;
    let format = "--objects-format=object-list";
    let mut edge = ours(&["edge", "--transport", &master.url("edge"), format]);
    edge.args(["--detector=fixed-delay:1ms", "--track", "--markers"]);
    let mut edge = Program::start(&mut edge);
    assert!(edge.line().await.starts_with("edge ready"));
    let mut vehicle = ours(&["vehicle", "--transport", &master.url("vehicle"), format]);
    vehicle.args(["--samples=100000", "--warmup=0", "--source", truth::SOURCE]);
    let _vehicle = Program::start(&mut vehicle);
    for (topic, kind, part) in [
        ("/objects", &ObjectList::TYPE, "model_id: 16"),
        ("/objects/markers", &MarkerArray::TYPE, "ns: \"boxes\""),
    ] {
        let mut packages = peer("packages.py", &master.address);
        output(packages.arg(topic).arg(folder.path())).await;
        let rostopic = |args: &[&str]| {
            let mut command = ros("rostopic", &master.address);
            command
                .args(args)
                .arg(topic)
                .env("PYTHONPATH", folder.path());
            async move { output(&mut command).await }
        };
        assert_eq!(rostopic(&["type"]).await.trim(), kind.name);
        let echo = rostopic(&["echo", "-n", "1"]).await;
        assert!(echo.contains(part), "{echo}");
    }
}

async fn tools_see_scans(master: Kind) {
    let topic = "/velodyne_packets";
    tools_see(master, "scan", topic, &VelodyneScan::TYPE).await;
}

async fn tools_see_clouds(master: Kind) {
    tools_see(master, "cloud", "/points", &PointCloud2::TYPE).await;
}

/// rostopic shows what all vehicles see, in the frame that they share.
async fn collective_list_is_echoed(master: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let master = master.start().await;
    let url = master.url("edge");
    let mut command = ours(&["edge", "--transport", &url, "--detector=fixed-delay:1ms"]);
    command.args(["--vehicle=a", "--vehicle=b", "--pose=a=10,20,2,90"]);
    let mut edge = Program::start(&mut command);
    assert!(edge.line().await.starts_with("edge ready"));
    let mut vehicles = Vec::new();
    for id in ["a", "b"] {
        let url = master.url(id);
        let mut command = ours(&["vehicle", "--transport", &url, "--samples=100000"]);
        command.args(["--rate=10", "--warmup=0", "--vehicle", id]);
        vehicles.push(Program::start(command.args(["--source", truth::SOURCE])));
    }
    let topic = "/collective/objects";
    let mut packages = peer("packages.py", &master.address);
    output(packages.arg(topic).arg(folder.path())).await;
    let seen = async {
        loop {
            let mut echo = ros("rostopic", &master.address);
            echo.args(["echo", "-n", "1", topic])
                .env("PYTHONPATH", folder.path());
            let echo = output(&mut echo).await;
            if ["a", "b"].map(|id| echo.contains(&format!("\"{id}/velodyne\""))) == [true; 2] {
                return echo;
            }
        }
    };
    let echo = tokio::time::timeout(PATIENCE, seen).await.unwrap();
    assert!(echo.contains("frame_id: \"map\""), "{echo}");
    // The first car ahead of `a`, 5 m ahead and 3.5 m to the left of a lidar that looks along y.
    let number = |key: &str| {
        let value = echo.lines().find_map(|line| line.trim().strip_prefix(key));
        value.unwrap().parse::<f64>().unwrap()
    };
    let [x, y] = ["x: ", "y: "].map(number);
    assert!((x - 6.5).abs() < 1e-9 && (y - 25.0).abs() < 1e-9, "{echo}");
}

/// rospy reads our clouds as the `sensor_msgs/PointCloud2` that it was installed with.
async fn rospy_reads_clouds(master: Kind) {
    let truth = Truth::new();
    let master = master.start().await;
    let _edge = master.edge().await;
    let _vehicle = master.vehicle("cloud");
    let mut clouds = Program::start(&mut peer("clouds.py", &master.address));
    let told: Value = loop {
        let told: Value = serde_json::from_str(&clouds.line().await).unwrap();
        if told["count"] != 0 {
            break told;
        }
    };
    let points = |cloud: &PointCloud2| -> Vec<[f32; 4]> {
        let points = cloud.points().unwrap();
        points.map(|p| [p.x, p.y, p.z, p.intensity]).collect()
    };
    let first: Vec<[f32; 4]> = serde_json::from_value(told["first"].clone()).unwrap();
    let same = truth.clouds().iter().find(|cloud| {
        let ours = points(cloud);
        told["count"] == ours.len() && first.len() == 5 && ours.starts_with(&first)
    });
    let same = same.unwrap_or_else(|| panic!("no cloud of ours: {told}"));
    let fields = same.fields.iter().map(|field| {
        let datatype = field.datatype as u8;
        json!([&*field.name, field.offset, datatype, field.count])
    });
    assert_eq!(told["fields"], Value::Array(fields.collect()));
}

/// So does roscpp.
async fn roscpp_reads_clouds(master: Kind) {
    let truth = Truth::new();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("clouds");
    let libraries = ["roscpp", "rosconsole", "roscpp_serialization", "rostime"];
    let mut compiler = tokio::process::Command::new("g++");
    compiler
        .args(["-O1", "-w", "-o"])
        .arg(&program)
        .arg(programs::peers().join("clouds.cpp"))
        .args(libraries.map(|library| format!("-l{library}")));
    output(&mut compiler).await;

    let master = master.start().await;
    let _edge = master.edge().await;
    let _vehicle = master.vehicle("cloud");
    let mut clouds = Program::start(&mut ros(&program, &master.address));
    for _ in 0..3 {
        let line = clouds.line().await;
        let told: Vec<&str> = line.split_whitespace().skip(1).collect();
        let known = truth.clouds().iter().any(|cloud| {
            let mut points = cloud.points().unwrap();
            let first = points.next().unwrap();
            let xyz = [first.x, first.y, first.z];
            told[0] == (cloud.width * cloud.height).to_string()
                && (0..3).all(|n| told[1 + n].parse::<f32>().unwrap() == xyz[n])
        });
        assert!(known, "{line}");
    }
}

/// What rosbag records is what was sent: types, sums, counts and the bytes of every message.
async fn rosbag_keeps(master: Kind, data_type: &str, topic: &str, kind: &MessageType) {
    let truth = Truth::new();
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("recorded.bag");
    let master = master.start().await;
    let _edge = master.edge().await;
    let _vehicle = master.vehicle(data_type);
    let mut record = ros("rosbag", &master.address);
    record.args(["record", topic, "/objects", "--limit", "10", "-O"]);
    output(record.arg(&bag)).await;

    let info = output(ros("rosbag", &master.address).args(["info"]).arg(&bag)).await;
    let mut read = peer("bag.py", &master.address);
    let read = output(read.arg(&bag).arg(folder.path())).await;
    let read: Vec<Value> = read
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (topic, kind) in [(topic, kind), ("/objects", &Detection3DArray::TYPE)] {
        let mut seqs = Vec::new();
        for told in read.iter().filter(|told| told["topic"] == topic) {
            check(told, kind, &truth);
            seqs.push(told["seq"].as_u64().unwrap());
        }
        assert!(seqs.len() >= 10, "{read:?}");
        assert!(seqs.is_sorted(), "{seqs:?}");
        let line = format!("{topic} {} msgs : {}", seqs.len(), kind.name);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&info).contains(&line), "{line} is not in\n{info}");
        assert!(words(&info).contains(&format!("{} [{}]", kind.name, kind.md5)));
    }
}

async fn rosbag_keeps_scans(master: Kind) {
    let topic = "/velodyne_packets";
    rosbag_keeps(master, "scan", topic, &VelodyneScan::TYPE).await;
}

async fn rosbag_keeps_clouds(master: Kind) {
    rosbag_keeps(master, "cloud", "/points", &PointCloud2::TYPE).await;
}

/// The edge answers the clouds of a node that knows nothing of us: each answer names its cloud by the
/// sequence number in the cloud's header.
async fn clouds_of_a_foreign_node_are_answered(master: Kind) {
    let truth = Truth::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud");
    std::fs::write(&file, truth.clouds()[0].encode()).unwrap();
    let master = master.start().await;
    let _edge = master.edge().await;
    let config = TransportConfig::parse(&format!("rosmaster://{}", master.address)).unwrap();
    let config = config.with_peer(PeerId::parse("witness").unwrap());
    let transport = backends::builtin().open(&config).await.unwrap();
    let filter = TopicFilter::parse("objects").unwrap();
    let schema = exchange::ObjectsFormat::default().schema().unwrap();
    let mut answers = transport
        .subscriber(&filter, &schema, Qos::default())
        .await
        .unwrap();
    let mut seen = peer("listen.py", &master.address);
    let mut seen = Program::start(seen.arg("/objects").arg(folder.path()));
    let _talk = Program::start(peer("talk.py", &master.address).arg(&file));

    for _ in 0..5 {
        let answer = tokio::time::timeout(PATIENCE, answers.recv()).await;
        let answer = answer.expect("answered").unwrap().unwrap();
        let list = Detection3DArray::decode(answer.payload).unwrap();
        assert_eq!(list.detections.len(), FIXED_OBJECTS);
        // rospy counts from one.
        assert!(list.header.seq > 0);
        assert_eq!(
            answer.meta.correlation.unwrap().seq,
            u64::from(list.header.seq)
        );
    }
    let told: Value = serde_json::from_str(&seen.line().await).unwrap();
    assert_eq!(told["md5"], Detection3DArray::TYPE.md5);
    assert_eq!(told["detections"], FIXED_OBJECTS);
    transport.close(Duration::from_secs(5)).await;
}

/// The vehicle sends on what others publish at a master of its own, as they publish it.
async fn sent_on(master: &Master, topic: &str, kind: &MessageType) {
    let source = format!("--source=ros:{topic}?master=http://{}", master.address);
    let results = tempfile::tempdir().unwrap();
    let mut run = ours(&["run", "--transport=local:onwards", "--samples=3", &source]);
    run.args(["--warmup=1", "--detector=fixed-delay:1ms", "--results"]);
    let text = output(run.arg(results.path())).await;
    assert!(text.contains("samples answered"), "{text}");
    let run = std::fs::read_dir(results.path()).unwrap().next().unwrap();
    let summary = std::fs::read(run.unwrap().path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let arm = &summary["arms"][0];
    assert_eq!(arm["answered"], 3, "{arm}");
    let data_type = match *kind == VelodyneScan::TYPE {
        true => "scan",
        false => "cloud",
    };
    assert_eq!(arm["source"]["data_type"], data_type, "{arm}");
    assert!(arm["source"]["statistics"]["turns"].as_u64() >= Some(3));
}

/// A bag that rosbag plays, as it recorded it from a vehicle, stands for the driver of a sensor.
async fn a_bag_that_is_played_is_a_source(master: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("driver.bag");
    let master = master.start().await;
    let edge = master.edge().await;
    let vehicle = master.vehicle("scan");
    let topic = "/velodyne_packets";
    let mut record = ros("rosbag", &master.address);
    record.args(["record", topic, "--limit", "10", "-O"]);
    output(record.arg(&bag)).await;
    for side in [vehicle, edge] {
        side.send(Signal::SIGINT);
        side.ended().await;
    }
    let mut play = ros("rosbag", &master.address);
    let _play = Program::start(play.args(["play", "--loop", "--quiet"]).arg(&bag));
    sent_on(&master, topic, &VelodyneScan::TYPE).await;
}

async fn clouds_of_a_foreign_node_are_a_source(master: Kind) {
    let truth = Truth::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud");
    std::fs::write(&file, truth.clouds()[0].encode()).unwrap();
    let master = master.start().await;
    let _talk = Program::start(peer("talk.py", &master.address).arg(&file));
    sent_on(&master, "/points", &PointCloud2::TYPE).await;
}

/// Both sides at work, told to end by `signal`: when they have ended, the master knows nobody.
async fn nobody_is_registered_after(master: Kind, signal: Signal) {
    let master = master.start().await;
    let edge = master.edge().await;
    let vehicle = master.vehicle("scan");
    master.lists(&["/edge", "/vehicle"]).await;
    for side in [vehicle, edge] {
        side.send(signal);
        side.ended().await;
    }
    assert_eq!(master.nodes().await, [""; 0]);
}

async fn nobody_is_registered_after_an_interrupt(master: Kind) {
    nobody_is_registered_after(master, Signal::SIGINT).await;
}

async fn nobody_is_registered_after_a_termination(master: Kind) {
    nobody_is_registered_after(master, Signal::SIGTERM).await;
}

/// A side whose own thread panics takes its registrations back all the same.
async fn nobody_is_registered_after_a_panic(master: Kind) {
    let master = master.start().await;
    let panicking = |side: &str| {
        let url = master.url(side).replace("rosmaster", panicking::SCHEME);
        programs::again(&[side, "--transport", &url])
    };
    let edge = master.edge().await;
    let mut vehicle = panicking("vehicle");
    let vehicle = Program::start(vehicle.args(["--source", truth::SOURCE]));
    assert!(!vehicle.ended().await.success());
    assert_eq!(master.nodes().await, ["/edge"]);
    edge.send(Signal::SIGINT);
    edge.ended().await;

    let mut edge = panicking("edge");
    let edge = Program::start(edge.arg("--detector=fixed-delay:1ms"));
    let vehicle = master.vehicle("scan");
    assert!(!edge.ended().await.success());
    assert_eq!(master.nodes().await, ["/vehicle"]);
    vehicle.send(Signal::SIGINT);
    vehicle.ended().await;
    assert_eq!(master.nodes().await, [""; 0]);
}

/// A side that was killed could take nothing back. The embedded master finds out by itself; another
/// one is cleared by the next node of that name.
async fn a_killed_node_does_not_stay(kind: Kind) {
    let master = kind.start().await;
    let edge = master.edge().await;
    let vehicle = master.vehicle("scan");
    master.lists(&["/edge", "/vehicle"]).await;
    for side in [vehicle, edge] {
        side.send(Signal::SIGKILL);
        side.ended().await;
    }
    if matches!(kind, Kind::Rosmaster) {
        assert_eq!(master.nodes().await, ["/edge", "/vehicle"]);
        let edge = master.edge().await;
        let vehicle = master.vehicle("scan");
        let mut listen = peer("listen.py", &master.address);
        let folder = tempfile::tempdir().unwrap();
        let mut listen = Program::start(listen.arg("/objects").arg(folder.path()));
        listen.line().await;
        listen.kill().await;
        for side in [vehicle, edge] {
            side.send(Signal::SIGINT);
            side.ended().await;
        }
        let nodes = master.nodes().await;
        let ours = |node: &String| node == "/edge" || node == "/vehicle";
        assert!(!nodes.iter().any(ours), "{nodes:?}");
    } else {
        master.lists(&[]).await;
    }
}

/// An edge that advertises a host that nobody can find says so when it starts.
async fn an_unreachable_advertised_host_is_warned_about(master: Kind) {
    let master = master.start().await;
    let url = format!("{}&hostname=no-such-host.invalid", master.url("edge"));
    let mut edge = ours(&["edge", "--transport", &url, "--detector=fixed-delay:1ms"]);
    let mut edge = Program::start(edge.stderr(Stdio::piped()));
    let said = edge.error_with("no-such-host.invalid").await;
    assert!(
        said.contains("WARN") && said.contains("does not resolve"),
        "{said}"
    );
}

/// A test by name, with each master.
macro_rules! trials {
    ($($test:ident needs $($need:expr),+;)+) => {{
        let mut trials = Vec::new();
        $(
            let missing = [$($need.err(),)+].into_iter().flatten().next();
            for (name, kind, program) in [
                ("embedded", Kind::Embedded, Ok(PathBuf::new())),
                ("rosmaster", Kind::Rosmaster, rosmaster()),
            ] {
                let missing = missing.clone().or(program.err());
                let name = format!("{name}::{}", stringify!($test));
                trials.push(trial(name, missing, move || run($test(kind))));
            }
        )+
        trials
    }};
}

fn trial(
    name: String,
    missing: Option<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match missing {
        None => Trial::test(name, test),
        Some(reason) if std::env::var("CONFORMANCE_REQUIRE").as_deref() == Ok("all") => {
            Trial::test(name, move || Err(reason.into()))
        }
        Some(reason) => Trial::test(format!("{name} [{reason}]"), test).with_ignored_flag(true),
    }
}

fn run(test: impl Future<Output = ()>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test);
    Ok(())
}

fn main() -> ExitCode {
    if programs::is_side() {
        return roundtrip::main_with(panicking::registry());
    }
    let mut arguments = Arguments::from_args();
    // One after the other: each starts several programs.
    arguments.test_threads.get_or_insert(1);
    let rostopic = || tool("rostopic", "python3-rostopic").map(drop);
    let rosbag = || tool("rosbag", "python3-rosbag").map(drop);
    let trials = trials! {
        tools_see_scans needs python(), rostopic();
        tools_see_clouds needs python(), rostopic();
        tools_see_states_and_markers needs python(), rostopic();
        collective_list_is_echoed needs python(), rostopic();
        rospy_reads_clouds needs python();
        roscpp_reads_clouds needs roscpp();
        rosbag_keeps_scans needs python(), rosbag();
        rosbag_keeps_clouds needs python(), rosbag();
        clouds_of_a_foreign_node_are_answered needs python();
        clouds_of_a_foreign_node_are_a_source needs python();
        a_bag_that_is_played_is_a_source needs python(), rosbag();
        nobody_is_registered_after_an_interrupt needs python();
        nobody_is_registered_after_a_termination needs python();
        nobody_is_registered_after_a_panic needs python();
        a_killed_node_does_not_stay needs python();
        an_unreachable_advertised_host_is_warned_about needs Ok::<(), String>(());
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}
