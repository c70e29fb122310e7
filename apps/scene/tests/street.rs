//! The street as a sensor sees it.

use std::collections::HashMap;

use lidar_scene::{Class, Hit, MAX_RANGE, Scene, Street};

/// Elevations of a VLP-32C's 32 lasers in degrees, from its user manual.
const ELEVATIONS: [f32; 32] = [
    -25.0, -1.0, -1.667, -15.639, -11.31, 0.0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148,
    -5.333, 1.333, 0.667, -4.0, -4.667, 1.667, 1.0, -3.667, -3.333, 3.333, 2.333, -2.667, -3.0,
    7.0, 4.667, -2.333, -2.0, 15.0, 10.333, -1.333,
];

/// Firings of all lasers in a turn at 600 rpm.
const FIRINGS: u32 = 1_812;

fn turn(scene: &Scene) -> Vec<Option<Hit>> {
    let mut hits = Vec::new();
    for firing in 0..FIRINGS {
        let azimuth = firing as f32 / FIRINGS as f32 * std::f32::consts::TAU;
        for elevation in ELEVATIONS.map(f32::to_radians) {
            let flat = elevation.cos();
            let direction = [flat * azimuth.cos(), flat * azimuth.sin(), elevation.sin()];
            hits.push(scene.cast([0.0; 3], direction));
        }
    }
    hits
}

#[test]
fn a_turn_has_about_49_000_returns() {
    let mut total = 0;
    for seed in 0..16 {
        let hits = turn(&Street::default().build(seed));
        assert_eq!(hits.len(), 57_984);
        let returns = hits.iter().flatten().count();
        assert!(
            (42_000..54_000).contains(&returns),
            "seed {seed}: {returns} returns"
        );
        assert!(
            hits.iter()
                .flatten()
                .all(|hit| hit.range > 0.0 && hit.range < MAX_RANGE)
        );
        total += returns;
    }
    let mean = total / 16;
    assert!((47_500..50_500).contains(&mean), "mean {mean} returns");
}

#[test]
fn the_seed_decides_everything() {
    let mut scene = Street::default().build(3);
    scene.advance(0.1);
    let mut again = Street::default().build(3);
    again.advance(0.1);
    assert_eq!(turn(&scene), turn(&again));
    assert_eq!(scene.truth(), again.truth());
    assert_ne!(
        Street::default().build(4).truth(),
        Street::default().build(3).truth()
    );
}

#[test]
fn hits_on_a_labelled_object_lie_in_its_box() {
    let scene = Street::default().build(11);
    let truth: HashMap<u32, _> = scene
        .truth()
        .into_iter()
        .map(|object| (object.id, object))
        .collect();
    let mut seen = HashMap::<Class, u32>::new();
    for firing in 0..FIRINGS {
        let azimuth = firing as f32 / FIRINGS as f32 * std::f32::consts::TAU;
        for elevation in ELEVATIONS.map(f32::to_radians) {
            let flat = elevation.cos();
            let direction = [flat * azimuth.cos(), flat * azimuth.sin(), elevation.sin()];
            let Some(hit) = scene.cast([0.0; 3], direction) else {
                continue;
            };
            let Some(target) = hit.target else { continue };
            let object = truth[&target];
            let (sin, cos) = object.yaw.sin_cos();
            let offset: [f32; 3] =
                std::array::from_fn(|axis| direction[axis] * hit.range - object.center[axis]);
            let along = offset[0] * cos + offset[1] * sin;
            let across = offset[1] * cos - offset[0] * sin;
            // Mirrors and handlebars stick out of the box as they do on the street.
            assert!(
                along.abs() < object.size[0] / 2.0 + 0.35,
                "{along} {object:?}"
            );
            assert!(
                across.abs() < object.size[1] / 2.0 + 0.25,
                "{across} {object:?}"
            );
            assert!(
                offset[2].abs() < object.size[2] / 2.0 + 0.1,
                "{} {object:?}",
                offset[2]
            );
            *seen.entry(object.class).or_default() += 1;
        }
    }
    assert!(seen[&Class::Car] > 500, "{seen:?}");
}

#[test]
fn traffic_moves_and_stays_in_the_street() {
    let mut scene = Street::default().build(5);
    let before = scene.truth();
    scene.advance(0.5);
    let after = scene.truth();
    assert_eq!(before.len(), after.len());
    let mut moved = 0;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.id, after.id);
        let step = after.center[0] - before.center[0];
        let wrapped = step.abs() > 100.0;
        assert!(
            wrapped || (step - 0.5 * before.velocity).abs() < 1e-3,
            "{before:?} {after:?}"
        );
        moved += u32::from(step != 0.0);
    }
    assert!(moved > 3, "{moved} moved");
    for _ in 0..200 {
        scene.advance(0.7);
    }
    let truth = scene.truth();
    let mut moving = truth.iter().filter(|object| object.velocity != 0.0);
    assert!(moving.all(|object| object.center[0].abs() <= 101.0));
    for time in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let still = scene.truth();
        scene.advance(time);
        assert_eq!(still, scene.truth(), "{time}");
    }
}

#[test]
fn vehicles_do_not_overlap() {
    for seed in 0..20 {
        let truth = Street::default().build(seed).truth();
        for (index, a) in truth.iter().enumerate() {
            assert!(
                a.center[0].hypot(a.center[1]) > 2.5,
                "inside the ego vehicle: {a:?}"
            );
            for b in &truth[..index] {
                let gap = (a.center[0] - b.center[0]).hypot(a.center[1] - b.center[1]);
                assert!(
                    gap > a.size[1].min(b.size[1]) * 0.8,
                    "seed {seed}: {a:?} {b:?}"
                );
            }
        }
    }
}

#[test]
fn rays_that_are_no_rays_return_nothing() {
    let scene = Street::default().build(1);
    for direction in [
        [0.0; 3],
        [f32::NAN, 0.0, 0.0],
        [f32::INFINITY, 0.0, 0.0],
        [1e30; 3],
    ] {
        assert_eq!(scene.cast([0.0; 3], direction), None, "{direction:?}");
    }
    for origin in [
        [f32::NAN, 0.0, 0.0],
        [0.0, f32::NEG_INFINITY, 0.0],
        [0.0, 0.0, 1e30],
    ] {
        assert_eq!(scene.cast(origin, [1.0, 0.0, 0.0]), None, "{origin:?}");
    }
    assert_eq!(scene.cast([0.0; 3], [0.0, 0.0, 1.0]), None, "sky");
}

#[test]
fn densities_outside_their_range_are_clamped() {
    let wild = Street {
        traffic: 9.0,
        people: -3.0,
        built_up: f32::NAN,
        ..Street::default()
    };
    let scene = wild.build(1);
    assert!(
        scene
            .truth()
            .iter()
            .all(|object| object.class != Class::Pedestrian)
    );
}
