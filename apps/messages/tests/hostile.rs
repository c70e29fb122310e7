//! Cut, padded, damaged and random messages: an error or a message, never a panic, and no
//! allocation on the word of a length field.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use lidar_messages::{
    BoundingBox3D, Color, Datatype, Detection3D, Detection3DArray, Fault, Header, Iscactr, Marker,
    MarkerArray, Object, ObjectClassification, ObjectHypothesisWithPose, ObjectList, ObjectState,
    ObjectStatePrediction, Packets, Point, PointCloud2, PointField, PoseStamped, Time,
    VelodyneScan,
};
use proptest::prelude::*;

fn header() -> Header {
    Header {
        seq: 1,
        stamp: Time { secs: 2, nsecs: 3 },
        frame_id: "velodyne".into(),
    }
}

fn scan(packets: usize) -> Bytes {
    let mut builder = Packets::builder(packets);
    for _ in 0..packets {
        builder.push(Time::default(), &[0xa5; 1206]);
    }
    VelodyneScan {
        header: header(),
        packets: builder.build(),
    }
    .encode()
}

fn cloud() -> PointCloud2 {
    PointCloud2 {
        header: header(),
        height: 1,
        width: 8,
        fields: vec![PointField {
            name: "x".into(),
            offset: 0,
            datatype: Datatype::Float32,
            count: 1,
        }],
        point_step: 4,
        row_step: 32,
        data: Bytes::from_static(&[0; 32]),
        ..PointCloud2::default()
    }
}

fn list() -> Bytes {
    let detection = Detection3D {
        header: header(),
        results: vec![ObjectHypothesisWithPose::default(); 2],
        bbox: BoundingBox3D::default(),
        source_cloud: cloud(),
    };
    Detection3DArray {
        header: header(),
        detections: vec![detection; 3],
    }
    .encode()
}

fn objects() -> Bytes {
    let state = ObjectState {
        header: header(),
        model_id: Iscactr::MODEL_ID,
        sensor_id: vec![1],
        continuous_state: Iscactr::default().continuous_state(),
        discrete_state: vec![-1, 2],
        continuous_state_covariance: Iscactr::covariance(),
        classifications: vec![ObjectClassification::default(); 2],
        ..ObjectState::default()
    };
    let object = Object {
        id: 7,
        state_history: vec![state.clone()],
        state_predictions: vec![ObjectStatePrediction {
            probability: 0.5,
            states: vec![state.clone()],
        }],
        state,
        ..Object::default()
    };
    ObjectList {
        header: header(),
        objects: vec![object; 2],
    }
    .encode()
}

fn markers() -> Bytes {
    let marker = Marker {
        header: header(),
        ns: "objects".into(),
        points: vec![Point::default(); 2],
        colors: vec![Color::default(); 2],
        text: "car".into(),
        ..Marker::default()
    };
    MarkerArray {
        markers: vec![marker; 2],
    }
    .encode()
}

/// Decodes as every type; what decodes must encode to the same bytes or, where a flag byte was
/// neither 0 nor 1, to as many.
fn feed(bytes: &Bytes) {
    if let Ok(scan) = VelodyneScan::decode(bytes.clone()) {
        assert_eq!(scan.encode(), bytes);
    }
    if let Ok(header) = Header::decode(bytes.clone()) {
        assert_eq!(header.encode(), bytes);
    }
    if let Ok(pose) = PoseStamped::decode(bytes.clone()) {
        assert_eq!(pose.encode(), bytes);
    }
    if let Ok(cloud) = PointCloud2::decode(bytes.clone()) {
        assert_eq!(cloud.encode().len(), bytes.len());
        if let Ok(points) = cloud.points() {
            assert!(points.count() <= bytes.len());
        }
    }
    if let Ok(list) = Detection3DArray::decode(bytes.clone()) {
        assert_eq!(list.encode().len(), bytes.len());
    }
    if let Ok(list) = ObjectList::decode(bytes.clone()) {
        assert_eq!(list.encode(), bytes);
    }
    if let Ok(markers) = MarkerArray::decode(bytes.clone()) {
        assert_eq!(markers.encode().len(), bytes.len());
    }
}

#[test]
fn short_and_empty_payloads_are_refused() {
    for len in [0, 1, 27] {
        let error = VelodyneScan::decode(scan(151).slice(..len)).unwrap_err();
        assert!(
            matches!(error.fault, Fault::Short { .. }),
            "{len} B: {error}"
        );
    }
    assert!(VelodyneScan::decode(scan(0)).unwrap().packets.is_empty());
}

