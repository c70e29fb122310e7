//! A `VelodyneScan`: what is read is written again, and what converts is a cloud without a fault.
#![no_main]

use std::cell::RefCell;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lidar_messages::VelodyneScan;
use lidar_sensor::{Convention, Converter, EqualPairs, Layout};
use roundtrip_fuzz as _;

thread_local! {
    /// One of each kind: their tables cost more than a scan.
    static CONVERTERS: RefCell<Vec<Converter>> = RefCell::new(
        [Convention::RosCompat, Convention::Precise]
            .into_iter()
            .flat_map(|convention| [Layout::Returns, Layout::Organised].map(|layout| {
                Converter::new(convention)
                    .with_layout(layout)
                    .with_equal_pairs(EqualPairs::Merge)
            }))
            .collect(),
    );
}

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let Ok(scan) = VelodyneScan::decode(bytes.clone()) else {
        return;
    };
    assert_eq!(scan.encode(), bytes);
    CONVERTERS.with_borrow_mut(|converters| {
        for converter in converters {
            if let Ok(cloud) = converter.convert(&scan) {
                cloud.check_layout().expect("our own clouds are sound");
            }
        }
    });
});
