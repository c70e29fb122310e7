//! Draws what the detector sees, from above, as PNG.
//!
//! `picture FILE.png scene INDEX [HDL-32E|VLP-16|VLP-32C]`: a held-out street; true boxes of at least 5
//! points in grey below the found ones. `picture FILE.png pcd CLOUD.pcd`: a recording.
//!
//! Points are brighter the higher they are. Cars are orange, lorries and buses red, pedestrians green,
//! cyclists blue; the line in a box shows its front. The sensor is in the middle, x to the right, y up.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use bytes::Bytes;
use lidar_detector::{Class, DEFAULT_THREADS, Detector, Neural};
use lidar_messages::{Header, PointCloud2};
use lidar_scene::Profile;
use lidar_sensor::{Model, read_pcd};

mod cloud;
mod lidar;

use lidar::{Lidar, Mount};

/// Metres from the middle to an edge.
const REACH: f32 = 45.0;
/// Pixels along an edge.
const EDGE: usize = 900;

/// Background, 12 heights of points, truth, and the classes.
const PALETTE: [[u8; 3]; 18] = [
    [16, 18, 24],
    [40, 46, 60],
    [48, 56, 72],
    [58, 66, 84],
    [70, 78, 96],
    [84, 92, 108],
    [100, 108, 122],
    [116, 124, 136],
    [134, 140, 150],
    [152, 156, 164],
    [172, 176, 182],
    [194, 196, 200],
    [220, 222, 224],
    [120, 120, 120],
    [255, 160, 40],
    [240, 70, 70],
    [80, 220, 110],
    [80, 160, 255],
];
const TRUTH: u8 = 13;

struct Canvas {
    pixels: Vec<u8>,
}

impl Canvas {
    fn dot(&mut self, [x, y]: [f32; 2], color: u8) {
        let at = |value: f32| ((value + REACH) / (2.0 * REACH) * EDGE as f32) as usize;
        if x.abs() < REACH && y.abs() < REACH {
            let (column, row) = (at(x).min(EDGE - 1), at(-y).min(EDGE - 1));
            let pixel = &mut self.pixels[row * EDGE + column];
            *pixel = color.max(*pixel);
        }
    }

    fn line(&mut self, from: [f32; 2], to: [f32; 2], color: u8) {
        for step in 0..=400 {
            let share = step as f32 / 400.0;
            let [x, y] = std::array::from_fn(|axis| from[axis] + share * (to[axis] - from[axis]));
            self.dot([x, y], color);
        }
    }

    fn outline(&mut self, [x, y, _]: [f32; 3], [length, width, _]: [f32; 3], yaw: f32, color: u8) {
        let (sin, cos) = yaw.sin_cos();
        let place = |along: f32, across: f32| {
            let (along, across) = (along * length / 2.0, across * width / 2.0);
            [
                x + along * cos - across * sin,
                y + along * sin + across * cos,
            ]
        };
        let corners =
            [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]].map(|[a, b]| place(a, b));
        for index in 0..4 {
            self.line(corners[index], corners[(index + 1) % 4], color);
        }
        self.line(place(0.0, 0.0), place(1.0, 0.0), color);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (file, cloud, truth) = match arguments[..] {
        [file, "scene", index] => scene(file, index, Model::Vlp32c)?,
        [file, "scene", index, model] => scene(file, index, model.parse()?)?,
        [file, "pcd", path] => {
            let bytes = Bytes::from(std::fs::read(path)?);
            (file, read_pcd(&bytes, Header::default())?, Vec::new())
        }
        _ => return Err("usage: picture FILE.png scene INDEX [MODEL] | pcd CLOUD.pcd".into()),
    };
    let found = Neural::embedded(DEFAULT_THREADS)?.detect(&cloud)?;
    let mut canvas = Canvas {
        pixels: vec![0; EDGE * EDGE],
    };
    for point in cloud.points()? {
        let level = ((point.z + 2.5) / 4.0 * 11.0).clamp(0.0, 11.0) as u8;
        canvas.dot([point.x, point.y], 1 + level);
    }
    for (object, _) in truth.iter().filter(|(_, points)| *points >= 5) {
        canvas.outline(object.center, object.size, object.yaw, TRUTH);
    }
    for one in &found {
        let place = Class::ALL.iter().position(|class| *class == one.class);
        let color = TRUTH + 1 + place.unwrap_or(0) as u8;
        canvas.outline(one.center, one.size, one.yaw, color);
        let ([x, y, _], [l, w, h]) = (one.center, one.size);
        let name = one.class.name();
        println!(
            "{name:10} {:.2} at {x:6.1} {y:6.1}, {l:.1} x {w:.1} x {h:.1} m",
            one.score
        );
    }
    write(file, &canvas.pixels)
}

type Input<'a> = (&'a str, PointCloud2, Vec<(lidar_scene::TruthBox, u32)>);

fn scene<'a>(file: &'a str, index: &str, model: Model) -> Result<Input<'a>, Box<dyn Error>> {
    let street = Profile::HeldOut.scene(index.parse()?);
    let turn = Lidar::of(model).turn(&street, Mount::default(), None, |_| true);
    Ok((file, cloud::cloud(&turn.points), turn.objects))
}

fn write(file: &str, pixels: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut encoder = png::Encoder::new(
        BufWriter::new(File::create(file)?),
        EDGE as u32,
        EDGE as u32,
    );
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(PALETTE.as_flattened());
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(())
}
