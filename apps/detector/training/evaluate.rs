//! Scores a network by the nuScenes definition: `evaluate SCENES [FILE]` on so many held-out streets
//! seen by several sensors from several mounts, the embedded network by default.
//!
//! `evaluate thresholds SCENES FILE` prints for each class the score from which on it invents its share
//! of the allowed objects on the validation streets.

use std::error::Error;

use lidar_detector::{Class, DEFAULT_THRESHOLD, Detector, Neural};
use lidar_eval::{DISTANCES, Evaluation, Settings, Tally};
use lidar_scene::Profile;
use lidar_sensor::Model;

mod cloud;
mod judge;
mod lidar;

use cloud::cloud;
use judge::{findings, objects};
use lidar::{Lidar, Mount};

/// Lower scores are not looked at.
const LEAST_SCORE: f32 = 0.02;

/// Objects a scan that may be invented, class by class: 0.22 in all, so that 0.3 hold elsewhere too.
const INVENTED: [f64; 4] = [0.07, 0.03, 0.06, 0.06];

struct View {
    name: &'static str,
    model: Model,
    mount: Mount,
}

/// The sensor that counts first, then others, and others' places.
fn views() -> [View; 6] {
    let view = |name, model| View {
        name,
        model,
        mount: Mount::default(),
    };
    let raised = |up| Mount {
        origin: [0.0, 0.0, up],
        ..Mount::default()
    };
    let tilted = Mount {
        pitch: 0.07,
        roll: -0.03,
        heading: 0.6,
        ..Mount::default()
    };
    let moved = |name, mount| View {
        mount,
        ..view(name, Model::Vlp32c)
    };
    [
        view("VLP-32C", Model::Vlp32c),
        view("HDL-32E", Model::Hdl32e),
        view("VLP-16", Model::Vlp16),
        moved("VLP-32C, 1.2 m lower", raised(-1.2)),
        moved("VLP-32C, 1 m higher", raised(1.0)),
        moved("VLP-32C, tilted by 4 and 2 degrees", tilted),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["thresholds", scenes, file] => thresholds(scenes.parse()?, file),
        [scenes] => evaluate(scenes.parse()?, Neural::embedded(1)?),
        [scenes, file] => evaluate(scenes.parse()?, Neural::load(std::fs::read(file)?, 1)?),
        _ => Err("usage: evaluate [thresholds] SCENES [FILE]".into()),
    }
}

fn evaluate(scenes: u32, detector: Neural) -> Result<(), Box<dyn Error>> {
    let mut detector = detector.with_threshold(LEAST_SCORE)?;
    println!(
        "| sensor | class | objects | AP at 0.5 m | 1 m | 2 m | 4 m | recall | invented a scan |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (index, View { name, model, mount }) in views().into_iter().enumerate() {
        let settings = Settings {
            points: judge::POINTS,
            threshold: DEFAULT_THRESHOLD.into(),
            resamples: if index == 0 { 1_000 } else { 0 },
            ..Settings::default()
        };
        let mut evaluation = Evaluation::new(Class::ALL.to_vec(), settings);
        let lidar = Lidar::of(model);
        // The first view is the one that counts.
        let scenes = if index == 0 {
            scenes
        } else {
            scenes.div_ceil(3)
        };
        for scene in 0..scenes {
            let street = Profile::HeldOut.scene(scene.into());
            let turn = lidar.turn(&street, mount, None, |_| true);
            let found = detector.detect(&cloud(&turn.points))?;
            evaluation.add(scene, &objects(&turn.objects), &findings(&found));
        }
        let report = evaluation.report();
        for class in &report.classes {
            let whole = &class.whole;
            print!("| {name} | {} | {} |", class.class.name(), whole.objects);
            for place in 0..DISTANCES.len() {
                let precision = whole.average_precision.as_ref().map(|all| all[place].value);
                print!(" {:.3} |", precision.unwrap_or(f64::NAN));
            }
            let recall = whole.recall.unwrap_or(f64::NAN);
            println!(" {recall:.2} | {:.2} |", whole.invented.value);
        }
        println!(
            "| {name} | all | | | | | | | {:.2} |",
            report.invented.value
        );
    }
    Ok(())
}

fn thresholds(scenes: u32, file: &str) -> Result<(), Box<dyn Error>> {
    let mut detector = Neural::load(std::fs::read(file)?, 1)?.with_threshold(LEAST_SCORE)?;
    let range = Settings::default().range;
    let mut tallies = Class::ALL.map(|_| Tally::new(DISTANCES[lidar_eval::MATCHED]));
    let lidar = Lidar::of(Model::Vlp32c);
    for scene in 0..scenes {
        let street = Profile::Validation.scene(scene.into());
        let turn = lidar.turn(&street, Mount::default(), None, |_| true);
        let found = findings(&detector.detect(&cloud(&turn.points))?);
        let truth = objects(&turn.objects);
        for (class, tally) in Class::ALL.into_iter().zip(&mut tallies) {
            tally.add(scene, &judge::frame(class, range, &truth, &found));
        }
    }
    for (tally, allowed) in tallies.iter().zip(INVENTED) {
        let allowed = (allowed * f64::from(scenes)) as u64;
        let threshold = (1..1_000)
            .map(|step| f64::from(step) / 1_000.0)
            .find(|&threshold| tally.at(threshold).invented <= allowed);
        print!("{:.3} ", threshold.unwrap_or(1.0));
    }
    println!();
    Ok(())
}
