//! Clouds as no driver should publish them.

use bytes::Bytes;
use lidar_detector::{DetectError, Detector, Neural};
use lidar_messages::{Datatype, PointCloud2, PointField};
use proptest::prelude::*;

fn field(name: &'static str, offset: u32, datatype: Datatype) -> PointField {
    PointField {
        name: name.into(),
        offset,
        datatype,
        count: 1,
    }
}

/// Little-endian x, y, z and nothing else.
fn cloud(points: &[[f32; 3]]) -> PointCloud2 {
    let data: Vec<u8> = points
        .iter()
        .flatten()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    PointCloud2 {
        height: 1,
        width: points.len() as u32,
        fields: ["x", "y", "z"]
            .into_iter()
            .zip([0, 4, 8])
            .map(|(name, offset)| field(name, offset, Datatype::Float32))
            .collect(),
        point_step: 12,
        row_step: data.len() as u32,
        data: Bytes::from(data),
        ..Default::default()
    }
}

fn detector() -> Neural {
    Neural::embedded(1).expect("the embedded network loads")
}

fn refusal(cloud: &PointCloud2) -> String {
    let error = detector()
        .detect(cloud)
        .expect_err("a broken cloud is refused");
    assert!(matches!(error, DetectError::Cloud(_)), "{error:?}");
    error.to_string()
}

#[test]
fn clouds_without_a_usable_point_give_an_empty_list() {
    let mut detector = detector();
    for value in [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e30,
        -1e30,
        f32::MIN_POSITIVE,
    ] {
        let objects = detector.detect(&cloud(&[[value; 3]; 500])).unwrap();
        assert_eq!(objects, [], "all {value}");
    }
    assert_eq!(detector.detect(&cloud(&[])).unwrap(), []);
    let rowless = PointCloud2 {
        height: 0,
        width: 100,
        row_step: 1_200,
        ..cloud(&[])
    };
    assert_eq!(detector.detect(&rowless).unwrap(), []);
    let columnless = PointCloud2 {
        height: 32,
        width: 0,
        row_step: 0,
        ..cloud(&[])
    };
    assert_eq!(detector.detect(&columnless).unwrap(), []);
    assert_eq!(detector.detect(&PointCloud2::default()).unwrap(), []);
}

#[test]
fn errors_name_the_field() {
    let good = cloud(&[[5.0, 5.0, -1.0]; 10]);
    for (index, name) in ["x", "y", "z"].into_iter().enumerate() {
        let mut missing = good.clone();
        missing.fields.remove(index);
        assert!(
            refusal(&missing).contains(&format!("{name:?}")),
            "missing {name}"
        );
        let mut whole = good.clone();
        whole.fields[index].datatype = Datatype::Int32;
        assert!(
            refusal(&whole).contains(&format!("{name:?}")),
            "{name} as an integer"
        );
    }
    let mut outside = good.clone();
    outside.fields[2].offset = 9;
    assert!(refusal(&outside).contains("\"z\""));
    let small = PointCloud2 {
        point_step: 10,
        ..good.clone()
    };
    assert!(refusal(&small).contains("\"z\""));
    let short = PointCloud2 {
        data: good.data.slice(..100),
        ..good.clone()
    };
    let text = refusal(&short);
    assert!(text.contains("data") && text.contains("row_step"), "{text}");
    let narrow = PointCloud2 {
        row_step: 60,
        ..good.clone()
    };
    assert!(refusal(&narrow).contains("row_step"));
    let vast = PointCloud2 {
        width: u32::MAX,
        height: u32::MAX,
        ..good
    };
    assert!(refusal(&vast).contains("width"));
}

