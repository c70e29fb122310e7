//! Writes training samples: `dataset FIRST COUNT FILE` makes the samples FIRST to FIRST + COUNT.
//!
//! Each is a street of its own, seen by a sensor of its own, rasterised by the crate itself so that
//! training and inference see the same features. Little-endian, one after the other:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `n`, number of occupied cells |
//! | 4 | `m`, number of boxes |
//! | 2 n | cell indices |
//! | 15 x 2 n | channels 0 to 14 of those cells, times 8192, as i16 |
//! | 36 m | boxes: x, y, z above ground, length, width, height, yaw, class, points |

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use lidar_detector::{CHANNELS, GRID, Plane, Raster};
use lidar_scene::{Class, Street};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

mod lidar;

use lidar::{Lidar, Turn};

/// Streets below this seed are for tests and evaluation.
const FIRST_TRAINING_SEED: u64 = 1_000_000;

/// Fixed point of the stored features.
const SCALE: f32 = 8_192.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match arguments.as_slice() {
        [first, count, file] => first
            .parse()
            .ok()
            .zip(count.parse().ok())
            .map(|n| (n, file)),
        _ => None,
    };
    let Some(((first, count), file)) = parsed else {
        eprintln!("usage: dataset FIRST COUNT FILE");
        return ExitCode::FAILURE;
    };
    match write(first, count, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(first: u64, count: u64, file: &str) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut raster = Raster::new();
    for index in first..first + count {
        let turn = sample(FIRST_TRAINING_SEED + index);
        let ground = Plane::fit(&turn.points);
        raster.fill(&turn.points, &ground);
        let boxes: Vec<[f32; 9]> = turn
            .objects
            .iter()
            .filter(|&&(_, points)| points > 0)
            .map(|&(object, points)| {
                let [x, y, z] = object.center;
                let [length, width, height] = object.size;
                let class = match object.class {
                    Class::Car => 0.0,
                    Class::Truck => 1.0,
                    Class::Pedestrian => 2.0,
                    Class::Cyclist => 3.0,
                };
                let up = z - ground.height(x, y);
                [
                    x,
                    y,
                    up,
                    length,
                    width,
                    height,
                    object.yaw,
                    class,
                    points as f32,
                ]
            })
            .collect();
        out.write_all(&(raster.occupied().len() as u32).to_le_bytes())?;
        out.write_all(&(boxes.len() as u32).to_le_bytes())?;
        for &cell in raster.occupied() {
            out.write_all(&(cell as u16).to_le_bytes())?;
        }
        for channel in 0..CHANNELS - 1 {
            for &cell in raster.occupied() {
                let value = raster.features()[channel * GRID * GRID + cell as usize];
                out.write_all(&((value * SCALE).round() as i16).to_le_bytes())?;
            }
        }
        for value in boxes.iter().flatten() {
            out.write_all(&value.to_le_bytes())?;
        }
    }
    out.flush()
}

/// A random street seen by a random sensor in a random pose.
fn sample(seed: u64) -> Turn {
    let mut random = StdRng::seed_from_u64(seed);
    let street = Street {
        mount_height: random.random_range(1.4..2.4),
        slope: [
            random.random_range(-0.03..0.03),
            random.random_range(-0.03..0.03),
        ],
        built_up: random.random_range(0.1..1.0),
        traffic: random.random_range(0.2..1.0),
        parked: random.random_range(0.0..1.0),
        people: random.random_range(0.2..1.0),
        clutter: random.random_range(0.2..1.0),
    };
    let mut scene = street.build(seed);
    scene.advance(random.random_range(0.0..20.0));
    let mut turn = lidar(&mut random).turn(&scene);
    disturb(&mut turn, &mut random);
    turn
}

/// Mostly a VLP-32C; sometimes another pattern, so that the network does not learn this one's.
fn lidar(random: &mut StdRng) -> Lidar {
    if random.random_bool(0.75) {
        return Lidar::vlp_32c();
    }
    let lasers = random.random_range(24..64_u32);
    let (lowest, highest) = (
        random.random_range(-30.0..-18.0),
        random.random_range(2.0..15.0),
    );
    // Denser near the horizon.
    let bend: f32 = random.random_range(0.8..2.0);
    let elevation = move |laser: u32| {
        let share = laser as f32 / (lasers - 1) as f32 * 2.0 - 1.0;
        let bent = share.abs().powf(bend);
        if share < 0.0 {
            bent * (lowest + 2.0) - 2.0
        } else {
            bent * (highest + 2.0) - 2.0
        }
    };
    Lidar::with_elevations((0..lasers).map(elevation), random.random_range(900..2_000))
}

/// Noise, lost points, an undulating ground, a tilted and turned sensor.
fn disturb(turn: &mut Turn, random: &mut StdRng) {
    let noise: f32 = random.random_range(0.0..0.03);
    let lost = random.random_range(0.0_f64..0.35);
    turn.points.retain(|_| !random.random_bool(lost));

    let swell = if random.random_bool(0.5) {
        random.random_range(0.0..0.2)
    } else {
        0.0
    };
    let [wave_x, wave_y]: [f32; 2] = [
        random.random_range(0.02..0.1),
        random.random_range(0.02..0.1),
    ];
    let phase: f32 = random.random_range(0.0..std::f32::consts::TAU);
    let undulation = |x: f32, y: f32| {
        let fade = ((x * x + y * y) / 900.0).min(1.0);
        swell * fade * ((x * wave_x + phase).sin() + (y * wave_y + 2.0 * phase).sin())
    };

    let heading: f32 = random.random_range(-std::f32::consts::PI..std::f32::consts::PI);
    let (sin, cos) = heading.sin_cos();
    // Small angles: a tilt adds height along x and y.
    let tilt: [f32; 2] = [
        random.random_range(-0.02..0.02),
        random.random_range(-0.02..0.02),
    ];
    let pose = |[x, y, z]: [f32; 3]| {
        let z = z + undulation(x, y);
        let (x, y) = (x * cos - y * sin, x * sin + y * cos);
        [x, y, z + tilt[0] * x + tilt[1] * y]
    };
    for point in &mut turn.points {
        let range = point.iter().map(|value| value * value).sum::<f32>().sqrt();
        // Three uniforms are nearly normal, with deviation 1.
        let error: f32 = (0..3).map(|_| random.random_range(-1.0_f32..1.0)).sum();
        *point = pose(point.map(|value| value * (1.0 + noise * error / range)));
    }
    for (object, _) in &mut turn.objects {
        object.center = pose(object.center);
        object.yaw += heading;
    }
}
