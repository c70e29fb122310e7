//! `--record` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

fn ours(folder: &TempDir, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

#[test]
fn a_run_records_each_arm_and_its_recording_is_a_source() {
    let folder = TempDir::new().unwrap();
    let run = "run --transport local:a --samples 5 --warmup 2 --source synthetic:1?turns=2 \
               --detector fixed-delay:1ms --record a.mcap";
    let output = ours(&folder, run);
    assert!(
        text(&output).contains("recorded 7 frames"),
        "{}",
        text(&output)
    );

    let source = "mcap:a-local.mcap?topic=/velodyne_packets";
    let output = ours(&folder, &format!("sensor info --json {source}"));
    let about: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(about["turns"], json!(7));
    assert_eq!(about["sensor"], json!(["VLP-32C"]));

    // Nothing is started, and nothing overwritten.
    let output = ours(&folder, run);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("a-local.mcap"), "{}", text(&output));
}
