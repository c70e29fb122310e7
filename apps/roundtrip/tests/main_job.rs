//! The product as a user runs it: real processes, on the embedded defaults.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Each test starts several processes that keep a schedule; side by side they would take the
/// processor from each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Generous: a watchdog, not a promise.
const WATCHDOG: Duration = Duration::from_secs(120);

fn roundtrip(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A short run with a detector that costs nothing; the neural one has a test of its own.
fn short_run(results: &Path, more: &[&str]) -> Output {
    let results = results.to_str().unwrap();
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5"]);
    if !more.iter().any(|argument| argument.starts_with("--rate")) {
        command.arg("--rate=20");
    }
    command
        .args(["--source=synthetic:1?turns=2", "--results", results])
        .args(more);
    if !more
        .iter()
        .any(|argument| argument.starts_with("--detector"))
    {
        command.arg("--detector=fixed-delay:2ms");
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    format!("{stdout}\n{}", String::from_utf8_lossy(&output.stderr))
}

fn only_folder(results: &Path) -> PathBuf {
    let mut folders = std::fs::read_dir(results)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folder = folders.next().unwrap();
    assert!(folders.next().is_none());
    folder
}

fn summary(results: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(only_folder(results).join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let arms = summary["arms"].as_array().unwrap();
    arms.iter()
        .map(|arm| (arm["label"].as_str().unwrap().to_owned(), arm.clone()))
        .collect()
}

fn assert_complete(results: &Path, label: &str, samples: usize) {
    let arm = &summary(results)[label];
    assert_eq!(arm["offered"], samples, "{label}: {arm:#}");
    assert_eq!(arm["answered"], samples, "{label}: {arm:#}");
    assert_eq!(arm["losses_by_direction"]["up"], 0, "{label}: {arm:#}");
    assert_eq!(arm["losses_by_direction"]["down"], 0, "{label}: {arm:#}");
    let rows = std::fs::read_to_string(only_folder(results).join(label).join("samples.csv"));
    assert_eq!(rows.unwrap().lines().count(), 1 + samples);
}

#[test]
fn every_transport_runs_end_to_end_on_its_embedded_default() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let output = short_run(results.path(), &[]);
    assert!(output.status.success(), "{}", text(&output));
    let arms = summary(results.path());
    for label in ["local", "mqtt", "rosmaster", "zenoh"] {
        assert!(
            arms.contains_key(label),
            "{label} is missing:\n{}",
            text(&output)
        );
        assert_complete(results.path(), label, 20);
        let folder = only_folder(results.path()).join(label);
        // Vehicle and edge are processes of their own, but for the in-vehicle baseline.
        assert_eq!(folder.join("edge.log").exists(), label != "local");
    }
    let stages = arms["mqtt"]["stages_ns"].as_object().unwrap();
    let sum: f64 = stages
        .values()
        .map(|stage| stage["mean"].as_f64().unwrap())
        .sum();
    let total = arms["mqtt"]["total_ns"]["mean"].as_f64().unwrap();
    assert!(
        (sum - total).abs() < 1.0,
        "stages add up to {sum}, the total is {total}"
    );
    assert!(text(&output).contains("object detection"));
}

#[test]
fn the_neural_detector_finds_objects_in_the_loop() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let output = short_run(
        results.path(),
        &[
            "--transport=local:neural",
            "--detector=neural",
            "--rate=2",
            "--ready-timeout=60s",
        ],
    );
    assert!(output.status.success(), "{}", text(&output));
    assert_complete(results.path(), "local", 20);
    let rows = std::fs::read_to_string(only_folder(results.path()).join("local/samples.csv"));
    let rows = rows.unwrap();
    let objects: usize = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(4).unwrap().parse::<usize>().unwrap())
        .sum();
    assert!(objects > 0, "no object in 20 scans of a street");
}

