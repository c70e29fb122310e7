//! Where one turn ends and the next begins.
#![allow(clippy::unwrap_used)]

mod capture_file;

use capture_file::{PACKET_NANOS, STEP_600_RPM, packets, packets_of, read, real_recording};
use lidar_messages::Time;
use lidar_sensor::{
    MAX_PACKETS, Model, Packet, PacketView, ReturnMode, Turn, TurnAssembler,
    source::RecordingConfig,
};
use proptest::prelude::*;

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

/// Packets as a sensor limited to a field of view sends them: what would be fired while it looks
/// elsewhere is left out, and the clock runs on.
fn limited(from: u16, to: u16, turns: usize) -> Vec<[u8; 1206]> {
    let firings = turns * 1_808;
    let seen = (0..firings).filter(|firing| {
        let azimuth = (*firing as f64 * STEP_600_RPM) as u64 % 36_000;
        (u64::from(from)..u64::from(to)).contains(&azimuth)
    });
    let seen: Vec<_> = seen.collect();
    let template = packets(ReturnMode::Strongest, 0.0, 1).next().unwrap();
    let template = Packet::decode(&template).unwrap();
    let packet = |firings: &[usize]| {
        let mut packet = template.clone();
        packet.timestamp_us = (firings[0] as f64 * 55.296) as u32;
        for (block, firing) in packet.blocks.iter_mut().zip(firings) {
            block.azimuth = ((*firing as f64 * STEP_600_RPM) as u64 % 36_000) as u16;
        }
        packet.encode()
    };
    seen.as_chunks::<12>()
        .0
        .iter()
        .map(|firings| packet(firings))
        .collect()
}

/// Assembles packets that arrive when the sensor sent them, without those that `is_lost` names.
fn assemble_with_loss(
    packets: &[[u8; 1206]],
    is_lost: impl Fn(usize) -> bool,
) -> (Vec<Turn>, TurnAssembler) {
    let mut assembler = TurnAssembler::new(0);
    let mut turns = Vec::new();
    for (number, data) in packets.iter().enumerate() {
        if is_lost(number) {
            continue;
        }
        let view = PacketView::new(data).unwrap();
        let stamp = Time::from_nanos(u64::from(view.timestamp_us()) * 1_000);
        turns.extend(assembler.push(stamp, data, &view));
    }
    turns.extend(assembler.finish());
    (turns, assembler)
}

fn lost(turns: &[Turn]) -> u64 {
    turns.iter().map(|turn| turn.lost).sum()
}

#[test]
fn lost_packets_are_counted_by_the_sensors_clock() {
    for mode in [ReturnMode::Strongest, ReturnMode::Dual] {
        let data: Vec<_> = packets(mode, STEP_600_RPM, 1_000).collect();
        // One, several, and all of a turn and more.
        let missing =
            |number| number == 200 || (300..307).contains(&number) || (400..801).contains(&number);
        let (turns, assembler) = assemble_with_loss(&data, missing);
        assert_eq!(lost(&turns), 1 + 7 + 401, "{mode:?}");
        assert!(turns.iter().all(|turn| turn.lost == 0 || turn.partial));
        assert_eq!((assembler.late(), assembler.clock_steps()), (0, 0));
    }
}

#[test]
fn packets_lost_at_the_cut_make_both_turns_partial() {
    let data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 460).collect();
    let (turns, _) = assemble_with_loss(&data, |number| (145..155).contains(&number));
    let marks: Vec<_> = turns.iter().map(|turn| (turn.partial, turn.lost)).collect();
    assert_eq!(marks, [(true, 10), (true, 0), (false, 0), (true, 0)]);
}

#[test]
fn a_blanked_sector_is_no_loss() {
    for (from, to) in [(0, 18_000), (9_000, 27_000), (500, 35_000)] {
        let data = limited(from, to, 40);
        let (turns, _) = assemble_with_loss(&data, |_| false);
        // Until the gap falls into a packet for the first time, nothing tells it from loss.
        let later: Vec<_> = turns.iter().skip(2).cloned().collect();
        assert_eq!(lost(&later), 0, "{from} to {to}");
        assert!(turns.len() >= 39, "{} turns", turns.len());
        let (turns, _) = assemble_with_loss(&data, |number| number > 300 && number % 50 == 0);
        let expected = (301..data.len()).filter(|number| number % 50 == 0).count();
        assert_eq!(lost(&turns[2..]), expected as u64, "{from} to {to}");
    }
}

