//! What is recorded can be read, by our own source too, however the recording ended.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use exchange::ObjectsFormat;
use latency_timeline::{ClockPair, Point, Timeline};
use lidar_detector::{Class, Detection, to_detection_array, to_object_list};
use lidar_messages::{MarkerArray, ObjectList, PointCloud2, VelodyneScan};
use lidar_sensor::source::{SimulatorConfig, SourceSpec, Statistics, Sweep, Synthetic};
use lidar_sensor::{Convention, Converter, Model};
use recorder::{Recorder, Report, Settings};
use vehicle::{DataType, Frame, Objects, Source};

const BEGAN: i64 = 1_700_000_000_000_000_000;

fn settings(objects: ObjectsFormat) -> Settings {
    Settings {
        clocks: ClockPair {
            realtime_ns: BEGAN,
            monotonic_ns: 500,
        },
        objects,
        convention: Convention::RosCompat,
    }
}

fn scans(count: usize) -> Vec<VelodyneScan> {
    let mut source = Synthetic::new(SimulatorConfig::new(Model::Vlp16, 3), count);
    (0..count).map(|_| source.next_scan().scan).collect()
}

fn truck() -> Detection {
    Detection {
        class: Class::Truck,
        score: 0.75,
        center: [10.0, 2.0, 0.5],
        size: [8.0, 2.5, 3.0],
        yaw: 0.5,
    }
}

/// A frame a tenth of a second after the one before; every third one without a list.
fn frame(seq: u64, data_type: DataType, payload: Bytes, list: &Bytes) -> Frame {
    let start_ns = 500 + seq as i64 * 100_000_000;
    let mut timeline = Timeline::default();
    timeline.set(Point::Start, start_ns);
    let objects = (seq % 3 != 2).then(|| Objects {
        source: if seq.is_multiple_of(2) {
            Source::Edge
        } else {
            Source::Local
        },
        list: list.clone(),
        age: Duration::from_millis(30),
    });
    Frame {
        seq,
        start_ns,
        data_type,
        payload,
        objects,
        timeline,
    }
}

fn record(path: &Path, format: ObjectsFormat, frames: impl Iterator<Item = Frame>) -> Report {
    let (recorder, sender) = Recorder::start(path, settings(format)).unwrap();
    for frame in frames {
        sender.blocking_send(frame).unwrap();
    }
    drop(sender);
    recorder.finish().unwrap()
}

fn lists() -> Bytes {
    to_detection_array(Default::default(), &[truck()]).encode()
}

/// All messages by topic: sequence, time, payload.
type Messages = BTreeMap<String, Vec<(u32, u64, Bytes)>>;

fn messages(file: &[u8]) -> Messages {
    let mut messages = Messages::new();
    for message in mcap::MessageStream::new(file).unwrap() {
        let message = message.unwrap();
        let topic = messages.entry(message.channel.topic.clone()).or_default();
        let payload = Bytes::copy_from_slice(&message.data);
        topic.push((message.sequence, message.log_time, payload));
    }
    messages
}

/// The sweeps of a topic, read by our own source.
fn sweeps(path: &Path, topic: &str) -> (Vec<Sweep>, Statistics) {
    let spec: SourceSpec = format!("mcap:{}?topic={topic}", path.display())
        .parse()
        .unwrap();
    let mut source = spec.open().unwrap();
    let mut sweeps = Vec::new();
    while let Some(sweep) = source.next_sweep().unwrap() {
        sweeps.push(sweep);
    }
    let statistics = source.statistics();
    (sweeps, statistics)
}

#[test]
fn a_recording_is_sent_again_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mcap");
    let scans = scans(5);
    let list = lists();
    let frames = (0..).zip(&scans);
    let frames = frames.map(|(seq, scan)| frame(seq, DataType::Scan, scan.encode(), &list));
    let report = record(&path, ObjectsFormat::Detection3d, frames);
    assert_eq!((report.frames, report.lost, report.unconverted), (5, 0, 0));
    assert_eq!(report.failure, None);
    assert_eq!(report.bytes, fs::metadata(&path).unwrap().len());

    let (again, statistics) = sweeps(&path, "/velodyne_packets");
    assert!(statistics.is_sound(), "{statistics}");
    let again: Vec<_> = again
        .into_iter()
        .map(|sweep| match sweep {
            Sweep::Scan(turn) => turn.scan,
            Sweep::Cloud(_) => panic!("not a scan"),
        })
        .collect();
    assert_eq!(again, scans);
    let mut converter = Converter::new(Convention::RosCompat);
    let (clouds, _) = sweeps(&path, "/points");
    assert_eq!(clouds.len(), 5);
    for (cloud, scan) in clouds.into_iter().zip(&scans) {
        assert_eq!(cloud, Sweep::Cloud(converter.convert(scan).unwrap()));
    }
}

