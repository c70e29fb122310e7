//! A turn from message to cloud for every model and return mode, clouds of every layout read, and
//! 57,984 slots of a VLP-32C beside the crate `velodyne-lidar`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::env;
use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use lidar_messages::{Datatype, Header, Packets, PointCloud2, PointField, Time, VelodyneScan};
use lidar_sensor::{
    Block, Convention, Converter, Model, Packet, Return, ReturnMode, downsample,
    source::{Simulator, SimulatorConfig, Synthetic},
};
use velodyne_lidar::{Config32, DataPacket};

const PACKETS: usize = 151;
const SLOTS: usize = PACKETS * 12 * 32;

/// A turn in which `percent` of the slots have a return.
fn turn(model: Model, percent: u64) -> VelodyneScan {
    let mut packets = Packets::builder(PACKETS);
    let mut noise = 1u64;
    let mut firing = 0.0;
    for number in 0..PACKETS as u64 {
        let mut blocks = [Block::default(); 12];
        for block in &mut blocks {
            block.azimuth = (firing * 36_000.0 / (PACKETS * 12) as f64) as u16;
            firing += 1.0;
            for value in &mut block.returns {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let random = noise >> 33;
                *value = Return {
                    distance: if random % 100 < percent {
                        250 + (random % 20_000) as u16
                    } else {
                        0
                    },
                    reflectivity: (random >> 8) as u8,
                };
            }
        }
        let packet = Packet {
            model,
            blocks,
            timestamp_us: 0,
            return_mode: ReturnMode::Strongest,
        };
        packets.push(
            Time::from_nanos(number * model.geometry().packet_nanos()),
            &packet.encode(),
        );
    }
    VelodyneScan {
        header: Header::default(),
        packets: packets.build(),
    }
}

/// Its cheapest way to coordinates, without its grouping into frames.
fn by_velodyne_lidar(scan: &VelodyneScan) {
    let config = Config32::new_vlp_32c_strongest();
    for packet in scan.packets.iter() {
        let packet = DataPacket::from_slice(packet.data).unwrap();
        for firing in packet.firing_xyz_iter_s32(&config) {
            black_box(firing);
        }
    }
}

fn conversion(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("convert");
    group.throughput(Throughput::Elements(SLOTS as u64));
    for percent in [100, 85] {
        let scan = turn(Model::Vlp32c, percent);
        let wire = scan.encode();
        for convention in [Convention::RosCompat, Convention::Precise] {
            let mut converter = Converter::new(convention);
            let id = BenchmarkId::new(format!("{convention:?}"), percent);
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    let scan = VelodyneScan::decode(black_box(wire.clone())).unwrap();
                    converter.convert(&scan).unwrap().data.len()
                });
            });
        }
        let mut points = Vec::new();
        let converter = Converter::new(Convention::Precise);
        group.bench_function(BenchmarkId::new("points", percent), |bencher| {
            bencher.iter(|| {
                points.clear();
                converter.points(black_box(&scan), &mut points).unwrap();
                points.len()
            });
        });
        group.bench_function(BenchmarkId::new("velodyne-lidar", percent), |bencher| {
            bencher.iter(|| by_velodyne_lidar(black_box(&scan)));
        });
    }
    group.finish();
}

/// Points per second of every model: packets taken apart, converted to a cloud, and the cloud read.
fn models(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("models");
    for model in Model::ALL {
        for mode in [ReturnMode::Strongest, ReturnMode::Last, ReturnMode::Dual] {
            let scan = with_mode(&turn(model, 85), mode);
            let name =
                |what: &str| BenchmarkId::new(format!("{what} {model}"), format!("{mode:?}"));
            let mut converter = Converter::new(Convention::Precise);
            let points = converter.convert(&scan).unwrap().width;
            group.throughput(Throughput::Elements(u64::from(points)));
            group.bench_function(name("decode"), |bencher| {
                bencher.iter(|| {
                    for packet in black_box(&scan).packets.iter() {
                        black_box(Packet::decode(packet.data).unwrap());
                    }
                });
            });
            group.bench_function(name("convert"), |bencher| {
                bencher.iter(|| converter.convert(black_box(&scan)).unwrap().data.len());
            });
            let cloud = converter.convert(&scan).unwrap();
            group.bench_function(name("read"), |bencher| {
                bencher.iter(|| {
                    let points = black_box(&cloud).points().unwrap();
                    points.fold(0.0, |sum, point| sum + point.x + point.y + point.z)
                });
            });
        }
    }
    group.finish();
}

