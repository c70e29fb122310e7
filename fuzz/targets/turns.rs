//! Packets at any azimuths and times made into turns, and turns into clouds: every packet is in one
//! turn, in its order, no turn is too long, and what converts is sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lidar_messages::Time;
use lidar_sensor::{
    Block, Convention, Converter, FULL_TURN, MAX_PACKETS, Model, Packet, PacketView, Return,
    ReturnMode, Turn, TurnAssembler,
};
use roundtrip_fuzz as _;

/// Bytes that tell of a packet.
const TOLD: usize = 12;

/// Most packets: more than a turn can have.
const MOST: usize = MAX_PACKETS + 200;

fn packet(told: &[u8; TOLD]) -> Packet {
    let [a0, a1, s0, s1, t0, t1, t2, t3, mode, value, _, _] = *told;
    let first = u16::from_le_bytes([a0, a1]);
    let step = u16::from_le_bytes([s0, s1]);
    let modes = [ReturnMode::Strongest, ReturnMode::Last, ReturnMode::Dual];
    Packet {
        model: Model::Vlp32c,
        blocks: std::array::from_fn(|block| Block {
            azimuth: (u32::from(first) + block as u32 * u32::from(step)).rem_euclid(36_000) as u16
                % FULL_TURN,
            returns: [Return {
                distance: u16::from(value) * 200,
                reflectivity: value,
            }; 32],
        }),
        timestamp_us: u32::from_le_bytes([t0, t1, t2, t3]) % 3_600_000_000,
        return_mode: modes[usize::from(mode) % modes.len()],
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, told)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut assembler = TurnAssembler::new(u16::from_le_bytes(*cut));
    let mut converter = Converter::new(Convention::Precise);
    let (mut pushed, mut returned, mut stamp) = (0_u64, 0_u64, 0_u64);
    let mut check = |turn: Option<Turn>| {
        let Some(turn) = turn else { return };
        assert!(!turn.scan.packets.is_empty() && turn.scan.packets.len() <= MAX_PACKETS);
        assert!(turn.lost == 0 || turn.partial);
        for packet in turn.scan.packets.iter() {
            // Each is stamped with its number among the nanoseconds.
            assert_eq!(packet.stamp.as_nanos() % 1_000_000, returned % 1_000_000);
            returned += 1;
        }
        let cloud = converter
            .convert(&turn.scan)
            .expect("good packets of one sensor");
        cloud.check_layout().expect("our own clouds are sound");
    };
    for told in told.as_chunks::<TOLD>().0.iter().take(MOST) {
        let data = packet(told).encode();
        let view = PacketView::new(&data).expect("an encoded packet is a good packet");
        stamp += u64::from(u16::from_le_bytes([told[10], told[11]])) * 1_000_000;
        let time = Time::from_nanos(stamp + pushed % 1_000_000);
        check(assembler.push(time, &data, &view));
        pushed += 1;
    }
    check(assembler.finish());
    assert_eq!(returned, pushed, "no packet is lost or comes twice");
});
