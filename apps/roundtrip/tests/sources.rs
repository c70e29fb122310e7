//! What a run sends: clouds of files, recordings at their own pace, and sensors that are listened to.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lidar_sensor::source::SourceSpec;
use nix::sys::signal::Signal;
use process::{Process, arms, only_folder, roundtrip};
use serde_json::Value;

/// A run of a few scans from `source`, which is to end by itself.
fn run(results: &Path, source: &str, more: &[&str]) -> Output {
    command(results, source, more).output().unwrap()
}

fn command(results: &Path, source: &str, more: &[&str]) -> std::process::Command {
    let mut command = roundtrip(&["run", "--detector=fixed-delay:1ms"]);
    command.args(["--results", results.to_str().unwrap(), "--source", source]);
    command.args(["--samples=6", "--warmup=2"]).args(more);
    command
}

fn text(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    format!("{stdout}\n{}", String::from_utf8_lossy(&output.stderr))
}

/// Bytes of the samples of an arm, as they were sent.
fn bytes_up(results: &Path, label: &str) -> Vec<usize> {
    let path = only_folder(results).join(label).join("samples.csv");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let column = lines
        .next()
        .unwrap()
        .split(',')
        .position(|c| c == "bytes_up");
    lines
        .map(|line| {
            line.split(',')
                .nth(column.unwrap())
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect()
}

/// Points as KITTI has them: as many as asked for, in front of the sensor.
fn kitti(points: usize) -> Vec<u8> {
    let point = |n: usize| [5.0 + n as f32, 0.5, -1.0, 0.25];
    let values = (0..points).flat_map(point);
    values.flat_map(f32::to_le_bytes).collect()
}

/// A capture of synthetic turns.
fn capture(folder: &Path, turns: u32) -> String {
    let file = folder.join("a.pcap");
    let source = format!("synthetic:7?turns={turns}&model=vlp-16");
    let target = format!("pcap:{}", file.display());
    let output = roundtrip(&["sensor", "convert", &source, &target]).output();
    assert!(output.unwrap().status.success());
    file.display().to_string()
}

#[test]
fn clouds_of_files_go_all_the_way_round_with_and_without_points() {
    let folder = tempfile::tempdir().unwrap();
    for (name, points) in [("0.bin", 100), ("1.bin", 0)] {
        fs::write(folder.path().join(name), kitti(points)).unwrap();
    }
    let results = tempfile::tempdir().unwrap();
    let mut transports = vec!["--transport=local:files"];
    if cfg!(feature = "mqtt") {
        transports.push("--transport=mqtt:embedded");
    }
    let source = format!("kitti:{}", folder.path().display());
    transports.extend(["--rate=20", "--queue=30"]);
    let output = run(results.path(), &source, &transports);
    assert!(output.status.success(), "{}", text(&output));
    for arm in arms(results.path()) {
        assert_eq!(arm["answered"], 6, "{arm}");
        assert_eq!(arm["source"]["data_type"], "cloud", "{arm}");
        let bytes = bytes_up(results.path(), arm["label"].as_str().unwrap());
        let difference = bytes[0].abs_diff(bytes[1]);
        assert_eq!(difference, 1600, "{bytes:?}");
    }
}

#[test]
fn what_does_not_fit_the_source_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.bin");
    fs::write(&file, kitti(3)).unwrap();
    let clouds = format!("kitti:{}", file.display());
    let pcap = format!("pcap:{}?repeat=true", capture(folder.path(), 1));
    for (source, flag, part) in [
        (&*clouds, "--data-type=scan", "holds clouds and no packets"),
        (&clouds, "--size=50", "leave out --size"),
        ("udp:0", "--rate=20", "leave out --rate"),
        (
            "ros:/points?master=http://a:1",
            "--rate=20",
            "leave out --rate",
        ),
        ("ros:/points?host=a", "--seed=1", "master=URI"),
        ("rosbag:x", "--seed=1", "or ros:TOPIC"),
        (&pcap, "--seed=1", "pace=real"),
    ] {
        let flags = ["--transport=local:refused", flag];
        let output = run(folder.path(), source, &flags);
        assert_eq!(output.status.code(), Some(2), "{source}: {}", text(&output));
        assert!(text(&output).contains(part), "{source}: {}", text(&output));
    }
}

#[cfg(not(feature = "rosmaster"))]
#[test]
fn a_topic_of_a_master_needs_its_transport() {
    let folder = tempfile::tempdir().unwrap();
    let source = "ros:/points?master=http://127.0.0.1:1";
    let output = run(folder.path(), source, &["--transport=local:absent"]);
    let said = text(&output);
    assert!(said.contains("--features rosmaster"), "{said}");
}

#[test]
fn a_recording_at_its_own_pace_is_sent_as_it_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = capture(folder.path(), 4);
    let results = tempfile::tempdir().unwrap();
    let source = format!("pcap:{file}?pace=real&repeat=true");
    let output = run(results.path(), &source, &["--transport=local:pace"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(arms(results.path())[0]["answered"], 6);

    // Once through, there are not enough for the trial, and that is said.
    let results = tempfile::tempdir().unwrap();
    let source = format!("pcap:{file}?pace=real");
    let output = run(results.path(), &source, &["--transport=local:pace"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("the source ended after 4 turns"), "{said}");
    let arm: &Value = &arms(results.path())[0];
    // Two turns were for the warm-up.
    assert_eq!(arm["offered"], 2, "{arm}");
    assert_eq!(arm["answered"], 2, "{arm}");
}

/// Sends the turns of a street to a port until told to stop, one about every 30 ms.
struct Sensor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sensor {
    fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let spec: SourceSpec = "synthetic:3?turns=4&model=vlp-16".parse().unwrap();
        let mut source = spec.open().unwrap();
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            while !told.load(Ordering::Relaxed) {
                let turn = source.next_scan().unwrap().unwrap();
                for packet in turn.scan.packets.iter() {
                    // Nobody may be listening yet, or any more.
                    let _ = socket.send_to(packet.data, (Ipv4Addr::LOCALHOST, port));
                }
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Sensor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// A port of UDP that nobody has.
fn free_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

#[test]
fn a_sensor_is_sent_on_as_it_comes_and_its_silence_is_told() {
    let results = tempfile::tempdir().unwrap();
    let port = free_port();
    let source = format!("udp:{port}?bind=127.0.0.1&silence=0.2");
    let flags = ["--transport=local:sensor"];
    let mut run = Process::start(command(results.path(), &source, &flags));
    run.says("no data packet came to UDP 127.0.0.1");
    let sensor = Sensor::start(port);
    assert_eq!(run.code(), Some(0), "{}", run.said);
    drop(sensor);
    let arm = &arms(results.path())[0];
    assert_eq!(arm["answered"], 6, "{arm}");
    let statistics = &arm["source"]["statistics"];
    assert!(statistics["turns"].as_u64() >= Some(8), "{arm}");
    assert!(run.said.contains("heard again"), "{}", run.said);
}

#[test]
fn a_run_that_waits_for_a_sensor_is_ended_by_an_interrupt() {
    let results = tempfile::tempdir().unwrap();
    let source = format!("udp:{}?bind=127.0.0.1&silence=0.2", free_port());
    let flags = ["--transport=local:silent"];
    let mut run = Process::start(command(results.path(), &source, &flags));
    run.says("no data packet came to UDP 127.0.0.1");
    run.send(Signal::SIGINT);
    assert_eq!(run.code(), Some(1), "{}", run.said);
}
