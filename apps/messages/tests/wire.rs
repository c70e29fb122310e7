//! Sizes and bytes on the wire, and that decoding shares memory.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use lidar_messages::{
    BoundingBox3D, CloudPoint, Color, Datatype, Detection3D, Detection3DArray, Header, Iscactr,
    LayoutError, Marker, MarkerArray, Object, ObjectClassification, ObjectHypothesisWithPose,
    ObjectList, ObjectState, ObjectStatePrediction, Packets, Point, PointCloud2, PointField, Pose,
    PoseStamped, Quaternion, Time, Vector3, VelodyneScan,
};

fn header(seq: u32) -> Header {
    Header {
        seq,
        stamp: Time {
            secs: 1_700_000_000,
            nsecs: 5,
        },
        frame_id: "velodyne".into(),
    }
}

fn scan(packets: u8) -> VelodyneScan {
    let mut builder = Packets::builder(usize::from(packets));
    for number in 0..packets {
        builder.push(
            Time {
                secs: 1,
                nsecs: u32::from(number),
            },
            &[number; 1206],
        );
    }
    VelodyneScan {
        header: header(9),
        packets: builder.build(),
    }
}

fn float(name: &'static str, offset: u32) -> PointField {
    PointField {
        name: name.into(),
        offset,
        datatype: Datatype::Float32,
        count: 1,
    }
}

fn cloud(points: &[[f32; 3]]) -> PointCloud2 {
    let data: Vec<u8> = points
        .as_flattened()
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    PointCloud2 {
        header: header(3),
        height: 1,
        width: points.len() as u32,
        fields: vec![float("x", 0), float("y", 4), float("z", 8)],
        is_bigendian: false,
        point_step: 12,
        row_step: data.len() as u32,
        data: data.into(),
        is_dense: true,
    }
}

fn inside(part: &[u8], whole: &Bytes) -> bool {
    whole.as_ptr_range().contains(&part.as_ptr())
        && whole.as_ptr_range().end >= part.as_ptr_range().end
}

#[test]
fn full_scan_has_its_known_size() {
    let wire = scan(151).encode();
    assert_eq!(wire.len(), 183_342);
    assert_eq!(scan(0).encode().len(), 28);
}

