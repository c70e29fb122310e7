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

use lidar_detector::{CHANNELS, Ego, GRID, Ground, Raster};
use lidar_scene::{Class, Profile};
use rand::SeedableRng;
use rand::rngs::StdRng;

mod field;
mod lidar;

use lidar::Turn;

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
    let mut ground = Ground::new();
    let mut raster = Raster::new();
    for index in first..first + count {
        let (turn, ego) = sample(index);
        ground.fit(&turn.points);
        raster.fill(&turn.points, &ground, &ego);
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
fn sample(index: u64) -> (Turn, Ego) {
    let mut random = StdRng::seed_from_u64(index);
    let scene = Profile::Training.scene(index);
    let mount = field::mount(&scene, &mut random);
    let echo = field::echo(&mut random);
    let lidar = field::lidar(&mut random);
    let keep = field::losses(&mut random);
    let mut turn = lidar.turn(&scene, mount, echo, keep);
    field::disturb(&mut turn, &mut random);
    (turn, field::ego(&mut random))
}
