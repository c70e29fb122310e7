//! Captures of every format, network and address family.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use std::time::{Duration, Instant};

use capture_file::{
    CaptureFile, PACKET_NANOS, Pcapng, STEP_600_RPM, ethernet, ipv4, ipv6, packets, packets_of,
    payloads, read, udp, write,
};
use lidar_sensor::{
    Model, ReturnMode, Turn,
    source::{Pace, Recording, RecordingConfig},
};
use tempfile::TempDir;

fn once() -> RecordingConfig {
    RecordingConfig::default()
}

fn one_packet() -> [u8; 1206] {
    let mut packets = packets(ReturnMode::Strongest, STEP_600_RPM, 1);
    packets.next().unwrap()
}

#[test]
fn frames_of_every_link_and_address_family_are_read() {
    let packet = one_packet();
    let datagram = udp(2368, &packet);
    let directory = TempDir::new().unwrap();
    for (family, ip) in [
        (0x0800_u16, ipv4(17, &datagram)),
        (0x86dd, ipv6(&[], 17, &datagram)),
    ] {
        let kind = family.to_be_bytes();
        let tagged = ethernet(0x8100, &[&[0, 5], &kind[..], &ip].concat());
        let twice = ethernet(0x88a8, &[&[0, 5, 0x81, 0, 0, 7], &kind[..], &ip].concat());
        let cooked = [&[0; 14][..], &kind, &ip].concat();
        let cooked2 = [&kind[..], &[0; 18], &ip].concat();
        for (link, frame) in [
            (1_u32, ethernet(family, &ip)),
            (1, tagged),
            (1, twice),
            (113, cooked),
            (276, cooked2),
            (101, ip),
        ] {
            let mut file = CaptureFile::new();
            file.bytes[20..24].copy_from_slice(&link.to_le_bytes());
            file.frame(&frame);
            let (turns, _) = read(&file.write(&directory), once()).unwrap();
            assert_eq!(payloads(&turns), [packet], "link {link}, {family:#x}");
        }
    }
}

#[test]
fn fragments_of_either_family_are_counted_and_not_joined() {
    let good = one_packet();
    let mut file = CaptureFile::new();
    let mut first = ipv4(17, &udp(2368, &good)[..616]);
    first[6] = 0x20;
    let mut second = ipv4(17, &udp(2368, &good)[616..]);
    second[6..8].copy_from_slice(&(616_u16 / 8).to_be_bytes());
    // Extension header 44: next header, reserved, offset and more, identification.
    let third = ipv6(&[17, 0, 0, 1, 0, 0, 0, 9], 44, &udp(2368, &good)[..616]);
    file.frame(&ethernet(0x0800, &first));
    file.frame(&ethernet(0x0800, &second));
    file.frame(&ethernet(0x86dd, &third));
    file.data(&good);
    let directory = TempDir::new().unwrap();
    let (turns, recording) = read(&file.write(&directory), once()).unwrap();
    assert_eq!(payloads(&turns), [good]);
    assert_eq!(recording.statistics().fragments, 3);
    assert!(recording.statistics().to_string().contains("3 fragments"));
}

#[test]
fn a_second_sensor_is_left_out_by_its_address_or_refused() {
    let ours = packets(ReturnMode::Strongest, STEP_600_RPM, 20);
    let theirs = packets_of(Model::Vlp16, ReturnMode::Last, 40.0, 20);
    let mut file = CaptureFile::new();
    for (a, b) in ours.zip(theirs) {
        file.data(&a);
        let mut other = ipv4(17, &udp(2368, &b));
        other[15] = 202;
        file.frame(&ethernet(0x0800, &other));
    }
    let directory = TempDir::new().unwrap();
    let path = file.write(&directory);
    let error = read(&path, once()).unwrap_err().to_string();
    assert!(
        error.contains("VLP-16") && error.contains("VLP-32C"),
        "{error}"
    );
    let config = RecordingConfig {
        host: Some("192.168.1.202".parse().unwrap()),
        ..once()
    };
    let (turns, recording) = read(&path, config).unwrap();
    assert_eq!(recording.model(), Some(Model::Vlp16));
    assert_eq!(payloads(&turns).len(), 20);
    assert_eq!(recording.statistics().other_host, 20);
}

/// When packet `number` of a pcapng file was captured.
fn stamp(number: usize) -> u64 {
    5_000_000_000 + number as u64 * PACKET_NANOS / 1_000 * 1_000
}

