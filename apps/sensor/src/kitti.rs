use bytes::Bytes;
use lidar_messages::{CloudPoint, Datatype, Header, LayoutError, PointCloud2, PointField};
use thiserror::Error;

/// Bytes of a point: x, y, z and reflectance.
const STEP: usize = 16;

/// The farthest that a coordinate may be, in metres: ten times what any lidar measures.
const FARTHEST: f32 = 10_000.0;

/// The largest reflectance: 1 in the KITTI collections, 255 of most sensors, 16 bits of some.
const BRIGHTEST: f32 = 65_535.0;

/// Why bytes are no points as KITTI has them. The format has no mark of its own, so it is known by
/// its values.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum KittiError {
    /// They end inside a point.
    #[error("{len} B are no whole number of points of {STEP} B; the file is cut or no KITTI one")]
    Cut {
        /// Bytes.
        len: usize,
    },
    /// A value that no lidar measures.
    #[error(
        "{name} of the point at byte {offset} is {value}; coordinates are metres up to {FARTHEST}, \
         reflectances 0 to {BRIGHTEST}, so this is no KITTI file"
    )]
    Value {
        /// Which value of the point.
        name: &'static str,
        /// Where the point begins.
        offset: usize,
        /// The value.
        value: f32,
    },
}

const NAMES: [&str; 4] = ["x", "y", "z", "intensity"];

/// Points as KITTI has them: x, y, z in metres and a reflectance, as `float32`, nothing else. The
/// cloud shares the memory of `bytes`.
///
/// # Errors
///
/// If they are no whole points, or a value is none that a lidar measures.
pub fn read_kitti(bytes: Bytes, header: Header) -> Result<PointCloud2, KittiError> {
    let len = bytes.len();
    if !len.is_multiple_of(STEP) {
        return Err(KittiError::Cut { len });
    }
    for (number, value) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let value = f32::from_le_bytes(*value);
        let (point, field) = (number / NAMES.len(), number % NAMES.len());
        let fits = match NAMES[field] {
            "intensity" => (0.0..=BRIGHTEST).contains(&value),
            _ => value.abs() <= FARTHEST,
        };
        if !fits {
            return Err(KittiError::Value {
                name: NAMES[field],
                offset: point * STEP,
                value,
            });
        }
    }
    let fields = NAMES.iter().zip((0..).step_by(4));
    let fields = fields.map(|(name, offset)| PointField {
        name: (*name).into(),
        offset,
        datatype: Datatype::Float32,
        count: 1,
    });
    // A file is far shorter than 4 GiB.
    let size = |value: usize| value as u32;
    Ok(PointCloud2 {
        header,
        height: 1,
        width: size(len / STEP),
        fields: fields.collect(),
        is_bigendian: false,
        point_step: size(STEP),
        row_step: size(len),
        data: bytes,
        is_dense: true,
    })
}

/// The points of a cloud as KITTI has them, with intensities as they are. Points that are no numbers
/// are left out: the format has none, and there they hold the place of what was not measured.
///
/// # Errors
///
/// If the points cannot be read.
pub fn write_kitti(cloud: &PointCloud2) -> Result<Vec<u8>, LayoutError> {
    let points = cloud.points()?;
    let mut bytes = Vec::with_capacity(points.size_hint().0.min(cloud.data.len()) * STEP);
    for CloudPoint { x, y, z, intensity } in points {
        let values = [x, y, z, intensity];
        if values.iter().all(|value| value.is_finite()) {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
    Ok(bytes)
}
