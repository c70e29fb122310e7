//! Turns of simulated sensors through a street.

use lidar_scene::{Scene, TruthBox};
use lidar_sensor::Model;

/// A spinning sensor: its lasers and how often all of them fire in a turn.
pub(crate) struct Lidar {
    lasers: Vec<Laser>,
    firings: u32,
    /// Nothing farther away returns, in metres.
    range: f32,
}

#[derive(Clone, Copy)]
pub(crate) struct Laser {
    /// In degrees.
    pub(crate) elevation: f32,
    pub(crate) azimuth_offset: f32,
    /// What it measures too much, in metres.
    pub(crate) bias: f32,
}

impl Laser {
    fn at(elevation: f32) -> Self {
        Self {
            elevation,
            azimuth_offset: 0.0,
            bias: 0.0,
        }
    }
}

/// Where the sensor is and how it stands there, relative to the scene's frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mount {
    /// In metres.
    pub(crate) origin: [f32; 3],
    /// In radians: a positive pitch looks down, a positive roll leans to the right.
    pub(crate) heading: f32,
    pub(crate) pitch: f32,
    pub(crate) roll: f32,
}

impl Mount {
    /// A direction of the sensor's frame in the scene's.
    fn to_scene(self, [x, y, z]: [f32; 3]) -> [f32; 3] {
        let (sin, cos) = self.roll.sin_cos();
        let (y, z) = (y * cos - z * sin, y * sin + z * cos);
        let (sin, cos) = self.pitch.sin_cos();
        let (x, z) = (x * cos + z * sin, z * cos - x * sin);
        let (sin, cos) = self.heading.sin_cos();
        [x * cos - y * sin, x * sin + y * cos, z]
    }

    /// A place of the scene's frame in the sensor's.
    fn to_sensor(self, place: [f32; 3]) -> [f32; 3] {
        let [x, y, z]: [f32; 3] = std::array::from_fn(|axis| place[axis] - self.origin[axis]);
        let (sin, cos) = self.heading.sin_cos();
        let (x, y) = (x * cos + y * sin, y * cos - x * sin);
        let (sin, cos) = self.pitch.sin_cos();
        let (x, z) = (x * cos - z * sin, z * cos + x * sin);
        let (sin, cos) = self.roll.sin_cos();
        [x, y * cos + z * sin, z * cos - y * sin]
    }
}

#[allow(
    dead_code,
    reason = "the tests and the benchmark fire one pattern only"
)]
impl Lidar {
    /// In its strongest-return mode at 600 rpm: 57,984 rays for a VLP-32C.
    pub(crate) fn of(model: Model) -> Self {
        let geometry = model.geometry();
        let lasers = (0..geometry.lasers).map(|slot| Laser {
            azimuth_offset: f32::from(geometry.azimuth_offset[slot]) / 100.0,
            ..Laser::at(geometry.elevation[slot] as f32)
        });
        Self {
            lasers: lasers.collect(),
            firings: match model {
                Model::Hdl32e => 2_172,
                _ => 1_812,
            },
            range: geometry.range,
        }
    }

    /// `elevations` in degrees, all at the same azimuth.
    pub(crate) fn with_elevations(elevations: impl Iterator<Item = f32>, firings: u32) -> Self {
        Self {
            lasers: elevations.map(Laser::at).collect(),
            firings,
            range: 120.0,
        }
    }

    pub(crate) fn lasers(&mut self) -> &mut [Laser] {
        &mut self.lasers
    }

    /// One turn, without noise: where rays met something, and how many met each labelled object.
    ///
    /// `echo` fires each ray once more, this many degrees beside, as a second return. `keep` decides
    /// which points are reported.
    pub(crate) fn turn(
        &self,
        scene: &Scene,
        mount: Mount,
        echo: Option<f32>,
        mut keep: impl FnMut([f32; 3]) -> bool,
    ) -> Turn {
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
            for laser in &self.lasers {
                let mut last = f32::NAN;
                for beside in std::iter::once(0.0).chain(echo) {
                    // The sensor turns clockwise seen from above.
                    let azimuth = -turned - laser.azimuth_offset - beside;
                    let (sin, cos) = azimuth.to_radians().sin_cos();
                    let (up, flat) = (laser.elevation + beside).to_radians().sin_cos();
                    let direction = [flat * cos, flat * sin, up];
                    let Some(hit) = scene.cast(mount.origin, mount.to_scene(direction)) else {
                        continue;
                    };
                    let range = hit.range + laser.bias;
                    // Returns nearer to one another than this are one.
                    if range > self.range || (range - last).abs() < 0.5 {
                        continue;
                    }
                    last = range;
                    let point = direction.map(|value| value * range);
                    if !keep(point) {
                        continue;
                    }
                    points.push(point);
                    if let Some(target) = hit.target {
                        hits[target as usize] += 1;
                    }
                }
            }
        }
        let objects = truth
            .into_iter()
            .map(|mut object| {
                object.center = mount.to_sensor(object.center);
                object.yaw -= mount.heading;
                (object, hits[object.id as usize])
            })
            .collect();
        Turn { points, objects }
    }
}

/// What one turn saw.
pub(crate) struct Turn {
    /// In the sensor frame, in metres.
    pub(crate) points: Vec<[f32; 3]>,
    /// Every labelled object in the sensor frame, and how many points it has.
    #[allow(dead_code, reason = "the benchmark compares with nothing")]
    pub(crate) objects: Vec<(TruthBox, u32)>,
}
