//! Messages as ROS 2 encodes them.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use bytes::Bytes;
use lidar_messages::{
    Datatype, Fault, Header, Packets, PointCloud2, PointField, Time, VelodyneScan,
};
use proptest::prelude::*;

/// Writes CDR by the rules of its specification.
struct Writer {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Writer {
    fn new(big_endian: bool) -> Self {
        let bytes = vec![0, u8::from(!big_endian), 0, 0];
        Self { bytes, big_endian }
    }

    fn u32(&mut self, value: u32) {
        while !(self.bytes.len() - 4).is_multiple_of(4) {
            self.bytes.push(0xaa);
        }
        self.bytes.extend(if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn text(&mut self, text: &str) {
        self.u32(text.len() as u32 + 1);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn header(&mut self, header: &Header) {
        self.u32(header.stamp.secs);
        self.u32(header.stamp.nsecs);
        self.text(&header.frame_id);
    }
}

fn write_cloud(cloud: &PointCloud2, big_endian: bool) -> Bytes {
    let mut writer = Writer::new(big_endian);
    writer.header(&cloud.header);
    writer.u32(cloud.height);
    writer.u32(cloud.width);
    writer.u32(cloud.fields.len() as u32);
    for field in &cloud.fields {
        writer.text(&field.name);
        writer.u32(field.offset);
        writer.bytes.push(field.datatype as u8);
        writer.u32(field.count);
    }
    writer.bytes.push(u8::from(cloud.is_bigendian));
    writer.u32(cloud.point_step);
    writer.u32(cloud.row_step);
    writer.u32(cloud.data.len() as u32);
    writer.bytes.extend_from_slice(&cloud.data);
    writer.bytes.push(u8::from(cloud.is_dense));
    writer.bytes.into()
}

fn write_scan(scan: &VelodyneScan, big_endian: bool) -> Bytes {
    let mut writer = Writer::new(big_endian);
    writer.header(&scan.header);
    writer.u32(scan.packets.len() as u32);
    for packet in scan.packets.iter() {
        writer.u32(packet.stamp.secs);
        writer.u32(packet.stamp.nsecs);
        writer.bytes.extend_from_slice(packet.data);
    }
    writer.bytes.into()
}

fn header(frame_id: String) -> Header {
    Header {
        seq: 0,
        stamp: Time { secs: 7, nsecs: 8 },
        frame_id: frame_id.into(),
    }
}

fn cloud(frame_id: String, points: usize) -> PointCloud2 {
    let field = |name: &'static str, offset, datatype| PointField {
        name: name.into(),
        offset,
        datatype,
        count: 1,
    };
    PointCloud2 {
        header: header(frame_id),
        height: 1,
        width: points as u32,
        fields: vec![
            field("x", 0, Datatype::Float32),
            field("intensity", 4, Datatype::Uint8),
        ],
        is_bigendian: false,
        point_step: 5,
        row_step: 5 * points as u32,
        data: (0..5 * points).map(|at| at as u8).collect(),
        is_dense: true,
    }
}

fn scan(frame_id: String, packets: usize) -> VelodyneScan {
    let mut builder = Packets::builder(packets);
    for number in 0..packets {
        let stamp = Time {
            secs: 1,
            nsecs: number as u32,
        };
        builder.push(stamp, &[number as u8; 1206]);
    }
    VelodyneScan {
        header: header(frame_id),
        packets: builder.build(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_ros_2_encodes_is_decoded(
        frame in "[a-z_/]{0,9}",
        points in 0..9_usize,
        packets in 0..4_usize,
        big_endian: bool,
    ) {
        let cloud = cloud(frame.clone(), points);
        prop_assert_eq!(PointCloud2::decode_cdr(write_cloud(&cloud, big_endian)), Ok(cloud));
        let scan = scan(frame, packets);
        prop_assert_eq!(VelodyneScan::decode_cdr(write_scan(&scan, big_endian)), Ok(scan));
    }

    #[test]
    fn damaged_cdr_is_an_error_or_a_message(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let frame = || "velodyne".to_owned();
        for whole in [write_cloud(&cloud(frame(), 5), false), write_scan(&scan(frame(), 2), false)] {
            let mut bytes = whole.to_vec();
            for (at, value) in &hits {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            let len = bytes.len();
            for len in [cut.index(len + 1), len] {
                let bytes = Bytes::copy_from_slice(&bytes[..len]);
                if let Ok(cloud) = PointCloud2::decode_cdr(bytes.clone()) {
                    cloud.check_layout().unwrap();
                }
                let _ = VelodyneScan::decode_cdr(bytes);
            }
        }
    }
}

#[test]
fn cut_cdr_and_other_encodings_are_refused() {
    let whole = write_scan(&scan("velodyne".to_owned(), 2), false);
    for len in 0..whole.len() {
        assert!(VelodyneScan::decode_cdr(whole.slice(..len)).is_err());
    }
    let mut bytes = whole.to_vec();
    bytes[1] = 3;
    let error = VelodyneScan::decode_cdr(bytes.into()).unwrap_err();
    assert_eq!(error.fault, Fault::Encapsulation { kind: 3 });
    let mut huge = Writer::new(false);
    huge.header(&header("a".to_owned()));
    huge.u32(u32::MAX);
    let error = VelodyneScan::decode_cdr(huge.bytes.into()).unwrap_err();
    assert!(matches!(error.fault, Fault::Count { .. }));
}

#[test]
fn a_decoded_cdr_cloud_shares_the_message() {
    let message = write_cloud(&cloud("velodyne".to_owned(), 9), false);
    let data = PointCloud2::decode_cdr(message.clone()).unwrap().data;
    assert!(message.as_ptr_range().contains(&data.as_ptr()));
}
