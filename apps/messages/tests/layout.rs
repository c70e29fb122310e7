//! Clouds of every legal layout.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use lidar_messages::{Datatype, LayoutError, PointCloud2, PointField};
use proptest::prelude::*;

const TYPES: [Datatype; 8] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Float32,
    Datatype::Float64,
];

fn field(name: &'static str, offset: usize, datatype: Datatype) -> PointField {
    PointField {
        name: name.into(),
        offset: offset as u32,
        datatype,
        count: 1,
    }
}

/// The bytes of a number as a writer of this type and byte order has them.
fn written(value: f64, datatype: Datatype, big_endian: bool) -> Vec<u8> {
    let mut bytes = match datatype {
        Datatype::Int8 => (value as i8).to_be_bytes().to_vec(),
        Datatype::Uint8 => (value as u8).to_be_bytes().to_vec(),
        Datatype::Int16 => (value as i16).to_be_bytes().to_vec(),
        Datatype::Uint16 => (value as u16).to_be_bytes().to_vec(),
        Datatype::Int32 => (value as i32).to_be_bytes().to_vec(),
        Datatype::Uint32 => (value as u32).to_be_bytes().to_vec(),
        Datatype::Float32 => (value as f32).to_be_bytes().to_vec(),
        Datatype::Float64 => value.to_be_bytes().to_vec(),
    };
    if !big_endian {
        bytes.reverse();
    }
    bytes
}

