//! Points as a lidar driver publishes them.

use bytes::Bytes;
use lidar_messages::{Datatype, PointCloud2, PointField};

/// Bytes of a point: x, y, z, intensity (float32), ring (uint16), time (float32).
const POINT_STEP: u32 = 22;

pub(crate) fn cloud(points: &[[f32; 3]]) -> PointCloud2 {
    let layout = [
        ("x", 0, Datatype::Float32),
        ("y", 4, Datatype::Float32),
        ("z", 8, Datatype::Float32),
        ("intensity", 12, Datatype::Float32),
        ("ring", 16, Datatype::Uint16),
        ("time", 18, Datatype::Float32),
    ];
    let fields = layout.map(|(name, offset, datatype)| PointField {
        name: name.into(),
        offset,
        datatype,
        count: 1,
    });
    let mut data = Vec::with_capacity(points.len() * POINT_STEP as usize);
    for point in points {
        point
            .iter()
            .for_each(|value| data.extend(value.to_le_bytes()));
        data.extend([0; 10]);
    }
    PointCloud2 {
        height: 1,
        width: points.len() as u32,
        fields: fields.to_vec(),
        point_step: POINT_STEP,
        row_step: data.len() as u32,
        data: Bytes::from(data),
        is_dense: points.iter().flatten().all(|value| value.is_finite()),
        ..Default::default()
    }
}
