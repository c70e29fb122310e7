//! The product as a user runs it: real processes, on the embedded defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

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
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5", "--rate=20"]);
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
    let pid = child.id();
    let children = children_of(pid);
    assert!(children.len() >= 3, "host, edge and vehicle: {children:?}");
    let asked = Instant::now();
    interrupt(pid);
    let output = child.wait_with_output().unwrap();
    println!("ended after {:?}", asked.elapsed());
    assert!(!output.status.success());
    for child in children {
        assert!(!is_running(child), "process {child} is still there");
    }
    assert!(
        summary(results.path()).contains_key("zenoh"),
        "{}",
        text(&output)
    );
}

#[test]
fn children_end_when_their_supervisor_is_killed() {
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
        (
            &[
                "run",
                "--rate=0",
                "--transport=local:x",
                "--detector=fixed-delay:1ms",
            ],
            "rate 0",
        ),
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
