//! A bag of ROS 1 or an MCAP file: what was looked through can be read, in the order of time.
#![no_main]

use std::io::Cursor;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::{PointCloud2, Time, VelodyneScan};
use lidar_sensor::{Bag, Encoding};
use roundtrip_fuzz as _;

/// Each chunk may become this much, and there may be a chunk in every fifty bytes.
const MAX_CHUNK: u32 = 1 << 16;
const MOST: usize = 8 << 10;

fn decode(encoding: &Encoding, data: Bytes) {
    match encoding {
        Encoding::Cdr => {
            let _ = VelodyneScan::decode_cdr(data.clone());
            let _ = PointCloud2::decode_cdr(data);
        }
        _ => {
            let _ = VelodyneScan::decode(data.clone());
            let _ = PointCloud2::decode(data);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(MOST)];
    let Ok(mut bag) = Bag::new(Cursor::new(data), MAX_CHUNK) else {
        return;
    };
    let connections: Vec<_> = bag.connections().into_iter().cloned().collect();
    // What is selected cannot be had back, so it is one.
    if let Some(connection) = connections.first() {
        bag.select(|it| it == connection);
        let mut last = Time::default();
        for _ in 0..bag.len() {
            let message = bag.next_message().expect("a bag that was looked through");
            let message = message.expect("as many messages as it says");
            assert!(last.as_nanos() <= message.time.as_nanos());
            last = message.time;
            decode(&connection.encoding, message.data);
        }
        assert!(bag.next_message().is_ok_and(|none| none.is_none()));
    }
});
