//! A broker that comes late, that goes away for a while, or that two edges fight over.
//!
//! Where Mosquitto is not installed its tests say so and pass, unless `CONFORMANCE_REQUIRE=all`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use process::{Process, arms, only_folder, peer, roundtrip};
use serde_json::Value;
use transport_conformance::server::free_port;

fn edge(url: &str) -> Command {
    let mut command = roundtrip(&["edge", "--transport", url, "--queue=10"]);
    command.arg("--detector=fixed-delay:1ms");
    command
}

fn vehicle(url: &str) -> Command {
    let mut command = roundtrip(&["vehicle", "--transport", url, "--queue=10"]);
    command.args(["--source=synthetic:1?turns=1", "--samples=10", "--warmup=0"]);
    command
}

/// The broker's program, or `None` after saying that it is missing.
fn mosquitto() -> Option<PathBuf> {
    peer("mosquitto", "ROUNDTRIP_MOSQUITTO")
}

/// A broker on `port`, with its configuration in `folder`.
fn broker(program: PathBuf, port: u16, folder: &tempfile::TempDir) -> Process {
    let file = folder.path().join("mosquitto.conf");
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n\
         max_packet_size 20000000\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-v").arg("-c").arg(&file);
    Process::start(command)
}

#[test]
fn sides_wait_for_a_broker_that_is_started_late() {
    let Some(program) = mosquitto() else { return };
    let port = free_port();
    let url = format!("mqtt://127.0.0.1:{port}");
    let waiting = format!("waiting for {url}");
    let mut edge = Process::start(edge(&url));
    let mut vehicle = Process::start(vehicle(&url));
    for side in [&mut edge, &mut vehicle] {
        side.says(&waiting);
        assert!(side.said.contains("refused"), "{}", side.said);
    }
    // Several attempts, of which only the first is told.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for _ in 0..4 {
        drop(listener.accept().unwrap());
    }
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let _broker = broker(program, port, &folder);
    edge.says("edge ready");
    assert_eq!(vehicle.code(), Some(0), "{}", vehicle.said);
    assert!(
        vehicle.said.contains("samples answered"),
        "{}",
        vehicle.said
    );
    edge.send(Signal::SIGTERM);
    assert_eq!(edge.code(), Some(0), "{}", edge.said);
    for side in [edge, vehicle] {
        assert_eq!(side.said.matches("waiting for").count(), 1, "{}", side.said);
        assert_eq!(
            side.said.matches("connected to").count(),
            1,
            "{}",
            side.said
        );
    }
}

#[test]
fn a_side_that_waits_ends_at_once_when_told() {
    let url = format!("mqtt://127.0.0.1:{}", free_port());
    for signal in [Some(Signal::SIGINT), Some(Signal::SIGTERM), None] {
        let mut command = edge(&url);
        if signal.is_none() {
            command.arg("--supervised");
        }
        let mut side = Process::start(command);
        side.says("waiting for");
        let begin = Instant::now();
        match signal {
            Some(signal) => side.send(signal),
            // A supervisor that has gone away.
            None => drop(side.child.stdin.take()),
        }
        assert_eq!(side.code(), Some(0), "{signal:?}: {}", side.said);
        // The next attempt is never waited for, nor a time-out.
        assert!(begin.elapsed() < Duration::from_secs(10), "{signal:?}");
    }
}

#[test]
fn a_side_gives_up_after_its_connect_timeout() {
    let port = free_port();
    let url = format!("mqtt://127.0.0.1:{port}");
    for (timeout, told) in [("2s", 1), ("0s", 0)] {
        let mut command = edge(&url);
        command.arg(format!("--connect-timeout={timeout}"));
        let mut side = Process::start(command);
        assert_eq!(side.code(), Some(1), "{}", side.said);
        assert!(side.said.contains(&port.to_string()), "{}", side.said);
        assert_eq!(side.said.matches("waiting for").count(), told);
    }
}

#[test]
fn a_host_name_that_does_not_resolve_is_named_and_waited_for() {
    let mut side = Process::start(edge("mqtt://no-such-host.invalid:1883"));
    side.says("waiting for");
    assert!(side.said.contains("no-such-host.invalid"), "{}", side.said);
    side.send(Signal::SIGTERM);
    assert_eq!(side.code(), Some(0), "{}", side.said);
}

