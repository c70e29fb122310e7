//! A `PointCloud2`: what is read is written again, and every point of a sound one can be had.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::PointCloud2;
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let Ok(cloud) = PointCloud2::decode(bytes.clone()) else {
        return;
    };
    assert_eq!(cloud.encode().len(), bytes.len());
    if let Ok(points) = cloud.points() {
        cloud
            .check_layout()
            .expect("points come of a sound layout only");
        // A point may be of no bytes, and then a header names four thousand million of them.
        points.take(1 << 16).for_each(drop);
    }
});
