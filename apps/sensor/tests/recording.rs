//! Captures with everything that real ones hold.
#![allow(clippy::unwrap_used)]

mod capture_file;

use std::fs;

use capture_file::{
    CaptureFile, PACKET_NANOS, STEP_600_RPM, ethernet, ipv4, packets, payloads, read,
    real_recording, scans, udp, write,
};
use lidar_sensor::{
    CaptureError, Packet, PacketError, ReturnMode, Turn,
    source::{Pace, PartialTurns, Recording, RecordingConfig, SourceError, SourceSpec},
};
use tempfile::TempDir;

/// Where the real recording was cut by those who made it.
const REAL_CUT: u16 = 27_012;

fn once() -> RecordingConfig {
    RecordingConfig::default()
}

fn sizes(turns: &[Turn]) -> Vec<usize> {
    turns.iter().map(|turn| turn.scan.packets.len()).collect()
}

/// Mixes what a network also carries into data packets; returns the position packets added.
fn with_bystanders(data: &[Vec<u8>]) -> (CaptureFile, u64) {
    let mut file = CaptureFile::new();
    file.frame(&ethernet(0x0806, &[0; 28]));
    let mut position = 0;
    for (number, packet) in data.iter().enumerate() {
        file.data(packet);
        if number % 10 == 9 {
            file.udp(8308, &[0; 512]);
            position += 1;
        }
    }
    file.udp(2368, &[0; 512]);
    file.udp(2369, &[0; 1206]);
    file.frame(&ethernet(0x0800, &ipv4(6, &[0; 40])));
    (file, position)
}

#[test]
fn bystanders_are_counted_and_change_nothing() {
    let directory = TempDir::new().unwrap();
    let data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 379)
        .map(|packet| packet.to_vec())
        .collect();
    let (file, position) = with_bystanders(&data);
    let (turns, recording) = read(&file.write(&directory), once()).unwrap();
    assert_eq!(payloads(&turns), data);
    let statistics = recording.statistics();
    assert_eq!(
        (statistics.packets, statistics.position, position),
        (379, 37, 37)
    );
    assert_eq!(
        (
            statistics.wrong_size,
            statistics.other_port,
            statistics.other
        ),
        (1, 1, 2)
    );
    assert_eq!(
        statistics.to_string(),
        "379 packets in 3 turns, 1 of the turns partial, 37 position packets, 1 of wrong size, 1 to \
         other ports, 2 other frames"
    );
}

#[test]
fn bystanders_in_the_real_recording_change_nothing() {
    let Some(path) = real_recording() else { return };
    let directory = TempDir::new().unwrap();
    let (clean, _) = read(&path, once()).unwrap();
    let data = payloads(&clean);
    let (file, _) = with_bystanders(&data);
    let (mixed, recording) = read(&file.write(&directory), once()).unwrap();
    assert_eq!(payloads(&mixed), data);
    let statistics = recording.statistics();
    assert_eq!(
        (
            statistics.packets,
            statistics.position,
            statistics.wrong_size
        ),
        (379, 37, 1)
    );
}

#[test]
fn real_recording_has_the_turns_it_was_cut_into() {
    let Some(path) = real_recording() else { return };
    let config = RecordingConfig {
        cut: REAL_CUT,
        ..once()
    };
    let (turns, _) = read(&path, config).unwrap();
    assert_eq!(sizes(&turns), [76, 76, 76, 75, 76]);
    assert!(turns.iter().all(|turn| !turn.partial));
}

/// A recording that begins and ends within a turn: packets 50 to 430 of turns of 150.7.
#[test]
fn partial_turns_are_sent_and_counted_or_left_out() {
    let directory = TempDir::new().unwrap();
    let mut file = CaptureFile::new();
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 430).skip(50) {
        file.data(&packet);
    }
    let path = file.write(&directory);
    let (sent, recording) = read(&path, once()).unwrap();
    let partial: Vec<_> = sent.iter().map(|turn| turn.partial).collect();
    assert_eq!(partial, [true, false, true]);
    let statistics = recording.statistics();
    let counts = (statistics.turns, statistics.partial, statistics.left_out);
    assert_eq!(counts, (3, 2, 0));
    let text = statistics.to_string();
    assert!(text.contains("2 of the turns partial"), "{text}");

    let spec = format!("pcap:{}?partial=drop", path.display());
    let mut source = spec.parse::<SourceSpec>().unwrap().open().unwrap();
    assert_eq!(source.next_scan().unwrap().as_ref(), Some(&sent[1]));
    assert_eq!(source.next_scan().unwrap(), None);
    let statistics = source.statistics();
    let counts = (statistics.turns, statistics.partial, statistics.left_out);
    assert_eq!(counts, (1, 0, 2));
    let text = statistics.to_string();
    assert!(text.contains("2 partial turns left out"), "{text}");
}

