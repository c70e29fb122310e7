//! Real ROS programs on the other side: rospy, roscpp, rostopic, rosnode and rosbag, with the
//! embedded master and with the one of the distribution.
//!
//! What is not installed shows as ignored; with `CONFORMANCE_REQUIRE=all` it fails.
#![allow(clippy::unwrap_used)]

mod ros;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use libtest_mimic::{Arguments, Failed, Trial};
use ros::{Program, command, output, peers, schema, string, text};
use transport_api::{
    ErrorKind, Message, PublisherExt, Qos, Sample, Schema, Sequence, Stage, Subscriber,
    SubscriberExt, TopicFilter, TopicName, Transport, TransportConfig, TransportFactory,
};
use transport_conformance::server::{self, Server};
use transport_rosmaster::Factory;

const PYTHON: &str = "/usr/bin/python3";
const CLOSE: Duration = Duration::from_secs(5);

/// Sizes around the buffers on the way, up to far beyond a cloud.
const SIZES: [usize; 9] = [
    0, 1, 4095, 4096, 4097, 65_535, 65_536, 1_078_352, 20_971_520,
];

#[derive(Clone, Copy)]
enum Master {
    Embedded,
    Rosmaster,
}

impl Master {
    /// Runs `test` with a master.
    async fn with<F: Future<Output = ()>>(self, test: impl FnOnce(TransportConfig) -> F) {
        match self {
            Self::Embedded => {
                let config = TransportConfig::parse("rosmaster:embedded").unwrap();
                let meeting = Factory.meet(&config).await.unwrap();
                test(meeting.first).await;
                meeting.host.unwrap().stop().await;
            }
            Self::Rosmaster => {
                let program = rosmaster().unwrap();
                let server = Server::start(move |port| {
                    let mut command = tokio::process::Command::new(&program);
                    command.args(["--core", "--port", &port.to_string()]);
                    command
                });
                let server = server.await.unwrap();
                let url = format!("rosmaster://{}", server.address());
                test(TransportConfig::parse(&url).unwrap()).await;
                server.stop().await;
            }
        }
    }
}

fn rosmaster() -> Result<PathBuf, String> {
    find("rosmaster", "python3-rosmaster")
}

fn find(program: &str, package: &str) -> Result<PathBuf, String> {
    let variable = format!("ROUNDTRIP_{}", program.to_uppercase());
    server::find(program, &variable, &format!("apt-get install {package}"))
        .map_err(|missing| missing.to_string())
}

/// Whether Python has the ROS packages.
fn python() -> Result<(), String> {
    let found = std::process::Command::new(PYTHON)
        .args(["-c", "import rospy, rosbag, std_msgs.msg"])
        .output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("rospy not found; apt-get install python3-rospy python3-rosbag".to_owned()),
    }
}

fn roscpp() -> Result<(), String> {
    find("g++", "g++")?;
    match std::path::Path::new("/usr/include/ros/ros.h").exists() {
        true => Ok(()),
        false => Err("roscpp not found; apt-get install libroscpp-dev libstd-msgs-dev".to_owned()),
    }
}

async fn open(config: &TransportConfig, peer: &str) -> Arc<dyn Transport> {
    let name = transport_api::PeerId::parse(peer).unwrap();
    Factory.open(&config.clone().with_peer(name)).await.unwrap()
}

async fn subscribe(
    transport: &Arc<dyn Transport>,
    topic: &str,
    schema: &Schema,
) -> Box<dyn Subscriber> {
    let filter = TopicFilter::parse(topic).unwrap();
    transport
        .subscriber(&filter, schema, Qos::default())
        .await
        .unwrap()
}

async fn receive(subscriber: &mut Box<dyn Subscriber>) -> transport_api::Result<Sample> {
    let sample = tokio::time::timeout(ros::PATIENCE, subscriber.recv()).await;
    sample
        .expect("a message arrives before the watchdog ends")
        .expect("open")
}

fn array() -> Schema {
    let line = "=".repeat(80);
    schema(
        "std_msgs/UInt8MultiArray",
        "82373f1612381bb6ee473b5cd6f5d89c",
        &format!(
            "MultiArrayLayout layout\nuint8[] data\n{line}\nMSG: std_msgs/MultiArrayLayout\n\
             MultiArrayDimension[] dim\nuint32 data_offset\n{line}\n\
             MSG: std_msgs/MultiArrayDimension\nstring label\nuint32 size\nuint32 stride\n"
        ),
    )
}

/// A `std_msgs/UInt8MultiArray` of `size` bytes of noise.
fn noise(size: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(size + 12);
    bytes.put_slice(&[0; 8]);
    bytes.put_u32_le(size as u32);
    let mut state = size as u64 + 1;
    for _ in 0..size {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.put_u8((state >> 56) as u8);
    }
    bytes.freeze()
}

