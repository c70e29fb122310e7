//! A PCD file in any of its forms: a cloud with a sound layout, or an error.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::Header;
use lidar_sensor::read_pcd;
use roundtrip_fuzz as _;

/// Packed points become up to 88 times as many bytes, which must stay below the limit.
const MOST: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(&data[..data.len().min(MOST)]);
    if let Ok(cloud) = read_pcd(&bytes, Header::default()) {
        cloud
            .check_layout()
            .expect("a cloud that was read is sound");
        if let Ok(points) = cloud.points() {
            points.for_each(drop);
        }
    }
});
