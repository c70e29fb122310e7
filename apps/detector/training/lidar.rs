//! Turns of simulated sensors through a street.

use lidar_scene::{Scene, TruthBox};

/// Elevation and azimuth offset of each laser of a VLP-32C in degrees, from its user manual.
const VLP_32C: [[f32; 2]; 32] = [
    [-25.0, 1.4],
    [-1.0, -4.2],
    [-1.667, 1.4],
    [-15.639, -1.4],
    [-11.31, 1.4],
    [0.0, -1.4],
    [-0.667, 4.2],
    [-8.843, -1.4],
    [-7.254, 1.4],
    [0.333, -4.2],
    [-0.333, 1.4],
    [-6.148, -1.4],
    [-5.333, 4.2],
    [1.333, -1.4],
    [0.667, 4.2],
    [-4.0, -1.4],
    [-4.667, 1.4],
    [1.667, -4.2],
    [1.0, 1.4],
    [-3.667, -4.2],
    [-3.333, 4.2],
    [3.333, -1.4],
    [2.333, 1.4],
    [-2.667, -1.4],
    [-3.0, 1.4],
    [7.0, -1.4],
    [4.667, 1.4],
    [-2.333, -4.2],
    [-2.0, 4.2],
    [15.0, -1.4],
    [10.333, 1.4],
    [-1.333, -1.4],
];

/// A spinning sensor: its lasers and how often all of them fire in a turn.
pub(crate) struct Lidar {
    lasers: Vec<[f32; 2]>,
    firings: u32,
}

impl Lidar {
    /// 32 lasers at 600 rpm: 57,984 rays.
    pub(crate) fn vlp_32c() -> Self {
        Self {
            lasers: VLP_32C.to_vec(),
            firings: 1_812,
        }
    }

    /// `elevations` in degrees, all at the same azimuth.
    #[allow(dead_code, reason = "only the data generator fires other patterns")]
    pub(crate) fn with_elevations(elevations: impl Iterator<Item = f32>, firings: u32) -> Self {
        Self {
            lasers: elevations.map(|elevation| [elevation, 0.0]).collect(),
            firings,
        }
    }

    /// One turn, without noise: where rays met something, and how many met each labelled object.
    pub(crate) fn turn(&self, scene: &Scene) -> Turn {
        let truth = scene.truth();
        let ids = truth
            .iter()
            .map(|object| object.id as usize + 1)
            .max()
            .unwrap_or(0);
        let mut hits = vec![0; ids];
        let mut points = Vec::with_capacity(self.lasers.len() * self.firings as usize);
        for firing in 0..self.firings {
            let turned = firing as f32 / self.firings as f32 * 360.0;
            for &[elevation, offset] in &self.lasers {
                // The sensor turns clockwise seen from above.
                let (sin, cos) = (-turned - offset).to_radians().sin_cos();
                let (up, flat) = elevation.to_radians().sin_cos();
                let direction = [flat * cos, flat * sin, up];
                let Some(hit) = scene.cast([0.0; 3], direction) else {
                    continue;
                };
                points.push(direction.map(|value| value * hit.range));
                if let Some(target) = hit.target {
                    hits[target as usize] += 1;
                }
            }
        }
        let objects = truth
            .into_iter()
            .map(|object| (object, hits[object.id as usize]))
            .collect();
        Turn { points, objects }
    }
}

/// What one turn saw.
pub(crate) struct Turn {
    /// In the sensor frame, in metres.
    pub(crate) points: Vec<[f32; 3]>,
    /// Every labelled object and how many points it has.
    #[allow(dead_code, reason = "the benchmark compares with nothing")]
    pub(crate) objects: Vec<(TruthBox, u32)>,
}
