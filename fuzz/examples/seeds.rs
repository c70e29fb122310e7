//! Writes a corpus to begin with: `seeds FOLDER` makes `FOLDER/<target>/*` from our own encoders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::BytesMut;
use lidar_messages::{Detection3D, Detection3DArray, ObjectHypothesisWithPose, VelodyneScan};
use lidar_sensor::source::SourceSpec;
use lidar_sensor::{Convention, Converter, downsample, write_kitti, write_pcd};
use roundtrip_fuzz as _;
use transport_api::envelope::Encoder;
use transport_api::{Metadata, Schema, Sequence, Stamp, StampPoint, Stamps};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let written = match &folder {
        Some(folder) => write_all(folder),
        None => Err("usage: seeds FOLDER".into()),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_all(folder: &Path) -> Result<()> {
    let seed = |target: &str, name: &str, bytes: &[u8]| -> Result<()> {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name), bytes)?)
    };

    let mut source = "synthetic:1?turns=1".parse::<SourceSpec>()?.open()?;
    let turn = source.next_scan()?.ok_or("no turn")?.scan;
    let few = downsample(&turn, 4, 1)?;
    for (number, packet) in few.packets.iter().enumerate() {
        seed("packet", &format!("{number}"), packet.data)?;
    }
    seed("scan", "few", &few.encode())?;
    seed("scan", "empty", &downsample(&turn, 0, 1)?.encode())?;

    let mut converter = Converter::new(Convention::Precise);
    let mut cloud = converter.convert(&downsample(&turn, 1, 1)?)?;
    seed("cloud", "few", &cloud.encode())?;
    seed("pcd", "binary", &write_pcd(&cloud)?)?;
    let ascii = "FIELDS x y z\nSIZE 4 4 8\nTYPE F F F\nWIDTH 1\nHEIGHT 1\nDATA ascii\n1 nan 2\n";
    seed("pcd", "ascii", ascii.as_bytes())?;
    let packed = b"FIELDS i\nSIZE 1\nTYPE U\nPOINTS 9\nDATA binary_compressed\n\
                   \x04\0\0\0\x09\0\0\0\x00\x07\xc0\x00";
    seed("pcd", "packed", packed)?;
    // Little-endian; a stamp, an empty frame, no packets.
    let empty = [
        0, 1, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    seed("cdr", "empty", &empty)?;
    cloud.data.clear();
    (cloud.width, cloud.row_step) = (0, 0);
    seed("cloud", "empty", &cloud.encode())?;

    let detection = Detection3D {
        results: vec![ObjectHypothesisWithPose::default()],
        source_cloud: cloud,
        ..Detection3D::default()
    };
    let list = Detection3DArray {
        detections: vec![detection; 2],
        ..Detection3DArray::default()
    };
    seed("objects", "two", &list.encode())?;
    seed("objects", "empty", &Detection3DArray::default().encode())?;

    let mut ids = Sequence::random();
    let mut stamps = Stamps::new();
    stamps.push(Stamp {
        point: StampPoint(4),
        clock: transport_api::ClockId(7),
        nanos: -1,
    });
    let schema = Schema::new("a/B", [7; 16], "int8 x");
    for (name, meta) in [
        ("plain", Metadata::default()),
        (
            "full",
            Metadata {
                id: Some(ids.next_id()),
                correlation: Some(ids.next_id()),
                stamps,
                schema: schema.id().cloned(),
                ..Metadata::default()
            },
        ),
    ] {
        let block = Encoder::new(&meta);
        let mut frame = BytesMut::new();
        block.prefix(&mut frame);
        frame.extend_from_slice(b"payload");
        seed("envelope", &format!("{name}-before"), &frame)?;
        let mut frame = BytesMut::from(&b"payload"[..]);
        block.trailer(&mut frame);
        seed("envelope", &format!("{name}-behind"), &frame)?;
    }

    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    capture.extend_from_slice(&[0; 8]);
    capture.extend_from_slice(&65_535_u32.to_le_bytes());
    capture.extend_from_slice(&1_u32.to_le_bytes());
    for packet in few.packets.iter().take(2) {
        let frame = udp_frame(packet.data);
        capture.extend_from_slice(&[0; 8]);
        capture.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        capture.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        capture.extend_from_slice(&frame);
    }
    seed("capture", "ethernet", &capture)?;
    let frames = few.packets.iter().take(2);
    let frames: Vec<_> = frames.map(|packet| udp_frame(packet.data)).collect();
    seed("capture", "pcapng", &pcapng(&frames))?;

    seed("kitti", "few", &write_kitti(&converter.convert(&few)?)?)?;
    seed("kitti", "empty", &[])?;
    seed("bag", "ros1", &bag(&downsample(&turn, 1, 1)?.encode()))?;
    for (name, bytes) in [
        (
            "lz4",
            &include_bytes!("../../apps/sensor/tests/oracle/ros1-lz4.mcap")[..],
        ),
        (
            "plain",
            include_bytes!("../../apps/sensor/tests/oracle/ros2-plain.mcap"),
        ),
        (
            "zstd",
            include_bytes!("../../apps/sensor/tests/oracle/ros2-zstd.mcap"),
        ),
    ] {
        seed("bag", name, bytes)?;
    }
    // Two turns of a packet each 3 degrees, in either mode, with one lost and one late.
    for mode in 0..3_u8 {
        let mut told = vec![0, 0];
        for n in (0..240_u32).map(|n| if n == 100 { 99 } else { n + u32::from(n > 150) }) {
            told.extend_from_slice(&((n * 300 % 36_000) as u16).to_le_bytes());
            told.extend_from_slice(&[25, 0]);
            told.extend_from_slice(&(n * 664).to_le_bytes());
            told.extend_from_slice(&[mode, n as u8, 1, 0]);
        }
        seed("turns", &mode.to_string(), &told)?;
    }

    for (number, text) in [
        "mqtt://user:secret@host:1883?client_id=a&keep_alive=5s",
        "zenoh://[::1]:7447?mode=client",
        "rosmaster:embedded",
        "synthetic:7?turns=3",
        "pcap:/a/b.pcap",
        "udp:2368?group=239.1.2.3&turns=7",
        "bag:/a/b.bag?topic=/points",
        "vehicle1/*/points",
        "a/**",
    ]
    .iter()
    .enumerate()
    {
        seed("settings", &number.to_string(), text.as_bytes())?;
    }
    Ok(())
}