#[test]
fn packets_of_the_real_recording_encode_as_they_were() {
    let Some(path) = real_recording() else { return };
    for data in payloads(&read(&path, once()).unwrap().0) {
        assert_eq!(Packet::decode(&data).unwrap().encode()[..], data);
    }
}

#[test]
fn fragments_and_cut_packets_are_not_decoded() {
    let good = packets(ReturnMode::Strongest, STEP_600_RPM, 1)
        .next()
        .unwrap();
    let mut fragment = ipv4(17, &udp(2368, &good));
    fragment[6] = 0x20;
    let mut file = CaptureFile::new();
    file.frame(&ethernet(0x0800, &fragment));
    // As a capture with a snap length of 600 B keeps it.
    file.frame(&ethernet(0x0800, &ipv4(17, &udp(2368, &good)))[..600]);
    file.data(&good);
    let directory = TempDir::new().unwrap();
    let (_, recording) = read(&file.write(&directory), once()).unwrap();
    let statistics = recording.statistics();
    assert_eq!(
        (
            statistics.packets,
            statistics.fragments,
            statistics.wrong_size
        ),
        (1, 1, 1)
    );
}

#[test]
fn other_models_are_refused_by_name() {
    let directory = TempDir::new().unwrap();
    for (product, name) in [
        (0x24, "VLP-16 Hi-Res"),
        (0x31, "Velarray"),
        (0xa1, "VLS-128"),
    ] {
        let mut packet = packets(ReturnMode::Strongest, STEP_600_RPM, 1)
            .next()
            .unwrap();
        packet[1205] = product;
        let mut file = CaptureFile::new();
        file.data(&packet);
        let error = read(&file.write(&directory), once()).unwrap_err();
        assert!(matches!(
            error,
            SourceError::Model {
                reason: PacketError::ForeignModel { .. },
                ..
            }
        ));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn damaged_packets_are_counted_and_skipped() {
    let mut file = CaptureFile::new();
    for (number, mut packet) in packets(ReturnMode::Strongest, STEP_600_RPM, 4).enumerate() {
        match number {
            0 => packet[100] = 0,
            1 => packet[1204] = 0x40,
            2 => packet[2..4].copy_from_slice(&36_000u16.to_le_bytes()),
            _ => {}
        }
        file.data(&packet);
    }
    let directory = TempDir::new().unwrap();
    let (_, recording) = read(&file.write(&directory), once()).unwrap();
    assert_eq!(
        (
            recording.statistics().damaged,
            recording.statistics().packets
        ),
        (3, 1)
    );
}

/// A capture of 379 packets with the frame size of the real one, which is used if it is there.
fn whole_capture() -> Vec<u8> {
    if let Some(path) = real_recording() {
        return fs::read(path).unwrap();
    }
    let mut file = CaptureFile::new();
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 379) {
        file.data(&packet);
    }
    file.bytes
}

#[test]
fn cut_captures_are_read_as_far_as_they_go() {
    let whole = whole_capture();
    assert_eq!(whole.len(), 479_080);
    let directory = TempDir::new().unwrap();
    for len in [0, 4, 23] {
        let error = read(&write(&directory, &whole[..len]), once()).unwrap_err();
        assert!(error.to_string().contains("too short"), "{len} B: {error}");
    }
    for len in [24, 39, 40, 700] {
        for repeat in [false, true] {
            let config = RecordingConfig { repeat, ..once() };
            let path = write(&directory, &whole[..len]);
            let mut recording = Recording::open(&path, config).unwrap();
            let error = recording.next_scan().unwrap_err();
            assert!(
                matches!(error, SourceError::Empty { .. }),
                "{len} B: {error}"
            );
            let truncated = (len > 24).then_some(0);
            assert_eq!(recording.statistics().truncated_after, truncated, "{len} B");
            assert_eq!(recording.next_scan().unwrap(), None, "no second try");
        }
    }
    let (_, recording) = read(&write(&directory, &whole[..479_079]), once()).unwrap();
    assert_eq!(recording.statistics().packets, 378);
    assert!(
        recording
            .statistics()
            .to_string()
            .ends_with("truncated after 378 packets")
    );
}

#[test]
fn a_length_that_cannot_be_ends_the_capture() {
    let mut whole = whole_capture();
    let second = 24 + 16 + 1_248;
    whole[second + 8..second + 12].fill(0xff);
    let directory = TempDir::new().unwrap();
    let (_, recording) = read(&write(&directory, &whole), once()).unwrap();
    assert_eq!(recording.statistics().truncated_after, Some(1));
}

#[test]
fn what_is_no_capture_is_named() {
    let directory = TempDir::new().unwrap();
    let open = |bytes: &[u8]| Recording::open(&write(&directory, bytes), once()).unwrap_err();
    let bag = open(b"#ROSBAG V2.0\nE\0\0\0\x10\0\0\0chunk_count=");
    assert!(matches!(
        bag,
        SourceError::Capture {
            reason: CaptureError::Foreign {
                start: [b'#', b'R', ..]
            },
            ..
        }
    ));
    let pcapng = open(&[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]);
    assert!(pcapng.to_string().contains("too short"), "{pcapng}");
    let mut wireless = CaptureFile::new().bytes;
    wireless[20] = 105;
    assert!(open(&wireless).to_string().contains("link type 105"));

    let missing = directory.path().join("missing.pcap");
    let error = Recording::open(&missing, once()).unwrap_err();
    assert!(error.to_string().contains("missing.pcap"), "{error}");
    let error = Recording::open(directory.path(), once()).unwrap_err();
    assert!(matches!(error, SourceError::Open { .. }), "{error}");
}

#[test]
fn byte_order_and_resolution_follow_the_magic() {
    let packet = packets(ReturnMode::Strongest, STEP_600_RPM, 1)
        .next()
        .unwrap();
    let frame = ethernet(0x0800, &ipv4(17, &udp(2368, &packet)));
    let directory = TempDir::new().unwrap();
    for (magic, nanos) in [(0xa1b2_c3d4_u32, 7_000), (0xa1b2_3c4d, 7)] {
        let words = [magic, 0x0002_0004, 0, 0, 65_535, 1, 3, 7, 1_248, 1_248];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend_from_slice(&frame);
        let (turns, _) = read(&write(&directory, &bytes), once()).unwrap();
        assert_eq!(turns[0].scan.header.stamp.as_nanos(), 3_000_000_000 + nanos);
    }
}

#[test]
fn repeated_recording_never_goes_back() {
    let directory = TempDir::new().unwrap();
    let path = write(&directory, &whole_capture());
    let config = RecordingConfig {
        repeat: true,
        cut: REAL_CUT,
        ..once()
    };
    let mut recording = Recording::open(&path, config).unwrap();
    let mut stamps = Vec::new();
    while recording.statistics().packets < 3 * 379 {
        let turn = recording.next_scan().unwrap().unwrap();
        assert_eq!(
            turn.scan.header.stamp,
            turn.scan.packets.iter().next().unwrap().stamp
        );
        stamps.extend(
            turn.scan
                .packets
                .iter()
                .map(|packet| packet.stamp.as_nanos()),
        );
    }
    assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(stamps[379] - stamps[378], PACKET_NANOS);
    assert_eq!(stamps[379 + 5] - stamps[379], stamps[5] - stamps[0]);
}

#[test]
fn turns_do_not_mix_passes() {
    let directory = TempDir::new().unwrap();
    let path = write(&directory, &whole_capture());
    let read_pass = |repeat| {
        let config = RecordingConfig { repeat, ..once() };
        let mut recording = Recording::open(&path, config).unwrap();
        let mut turns = Vec::new();
        while turns
            .iter()
            .map(|turn: &Turn| turn.scan.packets.len())
            .sum::<usize>()
            < 379
        {
            turns.push(recording.next_scan().unwrap().unwrap());
        }
        turns
    };
    assert_eq!(scans(read_pass(true)), scans(read_pass(false)));
}

#[test]
fn specs_are_checked() {
    let text = "pcap:dir/a?b.pcap?cut=270.12&repeat=true&port=2369&host=192.168.1.201&pace=real\
                &partial=drop";
    let spec: SourceSpec = text.parse().unwrap();
    let SourceSpec::Recording { path, config } = &spec else {
        panic!("{spec:?}")
    };
    assert_eq!(path.to_str(), Some("dir/a?b.pcap"));
    assert_eq!(
        *config,
        RecordingConfig {
            cut: REAL_CUT,
            repeat: true,
            port: 2369,
            host: Some("192.168.1.201".parse().unwrap()),
            pace: Pace::Real,
            partial: PartialTurns::Drop,
        }
    );
    assert_eq!(spec.to_string().parse(), Ok(spec));

    let refused = |text: &str| text.parse::<SourceSpec>().unwrap_err().to_string();
    assert!(refused("synthetic:x").contains("seed"));
    assert!(refused("synthetic:1?turn=3").contains("no option \"turn\""));
    assert!(refused("synthetic:1?turns=0").contains("1 to 1000"));
    assert!(refused("pcap:a?cut=360").contains("less than 360"));
    assert!(refused("pcap:a?cut=nan").contains("less than 360"));
    assert!(refused("pcap:").contains("pcap:FILE"));
    assert!(refused("tcp:2368").contains("udp:PORT"));
}
