//! MCAP files that the Python package `mcap` has written; `mcap_files.py` beside this file made
//! them.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use lidar_sensor::{
    Bag, BagError, Encoding,
    source::{Playback, SourceSpec, Sweep},
};
use proptest::prelude::*;
use tempfile::TempDir;

const FILES: [&str; 3] = ["ros2-zstd", "ros2-plain", "ros1-lz4"];

fn oracle(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    tests.join(format!("{name}.mcap"))
}

fn write(directory: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join("some.mcap");
    fs::write(&path, bytes).unwrap();
    path
}

/// Numbers of the clouds by their first coordinate.
fn clouds(path: &Path) -> (Vec<f32>, Playback) {
    let mut playback = Playback::open(path, None).unwrap();
    assert_eq!(playback.topic(), "/points");
    let mut numbers = Vec::new();
    while let Some(sweep) = playback.next_sweep().unwrap() {
        let Sweep::Cloud(cloud) = sweep else {
            panic!("{sweep:?}")
        };
        let points: Vec<_> = cloud.points().unwrap().collect();
        let first = points[0].x;
        assert_eq!((points.len(), points[1].z), (2, first + 5.0));
        assert_eq!(cloud.header.stamp.secs as f32, first);
        assert_eq!(cloud.header.frame_id, "velodyne");
        numbers.push(first);
    }
    (numbers, playback)
}

#[test]
fn mcap_of_both_generations_and_every_packing_is_read_in_order() {
    for name in FILES {
        let (numbers, playback) = clouds(&oracle(name));
        assert!(
            numbers.iter().copied().eq((0_u8..12).map(f32::from)),
            "{name}"
        );
        assert_eq!(playback.statistics().truncated_after, None);
        let bag = Bag::open(&oracle(name)).unwrap();
        assert_eq!((bag.len(), bag.damage()), (24, None));
        let encoding = if name.starts_with("ros1") {
            Encoding::Ros1
        } else {
            Encoding::Cdr
        };
        let connections = bag.connections();
        let topics: Vec<_> = connections
            .iter()
            .map(|found| (&*found.topic, &*found.kind))
            .collect();
        let expected = [
            ("/chatter", "std_msgs/String"),
            ("/points", "sensor_msgs/PointCloud2"),
        ];
        assert_eq!(topics, expected);
        assert!(connections.iter().all(|found| found.encoding == encoding));
    }
    let spec: SourceSpec = format!("mcap:{}?topic=/points", oracle(FILES[0]).display())
        .parse()
        .unwrap();
    assert!(spec.open().unwrap().next_sweep().unwrap().is_some());
}

#[test]
fn mcap_that_is_cut_is_used_and_said_to_be() {
    let directory = TempDir::new().unwrap();
    for name in FILES {
        let whole = fs::read(oracle(name)).unwrap();
        let all = Bag::open(&oracle(name)).unwrap().len();
        let mut last = 0;
        for len in (60..whole.len()).step_by(97) {
            let bag = Bag::open(&write(&directory, &whole[..len])).unwrap();
            assert!(bag.len() >= last && bag.len() <= all, "{name}: {len} B");
            assert!(
                bag.damage().is_some() || bag.len() == all,
                "{name}: {len} B"
            );
            last = bag.len();
        }
        assert!(last > all / 2, "{name}");
    }
}

#[test]
fn other_packings_and_lengths_that_cannot_be_are_refused() {
    let directory = TempDir::new().unwrap();
    let magic = b"\x89MCAP0\r\n";
    let chunk = |packing: &str, size: u64, len: u64| {
        let packing_len = (packing.len() as u32).to_le_bytes();
        let body = [
            &[0; 16][..],
            &size.to_le_bytes(),
            &[0; 4],
            &packing_len,
            packing.as_bytes(),
            &len.to_le_bytes(),
        ]
        .concat();
        let record_len = (body.len() as u64).to_le_bytes();
        [&magic[..], &[6], &record_len, &body].concat()
    };
    let error = Bag::open(&write(&directory, &chunk("snappy", 0, 0))).unwrap_err();
    assert!(matches!(error, BagError::Compression { name } if name == "snappy"));
    let huge = [&magic[..], &[5], &u64::MAX.to_le_bytes()].concat();
    for bytes in [
        chunk("zstd", u64::MAX, 0),
        chunk("zstd", 1 << 27, 0),
        chunk("", 0, 1 << 20),
        huge,
    ] {
        let bag = Bag::open(&write(&directory, &bytes)).unwrap();
        assert!(bag.is_empty() && bag.damage().is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_damage_to_mcap_is_an_error_or_fewer_messages(
        name in prop::sample::select(FILES.to_vec()),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = fs::read(oracle(name)).unwrap();
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let directory = TempDir::new().unwrap();
        let path = write(&directory, &bytes);
        if let Ok(mut playback) = Playback::open(&path, Some("/points")) {
            while playback.next_sweep().unwrap().is_some() {}
            prop_assert!(playback.statistics().turns <= 24);
        }
    }
}