fn pcapng(data: &[Vec<u8>], big_endian: bool) -> Vec<u8> {
    let mut file = Pcapng::new(big_endian);
    // A network that is not read here, a clock of nanoseconds, and one of microseconds that is
    // 100 seconds behind.
    file.interface(105, 9, 0);
    file.interface(1, 9, 0);
    file.interface(1, 6, 100);
    for (number, packet) in data.iter().enumerate() {
        let nanos = stamp(number) + 100_000_000_000;
        let frame = ethernet(0x0800, &ipv4(17, &udp(2368, packet)));
        file.enhanced(0, nanos, b"wireless");
        if number.is_multiple_of(2) {
            file.enhanced(1, nanos, &frame);
        } else {
            file.enhanced(2, stamp(number) / 1_000, &frame);
        }
        // Statistics of an interface, and a block of some later version.
        file.block(5, &[0; 12]);
        file.block(0x0bad_cafe, &[1, 2, 3, 4]);
    }
    file.bytes
}

#[test]
fn pcapng_of_either_byte_order_is_read() {
    let data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 200)
        .map(|packet| packet.to_vec())
        .collect();
    let directory = TempDir::new().unwrap();
    let both = [pcapng(&data, true), pcapng(&data, false)];
    for bytes in &both {
        let (turns, recording) = read(&write(&directory, bytes), once()).unwrap();
        assert_eq!(payloads(&turns), data);
        let statistics = recording.statistics();
        assert_eq!((statistics.lost, statistics.other), (0, 200));
        assert_eq!(statistics.truncated_after, None);
        let packets = turns.iter().flat_map(|turn| turn.scan.packets.iter());
        for (number, packet) in packets.enumerate() {
            assert_eq!(
                packet.stamp.as_nanos(),
                stamp(number) + 100_000_000_000,
                "packet {number}"
            );
        }
    }
    // A file may have sections of both.
    let (turns, _) = read(&write(&directory, &both.concat()), once()).unwrap();
    assert_eq!(payloads(&turns), [&data[..], &data].concat());
}

#[test]
fn pcapng_without_stamps_is_read() {
    let packet = one_packet();
    let mut file = Pcapng::new(false);
    file.interface(1, 6, 0);
    let frame = ethernet(0x0800, &ipv4(17, &udp(2368, &packet)));
    let len = (frame.len() as u32).to_le_bytes();
    file.block(3, &[&len[..], &frame].concat());
    let directory = TempDir::new().unwrap();
    let (turns, _) = read(&write(&directory, &file.bytes), once()).unwrap();
    assert_eq!(payloads(&turns), [packet]);
    assert_eq!(turns[0].scan.header.stamp.as_nanos(), 0);
}

#[test]
fn damaged_pcapng_is_read_as_far_as_it_goes() {
    let packet = one_packet();
    let frame = ethernet(0x0800, &ipv4(17, &udp(2368, &packet)));
    let directory = TempDir::new().unwrap();
    let check = |name: &str, damage: &dyn Fn(&mut Pcapng)| {
        let mut file = Pcapng::new(false);
        file.interface(1, 6, 0);
        file.enhanced(0, 7, &frame);
        damage(&mut file);
        let (turns, recording) = read(&write(&directory, &file.bytes), once()).unwrap();
        assert_eq!(payloads(&turns), [packet], "{name}");
        let truncated = recording.statistics().truncated_after;
        assert_eq!(truncated, Some(1), "{name}");
    };
    check("an interface that is not told", &|file| {
        file.enhanced(7, 8, &frame);
    });
    check("a clock that cannot be", &|file| {
        file.interface(1, 127, 0);
    });
    check("a length that cannot be", &|file| {
        let block = [6, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff];
        file.bytes.extend_from_slice(&block);
    });
    check("a block shorter than its own frame", &|file| {
        let block = [1, 0, 0, 0x80, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0];
        file.bytes.extend_from_slice(&block);
    });
    check("the end inside a block", &|file| {
        file.enhanced(0, 8, &frame);
        file.bytes.truncate(file.bytes.len() - 4);
    });
    check("too many interfaces", &|file| {
        (0..1_100).for_each(|_| file.interface(1, 6, 0));
    });
}

#[test]
fn a_recording_at_its_real_pace_comes_no_sooner() {
    let mut file = CaptureFile::new();
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 460) {
        file.data(&packet);
    }
    let directory = TempDir::new().unwrap();
    let config = RecordingConfig {
        pace: Pace::Real,
        ..once()
    };
    let mut recording = Recording::open(&file.write(&directory), config).unwrap();
    let last = |turn: Turn| {
        let stamps = turn.scan.packets.iter().map(|packet| packet.stamp);
        stamps.last().unwrap().as_nanos()
    };
    let begun = Instant::now();
    let first = last(recording.next_scan().unwrap().unwrap());
    while let Some(turn) = recording.next_scan().unwrap() {
        assert!(begun.elapsed() >= Duration::from_nanos(last(turn) - first));
    }
}
