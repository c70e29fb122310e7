//! Scores a network on held-out streets: `evaluate SCENES [FILE]`, by default the embedded one.

use std::error::Error;

use lidar_detector::{Class, DEFAULT_THRESHOLD, Detector, Neural};
use lidar_scene::Scene;

mod cloud;
mod lidar;
mod score;

use cloud::cloud;
use lidar::Lidar;
use score::{Rule, Score};

/// Streets that neither training nor the tests use.
const FIRST_SEED: u64 = 10_000;

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
    let mut detector = detector.with_threshold(0.05)?;
    let lidar = Lidar::vlp_32c();
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
    for seed in FIRST_SEED..FIRST_SEED + scenes {
        let turn = lidar.turn(&Scene::street(seed));
        let detections = detector.detect(&cloud(&turn.points))?;
        for (rule, score) in &mut rules {
            score.add(rule, &detections, &turn.objects);
        }
    }
    println!(
        "| objects | number | average precision | threshold | recall | invented a scene | mean error |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (rule, score) in &rules {
        for threshold in [0.2, 0.3, DEFAULT_THRESHOLD, 0.4, 0.5] {
            println!(
                "| {}, < {} m, >= {} points | {} | {:.2} | {threshold} | {:.2} | {:.2} | {:.2} m |",
                rule.class.name(),
                rule.range,
                rule.points,
                score.objects,
                score.average_precision(),
                score.recall(threshold),
                score.invented(threshold) as f32 / scenes as f32,
                score.mean_error(),
            );
        }
    }
    Ok(())
}