#[test]
fn attempts_to_connect_have_pauses_between_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let attempts = std::thread::spawn(move || {
        let mut attempts = 0;
        listener.set_nonblocking(true).unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(8) {
            match listener.accept() {
                Ok(_) => attempts += 1,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        attempts
    });
    let mut side = Process::start(edge(&url));
    let attempts = attempts.join().unwrap();
    side.send(Signal::SIGTERM);
    assert_eq!(side.code(), Some(0), "{}", side.said);
    // Pauses of half of 0.5, 1, 2, 2 … s at least; a busy machine makes fewer attempts.
    assert!((1..=10).contains(&attempts), "{attempts} attempts");
}

#[test]
fn a_run_does_not_wait_for_a_broker_that_is_not_there() {
    let results = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("mqtt://127.0.0.1:{port}");
    let mut command = roundtrip(&["run", "--transport", &url, "--samples=1", "--results"]);
    command.arg(results.path());
    let mut run = Process::start(command);
    assert_eq!(run.code(), Some(1), "{}", run.said);
    assert!(
        run.said.contains(&port.to_string()) && run.said.contains("refused"),
        "{}",
        run.said
    );
}

#[test]
fn two_edges_with_one_client_id_are_told() {
    let Some(program) = mosquitto() else { return };
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let mut broker = broker(program, port, &folder);
    broker.says("running");
    let url = format!("mqtt://127.0.0.1:{port}?client_id=edge7");
    let mut first = Process::start(edge(&url));
    first.says("edge ready");
    let _second = Process::start(edge(&url));
    // A broker of MQTT 5 may say so; this one only closes connections.
    first.says("client id `edge7` may be in use elsewhere");
}

#[test]
fn an_outage_is_marked_from_its_beginning_to_its_end() {
    let Some(program) = mosquitto() else { return };
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let mut first = broker(program.clone(), port, &folder);
    first.says("running");
    let url = format!("mqtt://127.0.0.1:{port}");
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--transport", &url, "--qos=at-least-once"]);
    command
        .args(["--samples=200", "--warmup=0", "--rate=20"])
        .args(["--source=synthetic:1?turns=1", "--detector=fixed-delay:1ms"])
        .arg("--results")
        .arg(results.path());
    let mut run = Process::start(command);
    run.says("mqtt: measuring");
    drop(first);
    // So long is the outage.
    std::thread::sleep(Duration::from_secs(2));
    let _second = broker(program, port, &folder);
    let code = run.code();
    let entry = only_folder(results.path());
    let arm = &arms(results.path())[0];
    let outages = &arm["outages"];
    for side in ["vehicle", "edge"] {
        let outage = &outages[side][0];
        let lasted = outage["until_ns"].as_i64().unwrap() - outage["from_ns"].as_i64().unwrap();
        assert!(lasted > 1_000_000_000, "{side}: {outages:#}");
        let line = format!("mqtt: {side} disconnected for ");
        assert!(run.said.contains(&line), "{}", run.said);
    }
    let number = |value: &Value| value.as_u64().unwrap();
    // What was under way is marked, whatever became of it, and the rest is not.
    let names = ["answered", "missed", "rejected"];
    let touched: u64 = names.iter().map(|name| number(&outages[name])).sum();
    assert!(touched > 0 && touched < 200, "{arm:#}");
    let rows = std::fs::read_to_string(entry.join("mqtt/samples.csv")).unwrap();
    let header = rows.lines().next().unwrap();
    let place = |name| header.split(',').position(|column| column == name).unwrap();
    let outage = place("outage");
    let marked = rows.lines().skip(1);
    let marked = marked.filter(|row| row.split(',').nth(outage) != Some(""));
    assert_eq!(marked.count() as u64, touched, "{rows}");
    // What is missed has its cause in the outage.
    assert_eq!(outages["missed"], arm["missed"], "{arm:#}");
    assert_eq!(code, Some(i32::from(number(&arm["answered"]) < 200)));
    // The broker's acknowledgement of the first scan was noted.
    let acknowledged = place("ACK_V");
    let mut first = rows.lines().nth(1).unwrap().split(',');
    let first = first.nth(acknowledged).unwrap();
    assert!(first.parse::<i64>().is_ok(), "{rows}");
}

#[test]
fn after_an_outage_the_newest_scan_comes_first() {
    let Some(program) = mosquitto() else { return };
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let mut first = broker(program.clone(), port, &folder);
    first.says("running");
    let url = format!("mqtt://127.0.0.1:{port}");
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--transport", &url, "--samples=200", "--warmup=0"]);
    command
        .args(["--rate=20", "--source=synthetic:1?turns=1"])
        .args(["--detector=fixed-delay:1ms", "--results"])
        .arg(results.path());
    let mut run = Process::start(command);
    run.says("mqtt: measuring");
    drop(first);
    // So long is the outage: 40 scans.
    std::thread::sleep(Duration::from_secs(2));
    let _second = broker(program, port, &folder);
    assert_eq!(run.code(), Some(1), "{}", run.said);
    let arm = &arms(results.path())[0];
    let rows = only_folder(results.path()).join("mqtt/samples.csv");
    let rows = std::fs::read_to_string(rows).unwrap();
    let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let place = |name| header.iter().position(|column| *column == name).unwrap();
    let (status, began) = (place("status"), place("T0"));
    let outage = &arm["outages"]["vehicle"][0];
    let [from, until] = ["from_ns", "until_ns"].map(|end| outage[end].as_i64().unwrap());
    // Of what waited for the broker, only the newest scan was kept: after the first that arrived, no
    // other is missing. An outage ends when both connections are back, so more may follow it. The
    // loss is noticed a little late, so one may have left before.
    let waited = rows.filter(|row| (from..until).contains(&row[began].parse().unwrap()));
    let mut waited: Vec<_> = waited.collect();
    if waited.first().is_some_and(|row| row[status] == "answered") {
        waited.remove(0);
    }
    let arrived = |row: &Vec<&str>| row[status] == "answered";
    let lost = waited.iter().position(arrived).unwrap_or(waited.len());
    let (gone, after) = waited.split_at(lost);
    assert!(after.iter().all(arrived), "{after:?}, {arm:#}");
    assert!(gone.len() >= 10, "{arm:#}");
    assert!(gone.iter().all(|row| row[status] == "missed"), "{arm:#}");
    // They are counted as dropped, and named; but for some that were written before the loss was
    // noticed, or that the broker had before the edge was back.
    let dropped = arm["publisher"]["dropped"].as_u64().unwrap();
    assert!(dropped >= 10 && dropped <= gone.len() as u64, "{arm:#}");
    let named: u64 = arm["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| range[1].as_u64().unwrap() - range[0].as_u64().unwrap() + 1)
        .sum();
    assert_eq!(named, arm["missed"].as_u64().unwrap(), "{arm:#}");
    assert!(run.said.contains("mqtt: missed: "), "{}", run.said);
}