/// Sends all sizes to a peer that returns them; metadata is on, and the peer ignores it.
async fn every_size_returns(config: TransportConfig, mut peer: Program) {
    let url = format!("{}?max_payload=32MiB", config.expose());
    let transport = open(&TransportConfig::parse(&url).unwrap(), "sizes").await;
    let mut back = subscribe(&transport, "out", &array()).await;
    peer.ready().await;
    let topic = TopicName::parse("in").unwrap();
    let publisher = transport
        .publisher(&topic, &array(), Qos::blocking())
        .await
        .unwrap();
    let mut sequence = Sequence::random();
    for size in SIZES {
        let payload = noise(size);
        let message = Message::new(payload.clone()).with_id(sequence.next_id());
        drop(publisher.publish(message).await.unwrap());
        let sample = receive(&mut back).await.unwrap();
        assert!(
            sample.payload == payload,
            "{size} B came back as {} B",
            sample.payload.len()
        );
        assert!(sample.meta.id.is_none(), "the peer sends no metadata");
    }
    transport.close(CLOSE).await;
}

async fn rospy_returns_every_size(config: TransportConfig) {
    let peer = Program::start(command(PYTHON, &config).arg(peers().join("echo.py")));
    every_size_returns(config, peer).await;
}

async fn roscpp_returns_every_size(config: TransportConfig) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("echo");
    let libraries = [
        "roscpp",
        "rosconsole",
        "roscpp_serialization",
        "rostime",
        "boost_thread",
    ];
    let mut compiler = tokio::process::Command::new("g++");
    compiler
        .args(["-O1", "-w", "-o"])
        .arg(&program)
        .arg(peers().join("echo.cpp"))
        .args(libraries.map(|library| format!("-l{library}")));
    output(&mut compiler).await;
    let peer = Program::start(&mut command(&program, &config));
    every_size_returns(config, peer).await;
}

/// The first message of a publisher reaches a subscriber that was there before, every time.
async fn rospy_gets_the_first_message(config: TransportConfig) {
    let mut peer = Program::start(command(PYTHON, &config).arg(peers().join("count.py")));
    peer.ready().await;
    let topic = TopicName::parse("chatter").unwrap();
    for n in 0..20 {
        let transport = open(&config, "once").await;
        let publisher = transport
            .publisher(&topic, &string(), Qos::default())
            .await
            .unwrap();
        let message = Message::new(text(&format!("message {n}")));
        drop(publisher.publish(message).await.unwrap());
        let report = transport.close(CLOSE).await;
        assert_eq!(report.abandoned, 0);
        assert_eq!(peer.line().await, format!("message {n}"));
    }
}

/// `rostopic` and `rosnode` see a normal topic of a normal node.
async fn ros_tools_see_normal_topics(config: TransportConfig) {
    let transport = open(&config, "talker").await;
    let topic = TopicName::parse("vehicle1/chatter").unwrap();
    let publisher = transport
        .publisher(&topic, &string(), Qos::default())
        .await
        .unwrap();
    let ros = |program: &str, args: &[&str]| {
        let mut command = command(program, &config);
        command.args(args);
        async move { output(&mut command).await }
    };
    assert!(
        ros("rostopic", &["list"])
            .await
            .lines()
            .any(|line| line == "/vehicle1/chatter")
    );
    assert_eq!(
        ros("rostopic", &["type", "/vehicle1/chatter"]).await.trim(),
        "std_msgs/String"
    );
    let info = ros("rostopic", &["info", "/vehicle1/chatter"]).await;
    assert!(info.contains("/talker"), "{info}");
    let ping = ros("rosnode", &["ping", "-c", "1", "/talker"]).await;
    assert!(ping.contains("xmlrpc reply"), "{ping}");
    let info = ros("rosnode", &["info", "/talker"]).await;
    assert!(
        info.contains("/vehicle1/chatter [std_msgs/String]"),
        "{info}"
    );

    let mut echo =
        Program::start(command("rostopic", &config).args(["echo", "-n", "1", "/vehicle1/chatter"]));
    let mut events = transport.events();
    loop {
        let event = tokio::time::timeout(ros::PATIENCE, events.next())
            .await
            .unwrap()
            .unwrap();
        if matches!(event, transport_api::Event::Matched { subscribers: 1, .. }) {
            break;
        }
    }
    let mut sequence = Sequence::random();
    let message = Message::new(text("hello")).with_id(sequence.next_id());
    drop(publisher.publish(message).await.unwrap());
    assert_eq!(echo.line().await, "data: \"hello\"");
    let status = tokio::time::timeout(ros::PATIENCE, echo.child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success());
    transport.close(CLOSE).await;
}

