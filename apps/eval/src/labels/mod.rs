//! Labels of recordings, as files have them.

mod json;
mod kitti;

pub use json::{JsonError, read_json};
pub use kitti::{Calibration, KittiError, read_kitti};

use crate::cuboid::Cuboid;

/// The labels of one scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelledScan {
    /// Which scan of the recording it is, from 0.
    pub scan: usize,
    /// What it belongs to; scans of one scene are alike.
    pub scene: String,
    /// What is there, in the sensor frame.
    pub labels: Vec<Label>,
    /// Azimuths between which everything is labelled, in radians from x towards y, the lower one first;
    /// `None`: all around.
    pub sector: Option<[f64; 2]>,
}

/// A labelled object.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// What it is, in the words of the file; [`IGNORE`] for what is not to be judged.
    pub class: String,
    /// Middle of its box in the sensor frame, in metres.
    pub center: [f64; 3],
    /// Length (along the heading), width and height, in metres.
    pub size: [f64; 3],
    /// Heading around z in radians, from x towards y.
    pub yaw: f64,
}

/// Class of objects that may be found or not.
pub const IGNORE: &str = "ignore";

impl LabelledScan {
    /// Whether a place `[x, y]` is where everything is labelled.
    pub fn sees(&self, [x, y]: [f64; 2]) -> bool {
        let azimuth = y.atan2(x);
        self.sector
            .is_none_or(|[from, to]| (from..=to).contains(&azimuth))
    }
}

impl Label {
    /// What is compared of its box.
    pub fn cuboid(&self) -> Cuboid {
        let [x, y, _] = self.center;
        Cuboid {
            center: [x, y],
            size: self.size,
            yaw: self.yaw,
        }
    }

    /// How many of the points, `[x, y, z]` in metres, are in its box.
    pub fn points(&self, points: impl Iterator<Item = [f64; 3]>) -> u32 {
        let (sin, cos) = self.yaw.sin_cos();
        let half = self.size.map(|size| size / 2.0);
        let inside = |point: &[f64; 3]| {
            let [x, y, z]: [f64; 3] = std::array::from_fn(|axis| point[axis] - self.center[axis]);
            let (along, across) = (x * cos + y * sin, y * cos - x * sin);
            along.abs() <= half[0] && across.abs() <= half[1] && z.abs() <= half[2]
        };
        // A cloud has fewer than 2^32 points.
        points.filter(inside).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_counted_in_the_turned_box() {
        let label = Label {
            class: "car".to_owned(),
            center: [10.0, 0.0, 1.0],
            size: [4.0, 2.0, 1.5],
            yaw: std::f64::consts::FRAC_PI_2,
        };
        let points = [
            [10.0, 1.9, 1.0],
            [10.9, 0.0, 1.7],
            [11.9, 0.0, 1.0],
            [10.0, 0.0, 1.8],
            [f64::NAN, 0.0, 1.0],
        ];
        assert_eq!(label.points(points.into_iter()), 2);
    }
}
