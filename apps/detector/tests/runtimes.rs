//! The same network by another runtime.
#![cfg(feature = "ort")]

#[path = "../training/cloud.rs"]
mod cloud;
#[path = "../training/lidar.rs"]
mod lidar;

use lidar::{Lidar, Mount};
use lidar_detector::{Detector, Execution, Neural, Runtime};
use lidar_scene::Profile;
use lidar_sensor::Model;

const LIBRARY: &str = "ORT_DYLIB_PATH";

#[test]
fn both_runtimes_give_the_same_list() {
    if std::env::var_os(LIBRARY).is_none() {
        println!("skipped: {LIBRARY} names no shared library of ONNX Runtime");
        return;
    }
    for threads in [1, 2] {
        let execution = |runtime| Execution { runtime, threads };
        let mut pure = Neural::embedded(execution(Runtime::Rten)).unwrap();
        let mut shared = Neural::embedded(execution(Runtime::Ort)).unwrap();
        for scene in 0..3 {
            let street = Profile::HeldOut.scene(scene);
            let turn = Lidar::of(Model::Vlp32c).turn(&street, Mount::default(), None, |_| true);
            let cloud = cloud::cloud(&turn.points);
            let expected = pure.detect(&cloud).unwrap();
            let found = shared.detect(&cloud).unwrap();
            assert!(expected.len() > 5 && found.len() == expected.len());
            for (a, b) in expected.iter().zip(&found) {
                assert_eq!(a.class, b.class);
                let numbers = |one: &lidar_detector::Detection| {
                    let [x, y, z] = one.center;
                    let [l, w, h] = one.size;
                    [one.score, x, y, z, l, w, h, one.yaw]
                };
                for (a, b) in numbers(a).into_iter().zip(numbers(b)) {
                    assert!((a - b).abs() < 1e-3, "{a} {b}");
                }
            }
        }
    }
}

/// In a process of its own: a library that is loaded stays.
#[test]
fn a_library_that_is_missing_is_named() {
    if std::env::var_os("LIDAR_DETECTOR_CHILD").is_some() {
        let execution = Execution {
            runtime: Runtime::Ort,
            threads: 1,
        };
        println!("{}", Neural::embedded(execution).unwrap_err());
        return;
    }
    let child = |library: Option<&str>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "a_library_that_is_missing_is_named",
                "--nocapture",
            ])
            .env("LIDAR_DETECTOR_CHILD", "1")
            .env_remove(LIBRARY);
        if let Some(library) = library {
            command.env(LIBRARY, library);
        }
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let wrong = child(Some("/nowhere/libonnxruntime.so"));
    assert!(
        wrong.contains("/nowhere/libonnxruntime.so") && wrong.contains(LIBRARY),
        "{wrong}"
    );
    let none = child(None);
    assert!(
        none.contains("shared library") && none.contains(LIBRARY),
        "{none}"
    );
}