/// What a writer puts into a cloud: fields in some order, with gaps, and values.
#[derive(Debug, Clone)]
struct Layout {
    /// Name and type, and unused bytes before it.
    fields: Vec<(&'static str, Datatype, usize)>,
    trailing: usize,
    row_padding: usize,
    big_endian: bool,
    width: usize,
    height: usize,
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let coordinate = || prop::sample::select(vec![Datatype::Float32, Datatype::Float64]);
    let coordinates = (coordinate(), coordinate(), coordinate());
    let any_type = || prop::sample::select(TYPES.to_vec());
    let intensity = proptest::option::of(any_type());
    let others = proptest::collection::vec(
        (prop::sample::select(vec!["ring", "t", "rgb"]), any_type()),
        0..3,
    );
    let fields =
        (coordinates, intensity, others).prop_flat_map(|((x, y, z), intensity, others)| {
            let mut fields = vec![("x", x), ("y", y), ("z", z)];
            fields.extend(intensity.map(|datatype| ("intensity", datatype)));
            fields.extend(others);
            let count = fields.len();
            let gaps = proptest::collection::vec(0..5_usize, count);
            (Just(fields).prop_shuffle(), gaps)
        });
    let fields = fields.prop_map(|(fields, gaps)| {
        let fields = fields.into_iter().zip(gaps);
        fields
            .map(|((name, datatype), gap)| (name, datatype, gap))
            .collect()
    });
    (
        fields,
        0..9_usize,
        0..9_usize,
        any::<bool>(),
        0..6_usize,
        0..4_usize,
    )
        .prop_map(
            |(fields, trailing, row_padding, big_endian, width, height)| Layout {
                fields,
                trailing,
                row_padding,
                big_endian,
                width,
                height,
            },
        )
}

fn cloud(layout: &Layout, values: impl Fn(usize, &str) -> f64) -> PointCloud2 {
    let mut fields = Vec::new();
    let mut offset = 0;
    for &(name, datatype, gap) in &layout.fields {
        offset += gap;
        fields.push(field(name, offset, datatype));
        offset += datatype.size() as usize;
    }
    let mut data = Vec::new();
    for row in 0..layout.height {
        for column in 0..layout.width {
            for &(name, datatype, gap) in &layout.fields {
                data.resize(data.len() + gap, 0xa5);
                let value = values(row * layout.width + column, name);
                data.extend_from_slice(&written(value, datatype, layout.big_endian));
            }
            data.resize(data.len() + layout.trailing, 0x5a);
        }
        data.resize(data.len() + layout.row_padding, 0xff);
    }
    let point_step = offset + layout.trailing;
    PointCloud2 {
        height: layout.height as u32,
        width: layout.width as u32,
        fields,
        is_bigendian: layout.big_endian,
        point_step: point_step as u32,
        row_step: (point_step * layout.width + layout.row_padding) as u32,
        data: data.into(),
        ..PointCloud2::default()
    }
}

proptest! {
    #[test]
    fn points_of_any_legal_layout_are_read_right(layout in any_layout()) {
        // Small whole numbers are the same in every type.
        let values = |point: usize, name: &str| {
            let base = match name {
                "x" => 1,
                "y" => 2,
                "z" => 3,
                "intensity" => 4,
                _ => 99,
            };
            (base + 5 * point) as f64
        };
        let made = cloud(&layout, values);
        let cloud = PointCloud2::decode(made.encode()).unwrap();
        let points: Vec<_> = cloud.points().unwrap().collect();
        prop_assert_eq!(points.len(), layout.width * layout.height);
        let with_intensity = layout.fields.iter().any(|(name, ..)| *name == "intensity");
        for (number, point) in points.iter().enumerate() {
            let expected = |name| values(number, name) as f32;
            prop_assert_eq!([point.x, point.y, point.z], ["x", "y", "z"].map(expected));
            let intensity = if with_intensity { expected("intensity") } else { 0.0 };
            prop_assert_eq!(point.intensity, intensity);
        }
    }
}

/// Fields one after the other, little-endian, one point.
fn simple(fields: &[(&'static str, Datatype)]) -> PointCloud2 {
    let layout = Layout {
        fields: fields
            .iter()
            .map(|&(name, datatype)| (name, datatype, 0))
            .collect(),
        trailing: 0,
        row_padding: 0,
        big_endian: false,
        width: 1,
        height: 1,
    };
    cloud(&layout, |_, name| if name == "y" { f64::NAN } else { -7.0 })
}

#[test]
fn points_that_are_no_numbers_come_as_they_are() {
    for datatype in [Datatype::Float32, Datatype::Float64] {
        let cloud = simple(&["x", "y", "z"].map(|name| (name, datatype)));
        assert!(!cloud.is_dense);
        let point = cloud.points().unwrap().next().unwrap();
        assert!(point.x == -7.0 && point.y.is_nan() && point.intensity == 0.0);
    }
    let mut huge = simple(&["x", "y", "z"].map(|name| (name, Datatype::Float64)));
    let mut data = huge.data.to_vec();
    data[..8].copy_from_slice(&1e300_f64.to_le_bytes());
    huge.data = data.into();
    assert_eq!(huge.points().unwrap().next().unwrap().x, f32::INFINITY);
}

#[test]
fn fields_that_cannot_be_read_are_refused_by_name() {
    let float = Datatype::Float32;
    let error = |fields: &[_]| simple(fields).points().unwrap_err();
    assert_eq!(
        error(&[("x", float), ("y", float)]),
        LayoutError::Missing { name: "z" }
    );
    assert_eq!(
        error(&[("x", float), ("y", float), ("z", float), ("y", float)]),
        LayoutError::Repeated { name: "y" }
    );
    let wrong = error(&[("x", float), ("y", Datatype::Int16), ("z", float)]);
    assert!(wrong.to_string().contains("\"y\" is 1 x Int16"), "{wrong}");
    let mut several = simple(&[
        ("x", float),
        ("y", float),
        ("z", float),
        ("intensity", float),
    ]);
    for (name, at, count) in [("intensity", 3, 0), ("z", 2, 2)] {
        several.fields[at].count = count;
        let error = several.points().unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains(&format!("{count} x")),
            "{error}"
        );
    }
}

#[test]
fn a_cloud_without_points_needs_no_fields() {
    assert_eq!(PointCloud2::default().points().unwrap().count(), 0);
    let decoded = PointCloud2::decode(PointCloud2::default().encode()).unwrap();
    assert_eq!(decoded.points().unwrap().count(), 0);
}
