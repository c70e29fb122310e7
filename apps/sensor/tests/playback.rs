//! ROS 1 bags: real ones of others, and made ones with scans and clouds.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use capture_file::{STEP_600_RPM, packets};
use lidar_messages::{Header, MessageType, Packets, PointCloud2, Time, VelodyneScan};
use lidar_sensor::{
    Bag, BagError, Convention, Converter, ReturnMode,
    source::{Playback, SourceError, SourceSpec, Sweep},
};
use proptest::prelude::*;
use tempfile::TempDir;

/// A bag of `cruise-automation/rosbag.js`, where `ROUNDTRIP_DATA` names the directory.
fn real_bag(name: &str) -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("ROUNDTRIP_DATA") else {
        println!("skipped: ROUNDTRIP_DATA names no directory with bags");
        return None;
    };
    Some(PathBuf::from(directory).join(format!("rosbagjs_{name}.bag")))
}

fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let len = (name.len() + 1 + value.len()) as u32;
    [&len.to_le_bytes(), name.as_bytes(), b"=", value].concat()
}

fn record(header: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let header = header.concat();
    let (header_len, len) = (header.len() as u32, data.len() as u32);
    [
        &header_len.to_le_bytes()[..],
        &header,
        &len.to_le_bytes(),
        data,
    ]
    .concat()
}

fn bag_header() -> Vec<u8> {
    let index = field("index_pos", &0_u64.to_le_bytes());
    let count = field("chunk_count", &0_u32.to_le_bytes());
    let bytes = record(&[field("op", &[3]), index, count], &[b' '; 100]);
    [b"#ROSBAG V2.0\n", &bytes[..]].concat()
}

fn connection(number: u32, topic: &str, kind: &MessageType) -> Vec<u8> {
    let header = [
        field("op", &[7]),
        field("conn", &number.to_le_bytes()),
        field("topic", topic.as_bytes()),
    ];
    let data = [
        field("topic", topic.as_bytes()),
        field("type", kind.name.as_bytes()),
        field("md5sum", kind.md5.as_bytes()),
    ];
    record(&header, &data.concat())
}

fn message(number: u32, seconds: u32, data: &[u8]) -> Vec<u8> {
    let time = (u64::from(7_u32) << 32) | u64::from(seconds);
    let header = [
        field("op", &[2]),
        field("conn", &number.to_le_bytes()),
        field("time", &time.to_le_bytes()),
    ];
    record(&header, data)
}

fn chunk(packing: &str, records: &[u8]) -> Vec<u8> {
    let packed = match packing {
        "lz4" => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(records).unwrap();
            encoder.finish().unwrap()
        }
        "bz2" => {
            let level = bzip2::Compression::default();
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(records).unwrap();
            encoder.finish().unwrap()
        }
        _ => records.to_vec(),
    };
    let header = [
        field("op", &[5]),
        field("compression", packing.as_bytes()),
        field("size", &(records.len() as u32).to_le_bytes()),
    ];
    record(&header, &packed)
}

fn scan(seq: u32) -> VelodyneScan {
    let mut builder = Packets::builder(8);
    for data in packets(ReturnMode::Strongest, STEP_600_RPM, 8) {
        builder.push(Time::from_nanos(9), &data);
    }
    VelodyneScan {
        header: Header {
            seq,
            frame_id: "velodyne".into(),
            ..Header::default()
        },
        packets: builder.build(),
    }
}

fn cloud(seq: u32) -> PointCloud2 {
    Converter::new(Convention::Precise)
        .convert(&scan(seq))
        .unwrap()
}

/// Scans on /scans and clouds on /clouds, chunk by chunk, the later half of them first.
fn bag(packing: &str) -> Vec<u8> {
    let mut bytes = bag_header();
    for start in [6, 0] {
        let mut records = Vec::new();
        if start == 6 {
            records.extend(connection(0, "/scans", &VelodyneScan::TYPE));
            records.extend(connection(1, "/clouds", &PointCloud2::TYPE));
        }
        for number in (start..start + 6).rev() {
            records.extend(message(0, number, &scan(number).encode()));
            records.extend(message(1, number, &cloud(number).encode()));
        }
        bytes.extend(chunk(packing, &records));
    }
    bytes
}

fn write(directory: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join("some.bag");
    fs::write(&path, bytes).unwrap();
    path
}