#[test]
fn the_real_recording_lost_nothing() {
    let Some(path) = real_recording() else { return };
    let (turns, recording) = read(&path, RecordingConfig::default()).unwrap();
    assert_eq!((lost(&turns), recording.statistics().late), (0, 0));
    assert_eq!(recording.model(), Some(Model::Vlp32c));
}

#[test]
fn the_clock_of_the_sensor_starts_over_every_hour() {
    let hour = 3_600_000_000_u32;
    let mut assembler = TurnAssembler::new(0);
    let mut turns = Vec::new();
    for (number, mut data) in packets(ReturnMode::Strongest, STEP_600_RPM, 400).enumerate() {
        let nanos = (u64::from(hour) - 100_000) * 1_000 + number as u64 * PACKET_NANOS;
        let micros = (nanos / 1_000) as u32 % hour;
        data[1200..1204].copy_from_slice(&micros.to_le_bytes());
        if number == 150 || (350..360).contains(&number) {
            continue;
        }
        turns.extend(assembler.push(
            Time::from_nanos(nanos),
            &data,
            &PacketView::new(&data).unwrap(),
        ));
    }
    turns.extend(assembler.finish());
    assert_eq!(lost(&turns), 11);
    assert_eq!((assembler.late(), assembler.clock_steps()), (0, 0));
}

#[test]
fn a_clock_that_is_set_is_told_and_no_loss() {
    let mut assembler = TurnAssembler::new(0);
    let mut turns = Vec::new();
    for (number, mut data) in packets(ReturnMode::Strongest, STEP_600_RPM, 300).enumerate() {
        let micros = u32::from_le_bytes(data[1200..1204].try_into().unwrap());
        let set = if number < 100 {
            micros
        } else {
            micros + 1_000_000_000
        };
        data[1200..1204].copy_from_slice(&set.to_le_bytes());
        let stamp = Time::from_nanos(u64::from(micros) * 1_000);
        turns.extend(assembler.push(stamp, &data, &PacketView::new(&data).unwrap()));
    }
    turns.extend(assembler.finish());
    assert_eq!((lost(&turns), assembler.clock_steps()), (0, 1));
}

#[test]
fn a_late_packet_is_kept_and_ends_no_turn() {
    let mut data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 302).collect();
    data.swap(150, 152);
    data.swap(220, 221);
    let (turns, assembler) = assemble_with_loss(&data, |_| false);
    let packets: usize = turns.iter().map(|turn| turn.scan.packets.len()).sum();
    assert_eq!(packets, 302);
    assert!(assembler.late() >= 2);
    assert!((2..=3).contains(&turns.len()), "{} turns", turns.len());
}

#[test]
fn every_model_makes_one_turn_a_revolution() {
    // Packets in 20 s at 600 rpm, and in a turn.
    for (model, mode, count, per_turn) in [
        (Model::Vlp16, ReturnMode::Strongest, 15_071, 75),
        (Model::Vlp16, ReturnMode::Dual, 30_141, 151),
        (Model::Hdl32e, ReturnMode::Last, 36_169, 181),
        (Model::Hdl32e, ReturnMode::Dual, 72_338, 362),
    ] {
        let step = model.geometry().block_nanos as f64 * 1e-9 * 10.0 * 36_000.0;
        let data: Vec<_> = packets_of(model, mode, step, count).collect();
        let (turns, _) = assemble_with_loss(&data, |_| false);
        check_twenty_seconds(&turns, per_turn);
        assert_eq!(lost(&turns), 0, "{model} {mode:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_loss_is_counted_exactly(
        gaps in proptest::collection::vec((1..400_usize, 1..300_usize), 0..6),
        product in prop::sample::select(Model::ALL.to_vec()),
        dual: bool,
    ) {
        let mode = if dual { ReturnMode::Dual } else { ReturnMode::Last };
        let step = product.geometry().block_nanos as f64 * 1e-9 * 10.0 * 36_000.0;
        let mut fate = vec![true];
        for (sent, missing) in gaps {
            fate.extend(std::iter::repeat_n(true, sent));
            fate.extend(std::iter::repeat_n(false, missing));
        }
        fate.push(true);
        let data: Vec<_> = packets_of(product, mode, step, fate.len()).collect();
        let (turns, assembler) = assemble_with_loss(&data, |number| !fate[number]);
        prop_assert_eq!(lost(&turns), fate.iter().filter(|arrived| !**arrived).count() as u64);
        prop_assert_eq!(assembler.late(), 0);
    }
}
