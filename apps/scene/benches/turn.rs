//! One turn of a 32-laser sensor, on one core.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lidar_scene::Street;

const FIRINGS: u32 = 1_812;
const LASERS: u32 = 32;

fn turn(c: &mut Criterion) {
    let directions: Vec<[f32; 3]> = (0..FIRINGS * LASERS)
        .map(|ray| {
            let azimuth = (ray / LASERS) as f32 / FIRINGS as f32 * std::f32::consts::TAU;
            let elevation = (-25.0 + 40.0 * (ray % LASERS) as f32 / 31.0).to_radians();
            let flat = elevation.cos();
            [flat * azimuth.cos(), flat * azimuth.sin(), elevation.sin()]
        })
        .collect();
    let scene = Street::default().build(1);
    let mut group = c.benchmark_group("scene");
    group.throughput(Throughput::Elements(u64::from(FIRINGS * LASERS)));
    group.bench_function("turn", |b| {
        b.iter(|| {
            directions
                .iter()
                .filter(|&&ray| black_box(scene.cast([0.0; 3], ray)).is_some())
                .count()
        });
    });
    group.bench_function("advance", |b| {
        let mut scene = scene.clone();
        b.iter(|| scene.advance(0.1));
    });
    group.finish();
}

criterion_group!(benches, turn);
criterion_main!(benches);
