//! `roundtrip sensor` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

fn sensor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg("sensor").args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

/// A capture of three synthetic turns of a VLP-16.
fn capture(directory: &TempDir) -> String {
    let file = path(directory, "a.pcap");
    let source = "synthetic:7?turns=3&model=vlp-16";
    let output = sensor(&["convert", source, &format!("pcap:{file}")]);
    assert!(output.status.success(), "{}", text(&output));
    file
}

#[test]
fn info_says_what_a_recording_holds() {
    let directory = TempDir::new().unwrap();
    let file = capture(&directory);
    let output = sensor(&["info", &file, "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let about: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(about["sensor"], json!(["VLP-16"]));
    assert_eq!(about["holds"], json!(["packets"]));
    assert_eq!(about["return-modes"], json!(["strongest"]));
    assert_eq!(about["turns"], json!(3));
    assert_eq!(about["statistics"]["packets"], json!(225));
    assert_eq!(about["statistics"]["lost"], json!(0));
    assert!(about["points-a-turn"]["min"].as_u64().unwrap() > 10_000);
    let rate = about["turns-a-second"].as_f64().unwrap();
    assert!((9.5..10.5).contains(&rate), "{rate}");
    let output = sensor(&["info", &file]);
    let lines = text(&output);
    for part in ["sensor           VLP-16", "225 packets in 3 turns"] {
        assert!(lines.contains(part), "{lines}");
    }
}

/// A turn of 75 packets between the parts of two others: nothing but the whole one tells the rate.
#[test]
fn info_times_whole_turns_by_the_clock_of_the_sensor() {
    const FRAME: usize = 16 + 42 + 1206;
    let directory = TempDir::new().unwrap();
    let file = capture(&directory);
    let bytes = fs::read(&file).unwrap();
    let (header, frames) = bytes.split_at(24);
    let part = [header, &frames[40 * FRAME..190 * FRAME]].concat();
    fs::write(&file, part).unwrap();
    let output = sensor(&["info", &file, "--json"]);
    let about: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(about["turns"], json!(3));
    assert_eq!(about["partial-turns"], json!(2));
    let rate = about["turns-a-second"].as_f64().unwrap();
    let seconds = 75.0 * 12.0 * 110.592e-6;
    assert!((rate * seconds - 1.0).abs() < 1e-4, "{rate}");
}

/// The stamps of clouds from files are made up, so there is nothing to say about time.
#[test]
fn info_says_no_time_of_files_that_tell_none() {
    let directory = TempDir::new().unwrap();
    let folder = path(&directory, "clouds");
    let target = format!("kitti:{folder}");
    let made = sensor(&["convert", "synthetic:7?turns=2&model=vlp-16", &target]);
    assert!(made.status.success(), "{}", text(&made));
    let output = sensor(&["info", &target, "--json"]);
    let about: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(about["turns"], json!(2));
    assert_eq!(about["seconds"], Value::Null);
    assert_eq!(about["turns-a-second"], Value::Null);
}

#[test]
fn a_recording_that_is_cut_is_used_and_said_to_be() {
    let directory = TempDir::new().unwrap();
    let file = capture(&directory);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let output = sensor(&["info", &file]);
    assert!(output.status.success());
    let said = text(&output);
    assert!(
        said.contains("warning") && said.contains("truncated after 224"),
        "{said}"
    );
}

#[test]
fn packets_become_points_in_files() {
    let directory = TempDir::new().unwrap();
    let file = capture(&directory);
    let folder = path(&directory, "clouds");
    let output = sensor(&[
        "convert",
        &file,
        &format!("pcd:{folder}"),
        "--convention=precise",
    ]);
    assert!(output.status.success(), "{}", text(&output));
    let output = sensor(&["info", &format!("pcd:{folder}"), "--json"]);
    let about: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&about["turns"], &about["holds"]),
        (&json!(3), &json!(["points"]))
    );
    assert!(
        about["fields"]
            .as_array()
            .unwrap()
            .contains(&json!("x float32"))
    );
    // Twice would overwrite.
    let output = sensor(&["convert", &file, &format!("pcd:{folder}")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("not empty"), "{}", text(&output));
}

#[test]
fn mistakes_of_the_sensor_command_are_named() {
    let directory = TempDir::new().unwrap();
    let target = path(&directory, "b.pcap");
    let to = format!("pcap:{target}");
    let clouds = format!("kitti:{}", directory.path().display());
    fs::write(directory.path().join("0.bin"), [0; 16]).unwrap();
    fs::write(directory.path().join("1.bin"), [0; 17]).unwrap();
    for (arguments, code, part) in [
        (&["info", "notes.txt"][..], 2, "pcap:FILE"),
        (&["info", "missing.pcap"], 1, "missing.pcap"),
        (&["info", "udp:2368"], 2, "turns=N"),
        (&["info", "pcap:a.pcap?repeat=true"], 2, "never end"),
        (&["convert", "missing.pcap", &to], 1, "missing.pcap"),
        (
            &["convert", &clouds, &to],
            1,
            "clouds cannot become packets",
        ),
        (&["info", &clouds], 1, "no whole number of points"),
        (
            &["convert", "synthetic:1?turns=1", "bag:x"],
            2,
            "kitti:FOLDER",
        ),
    ] {
        let output = sensor(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let said = text(&output);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let left = fs::read_dir(directory.path()).unwrap();
    assert_eq!(left.count(), 2, "nothing was converted");
}
