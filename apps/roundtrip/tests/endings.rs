//! However it ends: told to stop at any moment, killed, or left without a broker.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use process::{
    Host, Process, arms, child_called, children_of, is_running, roundtrip, send, wait_for,
};
use serde_json::Value;

/// Each test starts several processes that keep a schedule; side by side they would take the
/// processor from each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything is gone within this time after a signal: the program kills what takes longer, so it
/// holds on a busy machine too.
const PROMISE: Duration = Duration::from_secs(3);

const TRANSPORTS: [&str; 4] = [
    "local:ends",
    "mqtt:embedded",
    "rosmaster:embedded",
    "zenoh:peer",
];

fn scheme(transport: &str) -> &str {
    transport.split(':').next().unwrap()
}

/// A run over `transports` with the options of `more`.
fn start(results: &Path, transports: &str, more: &[&str]) -> Process {
    let mut command = roundtrip(&["run", "--source=synthetic:1?turns=2", "--warmup=5"]);
    command
        .args(more)
        .env("ROUNDTRIP_TRANSPORT", transports)
        .env("ROUNDTRIP_RESULTS", results);
    Process::start(command)
}

/// Waits until `run` has said `moment`, sends `signal`, and checks that the run and its children end
/// in time.
fn stop(mut run: Process, moment: &str, signal: Signal) -> String {
    run.says(moment);
    let pid = run.child.id();
    let children = children_of(pid);
    let asked = Instant::now();
    run.send(signal);
    let code = run.code();
    wait_for("the children to end", || {
        children
            .iter()
            .all(|child| !is_running(*child))
            .then_some(())
    });
    let took = asked.elapsed();
    assert!(took < PROMISE, "{moment}: took {took:?}\n{}", run.said);
    assert_eq!(code, Some(1), "{moment}: {}", run.said);
    std::mem::take(&mut run.said)
}

#[test]
fn an_interrupt_ends_every_child_and_keeps_what_was_measured() {
    let _alone = alone();
    let long = [
        "--samples=100000",
        "--rate=20",
        "--detector=fixed-delay:2ms",
    ];
    // Scans come faster than they are detected, so answers are waited for in vain.
    let overload = ["--samples=20", "--rate=100", "--detector=fixed-delay:100ms"];
    let moments = [
        ("starting", &long),
        ("handshake", &long),
        ("warming up", &long),
        ("measuring", &long),
        ("draining", &overload),
    ];
    for transport in TRANSPORTS {
        for (moment, options) in moments {
            let results = tempfile::tempdir().unwrap();
            let run = start(results.path(), transport, options);
            let line = format!("{}: {moment}", scheme(transport));
            let said = stop(run, &line, Signal::SIGINT);
            let arm = &arms(results.path())[0];
            if ["measuring", "draining"].contains(&moment) {
                assert!(
                    arm["answered"].as_u64() > Some(0),
                    "{line}: {arm:#}\n{said}"
                );
            }
        }
    }
}

#[test]
fn an_interrupt_between_two_transports_keeps_the_first() {
    let _alone = alone();
    let options = ["--samples=5", "--queue=10", "--detector=fixed-delay:2ms"];
    for transport in TRANSPORTS {
        let results = tempfile::tempdir().unwrap();
        let run = start(
            results.path(),
            &format!("{transport} {transport}"),
            &options,
        );
        let line = format!("{}: 5 answered", scheme(transport));
        let said = stop(run, &line, Signal::SIGINT);
        assert_eq!(arms(results.path())[0]["answered"], 5);
        assert!(said.contains("interrupted: the last column"), "{said}");
    }
}

#[test]
fn a_termination_ends_every_child_and_keeps_what_was_measured() {
    let _alone = alone();
    let options = [
        "--samples=100000",
        "--rate=20",
        "--detector=fixed-delay:2ms",
    ];
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let results = tempfile::tempdir().unwrap();
        let run = start(results.path(), "zenoh:peer", &options);
        stop(run, "zenoh: measuring", signal);
        let arm = &arms(results.path())[0];
        assert!(arm["answered"].as_u64() > Some(0), "{arm:#}");
    }
}

