use std::f64::consts::{PI, TAU};

/// An upright box, by what is compared of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cuboid {
    /// Middle seen from above, `[x, y]` in metres.
    pub center: [f64; 2],
    /// Length (along the heading), width and height, in metres.
    pub size: [f64; 3],
    /// Heading in radians, from x towards y.
    pub yaw: f64,
}

impl Cuboid {
    /// Between the middles seen from above, in metres.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let [x, y] = self.center;
        (x - other.center[0]).hypot(y - other.center[1])
    }

    /// From the sensor to the middle seen from above, in metres.
    pub(crate) fn range(&self) -> f64 {
        self.center[0].hypot(self.center[1])
    }

    /// 1 less the intersection over union of both boxes laid onto each other.
    pub(crate) fn scale_error(&self, other: &Self) -> f64 {
        let volume = |size: [f64; 3]| size.iter().product::<f64>();
        let least = std::array::from_fn(|axis| self.size[axis].min(other.size[axis]));
        let common = volume(least);
        1.0 - common / (volume(self.size) + volume(other.size) - common)
    }

    /// The smaller angle between the headings, 0 to pi.
    pub(crate) fn orientation_error(&self, other: &Self) -> f64 {
        ((self.yaw - other.yaw + PI).rem_euclid(TAU) - PI).abs()
    }
}
