//! Drills: what fails is killed, cut or slowed down for real, and the vehicle stays operational.
//!
//! What takes how long is for the drill's own table; here it is enough that it comes.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::path::Path;

use process::{Process, arms, only_folder, roundtrip};
use serde_json::Value;

/// Drills `scenario` over `transport` and returns the arm's folder name, its summary, what the drill
/// noted of it, and what the program said.
fn drill(results: &Path, transport: &str, scenario: &str) -> (String, Value, Value, String) {
    let mut command = roundtrip(&["drill", "--transport", transport, "--scenario", scenario]);
    command
        // Slow machines are late now and then; what is wanted here is what happens in between.
        .args([
            "--rate=20",
            "--deadline=250ms",
            "--detector=fixed-delay:5ms",
        ])
        .args(["--source=synthetic:1?turns=1", "--results"])
        .arg(results);
    let mut run = Process::start(command);
    run.code();
    let arm = arms(results).pop().unwrap();
    let label = arm["label"].as_str().unwrap().to_owned();
    let note = only_folder(results).join(&label).join("drill.json");
    let note =
        std::fs::read_to_string(note).unwrap_or_else(|error| panic!("{error}: {}", run.said));
    (
        label,
        arm,
        serde_json::from_str(&note).unwrap(),
        run.said.clone(),
    )
}

/// The vehicle had a list for every frame, its own ones meanwhile, and returned to the edge.
#[cfg(feature = "mqtt")]
#[track_caller]
fn stays_operational(transport: &str, scenario: &str) {
    let results = tempfile::tempdir().unwrap();
    let (label, arm, drill, said) = drill(results.path(), transport, scenario);
    let context = format!("{label}\n{drill:#}\n{said}");
    assert_eq!(drill["scenario"], scenario, "{context}");
    assert_eq!(drill["lists"]["none"], 0, "{context}");
    assert!(drill["lists"]["local"].as_u64() > Some(0), "{context}");
    assert!(drill["lists"]["edge"].as_u64() > Some(0), "{context}");
    // From outside: the drill has seen answers again, and the vehicle relied on them.
    assert!(
        drill["return_ns"].is_i64() || drill["return_ns"].is_u64(),
        "{context}"
    );
    let operation = &arm["operation"]["with_warm_up"];
    assert_eq!(operation["failed"], 0, "{operation:#}");
    assert_eq!(operation["unwatched"], 0, "{operation:#}");
    // No promise but those of time may be broken, and these only where the machine is too slow.
    let broken = drill["broken"].as_array().unwrap();
    let of_time = |promise: &Value| promise.as_str().unwrap().contains("more than");
    assert!(broken.iter().all(of_time), "{context}");
    assert!(said.contains("| transport"), "{context}");
}

#[cfg(feature = "mqtt")]
mod mqtt {
    use super::*;

    #[test]
    fn a_vehicle_stays_operational_while_its_broker_is_gone() {
        stays_operational("mqtt:embedded", "broker-kill");
    }

    #[test]
    fn a_vehicle_stays_operational_while_its_edge_is_gone() {
        stays_operational("mqtt:embedded", "edge-kill");
    }

    #[test]
    fn a_vehicle_stays_operational_when_its_link_is_cut_for_a_moment() {
        // So short that the deadline may be met: it is enough that no frame is without a list.
        let results = tempfile::tempdir().unwrap();
        let (label, _, drill, said) = drill(results.path(), "mqtt:embedded", "cut:200ms");
        assert_eq!(label, "mqtt-cut-200ms");
        assert_eq!(drill["lists"]["none"], 0, "{drill:#}\n{said}");
        assert!(!drill["return_ns"].is_null(), "{drill:#}\n{said}");
    }

    #[test]
    fn a_vehicle_stays_operational_while_its_link_is_cut() {
        stays_operational("mqtt:embedded", "cut:2s");
    }

    #[test]
    #[ignore = "takes 40 s; `cargo test -p roundtrip --test drill -- --ignored`"]
    fn a_vehicle_stays_operational_while_its_link_is_cut_for_long() {
        stays_operational("mqtt:embedded", "cut:30s");
    }

    #[test]
    fn a_vehicle_stays_operational_over_a_slow_link() {
        stays_operational("mqtt:embedded", "slow:100KiB");
    }
}

#[test]
fn what_a_transport_cannot_fail_at_is_said() {
    let results = tempfile::tempdir().unwrap();
    let (_, _, drill, said) = drill(results.path(), "local:default", "cut:2s");
    let why = drill["not_drilled"].as_str().unwrap();
    assert!(why.contains("one process"), "{drill:#}");
    assert!(said.contains(why) && said.contains("not drilled"), "{said}");
}
