//! Damaged and random input of every kind: an error or points, never a panic.
#![allow(clippy::unwrap_used)]

mod capture_file;

use capture_file::{CaptureFile, Pcapng, STEP_600_RPM, ethernet, ipv4, packets, udp};
use lidar_messages::{Header, Packets, Time, VelodyneScan};
use lidar_sensor::{
    Capture, Convention, Converter, EqualPairs, Layout, Packet, PacketError, PacketView,
    ReturnMode, TurnAssembler, source::SourceSpec,
};
use proptest::prelude::*;

fn good(mode: ReturnMode) -> [u8; 1206] {
    packets(mode, STEP_600_RPM, 1).next().unwrap()
}

/// Converts in every way; what converts must be a cloud that agrees with itself.
fn convert(data: &[[u8; 1206]], stamp: Time) {
    let mut builder = Packets::builder(data.len());
    for packet in data {
        builder.push(stamp, packet);
    }
    let scan = VelodyneScan {
        header: Header::default(),
        packets: builder.build(),
    };
    for convention in [Convention::RosCompat, Convention::Precise] {
        for layout in [Layout::Returns, Layout::Organised] {
            let mut converter = Converter::new(convention)
                .with_layout(layout)
                .with_equal_pairs(EqualPairs::Merge);
            if let Ok(cloud) = converter.convert(&scan) {
                cloud.check_layout().unwrap();
                let finite = cloud.points().unwrap().all(|point| point.x.is_finite());
                assert_eq!(cloud.is_dense, finite);
            }
        }
    }
}

/// Reads a capture to its end and assembles what is in it.
fn read(bytes: &[u8]) -> (usize, bool) {
    let Ok(mut capture) = Capture::new(bytes) else {
        return (0, false);
    };
    let mut frames = 0;
    loop {
        match capture.next_frame() {
            Ok(Some(_)) => frames += 1,
            Ok(None) => return (frames, true),
            Err(_) => return (frames, false),
        }
    }
}

#[test]
fn every_wrong_length_is_refused() {
    let long = [good(ReturnMode::Last); 2].concat();
    for len in (0..long.len()).filter(|len| *len != 1206) {
        let error = Packet::decode(&long[..len]).unwrap_err();
        assert_eq!(error, PacketError::Length { len });
    }
}

#[test]
fn captures_cut_anywhere_give_the_frames_before() {
    let mut file = CaptureFile::new();
    for packet in packets(ReturnMode::Strongest, STEP_600_RPM, 2) {
        file.data(&packet);
    }
    for len in 0..=file.bytes.len() {
        let (frames, whole) = read(&file.bytes[..len]);
        assert_eq!(frames, len.saturating_sub(24) / 1_264);
        assert_eq!(whole, len >= 24 && (len - 24) % 1_264 == 0);
    }
}

/// A short fuzz run: the same damage every time, so that a failure can be repeated.
#[test]
fn mutated_captures_and_packets_never_panic() {
    let mut file = CaptureFile::new();
    for packet in packets(ReturnMode::Dual, STEP_600_RPM, 3) {
        file.data(&packet);
    }
    let mut pcapng = Pcapng::new(false);
    pcapng.interface(1, 6, 0);
    for (number, packet) in packets(ReturnMode::Dual, STEP_600_RPM, 3).enumerate() {
        let frame = ethernet(0x0800, &ipv4(17, &udp(2368, &packet)));
        pcapng.enhanced(0, number as u64, &frame);
    }
    let files = [file.bytes, pcapng.bytes];
    let mut state = 1u64;
    let mut random = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut errors = 0;
    for _ in 0..6_000 {
        let mut bytes = files[random(2)].clone();
        for _ in 0..=random(6) {
            let at = random(bytes.len());
            bytes[at] = match random(3) {
                0 => 0xff,
                1 => 0,
                _ => random(256) as u8,
            };
        }
        bytes.truncate(bytes.len() - random(40));
        errors += usize::from(!read(&bytes).1);
        let mut packet = good(ReturnMode::Dual);
        let at = random(1206);
        packet[at] = random(256) as u8;
        errors += usize::from(PacketView::new(&packet).is_err());
    }
    assert!(errors > 2_000, "the damage does harm");
}

fn any_packet() -> impl Strategy<Value = [u8; 1206]> {
    (
        proptest::collection::vec(any::<u8>(), 1206),
        proptest::bool::weighted(0.9),
        0x37..=0x39u8,
        prop::sample::select(vec![0x28, 0x28, 0x28, 0x22, 0x21u8]),
    )
        .prop_map(|(bytes, framed, mode, product)| {
            let mut packet: [u8; 1206] = bytes.try_into().unwrap();
            if framed {
                for block in packet[..1200].as_chunks_mut::<100>().0 {
                    block[..2].copy_from_slice(&[0xff, 0xee]);
                    let azimuth = u16::from_le_bytes([block[2], block[3]]) % 36_000;
                    block[2..4].copy_from_slice(&azimuth.to_le_bytes());
                }
                packet[1204..].copy_from_slice(&[mode, product]);
            }
            packet
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_packets_convert_or_are_refused(
        data in proptest::collection::vec(any_packet(), 0..4),
        secs: u32,
        nsecs: u32,
    ) {
        convert(&data, Time { secs, nsecs });
    }

    #[test]
    fn good_packets_survive(data in any_packet()) {
        if let Ok(packet) = Packet::decode(&data) {
            prop_assert_eq!(packet.encode(), data);
        }
    }

    #[test]
    fn any_packets_make_turns_without_loss(
        data in proptest::collection::vec(any_packet(), 0..40),
        cut: u16,
    ) {
        let mut assembler = TurnAssembler::new(cut);
        let (mut pushed, mut returned) = (0, 0);
        for packet in &data {
            if let Ok(view) = PacketView::new(packet) {
                pushed += 1;
                let turn = assembler.push(Time::default(), packet, &view);
                returned += turn.map_or(0, |turn| turn.scan.packets.len());
            }
        }
        returned += assembler.finish().map_or(0, |turn| turn.scan.packets.len());
        prop_assert_eq!(pushed, returned);
    }

    #[test]
    fn any_capture_ends(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        read(&bytes);
        let headed = [&CaptureFile::new().bytes[..], &bytes].concat();
        read(&headed);
        for link in [1_u16, 101, 113, 228, 276] {
            let mut file = CaptureFile::new();
            file.bytes[20..22].copy_from_slice(&link.to_le_bytes());
            file.frame(&bytes);
            prop_assert_eq!(read(&file.bytes), (1, true));
            let mut file = Pcapng::new(bytes.len().is_multiple_of(2));
            file.interface(link, 6, 0);
            file.enhanced(0, 7, &bytes);
            prop_assert_eq!(read(&file.bytes), (1, true));
        }
        for kind in [1, 2, 3, 4, 5, 6, 10, 0xbad] {
            let mut file = Pcapng::new(kind > 4);
            file.interface(1, 6, 0);
            file.block(kind, &bytes);
            file.bytes.extend_from_slice(&bytes);
            read(&file.bytes);
        }
    }

    #[test]
    fn any_spec_is_parsed_or_refused(text in "(synthetic|pcap|udp)?:?.{0,20}[?]?.{0,20}") {
        if let Ok(spec) = text.parse::<SourceSpec>() {
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }
}
