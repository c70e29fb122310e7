//! Scans and clouds as the points of the page.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use lidar_messages::{Datatype, PointCloud2, VelodyneScan};
use lidar_sensor::{Converter, Point};
use vehicle::DataType;

/// Bytes of a point: `x`, `y`, `z` as `i16`, then intensity and ring as `u8`.
pub(crate) const POINT: usize = 8;

/// The points of a frame, ready for the page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cloud {
    /// [`POINT`] bytes each.
    pub(crate) points: Bytes,
    /// Metres of one unit of a position.
    pub(crate) unit: f32,
    /// One more than the highest ring; 0 if rings are not known.
    pub(crate) rings: u16,
}

/// A payload that holds no points that can be shown, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unreadable(String);

impl Unreadable {
    fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the points of a payload. Points that are not finite, as organised clouds have them where
/// nothing returned, are left out.
pub(crate) fn read(
    converter: &Converter,
    data_type: DataType,
    payload: Bytes,
) -> Result<Cloud, Unreadable> {
    let (mut points, rings_known) = match data_type {
        DataType::Scan => {
            let scan = VelodyneScan::decode(payload).map_err(Unreadable::new)?;
            let mut points = Vec::new();
            converter
                .points(&scan, &mut points)
                .map_err(Unreadable::new)?;
            (points, true)
        }
        DataType::Cloud => {
            let cloud = PointCloud2::decode(payload).map_err(Unreadable::new)?;
            let mut points: Vec<Point> = cloud
                .points()
                .map_err(Unreadable::new)?
                .map(|point| Point {
                    x: point.x,
                    y: point.y,
                    z: point.z,
                    // Saturates; what is not a number becomes 0.
                    intensity: point.intensity as u8,
                    ..Point::default()
                })
                .collect();
            let known = number_rings(&cloud, &mut points);
            (points, known)
        }
    };
    points.retain(|point| point.x.is_finite() && point.y.is_finite() && point.z.is_finite());
    Ok(pack(&points, rings_known))
}

/// Gives the points their rings, if the cloud has any in the way of a Velodyne: a `uint16`.
fn number_rings(cloud: &PointCloud2, points: &mut [Point]) -> bool {
    let ring = |field: &&lidar_messages::PointField| {
        field.name == "ring" && field.datatype == Datatype::Uint16 && field.count == 1
    };
    let Some(field) = cloud.fields.iter().find(ring) else {
        return false;
    };
    let (width, offset) = (cloud.width as usize, field.offset as usize);
    for (n, point) in points.iter_mut().enumerate() {
        let start =
            n / width * cloud.row_step as usize + n % width * cloud.point_step as usize + offset;
        // The layout was checked when the cloud was decoded.
        let Some(&bytes) = cloud.data.get(start..).and_then(<[u8]>::first_chunk) else {
            return false;
        };
        point.ring = match cloud.is_bigendian {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        };
    }
    true
}

fn pack(points: &[Point], rings_known: bool) -> Cloud {
    let reach = |point: &Point| point.x.abs().max(point.y.abs()).max(point.z.abs());
    let farthest = points.iter().map(reach).fold(0.0, f32::max);
    let unit = if farthest > 0.0 {
        farthest / f32::from(i16::MAX)
    } else {
        1.0
    };
    let mut packed = BytesMut::with_capacity(points.len() * POINT);
    let mut rings = 0;
    for point in points {
        for value in [point.x, point.y, point.z] {
            packed.put_i16_le((value / unit).round() as i16);
        }
        packed.put_u8(point.intensity);
        packed.put_u8(u8::try_from(point.ring).unwrap_or(u8::MAX));
        if rings_known {
            rings = rings.max(point.ring.saturating_add(1));
        }
    }
    Cloud {
        points: packed.freeze(),
        unit,
        rings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lidar_sensor::Convention;
    use lidar_sensor::source::SourceSpec;

    fn scan() -> VelodyneScan {
        let spec: SourceSpec = "synthetic:1?turns=1".parse().unwrap();
        let turn = spec.open().unwrap().next_scan().unwrap();
        turn.unwrap().scan
    }

    #[test]
    fn scan_and_cloud_become_the_same_points_to_half_a_unit() {
        let scan = scan();
        let mut converter = Converter::new(Convention::RosCompat);
        let mut exact = Vec::new();
        converter.points(&scan, &mut exact).unwrap();
        let from_scan = read(&converter, DataType::Scan, scan.encode()).unwrap();
        let cloud = converter.convert(&scan).unwrap().encode();
        let from_cloud = read(&converter, DataType::Cloud, cloud).unwrap();
        assert_eq!(from_scan, from_cloud);
        assert_eq!(from_scan.rings, 32);
        assert!(exact.len() > 10_000);
        assert_eq!(from_scan.points.len(), exact.len() * POINT);
        for (point, packed) in exact.iter().zip(from_scan.points.as_chunks::<POINT>().0) {
            let at = |n: usize| f32::from(i16::from_le_bytes([packed[n], packed[n + 1]]));
            for (n, value) in [(0, point.x), (2, point.y), (4, point.z)] {
                let off = (at(n) * from_scan.unit - value).abs();
                assert!(off <= from_scan.unit * 0.51, "{point:?} is off by {off} m");
            }
            assert_eq!([packed[6], packed[7]], [point.intensity, point.ring as u8]);
        }
    }

    #[test]
    fn an_empty_scan_has_no_points_and_points_that_are_not_finite_are_left_out() {
        let converter = Converter::new(Convention::RosCompat);
        let empty = VelodyneScan::default().encode();
        let cloud = read(&converter, DataType::Scan, empty).unwrap();
        assert!(cloud.points.is_empty() && cloud.unit.is_finite());
        let mut organised = Converter::new(Convention::RosCompat)
            .with_layout(lidar_sensor::Layout::Organised)
            .convert(&scan())
            .unwrap();
        let dense = Converter::new(Convention::RosCompat)
            .convert(&scan())
            .unwrap();
        let shown = read(&converter, DataType::Cloud, organised.encode()).unwrap();
        assert_eq!(shown.points.len() / POINT, dense.width as usize);
        // Without rings they are not made up.
        organised.fields.retain(|field| field.name != "ring");
        let shown = read(&converter, DataType::Cloud, organised.encode()).unwrap();
        assert_eq!(shown.rings, 0);
    }

    #[test]
    fn what_is_no_scan_is_said_to_be_none() {
        let converter = Converter::new(Convention::RosCompat);
        for data_type in [DataType::Scan, DataType::Cloud] {
            let error = read(&converter, data_type, Bytes::from_static(b"nonsense"));
            assert!(!error.unwrap_err().to_string().is_empty());
        }
    }
}
