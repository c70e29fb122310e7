//! What is written is read again.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use std::{fs, path::Path};

use capture_file::{STEP_600_RPM, packets, packets_of, payloads, real_recording};
use lidar_messages::{CloudPoint, Packets, Time, VelodyneScan};
use lidar_sensor::{
    Convention, Converter, Layout, Model, ReturnMode, SinkError, SinkSpec, Turn, read_kitti,
    source::{Recording, RecordingConfig, SourceSpec, Sweep},
    write_kitti,
};
use tempfile::TempDir;

fn turns() -> Vec<Turn> {
    if let Some(path) = real_recording() {
        return capture_file::read(&path, RecordingConfig::default())
            .unwrap()
            .0;
    }
    let mut builder = Packets::builder(50);
    for (number, data) in packets(ReturnMode::Strongest, STEP_600_RPM, 50).enumerate() {
        builder.push(Time::from_nanos(7 + number as u64 * 663_552), &data);
    }
    let scan = VelodyneScan {
        packets: builder.build(),
        ..VelodyneScan::default()
    };
    vec![Turn {
        scan,
        partial: false,
        lost: 0,
    }]
}

fn spec(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

fn write(text: &str, sweeps: impl IntoIterator<Item = Sweep>) -> Result<(), SinkError> {
    let spec: SinkSpec = text.parse().unwrap();
    let mut sink = spec.create(Convention::Precise)?;
    for sweep in sweeps {
        sink.write(&sweep)?;
    }
    sink.finish()
}

#[test]
fn packets_and_their_stamps_survive_a_capture() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcap");
    let turns = turns();
    write(&spec("pcap", &path), turns.iter().cloned().map(Sweep::Scan)).unwrap();
    let mut recording = Recording::open(&path, RecordingConfig::default()).unwrap();
    let mut again = Vec::new();
    while let Some(turn) = recording.next_scan().unwrap() {
        again.push(turn);
    }
    assert_eq!(payloads(&again), payloads(&turns));
    let stamps = |turns: &[Turn]| -> Vec<_> {
        let packets = turns.iter().flat_map(|turn| turn.scan.packets.iter());
        packets.map(|packet| packet.stamp).collect()
    };
    assert_eq!(stamps(&again), stamps(&turns));
    assert!(recording.statistics().is_sound());
}

#[test]
fn written_frames_have_a_valid_checksum() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcap");
    write(
        &spec("pcap", &path),
        turns().into_iter().take(1).map(Sweep::Scan),
    )
    .unwrap();
    let bytes = fs::read(path).unwrap();
    let ip = &bytes[24 + 16 + 14..][..20];
    let words = ip.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

#[test]
fn points_survive_both_formats() {
    let directory = TempDir::new().unwrap();
    let turns = turns();
    let mut converter = Converter::new(Convention::Precise);
    let clouds: Vec<_> = turns
        .iter()
        .map(|turn| converter.convert(&turn.scan).unwrap())
        .collect();
    let points = |sweep: &Sweep| -> Vec<CloudPoint> {
        let Sweep::Cloud(cloud) = sweep else {
            panic!("{sweep:?}")
        };
        cloud.points().unwrap().collect()
    };
    for kind in ["pcd", "kitti"] {
        // Scans are converted, clouds taken as they are.
        for from_clouds in [false, true] {
            let folder = directory.path().join(format!("{kind}-{from_clouds}"));
            let text = spec(kind, &folder);
            if from_clouds {
                write(&text, clouds.iter().cloned().map(Sweep::Cloud)).unwrap();
            } else {
                write(&text, turns.iter().cloned().map(Sweep::Scan)).unwrap();
            }
            let mut source = text.parse::<SourceSpec>().unwrap().open().unwrap();
            for cloud in &clouds {
                let sweep = source.next_sweep().unwrap().unwrap();
                let expected = points(&Sweep::Cloud(cloud.clone()));
                assert_eq!(points(&sweep), expected, "{kind}");
            }
            assert_eq!(source.next_sweep().unwrap(), None);
        }
    }
}

#[test]
fn nothing_is_overwritten_and_clouds_are_no_packets() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcap");
    fs::write(&path, b"mine").unwrap();
    let sweep = || turns().into_iter().take(1).map(Sweep::Scan);
    let error = write(&spec("pcap", &path), sweep())
        .unwrap_err()
        .to_string();
    assert!(error.contains("a.pcap"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let error = write(&spec("kitti", directory.path()), sweep()).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    let cloud = Converter::new(Convention::Precise)
        .convert(&turns()[0].scan)
        .unwrap();
    let text = spec("pcap", &directory.path().join("b.pcap"));
    let error = write(&text, [Sweep::Cloud(cloud)]).unwrap_err();
    assert!(matches!(error, SinkError::NoPackets));
    for text in ["pcap:", "bag:x", "x.pcap"] {
        let error = text.parse::<SinkSpec>().unwrap_err().to_string();
        assert!(error.contains("pcd:FOLDER"), "{error}");
    }
}

/// A second sensor in the middle of it, or clouds among packets.
#[test]
fn what_is_refused_half_way_leaves_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let turn = turns().remove(0);
    let cloud = Converter::new(Convention::Precise).convert(&turn.scan);
    let mut mixed = Packets::builder(2);
    for model in [Model::Vlp32c, Model::Vlp16] {
        let data = packets_of(model, ReturnMode::Strongest, STEP_600_RPM, 1).next();
        mixed.push(Time::default(), &data.unwrap());
    }
    let mut bad = turn.clone();
    bad.scan.packets = mixed.build();
    for (kind, refused) in [
        ("pcap", Sweep::Cloud(cloud.unwrap())),
        ("pcd", Sweep::Scan(bad.clone())),
        ("kitti", Sweep::Scan(bad)),
    ] {
        let target = directory.path().join("target");
        let sweeps = [Sweep::Scan(turn.clone()), refused];
        assert!(write(&spec(kind, &target), sweeps).is_err(), "{kind}");
        let left = fs::read_dir(directory.path()).unwrap();
        assert_eq!(left.count(), 0, "{kind}");
    }
}

/// An organised cloud has points that are no numbers; KITTI files have none.
#[test]
fn points_that_are_no_numbers_are_left_out_of_kitti_files() {
    let mut converter = Converter::new(Convention::Precise).with_layout(Layout::Organised);
    let cloud = converter.convert(&turns()[0].scan).unwrap();
    let points: Vec<_> = cloud.points().unwrap().collect();
    let bytes = write_kitti(&cloud).unwrap();
    let numbers = points.iter().filter(|point| point.x.is_finite());
    assert_eq!(bytes.len(), 16 * numbers.count());
    let again = read_kitti(bytes.into(), cloud.header.clone()).unwrap();
    assert!(again.points().unwrap().all(|point| point.x.is_finite()));
}

#[test]
fn files_are_known_by_the_end_of_their_names() {
    for (name, spec) in [
        ("a/b.pcap", "pcap:a/b.pcap"),
        ("b.pcapng", "pcap:b.pcapng"),
        ("b.bag", "bag:b.bag"),
        ("b.mcap", "mcap:b.mcap"),
        ("b.pcd", "pcd:b.pcd"),
        ("000001.bin", "kitti:000001.bin"),
    ] {
        let expected: SourceSpec = spec.parse().unwrap();
        assert_eq!(SourceSpec::of_file(Path::new(name)), Some(expected));
    }
    assert_eq!(SourceSpec::of_file(Path::new("pcap")), None);
    assert_eq!(SourceSpec::of_file(Path::new("a.ply")), None);
}