#[test]
fn clouds_and_empty_scans_go_all_the_way_round() {
    let _alone = alone();
    for (flags, up) in [
        (["--data-type=cloud", "--size=100"], 1_000_000),
        (["--data-type=cloud", "--size=0"], 100),
        (["--data-type=scan", "--size=0"], 28),
        (["--data-type=scan", "--size=50"], 92_292),
    ] {
        let results = tempfile::tempdir().unwrap();
        let more = [&["--transport=local:sizes"], &flags[..]].concat();
        let output = short_run(results.path(), &more);
        assert!(output.status.success(), "{flags:?}: {}", text(&output));
        assert_complete(results.path(), "local", 20);
        let rows = std::fs::read_to_string(only_folder(results.path()).join("local/samples.csv"));
        let rows = rows.unwrap();
        let bytes: usize = rows
            .lines()
            .nth(1)
            .unwrap()
            .split(',')
            .nth(2)
            .unwrap()
            .parse()
            .unwrap();
        assert!(bytes >= up && bytes < 2 * up + 1000, "{flags:?}: {bytes} B");
    }
}

#[test]
fn no_latency_depends_on_the_clock_of_the_edge() {
    let _alone = alone();
    for offset in ["3600000000000", "-1576800000000000000"] {
        let results = tempfile::tempdir().unwrap();
        let output = short_run(
            results.path(),
            &[
                "--transport=local:clock",
                &format!("--edge-clock-offset={offset}"),
            ],
        );
        assert!(output.status.success(), "{}", text(&output));
        let arm = &summary(results.path())["local"];
        for (stage, figures) in arm["stages_ns"].as_object().unwrap() {
            let (min, max) = (
                figures["min"].as_f64().unwrap(),
                figures["max"].as_f64().unwrap(),
            );
            assert!(
                min >= 0.0 && max < 60e9,
                "{stage} at offset {offset}: {min} to {max} ns"
            );
        }
    }
}

#[test]
fn an_interrupt_ends_every_child_and_keeps_what_was_measured() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().to_str().unwrap().to_owned();
    let child = roundtrip(&["run", "--samples=100000", "--warmup=0", "--rate=20"])
        .args(["--source=synthetic:1?turns=2", "--detector=fixed-delay:2ms"])
        .args(["--transport=zenoh:peer", "--results", &folder])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Measuring has begun when the edge has written its log and the vehicle has connected.
    let begun = || {
        let mut entries = std::fs::read_dir(results.path()).ok()?;
        let log = entries.next()?.ok()?.path().join("zenoh/vehicle.log");
        std::fs::read_to_string(log)
            .ok()?
            .contains("vehicle connected")
            .then_some(())
    };
    wait_for("the vehicle to connect", begun);
    // The handshake takes less than a second; some scans shall be measured.
    std::thread::sleep(Duration::from_secs(3));
    let pid = child.id();
    let children = children_of(pid);
    assert!(children.len() >= 3, "host, edge and vehicle: {children:?}");
    let asked = Instant::now();
    interrupt(pid);
    let output = child.wait_with_output().unwrap();
    // 3 s on a quiet machine; a stop that waits for a time-out would take far longer than this.
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(6), "ended only after {took:?}");
    assert!(!output.status.success());
    for child in children {
        assert!(!is_running(child), "process {child} is still there");
    }
    let arm = &summary(results.path())["zenoh"];
    assert!(
        arm["answered"].as_u64().unwrap() > 0,
        "{arm:#}\n{}",
        text(&output)
    );
}