#[test]
fn any_layout_of_the_same_points_gives_the_same_list() {
    // A car-sized block on a floor.
    let mut points = Vec::new();
    for step in 0..10_000_u16 {
        let [a, b] = [f32::from(step / 100), f32::from(step % 100)];
        points.push([a * 0.4 - 20.0, b * 0.4 - 20.0, -1.9]);
        points.push([
            8.0 + a % 45.0 * 0.1,
            3.0 + b % 18.0 * 0.1,
            -1.9 + b % 15.0 * 0.1,
        ]);
    }
    let plain = cloud(&points);
    let mut detector = detector();
    let expected = detector.detect(&plain).unwrap();

    // Big-endian, z first, padded points, two rows with padding.
    let mut data = Vec::new();
    for row in points.chunks(points.len() / 2) {
        for [x, y, z] in row {
            data.extend([z, x, y].into_iter().flat_map(|value| value.to_be_bytes()));
            data.extend([0xff; 4]);
        }
        data.extend([0xff; 6]);
    }
    let width = points.len() as u32 / 2;
    let other = PointCloud2 {
        height: 2,
        width,
        fields: [("z", 0), ("x", 4), ("y", 8)]
            .map(|(name, offset)| field(name, offset, Datatype::Float32))
            .to_vec(),
        is_bigendian: true,
        point_step: 16,
        row_step: width * 16 + 6,
        data: Bytes::from(data),
        ..Default::default()
    };
    assert_eq!(detector.detect(&other).unwrap(), expected);
}

/// Field lists that are mostly, but not always, those of a cloud.
fn fields() -> impl Strategy<Value = Vec<PointField>> {
    let name = prop_oneof![Just("x"), Just("y"), Just("z"), Just("intensity"), Just("")];
    let datatype = prop_oneof![4 => Just(Datatype::Float32), 1 => Just(Datatype::Float64), 1 => Just(Datatype::Uint8)];
    let offset = prop_oneof![8 => 0_u32..24, 1 => any::<u32>()];
    let count = prop_oneof![8 => Just(1_u32), 1 => any::<u32>()];
    let one =
        (name, offset, datatype, count).prop_map(|(name, offset, datatype, count)| PointField {
            count,
            ..field(name, offset, datatype)
        });
    let usual = ["x", "y", "z"]
        .into_iter()
        .zip([0, 4, 8])
        .map(|(name, offset)| field(name, offset, Datatype::Float32))
        .collect::<Vec<_>>();
    prop_oneof![Just(usual), proptest::collection::vec(one, 0..6)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    /// Sizes that contradict each other, and bits that are any float, never panic; what comes out
    /// is finite.
    #[test]
    fn arbitrary_clouds_are_answered_or_refused(
        fields in fields(),
        width in prop_oneof![8 => 0_u32..40, 1 => any::<u32>()],
        height in prop_oneof![8 => 0_u32..4, 1 => any::<u32>()],
        point_step in prop_oneof![4 => Just(12_u32), 4 => 0_u32..32, 1 => any::<u32>()],
        padding in 0_u32..8,
        consistent in prop::bool::weighted(0.8),
        is_bigendian: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..4_096),
    ) {
        let row_step = width.wrapping_mul(point_step).wrapping_add(padding);
        let wanted = u64::from(row_step) * u64::from(height);
        let mut data = bytes;
        if consistent && wanted <= 8_192 {
            data.resize(wanted as usize, 0x41);
        }
        let cloud = PointCloud2 {
            height,
            width,
            fields,
            is_bigendian,
            point_step,
            row_step,
            data: Bytes::from(data),
            ..Default::default()
        };
        // One detector for all cases: a broken cloud must not spoil the next.
        thread_local! {
            static DETECTOR: std::cell::RefCell<Neural> = std::cell::RefCell::new(detector());
        }
        let answer = DETECTOR.with_borrow_mut(|detector| detector.detect(&cloud));
        for object in answer.into_iter().flatten() {
            let mut numbers = object.center.iter().chain(&object.size).chain([&object.yaw]);
            prop_assert!(numbers.all(|number| number.is_finite()), "{object:?}");
            prop_assert!((0.0..=1.0).contains(&object.score), "{object:?}");
        }
    }
}
