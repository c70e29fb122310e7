//! Scans and clouds as ROS 2 encodes them: what is read is sound, and can be written as ROS 1 does.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::{PointCloud2, VelodyneScan};
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(scan) = VelodyneScan::decode_cdr(bytes.clone()) {
        assert_eq!(VelodyneScan::decode(scan.encode()).as_ref(), Ok(&scan));
    }
    if let Ok(cloud) = PointCloud2::decode_cdr(bytes) {
        cloud.check_layout().expect("a decoded cloud is sound");
        assert_eq!(PointCloud2::decode(cloud.encode()).as_ref(), Ok(&cloud));
    }
});