#[test]
fn a_real_recording_goes_round() {
    let Some(data) = std::env::var_os("ROUNDTRIP_DATA") else {
        println!("skipped: ROUNDTRIP_DATA is not set");
        return;
    };
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let capture = Path::new(&data).join("vlp32.pcap");
    let source = format!("--source=pcap:{}?cut=270.12", capture.display());
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5", "--rate=5", &source]);
    command
        .args(["--transport=local:recording", "--results"])
        .arg(results.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_complete(results.path(), "local", 20);
}

/// A broker that is gone, and a queue that is full, must hold up neither side.
#[test]
fn an_interrupt_is_heard_without_a_broker() {
    let _alone = alone();
    let mut host = roundtrip(&["host", "--transport=mqtt:embedded"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(host.stdout.take().unwrap());
    let mut url = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        line.split('\'').nth(1).unwrap().to_owned()
    };
    let (edge_url, vehicle_url) = (url(), url());
    let qos = "--qos=at-least-once";
    let edge = roundtrip(&[
        "edge",
        "--transport",
        &edge_url,
        qos,
        "--detector=fixed-delay:2ms",
    ])
    .spawn()
    .unwrap();
    let results = tempfile::tempdir().unwrap();
    let vehicle = roundtrip(&["vehicle", "--transport", &vehicle_url, qos, "--rate=20"])
        .args([
            "--source=synthetic:1?turns=2",
            "--samples=100000",
            "--warmup=0",
            "--results",
        ])
        .arg(results.path())
        .spawn()
        .unwrap();
    // Time for the handshake and some scans, then for a queue without a broker to fill.
    std::thread::sleep(Duration::from_secs(5));
    host.kill().unwrap();
    host.wait().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    for mut side in [vehicle, edge] {
        let asked = Instant::now();
        interrupt(side.id());
        wait_for("a side to end", || side.try_wait().unwrap());
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(6), "ended only after {took:?}");
    }
    assert_eq!(summary(results.path()).len(), 1);
}

#[test]
fn children_end_when_their_supervisor_is_killed() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let folder = results.path().to_str().unwrap().to_owned();
    let mut child = roundtrip(&["run", "--samples=100000", "--warmup=0"])
        .args(["--source=synthetic:1?turns=2", "--detector=fixed-delay:2ms"])
        .args(["--transport=zenoh:peer", "--results", &folder])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    let children = wait_for("three children", || {
        let children = children_of(pid);
        (children.len() >= 3).then_some(children)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the children to end", || {
        children
            .iter()
            .all(|child| !is_running(*child))
            .then_some(())
    });
}

#[test]
fn a_vehicle_without_an_edge_says_so() {
    let _alone = alone();
    let output = roundtrip(&["vehicle", "--transport=local:alone", "--ready-timeout=1s"])
        .arg("--source=synthetic:1?turns=1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("is an edge running"),
        "{}",
        text(&output)
    );
}

#[test]
fn mistakes_on_the_command_line_are_named_before_anything_starts() {
    let _alone = alone();
    for (arguments, expected) in [
        (&["edge"][..], "no transport; give --transport URL"),
        (
            &["edge", "--transport=pigeon://x"],
            "no transport for scheme `pigeon`; built in:",
        ),
        (
            &["edge", "--transport=local:x?deph=3"],
            "unknown option `deph`",
        ),
        (&["run", "--source=pcap:/no/such/file"], "/no/such/file"),
        (&["run", "--source=nonsense"], "nonsense"),
        (&["run", "--prefix=/x"], "`/x/velodyne_packets` at byte 0"),
        (&["run", "--rate=0"], "give a number of scans a second"),
        (&["run", "--config=/no/such.toml"], "/no/such.toml"),
    ] {
        let results = tempfile::tempdir().unwrap();
        let mut command = roundtrip(arguments);
        command.env("ROUNDTRIP_RESULTS", results.path());
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            text(&output).contains(expected),
            "{arguments:?}: {}",
            text(&output)
        );
    }
}

#[test]
fn transports_and_doctor_print_text_and_json() {
    let output = roundtrip(&["transports"]).output().unwrap();
    let printed = text(&output);
    for name in ["local", "mqtt", "zenoh", "rosmaster", "max_payload", "peer"] {
        assert!(printed.contains(name), "{name}: {printed}");
    }
    for command in ["transports", "doctor"] {
        let output = roundtrip(&[command, "--json"]).output().unwrap();
        assert!(
            serde_json::from_slice::<Value>(&output.stdout).is_ok(),
            "{}",
            text(&output)
        );
    }
    assert!(text(&roundtrip(&["doctor"]).output().unwrap()).contains("allocator settings"));
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < WATCHDOG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn is_running(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; whoever inherited it has not looked yet.
    let state = state
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with('Z'));
    state == Some(false)
}

fn interrupt(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
}