/// A broker that is gone, and a queue that is full, must hold up neither side.
#[test]
fn an_interrupt_is_heard_without_a_broker() {
    let _alone = alone();
    let host = Host::start("mqtt:embedded");
    let qos = "--qos=at-least-once";
    let mut edge = roundtrip(&["edge", "--transport", &host.edge, qos]);
    edge.arg("--detector=fixed-delay:2ms");
    let edge = Process::start(edge);
    let results = tempfile::tempdir().unwrap();
    let mut vehicle = roundtrip(&["vehicle", "--transport", &host.vehicle, qos, "--rate=20"]);
    vehicle
        .args(["--source=synthetic:1?turns=2", "--samples=60", "--warmup=0"])
        .arg("--results")
        .arg(results.path());
    let mut vehicle = Process::start(vehicle);
    vehicle.says("vehicle: measuring");
    drop(host);
    // By then far more scans were offered than the queue holds.
    vehicle.says("vehicle: draining");
    for mut side in [vehicle, edge] {
        let asked = Instant::now();
        side.send(Signal::SIGINT);
        side.code();
        let took = asked.elapsed();
        assert!(took < PROMISE, "ended only after {took:?}:\n{}", side.said);
    }
    assert!(arms(results.path())[0]["rejected"].as_u64() > Some(0));
}

#[test]
fn children_end_when_their_supervisor_is_killed() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let options = ["--samples=100000", "--detector=fixed-delay:2ms"];
    let mut run = start(results.path(), "zenoh:peer", &options);
    let pid = run.child.id();
    let children = wait_for("three children", || {
        let children = children_of(pid);
        (children.len() >= 3).then_some(children)
    });
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    wait_for("the children to end", || {
        children
            .iter()
            .all(|child| !is_running(*child))
            .then_some(())
    });
}

/// Runs over MQTT and kills the child `name` while it measures; what the run says, and its arm.
fn run_with_killed(name: &str) -> (String, Value) {
    let results = tempfile::tempdir().unwrap();
    let options = ["--samples=60", "--rate=20", "--detector=fixed-delay:2ms"];
    let mut run = start(results.path(), "mqtt:embedded", &options);
    run.says("mqtt: measuring");
    send(child_called(run.child.id(), name).unwrap(), Signal::SIGKILL);
    // The vehicle goes on to its end.
    assert_eq!(run.code(), Some(1), "{}", run.said);
    let arm = arms(results.path()).swap_remove(0);
    assert_eq!(arm["offered"], 60, "{arm:#}");
    assert!(arm["answered"].as_u64() > Some(0), "{arm:#}");
    (std::mem::take(&mut run.said), arm)
}

#[test]
fn a_killed_edge_is_named_with_its_signal() {
    let _alone = alone();
    let (said, arm) = run_with_killed("edge");
    let what = "edge was killed by signal 9 (SIGKILL)";
    // On the screen at once, and under the table.
    assert_eq!(said.matches(what).count(), 2, "{said}");
    let end = &arm["early_ends"][0];
    assert_eq!(end["process"], "edge");
    assert!(end["how"].as_str().unwrap().contains(what), "{arm:#}");
    // The vehicle's own connection was never down.
    assert_eq!(arm["outages"]["vehicle"].as_array().unwrap().len(), 0);
}

#[test]
fn a_killed_broker_is_named_and_its_outage_is_marked() {
    let _alone = alone();
    let (said, arm) = run_with_killed("host");
    assert!(
        said.contains("host was killed by signal 9 (SIGKILL)"),
        "{said}"
    );
    assert_eq!(arm["early_ends"][0]["process"], "host");
    let outages = &arm["outages"];
    assert_eq!(outages["vehicle"].as_array().unwrap().len(), 1, "{arm:#}");
    assert_eq!(outages["vehicle"][0]["until_ns"], Value::Null);
    assert!(outages["missed"].as_u64() > Some(0), "{arm:#}");
    assert!(
        said.contains("vehicle disconnected until the end"),
        "{said}"
    );
}

#[test]
fn a_vehicle_that_stands_still_does_not_hold_a_run() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let options = ["--samples=40", "--rate=20", "--detector=fixed-delay:2ms"];
    let mut run = start(results.path(), "mqtt:embedded local:next", &options);
    run.says("mqtt: measuring");
    let vehicle = child_called(run.child.id(), "vehicle").unwrap();
    send(vehicle, Signal::SIGSTOP);
    assert_eq!(run.code(), Some(1), "{}", run.said);
    assert!(!is_running(vehicle));
    assert!(run.said.contains("no sign of life"), "{}", run.said);
    // The next transport has its turn.
    assert_eq!(arms(results.path())[1]["answered"], 40);
}

#[test]
fn nothing_is_lost_when_nobody_reads_standard_error() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let mut run = roundtrip(&["run", "--source=synthetic:1?turns=2", "--warmup=5"])
        .args([
            "--samples=20",
            "--detector=fixed-delay:1ms",
            "--transport=mqtt:embedded",
        ])
        .env("ROUNDTRIP_RESULTS", results.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(run.stderr.take());
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(arms(results.path()).len(), 1);
}
