//! Where one turn ends and the next begins.
#![allow(clippy::unwrap_used)]

mod capture_file;

use capture_file::{STEP_600_RPM, packets};
use lidar_messages::Time;
use lidar_sensor::{MAX_PACKETS, PacketView, ReturnMode, Turn, TurnAssembler};

fn assemble(cut: u16, packets: impl Iterator<Item = [u8; 1206]>) -> Vec<Turn> {
    let mut assembler = TurnAssembler::new(cut);
    let mut turns = Vec::new();
    for (number, data) in packets.enumerate() {
        let stamp = Time::from_nanos(number as u64);
        turns.extend(assembler.push(stamp, &data, &PacketView::new(&data).unwrap()));
    }
    turns.extend(assembler.finish());
    turns
}

fn check_twenty_seconds(turns: &[Turn], packets_per_turn: usize) {
    let full: Vec<_> = turns.iter().filter(|turn| !turn.partial).collect();
    assert!((199..=201).contains(&full.len()), "{} turns", full.len());
    for turn in full {
        let size = turn.scan.packets.len();
        assert!(size.abs_diff(packets_per_turn) <= 1, "{size} packets");
    }
    for (number, turn) in turns.iter().enumerate() {
        assert_eq!(turn.scan.header.seq as usize, number);
        assert_eq!(
            turn.scan.header.stamp,
            turn.scan.packets.iter().next().unwrap().stamp
        );
    }
}

#[test]
fn twenty_seconds_have_two_hundred_turns() {
    let turns = assemble(0, packets(ReturnMode::Strongest, STEP_600_RPM, 30_140));
    check_twenty_seconds(&turns, 151);
    let turns = assemble(18_000, packets(ReturnMode::Last, STEP_600_RPM, 30_140));
    check_twenty_seconds(&turns, 151);
    assert!(turns[0].partial && turns[0].scan.packets.len() < 77);
}

#[test]
fn dual_returns_do_not_double_the_turns() {
    let turns = assemble(0, packets(ReturnMode::Dual, STEP_600_RPM, 60_280));
    check_twenty_seconds(&turns, 301);
}

#[test]
fn mode_may_change_between_packets() {
    let single = packets(ReturnMode::Strongest, STEP_600_RPM, 100);
    let rest: Vec<_> = packets(ReturnMode::Dual, STEP_600_RPM, 400)
        .skip(200)
        .collect();
    let turns = assemble(0, single.chain(rest));
    assert_eq!(
        turns[0].scan.packets.len(),
        100 + 200 - turns[1].scan.packets.len()
    );
    assert!(!turns[0].partial && turns[1].partial);
}

#[test]
fn cut_between_packets_starts_the_next_turn_there() {
    // 120 hundredths a firing: 300 firings, 25 packets a turn, exactly.
    let turns = assemble(0, packets(ReturnMode::Strongest, 120.0, 75));
    let sizes: Vec<_> = turns.iter().map(|turn| turn.scan.packets.len()).collect();
    assert_eq!(sizes, [25, 25, 25]);
    let first = turns[1].scan.packets.iter().next().unwrap();
    assert_eq!(PacketView::new(first.data).unwrap().azimuth(0), 0);
}

#[test]
fn jitter_at_the_cut_is_no_turn() {
    let mut data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 10).collect();
    for (number, packet) in data.iter_mut().enumerate() {
        packet[2..4].copy_from_slice(&(18_000 + 240 * number as u16).to_le_bytes());
        for block in 1..12u16 {
            let back = if block % 2 == 0 { 30 } else { 0 };
            let azimuth = 18_000 + 240 * number as u16 + 20 * block - back;
            let at = 100 * usize::from(block) + 2;
            packet[at..at + 2].copy_from_slice(&azimuth.to_le_bytes());
        }
    }
    assert!(assemble(18_000, data.into_iter()).len() <= 2);
}

#[test]
fn a_rotor_that_stands_still_does_not_fill_the_memory() {
    let turns = assemble(0, packets(ReturnMode::Strongest, 0.0, 3 * MAX_PACKETS));
    assert_eq!(turns.len(), 3);
    assert!(
        turns[1..]
            .iter()
            .all(|turn| turn.partial && turn.scan.packets.len() == MAX_PACKETS)
    );
}
