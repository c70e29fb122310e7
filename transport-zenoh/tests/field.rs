//! What happens in the field: first messages, slow links, large payloads, taken ports, strangers.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use transport_api::{
    ErrorKind, Meeting, Message, PublisherExt, Qos, Sample, Schema, Sequence, Stage, Subscriber,
    SubscriberExt, TopicFilter, TopicName, Transport, TransportConfig, TransportFactory,
};
use transport_zenoh::Factory;
use zenoh::Wait;

/// A watchdog, far above what anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between messages that are sent until something happens.
const PACE: Duration = Duration::from_millis(20);

const SCAN: usize = 183_342;
const CLOUD: usize = 1_078_352;

fn config(url: &str) -> TransportConfig {
    TransportConfig::parse(url).unwrap()
}

fn topic() -> TopicName {
    TopicName::parse("field/cloud").unwrap()
}

async fn open(config: &TransportConfig) -> Arc<dyn Transport> {
    patient(Factory.open(config)).await.unwrap()
}

async fn meet(url: &str) -> Meeting {
    patient(Factory.meet(&config(url))).await.unwrap()
}

async fn patient<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it ends before the watchdog barks")
}

async fn subscribe(transport: &Arc<dyn Transport>) -> Box<dyn Subscriber> {
    let qos = Qos::default().with_depth(256);
    let filter = TopicFilter::from(&topic());
    patient(transport.subscriber(&filter, &Schema::opaque(), qos))
        .await
        .unwrap()
}

