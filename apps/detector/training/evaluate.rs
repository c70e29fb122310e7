//! Scores a network on held-out streets: `evaluate SCENES [FILE]`, by default the embedded one.

use std::error::Error;

use lidar_detector::{Class, DEFAULT_THRESHOLD, Detector, Neural};
use lidar_scene::Profile;
use lidar_sensor::Model;

mod cloud;
mod lidar;
mod score;

use cloud::cloud;
use lidar::{Lidar, Mount};
use score::{Rule, Score};

const THRESHOLDS: [f32; 4] = [0.2, 0.3, DEFAULT_THRESHOLD, 0.5];
/// Lower scores are not looked at.
const LEAST_SCORE: f32 = 0.05;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (scenes, file) = match arguments.as_slice() {
        [scenes] => (scenes.parse::<u64>()?, None),
        [scenes, file] => (scenes.parse()?, Some(file)),
        _ => return Err("usage: evaluate SCENES [FILE]".into()),
    };
    let detector = match file {
        Some(file) => Neural::load(std::fs::read(file)?, 1)?,
        None => Neural::embedded(1)?,
    };
    let mut detector = detector.with_threshold(LEAST_SCORE)?;
    let lidar = Lidar::of(Model::Vlp32c);
    let mut rules = Vec::new();
    for class in Class::ALL {
        for (range, points) in [(40.0, 10), (50.0, 5)] {
            rules.push((
                Rule {
                    class,
                    range,
                    points,
                },
                Score::default(),
            ));
        }
    }
    for index in 0..scenes {
        let turn = lidar.turn(
            &Profile::HeldOut.scene(index),
            Mount::default(),
            None,
            |_| true,
        );
        let detections = detector.detect(&cloud(&turn.points))?;
        for (rule, score) in &mut rules {
            score.add(rule, &detections, &turn.objects);
        }
    }
    println!("Recall / invented objects a scene at score thresholds:\n");
    print!("| objects | number | average precision | mean error |");
    THRESHOLDS
        .iter()
        .for_each(|threshold| print!(" {threshold} |"));
    println!("\n|---|---|---|---|{}", "---|".repeat(THRESHOLDS.len()));
    for (
        Rule {
            class,
            range,
            points,
        },
        score,
    ) in &rules
    {
        let name = class.name();
        print!(
            "| {name}, < {range} m, >= {points} points | {} ",
            score.objects
        );
        print!(
            "| {:.2} | {:.2} m |",
            score.average_precision(),
            score.mean_error()
        );
        for threshold in THRESHOLDS {
            let invented = score.invented(threshold) as f32 / scenes as f32;
            print!(" {:.2} / {invented:.2} |", score.recall(threshold));
        }
        println!();
    }
    Ok(())
}