fn all(path: &Path, topic: &str) -> (Vec<Sweep>, Playback) {
    let mut playback = Playback::open(path, Some(topic)).unwrap();
    let mut sweeps = Vec::new();
    while let Some(sweep) = playback.next_sweep().unwrap() {
        sweeps.push(sweep);
    }
    (sweeps, playback)
}

#[test]
fn real_bags_of_every_packing_hold_the_same_messages() {
    let mut first = None;
    for name in ["example", "example-lz4", "example-bz2"] {
        let Some(path) = real_bag(name) else { return };
        let mut bag = Bag::open(&path).unwrap();
        assert_eq!((bag.len(), bag.damage()), (8_647, None), "{name}");
        let mut messages = Vec::new();
        while let Some(message) = bag.next_message().unwrap() {
            messages.push((message.time, message.data));
        }
        assert_eq!(messages.len(), 8_647);
        assert!(messages.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let first = first.get_or_insert_with(|| messages.clone());
        assert!(*first == messages, "{name}");
        let error = Playback::open(&path, None).unwrap_err().to_string();
        assert!(
            error.contains("0 topics") && error.contains("/tf ("),
            "{error}"
        );
    }
}

#[test]
fn real_bags_without_order_or_messages_are_read() {
    let Some(path) = real_bag("example-unsorted-chunks") else {
        return;
    };
    let mut bag = Bag::open(&path).unwrap();
    let mut times = Vec::new();
    while let Some(message) = bag.next_message().unwrap() {
        times.push(message.time.secs);
    }
    assert_eq!(times, [1, 2, 3]);
    let path = real_bag("no-messages").unwrap();
    assert!(Bag::open(&path).unwrap().is_empty());
    let error = Playback::open(&path, None).unwrap_err().to_string();
    assert!(error.contains("it holds: nothing"), "{error}");
}

#[test]
fn scans_and_clouds_come_in_the_order_of_time() {
    let directory = TempDir::new().unwrap();
    for packing in ["none", "lz4", "bz2"] {
        let path = write(&directory, &bag(packing));
        let (scans, playback) = all(&path, "/scans");
        assert_eq!(scans.len(), 12);
        for (number, sweep) in scans.iter().enumerate() {
            let Sweep::Scan(turn) = sweep else {
                panic!("{sweep:?}")
            };
            assert_eq!(turn.scan, scan(number as u32), "{packing}");
        }
        let statistics = playback.statistics();
        assert_eq!((statistics.turns, statistics.packets), (12, 96));
        let (clouds, _) = all(&path, "/clouds");
        let expected = (0..12).map(|number| Sweep::Cloud(cloud(number)));
        assert_eq!(clouds, expected.collect::<Vec<_>>(), "{packing}");
    }
}

#[test]
fn the_topic_is_chosen_by_name_or_must_be_the_only_one() {
    let directory = TempDir::new().unwrap();
    let path = write(&directory, &bag("none"));
    let error = Playback::open(&path, None).unwrap_err().to_string();
    assert!(
        error.contains("2 topics") && error.contains("/scans (velodyne_msgs"),
        "{error}"
    );
    let error = Playback::open(&path, Some("/points"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("named /points"), "{error}");
    // A definition of another version is not read as if it were ours.
    let other = MessageType {
        md5: "00000000000000000000000000000000",
        ..VelodyneScan::TYPE
    };
    let foreign = [bag_header(), connection(0, "/scans", &other)].concat();
    let error = Playback::open(&write(&directory, &foreign), None).unwrap_err();
    assert!(matches!(error, SourceError::Topic { found: 0, .. }));
    let text = format!(
        "bag:{}?topic=/scans",
        write(&directory, &bag("lz4")).display()
    );
    let spec: SourceSpec = text.parse().unwrap();
    assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
    assert_eq!(
        spec.open().unwrap().next_scan().unwrap().unwrap().scan,
        scan(0)
    );
    let clouds: SourceSpec = text.replace("scans", "clouds").parse().unwrap();
    let error = clouds.open().unwrap().next_scan().unwrap_err();
    assert!(matches!(error, SourceError::NoPackets));
}

#[test]
fn bad_messages_are_counted_and_left_out() {
    let directory = TempDir::new().unwrap();
    let mut records = connection(0, "/scans", &VelodyneScan::TYPE);
    let good = scan(3).encode();
    records.extend(message(0, 1, &good[..good.len() - 1]));
    records.extend(message(0, 2, &[]));
    records.extend(message(0, 3, &good));
    // Of a connection that is never told.
    records.extend(message(9, 4, &good));
    let bytes = [bag_header(), chunk("none", &records)].concat();
    let (sweeps, playback) = all(&write(&directory, &bytes), "/scans");
    assert_eq!((sweeps.len(), playback.statistics().damaged), (1, 2));
}

#[test]
fn a_bag_that_is_cut_is_read_up_to_its_last_whole_chunk() {
    let directory = TempDir::new().unwrap();
    let whole = bag("lz4");
    for len in [whole.len() - 1, whole.len() - 2_000] {
        let (sweeps, playback) = all(&write(&directory, &whole[..len]), "/scans");
        assert_eq!(sweeps.len(), 6);
        assert_eq!(playback.statistics().truncated_after, Some(6));
    }
    let unpackable = {
        let mut bytes = whole.clone();
        let at = bytes.len() - 3_000;
        bytes[at..at + 1_000].fill(0x55);
        bytes
    };
    let (sweeps, playback) = all(&write(&directory, &unpackable), "/scans");
    assert_eq!(
        (sweeps.len(), playback.statistics().truncated_after),
        (6, Some(6))
    );
}

#[test]
fn what_is_no_bag_is_named() {
    let directory = TempDir::new().unwrap();
    let open = |bytes: &[u8]| Bag::open(&write(&directory, bytes)).unwrap_err();
    assert!(matches!(open(b""), BagError::Empty));
    let error = open(b"#ROSBAG V1.2\nmore").to_string();
    assert!(error.contains("V1.2"), "{error}");
    assert!(matches!(
        open(&[0xd4, 0xc3, 0xb2, 0xa1]),
        BagError::Foreign { .. }
    ));
    let zstd = [bag_header(), chunk("zstd", &[])].concat();
    assert!(matches!(open(&zstd), BagError::Compression { name } if name == "zstd"));
    let locked = [
        field("op", &[3]),
        field("encryptor", b"rosbag/AesCbcEncryptor"),
    ];
    let locked = [b"#ROSBAG V2.0\n", &record(&locked, &[])[..]].concat();
    let error = open(&locked).to_string();
    assert!(error.contains("AesCbc"), "{error}");
    let missing = directory.path().join("missing.bag");
    let error = Playback::open(&missing, None).unwrap_err().to_string();
    assert!(error.contains("missing.bag"), "{error}");
}

#[test]
fn announced_lengths_of_a_bag_are_not_believed() {
    let directory = TempDir::new().unwrap();
    let start = bag_header();
    let claims = |size: u32| {
        [
            field("op", &[5]),
            field("compression", b"lz4"),
            field("size", &size.to_le_bytes()),
        ]
    };
    for tail in [
        vec![0xff; 4],
        [&4_u32.to_le_bytes()[..], &[0; 4], &[0xff; 4]].concat(),
        record(&claims(u32::MAX), &[0; 20]),
        record(&claims(1 << 27), &[0; 20]),
        // More than is announced.
        {
            let mut bytes = chunk("lz4", &[7; 1 << 20]);
            let at = bytes.windows(5).position(|part| part == b"size=").unwrap() + 5;
            bytes[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
            bytes
        },
    ] {
        let bytes = [&start[..], &tail].concat();
        let bag = Bag::open(&write(&directory, &bytes)).unwrap();
        assert!(bag.is_empty() && bag.damage().is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_damage_to_a_bag_is_an_error_or_fewer_messages(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        packing in prop::sample::select(vec!["none", "lz4", "bz2"]),
    ) {
        let mut records = connection(0, "/a", &Header::TYPE);
        for number in 0..5 {
            records.extend(message(0, number, &Header::default().encode()));
        }
        let mut bytes = [bag_header(), chunk(packing, &records), chunk(packing, &records)].concat();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (at, value) in hits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        let directory = TempDir::new().unwrap();
        if let Ok(mut bag) = Bag::open(&write(&directory, &bytes)) {
            let mut messages = 0;
            while bag.next_message().unwrap().is_some() {
                messages += 1;
            }
            prop_assert!(messages <= 10);
        }
    }
}
