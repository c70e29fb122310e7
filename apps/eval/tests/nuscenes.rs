//! The metric against the numbers of an independent implementation; `nuscenes/make.py` made them.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use lidar_eval::{Cuboid, DISTANCES, Found, Frame, MATCHED, Tally, Truth};
use serde_json::Value;

const FIXTURE: &str = include_str!("nuscenes/fixture.json");

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

fn cuboid(numbers: &[f64]) -> Cuboid {
    Cuboid {
        center: [numbers[0], numbers[1]],
        size: [numbers[2], numbers[3], numbers[4]],
        yaw: numbers[5],
    }
}

fn frame(scan: &Value) -> Frame {
    let boxes = |kind: &str| scan[kind].as_array().unwrap().iter().map(numbers);
    let truth = boxes("truth").map(|numbers| Truth {
        cuboid: cuboid(&numbers),
        counts: true,
    });
    let found = boxes("found").map(|numbers| Found {
        cuboid: cuboid(&numbers),
        score: numbers[6],
    });
    Frame {
        truth: truth.collect(),
        found: found.collect(),
    }
}

#[test]
fn the_numbers_are_those_of_the_nuscenes_devkit() {
    let cases: Value = serde_json::from_str(FIXTURE).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let scans: Vec<Frame> = case["scans"]
            .as_array()
            .unwrap()
            .iter()
            .map(frame)
            .collect();
        let tallies = DISTANCES.map(|distance| {
            let mut tally = Tally::new(distance);
            for (scene, scan) in (0..).zip(&scans) {
                tally.add(scene, scan);
            }
            tally
        });
        let scores = tallies.each_ref().map(|tally| tally.score().unwrap());
        let matched = scores[MATCHED];
        let ours = scores
            .map(|score| score.average_precision)
            .into_iter()
            .chain([matched.translation, matched.scale, matched.orientation]);
        let expected = &case["expected"];
        let mut theirs = numbers(&expected["average_precisions"]);
        theirs.extend(numbers(&expected["errors"]));
        for (n, (ours, theirs)) in ours.zip(theirs).enumerate() {
            assert!(
                (ours - theirs).abs() < 1e-9,
                "{}, number {n}: {ours}, not {theirs}",
                case["name"]
            );
        }
    }
}
