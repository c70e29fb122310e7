//! A capture file, read to its end, with everything in it that looks like sensor data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lidar_sensor::{Capture, Content, PacketView};
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    let Ok(mut capture) = Capture::new(data) else {
        return;
    };
    // A frame is at least its header of 16 bytes.
    for _ in 0..=data.len() / 16 {
        match capture.next_frame() {
            Ok(Some(frame)) => {
                if let Content::Udp { payload, .. } = frame.content {
                    let _ = PacketView::new(payload);
                }
            }
            Ok(None) | Err(_) => return,
        }
    }
    panic!("more frames than fit into the file");
});