async fn receive(subscriber: &mut Box<dyn Subscriber>) -> Sample {
    patient(subscriber.recv()).await.unwrap().unwrap()
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// A publisher that starts, sends one message and goes reaches whoever subscribed before.
async fn one_shots(url: &str) {
    let meeting = meet(url).await;
    let first = open(&meeting.first).await;
    let mut subscriber = subscribe(&first).await;
    for round in 0..50u8 {
        let second = open(&meeting.second).await;
        let publisher = second
            .publisher(&topic(), &Schema::opaque(), Qos::default())
            .await
            .unwrap();
        let mut sent = payload(SCAN);
        sent[0] = round;
        drop(publisher.publish(Message::new(sent)).await.unwrap());
        let report = second.close(PATIENCE).await;
        assert_eq!(report.abandoned, 0, "round {round}");
        let sample = receive(&mut subscriber).await;
        assert_eq!((sample.payload.len(), sample.payload[0]), (SCAN, round));
    }
    first.close(PATIENCE).await;
    if let Some(host) = meeting.host {
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_message_of_a_peer_arrives() {
    one_shots("zenoh:peer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_message_through_a_router_arrives() {
    one_shots("zenoh:router").await;
}

/// Relays one connection at `rate` bytes per second in each direction.
async fn slow_relay(to: u16, rate: f64) -> u16 {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await.unwrap();
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            tokio::spawn(trickle(near_in, far_out, rate));
            tokio::spawn(trickle(far_in, near_out, rate));
        }
    });
    port
}

async fn trickle(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    rate: f64,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut due = Instant::now();
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // The rate is what is under test, not a wait for something to be ready.
        due = due.max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clouds_survive_a_slow_link() {
    let meeting = meet("zenoh:peer").await;
    let edge = open(&meeting.first).await;
    let mut subscriber = subscribe(&edge).await;
    let port = meeting.second.url().port().unwrap();
    // 40 Mbit/s: a cloud takes 216 ms, four times what the library by default grants it.
    let relay = slow_relay(port, 5e6).await;
    let vehicle = open(&config(&format!("zenoh://127.0.0.1:{relay}"))).await;
    let publisher = vehicle
        .publisher(&topic(), &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let mut sequence = Sequence::random();
    for _ in 0..10 {
        let message = Message::new(payload(CLOUD)).with_id(sequence.next_id());
        drop(publisher.publish(message).await.unwrap());
        let sample = receive(&mut subscriber).await;
        assert_eq!((sample.payload.len(), sample.missed), (CLOUD, 0));
    }
    let counters = publisher.counters();
    assert_eq!(
        (counters.written, counters.dropped, counters.lost),
        (10, 0, 0)
    );
    vehicle.close(PATIENCE).await;
    edge.close(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_slow_link_cannot_carry_is_dropped_and_counted() {
    const COUNT: u64 = 100;
    let meeting = meet("zenoh:peer").await;
    let edge = open(&meeting.first).await;
    let mut subscriber = subscribe(&edge).await;
    let relay = slow_relay(meeting.second.url().port().unwrap(), 20e6).await;
    let vehicle = open(&config(&format!("zenoh://127.0.0.1:{relay}"))).await;
    let publisher = vehicle
        .publisher(&topic(), &Schema::opaque(), Qos::default().with_depth(2))
        .await
        .unwrap();
    let mut sequence = Sequence::random();
    let cloud = bytes::Bytes::from(payload(CLOUD));
    for _ in 0..COUNT {
        let message = Message::new(cloud.clone()).with_id(sequence.next_id());
        drop(publisher.try_publish(message).unwrap());
    }
    patient(publisher.flush(Stage::Written)).await.unwrap();
    let counters = publisher.counters();
    assert!(counters.dropped > 0, "{counters:?}");
    assert_eq!(
        (counters.written + counters.dropped, counters.lost),
        (COUNT, 0)
    );
    for _ in 0..counters.written {
        receive(&mut subscriber).await;
    }
    // The newest was kept, so every drop shows as a gap before it.
    let first_seen = COUNT - counters.written - subscriber.counters().missed;
    assert!(
        first_seen <= counters.dropped,
        "{:?}",
        subscriber.counters()
    );
    vehicle.close(PATIENCE).await;
    edge.close(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_reach_64_mib() {
    const LARGE: usize = 64 << 20;
    let meeting = meet("zenoh:peer?max_payload=64MiB").await;
    let edge = open(&meeting.first).await;
    let vehicle = open(&meeting.second).await;
    let mut subscriber = subscribe(&edge).await;
    let publisher = vehicle
        .publisher(&topic(), &Schema::opaque(), Qos::blocking())
        .await
        .unwrap();
    let sent = bytes::Bytes::from(payload(LARGE));
    drop(publisher.publish(Message::new(sent.clone())).await.unwrap());
    assert!(receive(&mut subscriber).await.payload == sent);
    let refused = publisher
        .try_publish(Message::new(payload(LARGE + 1)))
        .unwrap_err();
    assert_eq!(refused.message.payload.len(), LARGE + 1);
    vehicle.close(PATIENCE).await;
    edge.close(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_named_with_its_option() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    for url in [
        format!("zenoh:peer?port={port}"),
        format!("zenoh:router?port={port}"),
    ] {
        for error in [
            Factory.meet(&config(&url)).await.unwrap_err(),
            Factory.open(&config(&url)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Connect);
            let text = error.to_string();
            assert!(
                text.contains(&format!("127.0.0.1:{port}")) && text.contains("option `port`"),
                "{text}"
            );
        }
    }
    let url = format!("zenoh://127.0.0.1:{port}?role=listen");
    let text = Factory.open(&config(&url)).await.unwrap_err().to_string();
    assert!(text.contains(&port.to_string()), "{text}");
}

/// The part of a child process: subscribes and tells number, samples received and samples missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child of a_stopped_peer_is_given_up_and_the_loss_is_counted"]
async fn subscribing_child() {
    let Ok(url) = std::env::var(CHILD) else {
        return;
    };
    let transport = open(&config(&url)).await;
    let mut subscriber = subscribe(&transport).await;
    println!("{READY}");
    while let Some(sample) = subscriber.recv().await {
        let seq = sample.unwrap().meta.id.unwrap().seq;
        let counters = subscriber.counters();
        println!("{REPORT} {seq} {} {}", counters.received, counters.missed);
    }
}

const CHILD: &str = "ZENOH_TEST_CHILD";
const READY: &str = "child is ready";
const REPORT: &str = "child received";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_peer_is_given_up_and_the_loss_is_counted() {
    let edge = open(&config("zenoh:peer?block_timeout=300ms&lease=5s")).await;
    let url = edge.info().endpoint.replace("tcp/", "zenoh://");
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "subscribing_child", "--ignored", "--nocapture"])
        .env(CHILD, url)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !patient(lines.next_line())
        .await
        .unwrap()
        .unwrap()
        .contains(READY)
    {}
    let pid = Pid::from_raw(child.id().unwrap() as i32);
    let publisher = edge
        .publisher(&topic(), &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let mut sequence = Sequence::random();
    let cloud = bytes::Bytes::from(payload(CLOUD));
    let mut publish = || {
        let message = Message::new(cloud.clone()).with_id(sequence.next_id());
        drop(publisher.try_publish(message).unwrap());
        sequence.count() - 1
    };

    publish();
    // What a subscriber missed is counted from its first message on.
    let mut report = async || loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, numbers)) = line.split_once(REPORT) {
            let numbers = numbers.split_whitespace().map(|n| n.parse().unwrap());
            return numbers.collect::<Vec<u64>>();
        }
    };
    assert_eq!(patient(report()).await, [0, 1, 0]);
    kill(pid, Signal::SIGSTOP).unwrap();
    patient(async {
        while publisher.counters().lost == 0 {
            publish();
            tokio::time::sleep(PACE).await;
        }
    })
    .await;
    kill(pid, Signal::SIGCONT).unwrap();

    // It comes back by itself, and what it missed and what it received add up.
    let resumed = publish();
    let (last, received, missed) = patient(async {
        loop {
            publish();
            if let Ok(numbers) = tokio::time::timeout(PACE, report()).await
                && numbers[0] > resumed
            {
                return (numbers[0], numbers[1], numbers[2]);
            }
        }
    })
    .await;
    assert!(missed > 0);
    assert_eq!(received + missed, last + 1);
    child.kill().await.unwrap();
    edge.close(PATIENCE).await;
}

/// The pool is smaller than what is kept here: what does not fit goes through the connection.
#[cfg(feature = "shared-memory")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_memory_delivers_and_survives_a_full_pool() {
    const COUNT: usize = 40;
    let meeting = meet("zenoh:peer?shared_memory=true&max_payload=2MiB").await;
    let edge = open(&meeting.first).await;
    let vehicle = open(&meeting.second).await;
    let mut subscriber = subscribe(&edge).await;
    let publisher = vehicle
        .publisher(&topic(), &Schema::opaque(), Qos::blocking())
        .await
        .unwrap();
    let mut kept = Vec::new();
    for round in 0..COUNT {
        let mut sent = payload(CLOUD);
        sent[0] = round as u8;
        drop(publisher.publish(Message::new(sent)).await.unwrap());
        kept.push(receive(&mut subscriber).await);
    }
    for (round, sample) in kept.iter().enumerate() {
        assert_eq!(sample.payload[0], round as u8);
        assert_eq!(sample.payload[1..], payload(CLOUD)[1..]);
    }
    vehicle.close(PATIENCE).await;
    edge.close(PATIENCE).await;
}

#[test]
fn a_current_thread_runtime_is_refused_not_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime
        .block_on(Factory.open(&config("zenoh:peer")))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("multi-thread"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_programs_are_understood_and_understand() {
    let edge = open(&config("zenoh:peer")).await;
    let endpoint = edge.info().endpoint.clone();
    let foreign = tokio::task::spawn_blocking(move || {
        let mut config = zenoh::Config::default();
        config.insert_json5("mode", "\"client\"").unwrap();
        config
            .insert_json5("scouting/multicast/enabled", "false")
            .unwrap();
        config
            .insert_json5("connect/endpoints", &format!("[\"{endpoint}\"]"))
            .unwrap();
        zenoh::open(config).wait().unwrap()
    })
    .await
    .unwrap();

    let mut subscriber = subscribe(&edge).await;
    foreign
        .put(topic().as_str(), payload(SCAN))
        .congestion_control(zenoh::qos::CongestionControl::Block)
        .await
        .unwrap();
    let sample = receive(&mut subscriber).await;
    assert_eq!(sample.payload, payload(SCAN));
    assert_eq!(sample.meta, transport_api::Metadata::default());

    let (found, mut arrivals) = tokio::sync::mpsc::channel(1);
    let _theirs = foreign
        .declare_subscriber(topic().as_str())
        .callback(move |sample| {
            let _ = found.try_send(sample);
        })
        .await
        .unwrap();
    let publisher = edge
        .publisher(&topic(), &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let message = Message::new("plain").with_id(Sequence::random().next_id());
    // A foreign subscriber answers no barrier, so its declaration may still be on its way.
    let sample = patient(async {
        loop {
            drop(publisher.publish(message.clone()).await.unwrap());
            let wait = Duration::from_millis(100);
            if let Ok(Some(sample)) = tokio::time::timeout(wait, arrivals.recv()).await {
                return sample;
            }
        }
    })
    .await;
    assert_eq!(&*sample.payload().to_bytes(), b"plain");
    assert!(sample.attachment().unwrap().to_bytes().starts_with(b"RT"));
    foreign.close().await.unwrap();
    edge.close(PATIENCE).await;
}

#[test]
fn the_library_named_is_the_library_used() {
    let lock = include_str!("../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"zenoh\"\nversion = \"").unwrap();
    let (version, _) = rest.split_once('"').unwrap();
    let implementation = Factory.about().implementation;
    assert_eq!(implementation, format!("zenoh {version}"));
}