/// Points a second out of clouds as they come from here and from elsewhere.
fn layouts(criterion: &mut Criterion) {
    const POINTS: u32 = 49_016;
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(u64::from(POINTS)));
    let (single, double) = (Datatype::Float32, Datatype::Float64);
    for (name, xyz, intensity, point_step, is_bigendian) in [
        (
            "x y z intensity ring time",
            single,
            Some((12, single)),
            22,
            false,
        ),
        (
            "x y z intensity, as KITTI",
            single,
            Some((12, single)),
            16,
            false,
        ),
        ("x y z", single, None, 12, false),
        ("x y z, padded to 32 bytes", single, None, 32, false),
        (
            "x y z intensity of one byte",
            single,
            Some((12, Datatype::Uint8)),
            13,
            false,
        ),
        ("x y z of double precision", double, None, 24, false),
        (
            "x y z intensity, big-endian",
            single,
            Some((12, single)),
            16,
            true,
        ),
    ] {
        let field = |name: &'static str, offset, datatype| PointField {
            name: name.into(),
            offset,
            datatype,
            count: 1,
        };
        let size = if xyz == double { 8 } else { 4 };
        let mut fields = vec![
            field("x", 0, xyz),
            field("y", size, xyz),
            field("z", 2 * size, xyz),
        ];
        fields.extend(intensity.map(|(offset, kind)| field("intensity", offset, kind)));
        let row_step = POINTS * point_step;
        let cloud = PointCloud2 {
            height: 1,
            width: POINTS,
            fields,
            is_bigendian,
            point_step,
            row_step,
            data: vec![7; row_step as usize].into(),
            ..PointCloud2::default()
        };
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let points = black_box(&cloud).points().unwrap();
                points.fold(0.0, |sum, point| sum + point.x + point.y + point.z)
            });
        });
    }
    group.finish();
}

/// The same packets, said to be of another return mode.
fn with_mode(scan: &VelodyneScan, mode: ReturnMode) -> VelodyneScan {
    let mut packets = Packets::builder(scan.packets.len());
    for packet in scan.packets.iter() {
        let mut data = *packet.data;
        data[1204] = mode as u8;
        packets.push(packet.stamp, &data);
    }
    VelodyneScan {
        header: scan.header.clone(),
        packets: packets.build(),
    }
}

fn reduction(criterion: &mut Criterion) {
    let scan = turn(Model::Vlp32c, 85);
    let mut group = criterion.benchmark_group("downsample");
    for percent in [0, 25, 50, 75, 100] {
        group.bench_function(BenchmarkId::from_parameter(percent), |bencher| {
            bencher.iter(|| downsample(black_box(&scan), percent, 7).unwrap());
        });
    }
    group.finish();
}

fn simulation(criterion: &mut Criterion) {
    let mut simulator = Simulator::new(SimulatorConfig::default());
    let mut looped = Synthetic::new(SimulatorConfig::default(), 2);
    let mut group = criterion.benchmark_group("synthetic");
    group.sample_size(20);
    group.bench_function("cast a turn", |bencher| {
        bencher.iter(|| simulator.next_turn())
    });
    group.bench_function("replay a turn", |bencher| {
        bencher.iter(|| looped.next_scan())
    });
    group.finish();
}

criterion_group!(benches, conversion, models, layouts, reduction, simulation);

/// Milliseconds from message to cloud that a full scan may take.
const GOAL_MS: f64 = 0.5;

/// Ours and the other crate's by turns, so that what drifts drifts for both.
fn ratio() {
    const TURNS: usize = 200;
    let scan = turn(Model::Vlp32c, 100);
    let wire = scan.encode();
    let mut converter = Converter::new(Convention::Precise);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(millis(|| {
            let scan = VelodyneScan::decode(black_box(wire.clone())).unwrap();
            black_box(converter.convert(&scan).unwrap());
        }));
        theirs.push(millis(|| by_velodyne_lidar(black_box(&scan))));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "{SLOTS} slots, median of {TURNS} turns: {ours:.3} ms, goal {GOAL_MS} ms {}; \
         velodyne-lidar {theirs:.3} ms; ratio {:.3}",
        if ours <= GOAL_MS { "met" } else { "MISSED" },
        ours / theirs
    );
}

fn millis(run: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    let has = |flag: &str| env::args().any(|argument| argument == flag);
    if has("--bench") && !has("--test") && !has("--list") {
        ratio();
    }
}
