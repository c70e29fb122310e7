//! The parts of `geometry_msgs` an object list is made of. Metres, right-handed, z up.

use crate::{
    DecodeError,
    wire::{Reader, Writer},
};

/// `geometry_msgs/Point` in metres.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Forward.
    pub x: f64,
    /// To the left.
    pub y: f64,
    /// Up.
    pub z: f64,
}

impl Point {
    pub(crate) const LEN: usize = 3 * 8;

    pub(crate) fn read(reader: &mut Reader, field: &'static str) -> Result<Self, DecodeError> {
        let [x, y, z] = reader.f64s(field)?;
        Ok(Self { x, y, z })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.f64s(&[self.x, self.y, self.z]);
    }
}

/// `geometry_msgs/Vector3`; as the size of a box its length, width and height in metres.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Vector3 {
    /// Along x.
    pub x: f64,
    /// Along y.
    pub y: f64,
    /// Along z.
    pub z: f64,
}

impl Vector3 {
    pub(crate) const LEN: usize = 3 * 8;

    pub(crate) fn read(reader: &mut Reader, field: &'static str) -> Result<Self, DecodeError> {
        let [x, y, z] = reader.f64s(field)?;
        Ok(Self { x, y, z })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.f64s(&[self.x, self.y, self.z]);
    }
}

/// `geometry_msgs/Quaternion`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quaternion {
    /// Imaginary part i.
    pub x: f64,
    /// Imaginary part j.
    pub y: f64,
    /// Imaginary part k.
    pub z: f64,
    /// Real part.
    pub w: f64,
}

impl Default for Quaternion {
    /// No rotation.
    fn default() -> Self {
        Self {
            x: 0.0,
            y: 0.0,
            z: 0.0,
            w: 1.0,
        }
    }
}

impl Quaternion {
    /// The rotation by `yaw` radians about the z axis, counter-clockwise seen from above.
    pub fn from_yaw(yaw: f64) -> Self {
        let (z, w) = (yaw / 2.0).sin_cos();
        Self {
            x: 0.0,
            y: 0.0,
            z,
            w,
        }
    }

    /// The rotation about the z axis in radians, in -pi to pi.
    pub fn yaw(self) -> f64 {
        let Self { x, y, z, w } = self;
        (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z))
    }
}

/// `geometry_msgs/Pose`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pose {
    /// Where.
    pub position: Point,
    /// Turned how.
    pub orientation: Quaternion,
}

impl Pose {
    pub(crate) const LEN: usize = 7 * 8;

    pub(crate) fn read(reader: &mut Reader, field: &'static str) -> Result<Self, DecodeError> {
        let [px, py, pz, x, y, z, w] = reader.f64s(field)?;
        Ok(Self {
            position: Point {
                x: px,
                y: py,
                z: pz,
            },
            orientation: Quaternion { x, y, z, w },
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let Self {
            position: p,
            orientation: o,
        } = self;
        writer.f64s(&[p.x, p.y, p.z, o.x, o.y, o.z, o.w]);
    }
}

/// `geometry_msgs/PoseWithCovariance`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoseWithCovariance {
    /// The mean.
    pub pose: Pose,
    /// Row-major 6 x 6 covariance of x, y, z and the rotations about them; zero if unknown.
    pub covariance: [f64; 36],
}

impl Default for PoseWithCovariance {
    fn default() -> Self {
        Self {
            pose: Pose::default(),
            covariance: [0.0; 36],
        }
    }
}
