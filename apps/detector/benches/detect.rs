//! The stages of a detection on one turn of a VLP-32C, about 49,000 points.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lidar_detector::{Detector, Ego, Ground, Neural, Raster};
use lidar_scene::Street;
use lidar_sensor::Model;

#[path = "../training/cloud.rs"]
mod cloud;
#[path = "../training/lidar.rs"]
mod lidar;

fn stages(c: &mut Criterion) {
    let scene = Street::default().build(1);
    let points = lidar::Lidar::of(Model::Vlp32c)
        .turn(&scene, lidar::Mount::default(), None, |_| true)
        .points;
    let full = cloud::cloud(&points);
    // One point: everything but the network is next to nothing.
    let single = cloud::cloud(&[[10.0, 0.0, -1.0]]);

    let mut group = c.benchmark_group("detector");
    let mut ground = Ground::new();
    group.bench_function("ground", |b| b.iter(|| ground.fit(black_box(&points))));
    let mut raster = Raster::new();
    group.bench_function("raster", |b| {
        b.iter(|| raster.fill(black_box(&points), &ground, &Ego::default()))
    });
    for threads in [1, 2] {
        let mut detector = Neural::embedded(threads).expect("the embedded network loads");
        group.bench_function(format!("network/{threads}"), |b| {
            b.iter(|| detector.detect(black_box(&single)));
        });
        group.bench_function(format!("detect/{threads}"), |b| {
            b.iter(|| detector.detect(black_box(&full)));
        });
    }
    group.finish();
}

criterion_group!(benches, stages);
criterion_main!(benches);