#[test]
fn scan_cut_at_every_997th_byte_is_refused() {
    let whole = scan(151);
    let mut refused = 0;
    for len in (997..whole.len()).step_by(997) {
        let error = VelodyneScan::decode(whole.slice(..len)).unwrap_err();
        assert!(
            matches!(error.fault, Fault::Count { count: 151, .. }),
            "{len} B: {error}"
        );
        refused += 1;
    }
    assert_eq!(refused, 183);
}

#[test]
fn cut_anywhere_is_refused() {
    for whole in [scan(1), cloud().encode(), list(), header().encode()] {
        for len in 0..whole.len() {
            let cut = whole.slice(..len);
            feed(&cut);
            assert!(Detection3DArray::decode(cut.clone()).is_err());
            assert!(PointCloud2::decode(cut).is_err());
        }
    }
}

#[test]
fn states_and_markers_cut_anywhere_are_refused() {
    let (objects, markers) = (objects(), markers());
    for len in 0..objects.len() {
        assert!(ObjectList::decode(objects.slice(..len)).is_err(), "{len}");
    }
    for len in 0..markers.len() {
        assert!(MarkerArray::decode(markers.slice(..len)).is_err(), "{len}");
    }
}

#[test]
fn huge_counts_are_refused_by_what_is_left() {
    let mut bytes = scan(151).to_vec();
    bytes[24..28].fill(0xff);
    let error = VelodyneScan::decode(bytes.into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "velodyne_msgs/VelodyneScan: field packets: announces 4294967295 elements of at least \
         1214 B and 183314 B are left; the length field is damaged or the message is of another \
         type"
    );

    let mut bytes = list().to_vec();
    bytes[24..28].fill(0xff);
    let error = Detection3DArray::decode(bytes.into()).unwrap_err();
    assert!(matches!(
        error.fault,
        Fault::Count {
            count: u32::MAX,
            ..
        }
    ));

    let mut bytes = cloud().encode().to_vec();
    bytes[32..36].fill(0xff);
    let error = PointCloud2::decode(bytes.into()).unwrap_err();
    assert_eq!(
        (error.field, error.message),
        ("fields", "sensor_msgs/PointCloud2")
    );
}

#[test]
fn bytes_after_the_message_are_refused() {
    for whole in [
        scan(2),
        cloud().encode(),
        list(),
        objects(),
        markers(),
        header().encode(),
    ] {
        let mut long = whole.to_vec();
        long.push(0);
        let long = Bytes::from(long);
        assert!(VelodyneScan::decode(long.clone()).is_err());
        assert!(PointCloud2::decode(long.clone()).is_err());
        assert!(Detection3DArray::decode(long.clone()).is_err());
        assert!(ObjectList::decode(long.clone()).is_err());
        assert!(MarkerArray::decode(long.clone()).is_err());
        assert!(Header::decode(long).is_err());
    }
}

#[test]
fn text_must_be_utf8_and_types_known() {
    let mut bytes = header().encode().to_vec();
    bytes[17] = 0xff;
    let error = Header::decode(bytes.into()).unwrap_err();
    assert_eq!(error.fault, Fault::Text { at: 1 });

    let mut bytes = cloud().encode().to_vec();
    bytes[45] = 9;
    let error = PointCloud2::decode(bytes.into()).unwrap_err();
    assert_eq!(error.fault, Fault::Datatype { value: 9 });
}

#[test]
fn bad_messages_do_not_spoil_the_next_good_one() {
    let mut errors = 0;
    for len in [0, 1, 27, 500] {
        errors += usize::from(VelodyneScan::decode(scan(3).slice(..len)).is_err());
        assert_eq!(VelodyneScan::decode(scan(3)).unwrap().packets.len(), 3);
    }
    assert_eq!(errors, 4);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        feed(&bytes.into());
    }

    #[test]
    fn damaged_messages_never_panic(
        which in 0..5usize,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = [scan(2), cloud().encode(), list(), objects(), markers()][which].to_vec();
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        feed(&bytes.into());
    }

    #[test]
    fn damaged_length_fields_never_panic(which in 0..5usize, at in any::<prop::sample::Index>(), value: u32) {
        let mut bytes = [scan(2), cloud().encode(), list(), objects(), markers()][which].to_vec();
        let at = at.index(bytes.len() - 4);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        feed(&bytes.into());
    }

    #[test]
    fn scans_survive(seq: u32, secs: u32, nsecs: u32, frame in ".{0,40}", packets in 0..5usize) {
        let mut builder = Packets::builder(0);
        for number in 0..packets {
            builder.push(Time { secs, nsecs }, &[number as u8; 1206]);
        }
        let header = Header { seq, stamp: Time { secs, nsecs }, frame_id: frame.into() };
        let scan = VelodyneScan { header, packets: builder.build() };
        prop_assert_eq!(VelodyneScan::decode(scan.encode()).unwrap(), scan);
    }
}
