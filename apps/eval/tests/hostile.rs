//! Files of labels may hold anything.

use lidar_eval::labels::{Calibration, read_json, read_kitti};
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_text_brings_a_reader_of_labels_down(text in "[-+0-9eE. \n:{}\\[\\]\",a-zA-Z_]{0,200}") {
        let _ = read_json(&text);
        let identity = "P2: 1 0 1 0 0 1 1 0 0 0 1 0\nR0_rect: 1 0 0 0 1 0 0 0 1\n\
                        Tr_velo_to_cam: 1 0 0 0 0 1 0 0 0 0 1 0\n";
        let calibration = Calibration::read(identity).expect("a good one");
        let _ = read_kitti(&text, &calibration);
        let _ = Calibration::read(&text);
    }
}