#[test]
fn scan_is_laid_out_as_ros_does() {
    let wire = scan(2).encode();
    assert_eq!(wire[..4], 9u32.to_le_bytes());
    assert_eq!(wire[4..8], 1_700_000_000u32.to_le_bytes());
    assert_eq!(wire[8..12], 5u32.to_le_bytes());
    assert_eq!(wire[12..24], *b"\x08\0\0\0velodyne");
    assert_eq!(wire[24..28], 2u32.to_le_bytes());
    assert_eq!(wire[28 + 1214..][..9], [1, 0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn decoded_scan_shares_the_message() {
    let wire = scan(151).encode();
    let decoded = VelodyneScan::decode(wire.clone()).unwrap();
    assert_eq!(decoded, scan(151));
    assert!(
        decoded
            .packets
            .iter()
            .all(|packet| inside(packet.data, &wire))
    );
    assert!(inside(decoded.header.frame_id.as_bytes(), &wire));
    assert_eq!(decoded.packets.iter().len(), 151);
}

#[test]
fn decoded_cloud_shares_the_message() {
    let wire = cloud(&[[1.0, 2.0, 3.0]]).encode();
    let decoded = PointCloud2::decode(wire.clone()).unwrap();
    assert_eq!(decoded, cloud(&[[1.0, 2.0, 3.0]]));
    assert!(inside(&decoded.data, &wire));
}

#[test]
fn header_survives() {
    assert_eq!(Header::decode(header(4).encode()).unwrap(), header(4));
}

#[test]
fn object_list_survives() {
    let list = Detection3DArray {
        header: header(77),
        detections: vec![
            Detection3D {
                header: header(77),
                results: vec![ObjectHypothesisWithPose {
                    id: -3,
                    score: 0.75,
                    ..Default::default()
                }],
                bbox: BoundingBox3D {
                    center: Pose {
                        position: Point {
                            x: 1.0,
                            y: -2.0,
                            z: 0.5,
                        },
                        orientation: Quaternion::from_yaw(0.3),
                    },
                    size: Vector3 {
                        x: 4.5,
                        y: 1.8,
                        z: 1.5,
                    },
                },
                source_cloud: cloud(&[[1.0, 2.0, 3.0]]),
            },
            Detection3D::default(),
        ],
    };
    let wire = list.encode();
    assert_eq!(wire.len(), list.encoded_len());
    assert_eq!(Detection3DArray::decode(wire).unwrap(), list);
}

#[test]
fn a_list_of_states_survives() {
    let truth = Iscactr {
        position: [10.0, -2.0, 0.5],
        yaw: 0.25,
        size: [4.5, 1.8, 1.5],
    };
    let state = ObjectState {
        header: header(5),
        model_id: Iscactr::MODEL_ID,
        sensor_id: vec![3],
        continuous_state: truth.continuous_state(),
        discrete_state: vec![-7],
        continuous_state_covariance: Iscactr::covariance(),
        classifications: vec![ObjectClassification {
            kind: ObjectClassification::CAR_UNION,
            probability: 0.75,
        }],
        ..ObjectState::default()
    };
    let list = ObjectList {
        header: header(4),
        objects: vec![Object {
            id: u64::MAX,
            existence_probability: 0.5,
            state_history: vec![state.clone(); 2],
            state_predictions: vec![ObjectStatePrediction {
                probability: 1.0,
                states: vec![state.clone()],
            }],
            state: state.clone(),
        }],
    };
    let bytes = list.encode();
    assert_eq!(bytes.len(), list.encoded_len());
    assert_eq!(ObjectList::decode(bytes).unwrap(), list);
    assert_eq!(Iscactr::of(&state), Some(truth));
    // x, y, z, two velocities, two accelerations, yaw, yaw rate, width, length, height.
    assert_eq!(
        state.continuous_state,
        [
            10.0, -2.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 1.8, 4.5, 1.5
        ]
    );
    let diagonal: Vec<f64> = (0..12)
        .map(|n| state.continuous_state_covariance[13 * n])
        .collect();
    let (set, unset) = (f64::MAX, -1.0);
    assert_eq!(
        diagonal,
        [
            set, set, set, unset, unset, unset, unset, set, unset, set, set, set
        ]
    );
    let other = ObjectState {
        model_id: 17,
        ..state
    };
    assert_eq!(Iscactr::of(&other), None);
}

#[test]
fn markers_survive() {
    let markers = MarkerArray {
        markers: vec![Marker {
            header: header(1),
            ns: "box".into(),
            id: -4,
            kind: Marker::CUBE,
            action: Marker::ADD,
            scale: Vector3 {
                x: 4.5,
                y: 1.8,
                z: 1.5,
            },
            color: Color {
                r: 0.25,
                g: 0.5,
                b: 0.75,
                a: 1.0,
            },
            lifetime: [1, 5],
            frame_locked: true,
            points: vec![Point::default(); 2],
            colors: vec![Color::default()],
            text: "car 0.9".into(),
            ..Marker::default()
        }],
    };
    let bytes = markers.encode();
    assert_eq!(bytes.len(), markers.encoded_len());
    assert_eq!(MarkerArray::decode(bytes).unwrap(), markers);
}

#[test]
fn pose_is_laid_out_as_ros_does() {
    let pose = PoseStamped {
        header: header(9),
        pose: Pose {
            position: Point {
                x: 1.0,
                y: -2.0,
                z: 0.5,
            },
            orientation: Quaternion::from_yaw(3.0),
        },
    };
    let bytes = pose.encode();
    assert_eq!(bytes.len(), header(9).encoded_len() + 7 * 8);
    // The last number is the real part of the rotation.
    assert_eq!(bytes[bytes.len() - 8..], 1.5f64.cos().to_le_bytes());
    assert!(PoseStamped::decode(bytes.slice(1..)).is_err());
    assert_eq!(PoseStamped::decode(bytes).unwrap(), pose);
}

#[test]
fn yaw_survives_the_quaternion() {
    for degrees in -179..180 {
        let yaw = f64::from(degrees).to_radians();
        assert!((Quaternion::from_yaw(yaw).yaw() - yaw).abs() < 1e-12);
    }
}

#[test]
fn empty_clouds_are_valid_in_both_shapes() {
    for (width, height) in [(0, 1), (0, 0), (5, 0)] {
        let empty = PointCloud2 {
            width,
            height,
            row_step: width * 12,
            ..cloud(&[])
        };
        let decoded = PointCloud2::decode(empty.encode()).unwrap();
        assert_eq!(decoded.points().unwrap().count(), 0, "{width} x {height}");
    }
}

#[test]
fn points_follow_offsets_byte_order_and_padding() {
    let mut data = Vec::new();
    for row in 0..2 {
        for column in 0..3 {
            for value in [7.0, row as f32, column as f32, -1.5] {
                data.extend_from_slice(&f32::to_be_bytes(value));
            }
        }
        data.extend_from_slice(&[0xff; 5]);
    }
    let cloud = PointCloud2 {
        height: 2,
        width: 3,
        fields: vec![
            float("intensity", 0),
            float("y", 4),
            float("z", 8),
            float("x", 12),
        ],
        is_bigendian: true,
        point_step: 16,
        row_step: 3 * 16 + 5,
        data: data.into(),
        ..PointCloud2::default()
    };
    let points: Vec<_> = cloud.points().unwrap().collect();
    assert_eq!(points.len(), 6);
    assert_eq!(
        points[5],
        CloudPoint {
            x: -1.5,
            y: 1.0,
            z: 2.0,
            intensity: 7.0
        }
    );
}

#[test]
fn contradicting_sizes_are_named() {
    let good = cloud(&[[0.0; 3]; 4]);
    let long_row = PointCloud2 {
        width: u32::MAX,
        point_step: u32::MAX,
        ..good.clone()
    };
    assert!(matches!(
        long_row.check_layout(),
        Err(LayoutError::Row { .. })
    ));
    let many_rows = PointCloud2 {
        height: u32::MAX,
        ..good.clone()
    };
    assert!(matches!(
        many_rows.check_layout(),
        Err(LayoutError::Data { .. })
    ));
    let thin = PointCloud2 {
        point_step: 11,
        ..good.clone()
    };
    assert!(matches!(
        thin.check_layout(),
        Err(LayoutError::Field { end: 12, .. })
    ));
    let nameless = PointCloud2 {
        fields: vec![float("x", 0)],
        ..good
    };
    assert!(matches!(
        nameless.points(),
        Err(LayoutError::Missing { name: "y" })
    ));
}

#[test]
fn times_count_in_nanoseconds() {
    let time = Time {
        secs: 3,
        nsecs: 250,
    };
    assert_eq!(Time::from_nanos(time.as_nanos()), time);
    assert_eq!(
        Time::from_nanos(u64::MAX),
        Time {
            secs: u32::MAX,
            nsecs: 999_999_999
        }
    );
}
