//! A file of points as KITTI has them: what is read is written again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::Header;
use lidar_sensor::{read_kitti, write_kitti};
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let Ok(cloud) = read_kitti(bytes.clone(), Header::default()) else {
        return;
    };
    cloud
        .check_layout()
        .expect("a cloud that was read is sound");
    let again = write_kitti(&cloud).expect("a cloud that was read has points");
    assert_eq!(again, bytes, "every point that is read is a number");
});
