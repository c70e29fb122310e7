//! `roundtrip eval` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

fn ours(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

fn report(arguments: &[&str]) -> Value {
    let output = ours(&[&["eval", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn streets_are_scored_class_by_class_and_the_same_again() {
    let arguments = ["--scenes=3", "--seed=5", "--resamples=20", "--min-points=5"];
    let first = report(&arguments);
    assert_eq!(first["min-points"], json!(5));
    let classes = first["report"]["classes"].as_array().unwrap();
    let names: Vec<_> = classes.iter().map(|class| class["class"].clone()).collect();
    assert_eq!(names, ["car", "truck", "pedestrian", "cyclist"]);
    let cars = &classes[0];
    assert!(cars["objects"].as_u64().unwrap() > 20, "{cars}");
    let precision = cars["mean-average-precision"]["value"].as_f64().unwrap();
    assert!(precision > 0.3, "{cars}");
    let bands = cars["bands"].as_array().unwrap();
    let ranges: Vec<_> = bands.iter().map(|band| band["range"].clone()).collect();
    assert_eq!(
        ranges,
        [json!([0.0, 20.0]), json!([20.0, 40.0]), json!([40.0, 50.0])]
    );
    let objects = |band: &Value| band["objects"].as_u64().unwrap();
    assert_eq!(bands.iter().map(objects).sum::<u64>(), objects(cars));
    assert_eq!(report(&arguments), first);
}

/// A recording of one synthetic turn as KITTI has clouds.
fn clouds(folder: &TempDir) -> String {
    let clouds = folder.path().join("velodyne");
    let to = format!("kitti:{}", clouds.display());
    let output = ours(&["sensor", "convert", "synthetic:1?turns=2", &to]);
    assert!(output.status.success(), "{}", text(&output));
    to
}

fn write(path: &Path, text: &str) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_labelled_recording_is_scored_where_it_is_labelled() {
    let folder = TempDir::new().unwrap();
    let cloud = clouds(&folder);
    // A box around what is near ahead has points in it, wherever the cars of this street stand.
    let labels = json!({ "scans": [
        { "scan": 1, "sector": [-45, 45], "boxes": [
            { "class": "car", "center": [20, 0, 0], "size": [30, 20, 6], "yaw": 0 },
            { "class": "van", "center": [-20, 0, 0], "size": [30, 20, 6], "yaw": 0 } ] },
        { "scan": 9, "boxes": [] } ] });
    let labels = write(&folder.path().join("labels.json"), &labels.to_string());
    let output = ours(&["eval", "--json", "--cloud", &cloud, "--labels", &labels]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("1 labelled scans are not in"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["report"]["scans"], json!(1));
    // The one behind is out of the sector.
    assert_eq!(report["report"]["classes"][0]["objects"], json!(1));

    let calibration = "P2: 700 0 600 0 0 700 180 0 0 0 1 0\nR0_rect: 1 0 0 0 1 0 0 0 1\n\
                       Tr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0\n";
    let line = "Car 0 0 0 1 2 3 4 6 20 30 0 3 20 -1.5707963\n";
    for name in ["000000.txt", "000001.txt"] {
        write(&folder.path().join("label_2").join(name), line);
        write(&folder.path().join("calib").join(name), calibration);
    }
    let of = |name: &str| folder.path().join(name).display().to_string();
    let arguments = [
        "--labels",
        &of("label_2"),
        "--calib",
        &of("calib"),
        "--cloud",
        &cloud,
    ];
    let report = self::report(&arguments);
    assert_eq!(report["report"]["scans"], json!(2));
    assert_eq!(report["report"]["scenes"], json!(2));
    assert_eq!(report["report"]["classes"][0]["objects"], json!(2));
}

#[test]
fn mistakes_are_told() {
    let folder = TempDir::new().unwrap();
    let cloud = clouds(&folder);
    let wrong = json!({ "scans": [ { "boxes": [
        { "class": "tank", "center": [20, 0, 0], "size": [1, 1, 1], "yaw": 0 } ] } ] });
    let wrong = write(&folder.path().join("wrong.json"), &wrong.to_string());
    let of = folder.path().display().to_string();
    for (arguments, code, said) in [
        (vec!["--bands=40,20"], 2, "ascending"),
        (vec!["--threshold=0"], 2, "threshold 0"),
        (vec!["--min-points=0"], 2, "min-points"),
        (vec!["--labels", &wrong], 2, "--cloud"),
        (vec!["--cloud", &cloud, "--labels", &wrong], 1, "`tank`"),
        (vec!["--cloud", &cloud, "--labels", &of], 2, "--calib"),
        (vec!["--weights", &wrong], 1, "load the detector"),
    ] {
        let output = ours(&[&["eval", "--scenes=1"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(said), "{said}: {}", text(&output));
    }
}
