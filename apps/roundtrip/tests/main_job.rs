//! The product as a user runs it: real processes, on the embedded defaults.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

use process::{Host, arms, only_folder, recordings, roundtrip};
use serde_json::Value;

/// Each test starts several processes that keep a schedule; side by side they would take the
/// processor from each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A short run with a detector that costs nothing; the neural one has a test of its own.
fn short_run(results: &Path, more: &[&str]) -> Output {
    let results = results.to_str().unwrap();
    // Nothing gives way, so that a busy machine does not make a sample missed.
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5", "--queue=30"]);
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

fn summary(results: &Path) -> BTreeMap<String, Value> {
    arms(results)
        .into_iter()
        .map(|arm| (arm["label"].as_str().unwrap().to_owned(), arm))
        .collect()
}

fn assert_complete(results: &Path, label: &str, samples: usize) {
    let arm = &summary(results)[label];
    assert_eq!(arm["offered"], samples, "{label}: {arm:#}");
    assert_eq!(arm["answered"], samples, "{label}: {arm:#}");
    assert_eq!(arm["missed_by_direction"]["up"], 0, "{label}: {arm:#}");
    assert_eq!(arm["missed_by_direction"]["down"], 0, "{label}: {arm:#}");
    assert_eq!(column(results, label, "seq").len(), samples);
}

/// One column of the samples of an arm.
fn column(results: &Path, label: &str, name: &str) -> Vec<String> {
    let rows = std::fs::read_to_string(only_folder(results).join(label).join("samples.csv"));
    let rows = rows.unwrap();
    let mut lines = rows.lines();
    let place = lines
        .next()
        .unwrap()
        .split(',')
        .position(|column| column == name);
    let place = place.unwrap_or_else(|| panic!("no column {name}"));
    lines
        .map(|line| line.split(',').nth(place).unwrap().to_owned())
        .collect()
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
    // One key for every sample: run, trial, stream and number.
    let runs: Vec<_> = ["local", "mqtt"]
        .iter()
        .flat_map(|label| column(results.path(), label, "run_id"))
        .collect();
    assert!(runs.iter().all(|run| *run == runs[0] && run.len() == 16));
    // Without acknowledgements, the calls that publish return and nothing more is known.
    for (name, known) in [
        ("RET_V", true),
        ("RET_E", true),
        ("ACK_V", false),
        ("ACK_E", false),
    ] {
        let stamps = column(results.path(), "mqtt", name);
        assert!(
            stamps.iter().all(|stamp| stamp.is_empty() != known),
            "{name}: {stamps:?}"
        );
    }
    assert_eq!(column(results.path(), "mqtt", "trial")[0], "1");
    assert_eq!(column(results.path(), "mqtt", "stream")[0], "0");
    let numbers = column(results.path(), "mqtt", "seq");
    let first: u64 = numbers[0].parse().unwrap();
    for (n, number) in numbers.iter().enumerate() {
        assert_eq!(number.parse(), Ok(first + n as u64));
    }
    for side in ["vehicle", "edge"] {
        let [began, ended] = [0, 1].map(|n| &arms["mqtt"]["clocks"][side][n]);
        for clock in ["realtime_ns", "monotonic_ns"] {
            assert!(
                began[clock].as_i64() < ended[clock].as_i64(),
                "{side} {clock}"
            );
        }
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
    let objects: usize = column(results.path(), "local", "objects")
        .iter()
        .map(|text| text.parse::<usize>().unwrap())
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
        let sizes = column(results.path(), "local", "bytes_up");
        let bytes: usize = sizes[0].parse().unwrap();
        assert!(bytes >= up && bytes < 2 * up + 1000, "{flags:?}: {bytes} B");
    }
}

#[test]
fn no_latency_depends_on_the_clock_of_the_edge() {
    let _alone = alone();
    for offset in [3_600_000_000_000_i64, -1_576_800_000_000_000_000] {
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
        // Both sides read the clock of one kernel, so the true offset is the one put in.
        let found = &arm["edge_clock_offset"][0];
        let (from, to) = (
            found["from_ns"].as_i64().unwrap(),
            found["to_ns"].as_i64().unwrap(),
        );
        assert!(
            from <= offset && offset <= to && to - from < 60_000_000_000,
            "offset {offset} is not in {from} to {to}"
        );
    }
}

#[test]
fn a_real_recording_goes_round() {
    let Some(data) = recordings() else { return };
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let capture = data.join("vlp32.pcap");
    let source = format!("--source=pcap:{}?cut=270.12", capture.display());
    let mut command = roundtrip(&["run", "--samples=20", "--warmup=5", "--queue=30", &source]);
    command
        .args(["--transport=local:recording", "--results"])
        .arg(results.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_complete(results.path(), "local", 20);
}

#[test]
fn a_vehicle_without_an_edge_says_so() {
    let _alone = alone();
    let host = Host::start("mqtt:embedded");
    let output = roundtrip(&["vehicle", "--transport", &host.vehicle])
        .args(["--ready-timeout=1s", "--source=synthetic:1?turns=1"])
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
            &["vehicle", "--with-edge", "--transport=local:x?deph=3"],
            "unknown option `deph`",
        ),
        (&["run", "--source=pcap:/no/such/file"], "/no/such/file"),
        (&["run", "--source=nonsense"], "nonsense"),
        (&["run", "--prefix=/x"], "`/x/velodyne_packets` at byte 0"),
        (&["run", "--rate=0"], "give a number of scans a second"),
        // Nobody is there, but a mistake is not waited with.
        (
            &["edge", "--prefix=/x", "--transport=mqtt://127.0.0.1:1"],
            "`/x/velodyne_packets` at byte 0",
        ),
        (
            &["vehicle", "--prefix=/x", "--transport=mqtt://127.0.0.1:1"],
            "`/x/velodyne_packets` at byte 0",
        ),
        (&["edge", "--transport=mqtt://127.0.0.1:0"], "port 0"),
        (
            &["edge", "--transport=mqtt://127.0.0.1:65536"],
            "port number",
        ),
        (&["run", "--config=/no/such.toml"], "/no/such.toml"),
        (&["run", "--max-age=old"], "give `forever` or a duration"),
        (&["run", "--detector=fixed-delay:1year"], "longer than 60s"),
        (
            &["run", "--edge-clock-offset=9223372036854775807"],
            "9223372036854775807",
        ),
        (
            &["vehicle", "--transport=local:x", "--connect-timeout=soon"],
            "give `forever` or a duration",
        ),
        // Each side would have a place of its own.
        (
            &["edge", "--transport=mqtt:embedded"],
            "`roundtrip host --transport 'mqtt:embedded'` arranges one",
        ),
        (
            &["vehicle", "--transport=zenoh:peer"],
            "`roundtrip host --transport 'zenoh:peer'` arranges one",
        ),
        (
            &["edge", "--transport=rosmaster:embedded"],
            "`roundtrip host --transport 'rosmaster:embedded'` arranges one",
        ),
        (
            &["vehicle", "--transport=local:x"],
            "`roundtrip vehicle --with-edge`",
        ),
        // What cannot work is refused before a scan is sent.
        (
            &["run", "--transport=mqtt:embedded?metadata=off"],
            "leave out `metadata=off`",
        ),
        (
            &["run", "--transport=rosmaster:embedded?metadata=off"],
            "leave out `metadata=off`",
        ),
        (
            &["run", "--transport=zenoh:peer?max_payload=64KiB"],
            "exceeds the limit of 65536 B; raise `max_payload`",
        ),
        (
            &["run", "--transport=zenoh:peer", "--qos=exactly-once"],
            "exactly-once delivery is not offered",
        ),
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
fn a_mistake_in_any_transport_of_a_run_is_named_before_anything_starts() {
    for (second, expected) in [
        ("mqtt://broker:1883?inflght=3", "did you mean `inflight`?"),
        ("zenoh:peer?expres=never", "did you mean `express`?"),
        ("rosmaster://host?metdata=on", "did you mean `metadata`?"),
        ("pigeon:x", "no transport for scheme `pigeon`"),
        // Values too, and what is no address.
        ("mqtt:embedded?inflight=many", "inflight"),
        ("zenoh:peer?connect_timeout=-1s", "connect_timeout"),
        ("rosmaster://", "names no host"),
    ] {
        let results = tempfile::tempdir().unwrap();
        let mut command = roundtrip(&["run", "--transport=local:x", "--transport", second]);
        let output = command
            .env("ROUNDTRIP_RESULTS", results.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{second}: {}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
        assert_eq!(std::fs::read_dir(results.path()).unwrap().count(), 0);
    }
}

/// A reader that has seen enough and gone away, such as `head`.
#[test]
fn help_for_a_reader_that_has_gone_away_ends_quietly() {
    for (arguments, code) in [(&["run", "--help"][..], 0), (&["transports"], 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = roundtrip(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert_eq!(text(&output).trim(), "");
    }
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = roundtrip(&["transports"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("write to standard output"));
}

#[test]
fn a_wrong_value_from_the_environment_names_the_variable() {
    let from = "the value comes from the environment variable ROUNDTRIP_RATE";
    for (value, arguments, named) in [
        ("fast", &["run"][..], true),
        ("", &["run"], true),
        ("fast", &["run", "--rate=slow"], false),
    ] {
        let output = roundtrip(arguments)
            .env("ROUNDTRIP_RATE", value)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_eq!(text(&output).contains(from), named, "{}", text(&output));
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

#[test]
fn several_transports_may_be_separated_by_white_space() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--samples=3", "--warmup=0", "--queue=3"]);
    let output = command
        .args(["--source=synthetic:1?turns=1", "--detector=fixed-delay:1ms"])
        .env("ROUNDTRIP_TRANSPORT", " local:a  local:b\n\tlocal:c\n")
        .env("ROUNDTRIP_RESULTS", results.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    for label in ["local", "local-2", "local-3"] {
        assert_complete(results.path(), label, 3);
    }
}

/// A run passes its settings on; what the environment has for other commands is not for its children.
#[test]
fn variables_of_other_commands_do_not_reach_the_children_of_a_run() {
    let _alone = alone();
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--samples=10", "--warmup=0", "--queue=10"]);
    let output = command
        .args(["--source=synthetic:1?turns=1", "--detector=fixed-delay:1ms"])
        .args(["--transport=mqtt:embedded", "--results"])
        .arg(results.path())
        .env("ROUNDTRIP_WITH_EDGE", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    // A second edge, inside the vehicle, would answer everything again.
    let repeats = column(results.path(), "mqtt", "repeats");
    assert!(repeats.iter().all(|repeats| repeats == "0"), "{repeats:?}");
}

#[test]
fn a_recording_that_is_not_whole_is_warned_about() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.pcap");
    let mut capture = capture();
    // The last packet is cut, and the one before says that it has no blocks.
    capture.truncate(capture.len() - 100);
    let second_last = capture.len() - (FRAME - 100) - FRAME;
    capture[second_last + FRAME - 1206..][..2].fill(0);
    std::fs::write(&file, capture).unwrap();
    let results = tempfile::tempdir().unwrap();
    let source = format!("--source=pcap:{}", file.display());
    let mut command = roundtrip(&["run", "--samples=3", "--warmup=0", "--queue=3", &source]);
    let output = command
        .args(["--transport=local:cut", "--detector=fixed-delay:1ms"])
        .arg("--results")
        .arg(results.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(
        said.contains("is not whole") && said.contains("1 damaged, truncated after"),
        "{said}"
    );
    let statistics = summary(results.path())["local"]["source"]["statistics"].clone();
    assert_eq!(statistics["damaged"], 1, "{statistics:#}");
    assert!(statistics["truncated_after"].is_u64(), "{statistics:#}");
}

/// Bytes of one packet in a capture: record header, Ethernet, IPv4, UDP, data.
const FRAME: usize = 16 + 14 + 20 + 8 + 1206;

/// Two turns of a synthetic street as a capture file.
fn capture() -> Vec<u8> {
    let mut source = "synthetic:1?turns=2"
        .parse::<lidar_sensor::source::SourceSpec>()
        .unwrap()
        .open()
        .unwrap();
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for _ in 0..2 {
        let turn = source.next_scan().unwrap().unwrap();
        for packet in turn.scan.packets.iter() {
            for word in [packet.stamp.secs, packet.stamp.nsecs / 1000] {
                file.extend(word.to_le_bytes());
            }
            for _ in 0..2 {
                file.extend(((FRAME - 16) as u32).to_le_bytes());
            }
            file.extend([0; 12]);
            file.extend(0x0800_u16.to_be_bytes());
            file.extend([0x45, 0]);
            file.extend(((20 + 8 + 1206) as u16).to_be_bytes());
            file.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            for number in [2368_u16, 2368, 8 + 1206, 0] {
                file.extend(number.to_be_bytes());
            }
            file.extend(packet.data);
        }
    }
    file
}