#[test]
fn lists_markers_and_stamps_are_beside_the_scans() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mcap");
    let list = to_object_list(Default::default(), &[truck()], Some(&[42])).encode();
    let cloud = PointCloud2::default().encode();
    let frames = (0..6).map(|seq| frame(seq, DataType::Cloud, cloud.clone(), &list));
    let report = record(&path, ObjectsFormat::ObjectList, frames);
    assert_eq!((report.frames, report.unconverted), (6, 0));
    let file = fs::read(&path).unwrap();
    let read = messages(&file);
    let counts: Vec<_> = read
        .iter()
        .map(|(topic, all)| (&**topic, all.len()))
        .collect();
    let expected = [
        ("/objects", 4),
        ("/objects/markers", 4),
        ("/points", 6),
        ("/stamps", 6),
    ];
    assert_eq!(counts, expected);
    let (seq, time, payload) = &read["/points"][3];
    let began = BEGAN as u64;
    assert_eq!((*seq, *time, payload), (3, began + 300_000_000, &cloud));
    let (seq, time, payload) = read["/objects"][2].clone();
    assert_eq!((seq, time), (3, began + 330_000_000));
    assert_eq!(ObjectList::decode(payload).unwrap().objects[0].id, 42);
    let markers = MarkerArray::decode(read["/objects/markers"][0].2.clone()).unwrap();
    assert_eq!(&*markers.markers[2].text, "truck 0.75 #42");

    let stamps =
        |n: usize| -> serde_json::Value { serde_json::from_slice(&read["/stamps"][n].2).unwrap() };
    let source = |n| stamps(n)["source"].clone();
    assert_eq!(
        [source(0), source(1), source(2)],
        ["edge".into(), "local".into(), serde_json::Value::Null]
    );
    assert_eq!(stamps(1)["age_ns"], 30_000_000);
    assert_eq!(
        stamps(1)["stamps"],
        serde_json::json!({ "T0": 100_000_500 })
    );

    // Everything a reader needs is in the file: index, profile, types with their sums.
    let summary = mcap::Summary::read(&file).unwrap().unwrap();
    assert_eq!(summary.stats.unwrap().message_count, 20);
    let channel = summary
        .channels
        .values()
        .find(|channel| channel.topic == "/objects");
    let channel = channel.unwrap();
    let schema = channel.schema.as_ref().unwrap();
    assert_eq!(schema.name, "perception_msgs/ObjectList");
    assert_eq!(
        (&*schema.encoding, &*channel.message_encoding),
        ("ros1msg", "ros1")
    );
    assert_eq!(channel.metadata["md5sum"], ObjectList::TYPE.md5);
}

#[test]
fn what_a_killed_recorder_has_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.mcap");
    let scans = scans(3);
    let list = lists();
    let frames = (0..).zip(&scans);
    let frames = frames.map(|(seq, scan)| frame(seq, DataType::Scan, scan.encode(), &list));
    record(&path, ObjectsFormat::Detection3d, frames);
    let whole = fs::read(&path).unwrap();

    // Killed while the last frame was written, and before it: no index, no end.
    let last = mcap::Summary::read(&whole).unwrap().unwrap();
    let starts = last
        .chunk_indexes
        .iter()
        .map(|chunk| chunk.chunk_start_offset);
    let third = usize::try_from(starts.max().unwrap()).unwrap();
    for (end, expected) in [(third + 1_000, 2), (third, 2)] {
        let cut = folder.path().join(format!("{end}.mcap"));
        fs::write(&cut, &whole[..end]).unwrap();
        let (again, statistics) = sweeps(&cut, "/velodyne_packets");
        assert_eq!(again.len(), expected, "cut at {end}: {statistics}");
    }
}

#[test]
fn what_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mcap");
    fs::write(&path, "precious").unwrap();
    let error = Recorder::start(&path, settings(ObjectsFormat::Detection3d)).unwrap_err();
    assert!(error.to_string().contains("a.mcap"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn what_cannot_be_converted_is_recorded_as_it_came_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mcap");
    let junk = Bytes::from_static(b"junk");
    let frames = [frame(0, DataType::Scan, junk.clone(), &junk)].into_iter();
    let report = record(&path, ObjectsFormat::Detection3d, frames);
    assert_eq!((report.frames, report.unconverted), (1, 2));
    let read = messages(&fs::read(&path).unwrap());
    for topic in ["/velodyne_packets", "/objects"] {
        assert_eq!(read[topic][0].2, junk);
    }
    assert!(!read.contains_key("/points"));
}
