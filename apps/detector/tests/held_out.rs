//! The embedded network on streets it was not trained on: training seeds start at 1,000,000.

#[path = "../training/cloud.rs"]
mod cloud;
#[path = "../training/judge.rs"]
mod judge;
#[path = "../training/lidar.rs"]
mod lidar;

use cloud::cloud;
use judge::{findings, objects};
use lidar::{Lidar, Mount, Turn};
use lidar_detector::{Class, DEFAULT_THREADS, DEFAULT_THRESHOLD, Detector, Neural};
use lidar_eval::{Evaluation, MATCHED, Settings};
use lidar_scene::Profile;
use lidar_sensor::Model;

fn turn(index: u64) -> Turn {
    let scene = Profile::HeldOut.scene(index);
    Lidar::of(Model::Vlp32c).turn(&scene, Mount::default(), None, |_| true)
}

const SCENES: u32 = 8;

#[test]
fn finds_the_road_users_of_streets_it_never_saw() {
    let mut detector = Neural::embedded(DEFAULT_THREADS)
        .unwrap()
        .with_threshold(0.05)
        .unwrap();
    let settings = Settings {
        points: judge::POINTS,
        threshold: DEFAULT_THRESHOLD.into(),
        resamples: 0,
        ..Settings::default()
    };
    let mut evaluation = Evaluation::new(Class::ALL.to_vec(), settings);
    for scene in 0..SCENES {
        let turn = turn(scene.into());
        let found = detector.detect(&cloud(&turn.points)).unwrap();
        evaluation.add(scene, &objects(&turn.objects), &findings(&found));
    }
    let report = evaluation.report();
    let least = [100, 10, 30, 8].into_iter().zip([0.9, 0.6, 0.6, 0.5]);
    for (class, (objects, precision)) in report.classes.iter().zip(least) {
        let found = class.whole.average_precision.as_ref().unwrap()[MATCHED].value;
        let count = class.whole.objects;
        println!(
            "{count} x {}: average precision {found:.2}",
            class.class.name()
        );
        assert!(count >= objects, "{count} x {}", class.class.name());
        assert!(found >= precision, "{} {found}", class.class.name());
    }
    let invented = report.invented.value;
    assert!(invented <= 1.0, "{invented} invented a scan");
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
