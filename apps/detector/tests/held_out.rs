//! The embedded network on streets it was not trained on: training seeds start at 1,000,000.

#[path = "../training/cloud.rs"]
mod cloud;
#[path = "../training/lidar.rs"]
mod lidar;
#[path = "../training/score.rs"]
mod score;

use cloud::cloud;
use lidar::{Lidar, Mount, Turn};
use lidar_detector::{Class, DEFAULT_THREADS, DEFAULT_THRESHOLD, Detector, Neural};
use lidar_scene::Profile;
use lidar_sensor::Model;
use score::{Rule, Score};

fn turn(index: u64) -> Turn {
    let scene = Profile::HeldOut.scene(index);
    Lidar::of(Model::Vlp32c).turn(&scene, Mount::default(), None, |_| true)
}

const SCENES: u64 = 8;

#[test]
fn finds_the_cars_of_streets_it_never_saw() {
    let mut detector = Neural::embedded(DEFAULT_THREADS).unwrap();
    let rule = Rule {
        class: Class::Car,
        range: 40.0,
        points: 10,
    };
    let mut score = Score::default();
    for seed in 0..SCENES {
        let turn = turn(seed);
        let detections = detector.detect(&cloud(&turn.points)).unwrap();
        score.add(&rule, &detections, &turn.objects);
    }
    let recall = score.recall(DEFAULT_THRESHOLD);
    let invented = score.invented(DEFAULT_THRESHOLD) as f32 / SCENES as f32;
    println!(
        "{} cars, recall {recall:.2}, {invented:.2} invented a scene",
        score.objects
    );
    assert!(score.objects >= 100, "only {} cars to find", score.objects);
    assert!(recall >= 0.7, "recall {recall} of {} cars", score.objects);
    assert!(invented <= 3.0, "{invented} invented cars a scene");
}

#[test]
fn the_same_cloud_gives_the_same_list() {
    let clouds = [1, 2].map(|index| cloud(&turn(index).points));
    let mut detector = Neural::embedded(1).unwrap();
    let first = detector.detect(&clouds[0]).unwrap();
    let second = detector.detect(&clouds[1]).unwrap();
    assert!(!first.is_empty() && first != second);
    assert_eq!(
        detector.detect(&clouds[0]).unwrap(),
        first,
        "other clouds in between"
    );
    let mut again = Neural::embedded(1).unwrap();
    assert_eq!(again.detect(&clouds[0]).unwrap(), first, "another instance");
}

#[test]
fn bad_points_do_not_hide_the_good() {
    let turn = turn(3);
    let mut detector = Neural::embedded(1).unwrap();
    let clean = detector.detect(&cloud(&turn.points)).unwrap();
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
    let mut points = Vec::new();
    for (index, point) in turn.points.iter().enumerate() {
        points.push(*point);
        if index % 9 == 0 {
            let mut broken = *point;
            broken[index % 3] = bad[index % 5];
            points.push(broken);
        }
    }
    assert_eq!(detector.detect(&cloud(&points)).unwrap(), clean);
}
