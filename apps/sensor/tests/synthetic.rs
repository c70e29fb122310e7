//! The ray-cast street as the sensor sees it.
#![allow(clippy::unwrap_used)]

use lidar_messages::PointCloud2;
use lidar_sensor::{
    Convention, Converter, Model, PacketView, ReturnMode,
    source::{Simulator, SimulatorConfig, SourceSpec, Synthetic},
};

fn config(seed: u64) -> SimulatorConfig {
    SimulatorConfig {
        seed,
        ..SimulatorConfig::default()
    }
}

#[test]
fn every_scan_has_151_packets_and_about_49_000_returns() {
    let mut converter = Converter::new(Convention::RosCompat);
    for seed in [1, 2, 3] {
        let mut simulator = Simulator::new(config(seed));
        for _ in 0..3 {
            let turn = simulator.next_turn().turn;
            assert!(!turn.partial);
            assert_eq!(turn.scan.encode().len(), 183_342);
            let cloud = converter.convert(&turn.scan).unwrap();
            let megabytes = cloud.encode().len() as f64 / 1e6;
            println!("seed {seed}: {} returns, {megabytes:.3} MB", cloud.width);
            assert!(
                (44_000..=54_000).contains(&cloud.width),
                "{} returns",
                cloud.width
            );
        }
    }
}

#[test]
fn turns_begin_where_the_azimuth_wraps() {
    let turn = Simulator::new(config(4)).next_turn().turn;
    let azimuths: Vec<u16> = turn
        .scan
        .packets
        .iter()
        .flat_map(|packet| {
            let view = PacketView::new(packet.data).unwrap();
            assert_eq!(view.return_mode(), ReturnMode::Strongest);
            (0..12).map(|block| view.azimuth(block)).collect::<Vec<_>>()
        })
        .collect();
    assert!(azimuths[0] < 300);
    let wraps = azimuths.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(wraps, 1);
    let step = |pair: &[u16]| (36_000 + u32::from(pair[1]) - u32::from(pair[0])) % 36_000;
    assert!(
        azimuths
            .windows(2)
            .all(|pair| (19..=21).contains(&step(pair)))
    );
}

#[test]
fn same_seed_same_scan() {
    let scan = |seed| Simulator::new(config(seed)).next_turn().turn.scan;
    assert_eq!(scan(5), scan(5));
    assert_ne!(scan(5).packets, scan(6).packets);
}

#[test]
fn loop_repeats_the_street_and_not_the_time() {
    let mut source = Synthetic::new(config(7), 2);
    let turns: Vec<_> = (0..5).map(|_| source.next_scan().scan).collect();
    for (number, pair) in turns.windows(2).enumerate() {
        assert_eq!(pair[0].header.seq, number as u32);
        let last = pair[0].packets.iter().last().unwrap().stamp.as_nanos();
        assert_eq!(
            pair[1].header.stamp.as_nanos(),
            last + Model::Vlp32c.geometry().packet_nanos()
        );
    }
    let points = |index: usize| Converter::new(Convention::Precise).convert(&turns[index]);
    let (first, third) = (points(0).unwrap(), points(2).unwrap());
    assert_eq!(
        PointCloud2 {
            header: first.header.clone(),
            ..third
        },
        first
    );
    assert_eq!(source.statistics().turns, 5);
    assert_eq!(source.statistics().packets, 5 * 151);
}

#[test]
fn sensor_clock_runs_on_through_the_loop() {
    let mut source = Synthetic::new(config(7), 1);
    let mut clock = Vec::new();
    for _ in 0..3 {
        for packet in source.next_scan().scan.packets.iter() {
            clock.push(PacketView::new(packet.data).unwrap().timestamp_us());
        }
    }
    assert!(
        clock
            .windows(2)
            .all(|pair| matches!(pair[1] - pair[0], 663 | 664))
    );
}

#[test]
fn points_lie_on_the_labelled_objects() {
    let mut source = Synthetic::new(config(8), 1);
    let scan = source.next_scan().scan;
    let mut points = Vec::new();
    Converter::new(Convention::Precise)
        .points(&scan, &mut points)
        .unwrap();
    let seen = source.truth().iter().filter(|object| {
        let (sin, cos) = object.yaw.sin_cos();
        let inside = points.iter().filter(|point| {
            let (x, y) = (point.x - object.center[0], point.y - object.center[1]);
            let along = (x * cos + y * sin).abs();
            let across = (y * cos - x * sin).abs();
            let up = (point.z - object.center[2]).abs();
            let margin = 0.1;
            along < object.size[0] / 2.0 + margin
                && across < object.size[1] / 2.0 + margin
                && up < object.size[2] / 2.0 + margin
        });
        inside.count() >= 20
    });
    let seen = seen.count();
    assert!(
        seen >= 3,
        "only {seen} of {} objects have points",
        source.truth().len()
    );
}

#[test]
fn source_is_opened_by_name() {
    let spec: SourceSpec = "synthetic:9?turns=1".parse().unwrap();
    let mut source = spec.open().unwrap();
    assert_eq!(source.next_scan().unwrap().unwrap().scan.packets.len(), 151);
    assert_eq!(source.statistics().to_string(), "151 packets in 1 turns");
}
