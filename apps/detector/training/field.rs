//! Sensors, mounts and disturbances as the field has them.

use std::f32::consts::{PI, TAU};

use lidar_detector::Ego;
use lidar_scene::Scene;
use lidar_sensor::Model;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::lidar::{Lidar, Mount, Turn};

/// Standard normal, nearly: three uniforms.
fn normal(random: &mut StdRng) -> f32 {
    (0..3).map(|_| random.random_range(-1.0_f32..1.0)).sum()
}

/// A VLP-32C in nearly half of all samples; the others see to it that the network does not learn
/// this one's pattern.
pub(crate) fn lidar(random: &mut StdRng) -> Lidar {
    let mut lidar = match random.random_range(0..100) {
        0..45 => Lidar::of(Model::Vlp32c),
        45..57 => Lidar::of(Model::Hdl32e),
        57..66 => Lidar::of(Model::Vlp16),
        66..76 => {
            // Two blocks of 32 with different gaps, as an HDL-64E.
            let upper = (0..32).map(|laser| 2.0 - laser as f32 / 3.0);
            let lower = (0..32).map(|laser| -8.83 - laser as f32 / 2.0);
            Lidar::with_elevations(upper.chain(lower), random.random_range(900..2_000))
        }
        76..84 => {
            // Equal gaps, as an OS-1 or OS-2.
            let lasers = [32_u32, 64][random.random_range(0..2)];
            let half: f32 = [11.25, 16.6, 22.5][random.random_range(0..3)];
            let gap = 2.0 * half / (lasers - 1) as f32;
            Lidar::with_elevations((0..lasers).map(|laser| laser as f32 * gap - half), 1_024)
        }
        _ => uneven(random),
    };
    let (skew, bias) = (
        random.random_range(0.0..0.08),
        random.random_range(0.0..0.03),
    );
    for laser in lidar.lasers() {
        laser.elevation += skew * normal(random);
        laser.bias += bias * normal(random);
    }
    lidar
}

/// Denser near the horizon, as a Pandar.
fn uneven(random: &mut StdRng) -> Lidar {
    let lasers = random.random_range(20..80_u32);
    let lowest: f32 = random.random_range(-30.0..-15.0);
    let highest: f32 = random.random_range(2.0..16.0);
    let bend: f32 = random.random_range(0.8..2.0);
    let elevation = |laser: u32| {
        let share = laser as f32 / (lasers - 1) as f32 * 2.0 - 1.0;
        let bent = share.abs().powf(bend);
        let end = if share < 0.0 { lowest } else { highest };
        bent * (end + 2.0) - 2.0
    };
    let elevations: Vec<f32> = (0..lasers).map(elevation).collect();
    Lidar::with_elevations(elevations.into_iter(), random.random_range(900..2_000))
}

/// Any heading, a tilt of a few degrees, and in one of three samples another place than the scene's
/// own vehicle.
pub(crate) fn mount(scene: &Scene, random: &mut StdRng) -> Mount {
    let tilt = if random.random_bool(0.2) { 0.08 } else { 0.025 };
    let mut mount = Mount {
        heading: random.random_range(-PI..PI),
        pitch: random.random_range(-tilt..tilt),
        roll: random.random_range(-tilt..tilt),
        ..Mount::default()
    };
    if random.random_bool(0.35) {
        let (x, y) = (
            random.random_range(-25.0..25.0),
            random.random_range(-9.0..9.0),
        );
        let ground = scene
            .cast([x, y, 6.0], [0.0, 0.0, -1.0])
            .map(|hit| 6.0 - hit.range)
            .filter(|height| (height + scene.mount_height()).abs() < 1.3);
        let crowded = scene.truth().iter().any(|object| {
            let [ox, oy, _] = object.center;
            (ox - x).hypot(oy - y) < 1.2 + object.size[0] / 2.0
        });
        if let Some(ground) = ground.filter(|_| !crowded) {
            mount.origin = [x, y, ground + scene.mount_height()];
        }
    }
    mount
}

/// Degrees between two returns of a pulse, if the sensor reports both.
pub(crate) fn echo(random: &mut StdRng) -> Option<f32> {
    random
        .random_bool(0.08)
        .then(|| random.random_range(0.05..0.3))
}

/// The vehicle's box: a car's, none, or that of any robot, van or lorry.
pub(crate) fn ego(random: &mut StdRng) -> Ego {
    match random.random_range(0..4) {
        0 | 1 => Ego::default(),
        2 => Ego::NONE,
        _ => {
            let (long, wide) = (random.random_range(0.3..4.0), random.random_range(0.3..1.4));
            Ego {
                x: [-long, long],
                y: [-wide, wide],
            }
        }
    }
}

/// Loses points anywhere, and in one of five samples a whole sector.
pub(crate) fn losses(random: &mut StdRng) -> impl FnMut([f32; 3]) -> bool {
    let lost = random.random_range(0.0_f64..0.35);
    let from: f32 = random.random_range(-PI..PI);
    let width: f32 = if random.random_bool(0.2) {
        random.random_range(0.3..PI)
    } else {
        0.0
    };
    let mut chance = StdRng::from_rng(random);
    move |[x, y, _]| (y.atan2(x) - from).rem_euclid(TAU) >= width && !chance.random_bool(lost)
}

/// Noise, rain, hills.
pub(crate) fn disturb(turn: &mut Turn, random: &mut StdRng) {
    let noise = random.random_range(0.0..0.035);
    for point in &mut turn.points {
        let range = point.iter().map(|value| value * value).sum::<f32>().sqrt();
        let error = noise * normal(random);
        *point = point.map(|value| value * (1.0 + error / range));
    }
    if random.random_bool(0.1) {
        for _ in 0..random.random_range(20..1_200) {
            let range = -5.0 * random.random_range(1e-4..1.0_f32).ln();
            let azimuth: f32 = random.random_range(-PI..PI);
            let up = random.random_range(-0.3..0.2);
            turn.points
                .push([range * azimuth.cos(), range * azimuth.sin(), range * up]);
        }
    }
    if random.random_bool(0.6) {
        hills(turn, random);
    }
}

/// Lifts and lowers everything, flat around the sensor.
fn hills(turn: &mut Turn, random: &mut StdRng) {
    let swell: f32 = random.random_range(0.0..1.0_f32).powi(2) * 0.8;
    let wave: [f32; 2] = std::array::from_fn(|_| random.random_range(-0.1..0.1));
    let cross: [f32; 2] = std::array::from_fn(|_| random.random_range(-0.06..0.06));
    let phase: [f32; 2] = std::array::from_fn(|_| random.random_range(-PI..PI));
    let lift = |[x, y, z]: [f32; 3]| {
        let fade = ((x * x + y * y) / 900.0).min(1.0);
        let first = (x * wave[0] + y * wave[1] + phase[0]).sin();
        let second = (x * cross[0] + y * cross[1] + phase[1]).sin();
        [x, y, z + swell * fade * (first + second)]
    };
    for point in &mut turn.points {
        *point = lift(*point);
    }
    for (object, _) in &mut turn.objects {
        object.center = lift(object.center);
    }
}