/// Frames of Ethernet in a section with one interface.
fn pcapng(frames: &[Vec<u8>]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let len = (12 + body.len() + padding.len()) as u32;
        let [kind, len] = [kind, len].map(u32::to_le_bytes);
        [&kind[..], &len, body, &padding, &len].concat()
    };
    let mut section = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    section.extend_from_slice(&[0xff; 8]);
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]));
    for frame in frames {
        let len = (frame.len() as u32).to_le_bytes();
        file.extend(block(6, &[&[0; 12][..], &len, &len, frame].concat()));
    }
    file
}

/// A bag of ROS 1 with a message in a chunk that is not packed.
fn bag(message: &[u8]) -> Vec<u8> {
    let field = |name: &str, value: &[u8]| {
        let len = (name.len() + 1 + value.len()) as u32;
        [&len.to_le_bytes(), name.as_bytes(), b"=", value].concat()
    };
    let record = |header: &[Vec<u8>], data: &[u8]| {
        let header = header.concat();
        let [header_len, len] = [header.len(), data.len()].map(|len| (len as u32).to_le_bytes());
        [&header_len[..], &header, &len, data].concat()
    };
    let number = [0; 4];
    let kind = VelodyneScan::TYPE;
    let connection = record(
        &[
            field("op", &[7]),
            field("conn", &number),
            field("topic", b"/velodyne_packets"),
        ],
        &[
            field("type", kind.name.as_bytes()),
            field("md5sum", kind.md5.as_bytes()),
        ]
        .concat(),
    );
    let message = record(
        &[
            field("op", &[2]),
            field("conn", &number),
            field("time", &[0; 8]),
        ],
        message,
    );
    let records = [connection, message].concat();
    let chunk = record(
        &[
            field("op", &[5]),
            field("compression", b"none"),
            field("size", &(records.len() as u32).to_le_bytes()),
        ],
        &records,
    );
    let header = record(&[field("op", &[3])], &[b' '; 20]);
    [&b"#ROSBAG V2.0\n"[..], &header, &chunk].concat()
}

/// A datagram to the sensor's port in IPv4 on Ethernet.
fn udp_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame.extend_from_slice(&((28 + payload.len()) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&2368_u16.to_be_bytes());
    frame.extend_from_slice(&2368_u16.to_be_bytes());
    frame.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(payload);
    frame
}
