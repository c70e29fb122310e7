//! A `Detection3DArray`: what is read is written again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::Detection3DArray;
use roundtrip_fuzz as _;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(list) = Detection3DArray::decode(bytes.clone()) {
        assert_eq!(list.encode().len(), bytes.len());
    }
});
