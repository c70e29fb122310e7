//! How much memory each process takes with the network loaded and clouds at 10 Hz.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::collections::BTreeMap;

use process::{arms, only_folder, roundtrip};

/// No process may take more, in bytes.
const MOST: u64 = 300_000_000;

/// Nor grow by more from the middle of the run to its end: what resident memory moves by itself.
const FLAT: u64 = 10_000_000;

#[test]
fn memory_stays_bounded_and_flat_with_the_network_loaded() {
    let results = tempfile::tempdir().unwrap();
    let mut command = roundtrip(&["run", "--data-type=cloud", "--samples=200", "--rate=10"]);
    let output = command
        .args(["--detector=neural", "--source=synthetic:1?turns=2"])
        .args(["--transport=mqtt:embedded", "--results"])
        .arg(results.path())
        .output()
        .unwrap();
    let arm = &arms(results.path())[0];
    // Not the detector's speed is the promise here, but it has to work all the time.
    assert!(
        arm["answered"].as_u64() > Some(10),
        "{}\n{arm:#}",
        String::from_utf8_lossy(&output.stderr)
    );
    let table = only_folder(results.path()).join("mqtt/resources.csv");
    let table = std::fs::read_to_string(table).unwrap();
    let mut resident: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for row in table.lines().skip(1) {
        let fields: Vec<_> = row.split(',').collect();
        let bytes = fields[2].parse().unwrap();
        resident.entry(fields[1]).or_default().push(bytes);
    }
    assert_eq!(
        resident.keys().collect::<Vec<_>>(),
        [&"edge", &"host", &"vehicle"]
    );
    for (process, bytes) in &resident {
        let peak = |part: &[u64]| part.iter().copied().max().unwrap();
        let third = bytes.len() / 3;
        assert!(third >= 3, "{process}: {bytes:?}");
        assert!(peak(bytes) < MOST, "{process}: {bytes:?}");
        let (middle, end) = (peak(&bytes[third..2 * third]), peak(&bytes[2 * third..]));
        assert!(end < middle + FLAT, "{process} grows: {bytes:?}");
    }
    for usage in [
        &arm["vehicle_usage"],
        &arm["edge"]["usage"],
        &arm["host_usage"],
    ] {
        let peak = usage["peak_memory"].as_u64().unwrap();
        assert!(peak < MOST, "{arm:#}");
    }
}