/// `rosbag record` keeps our messages, and they are read back as what they are.
async fn rosbag_records(config: TransportConfig) {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("recorded.bag");
    let transport = open(&config, "recorded").await;
    let topic = TopicName::parse("chatter").unwrap();
    let publisher = transport
        .publisher(&topic, &string(), Qos::blocking())
        .await
        .unwrap();
    let mut events = transport.events();
    let mut record = Program::start(
        command("rosbag", &config)
            .args(["record", "/chatter", "--limit", "10", "-O"])
            .arg(&bag),
    );
    loop {
        let event = tokio::time::timeout(ros::PATIENCE, events.next())
            .await
            .unwrap()
            .unwrap();
        if matches!(event, transport_api::Event::Matched { subscribers: 1, .. }) {
            break;
        }
    }
    let mut sequence = Sequence::random();
    let recorded = async {
        let status = record.child.wait().await.unwrap();
        assert!(status.success(), "{status}");
    };
    // It may count what it has written after the tenth message only when an eleventh arrives.
    let publishing = async {
        for n in 0.. {
            let message = Message::new(text(&format!("{n}"))).with_id(sequence.next_id());
            drop(publisher.publish(message).await.unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = recorded => {}
        () = publishing => {}
        () = tokio::time::sleep(ros::PATIENCE) => panic!("rosbag record does not end"),
    }
    let read = output(
        command(PYTHON, &config)
            .arg(peers().join("bag.py"))
            .arg(&bag),
    )
    .await;
    let lines: Vec<&str> = read.lines().collect();
    assert!(lines.len() >= 10, "{lines:?}");
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("/chatter std_msgs/String {n}"));
    }
    transport.close(CLOSE).await;
}

/// A rospy publisher of another type is reported with both types; one of the right type is read,
/// and its header's sequence number becomes the identity of its messages.
async fn rospy_publishes(config: TransportConfig) {
    let mut peer = Program::start(command(PYTHON, &config).arg(peers().join("talk.py")));
    peer.ready().await;
    let transport = open(&config, "listener").await;

    let mut wrong = subscribe(&transport, "chatter", &array()).await;
    let error = receive(&mut wrong).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Schema, "{text}");
    for part in [
        "std_msgs/UInt8MultiArray",
        "82373f1612381bb6ee473b5cd6f5d89c",
        "std_msgs/String",
        "992ce8a1687cec8c8bd883ec73ca41d1",
    ] {
        assert!(text.contains(part), "{text}");
    }
    wrong.close().await.unwrap();

    let mut right = subscribe(&transport, "chatter", &string()).await;
    let sample = receive(&mut right).await.unwrap();
    assert_eq!(sample.payload, ros::text("from rospy"));
    assert_eq!(sample.meta.schema.as_ref(), string().id());

    let mut any = subscribe(&transport, "stamps", &Schema::opaque()).await;
    let first = receive(&mut any).await.unwrap();
    assert_eq!(first.meta.schema.unwrap().name(), "std_msgs/Header");
    transport.close(CLOSE).await;
}

/// Closing takes everything back: the master lists nothing of ours.
async fn close_leaves_no_registration(config: TransportConfig) {
    let transport = open(&config, "leaving").await;
    let topic = TopicName::parse("chatter").unwrap();
    let publisher = transport
        .publisher(&topic, &string(), Qos::default())
        .await
        .unwrap();
    let subscriber = subscribe(&transport, "chatter", &string()).await;
    publisher.flush(Stage::Written).await.unwrap();
    transport.close(CLOSE).await;
    drop((publisher, subscriber));
    let nodes = output(command("rosnode", &config).arg("list")).await;
    assert!(!nodes.contains("leaving"), "{nodes}");
    let topics = output(command("rostopic", &config).arg("list")).await;
    assert!(!topics.contains("chatter"), "{topics}");
}

/// A test by name, with each master.
macro_rules! trials {
    ($($test:ident needs $($need:expr),+;)+) => {{
        let mut trials = Vec::new();
        $(
            let missing = [$($need.err(),)+].into_iter().flatten().next();
            for (kind, master, program) in [
                ("embedded", Master::Embedded, Ok(PathBuf::new())),
                ("rosmaster", Master::Rosmaster, rosmaster()),
            ] {
                let missing = missing.clone().or(program.err());
                trials.push(trial(concat!(stringify!($test)), kind, missing, move || {
                    run(master.with($test))
                }));
            }
        )+
        trials
    }};
}

fn trial(
    name: &str,
    kind: &str,
    missing: Option<String>,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let name = format!("{kind}::{name}");
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
    let mut arguments = Arguments::from_args();
    // One after the other: each starts several programs.
    arguments.test_threads.get_or_insert(1);
    let tool = |program: &str, package: &str| find(program, package).map(drop);
    let trials = trials! {
        rospy_returns_every_size needs python();
        rospy_gets_the_first_message needs python();
        rospy_publishes needs python();
        roscpp_returns_every_size needs roscpp();
        ros_tools_see_normal_topics needs tool("rostopic", "python3-rostopic"),
            tool("rosnode", "python3-rosnode");
        rosbag_records needs python(), tool("rosbag", "python3-rosbag");
        close_leaves_no_registration needs tool("rostopic", "python3-rostopic"),
            tool("rosnode", "python3-rosnode");
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}
