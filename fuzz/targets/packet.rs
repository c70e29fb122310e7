//! A data packet: what is read is written again, byte by byte, and every getter has an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lidar_sensor::{Packet, PacketView};
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    if let Ok(view) = PacketView::new(data) {
        for block in 0..12 {
            view.azimuth(block);
        }
        view.timestamp_us();
        view.return_mode();
    }
    if let Ok(packet) = Packet::decode(data) {
        assert_eq!(packet.encode(), data);
    }
});
