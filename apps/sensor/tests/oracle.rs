//! Both angle conventions against the Python package `velodyne-decoder`, which knows nothing of
//! this crate. `oracle.py` beside this file made the recordings.
#![allow(clippy::unwrap_used)]

use lidar_messages::{Header, Packets, Time, VelodyneScan};
use lidar_sensor::{
    Block, Convention, Converter, EqualPairs, Model, Packet, Point, Return, ReturnMode,
};

struct Recorded {
    scan: VelodyneScan,
    points: Vec<Point>,
}

fn load(bytes: &[u8]) -> Recorded {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let (packets, count) = (word(bytes) as usize, word(&bytes[4..]) as usize);
    let (data, points) = bytes[8..].split_at(packets * 1206);
    let mut builder = Packets::builder(packets);
    for packet in data.as_chunks::<1206>().0 {
        builder.push(Time::default(), packet);
    }
    let points: Vec<_> = points
        .as_chunks::<20>()
        .0
        .iter()
        .map(|record| {
            let float = |at: usize| f32::from_bits(word(&record[at..]));
            Point {
                x: float(0),
                y: float(4),
                z: float(8),
                intensity: float(12) as u8,
                ring: word(&record[16..]) as u16,
                time: 0.0,
            }
        })
        .collect();
    assert_eq!(points.len(), count);
    Recorded {
        scan: VelodyneScan {
            header: Header::default(),
            packets: builder.build(),
        },
        points,
    }
}

fn points(convention: Convention, scan: &VelodyneScan) -> Vec<Point> {
    let mut points = Vec::new();
    Converter::new(convention)
        .points(scan, &mut points)
        .unwrap();
    points
}

/// Slot of the laser of a VLP-32C with this ring.
fn laser(ring: u16) -> usize {
    let rings = Model::Vlp32c.geometry().ring;
    rings.iter().position(|other| *other == ring).unwrap()
}

fn level(point: &Point) -> f64 {
    f64::from(point.x).hypot(f64::from(point.y))
}

fn azimuth_between(a: &Point, b: &Point) -> f64 {
    let azimuth = |point: &Point| f64::from(-point.y).atan2(f64::from(point.x)).to_degrees();
    let between = (azimuth(a) - azimuth(b)).abs();
    between.min(360.0 - between)
}

/// Pairs every point with the nearest one of the oracle of the same ring and reflectivity, no two
/// with the same.
fn compare(ours: &[Point], theirs: &[Point]) {
    assert_eq!(ours.len(), theirs.len());
    let mut taken = vec![false; theirs.len()];
    for point in ours {
        let same = |other: &Point| (other.ring, other.intensity) == (point.ring, point.intensity);
        let distance = |other: &Point| {
            let [x, y, z] = [other.x - point.x, other.y - point.y, other.z - point.z];
            x * x + y * y + z * z
        };
        let candidates = (0..theirs.len()).filter(|&index| !taken[index] && same(&theirs[index]));
        let nearest = candidates
            .min_by(|&a, &b| distance(&theirs[a]).total_cmp(&distance(&theirs[b])))
            .unwrap_or_else(|| panic!("no point of ring and reflectivity of {point:?}"));
        taken[nearest] = true;
        let other = &theirs[nearest];
        // Two roundings to 0.01 degree may fall to different sides of a half.
        let turned = azimuth_between(point, other);
        assert!(
            turned < 0.0101,
            "{point:?} is {turned} degrees from {other:?}"
        );
        assert!(
            (point.z - other.z).abs() < 2e-5,
            "{point:?} is higher than {other:?}"
        );
        assert!(
            (level(point) - level(other)).abs() < 1e-4,
            "{point:?} is nearer than {other:?}"
        );
    }
}

#[test]
fn precise_agrees_at_600_rpm() {
    let recorded = load(include_bytes!("oracle/strongest-600rpm.bin"));
    compare(
        &points(Convention::Precise, &recorded.scan),
        &recorded.points,
    );
}

#[test]
fn precise_agrees_at_1200_rpm() {
    let recorded = load(include_bytes!("oracle/last-1200rpm.bin"));
    compare(
        &points(Convention::Precise, &recorded.scan),
        &recorded.points,
    );
}

#[test]
fn precise_agrees_for_a_vlp_16() {
    for recorded in [
        load(include_bytes!("oracle/vlp16-600rpm.bin")),
        load(include_bytes!("oracle/vlp16-dual-1200rpm.bin")),
    ] {
        compare(
            &points(Convention::Precise, &recorded.scan),
            &recorded.points,
        );
    }
}

#[test]
fn precise_agrees_for_an_hdl_32e() {
    for recorded in [
        load(include_bytes!("oracle/hdl32e-600rpm.bin")),
        load(include_bytes!("oracle/hdl32e-dual-300rpm.bin")),
    ] {
        compare(
            &points(Convention::Precise, &recorded.scan),
            &recorded.points,
        );
    }
}

#[test]
fn precise_agrees_with_dual_returns() {
    let recorded = load(include_bytes!("oracle/dual-300rpm.bin"));
    compare(
        &points(Convention::Precise, &recorded.scan),
        &recorded.points,
    );
    let mut both = Vec::new();
    let converter = Converter::new(Convention::Precise).with_equal_pairs(EqualPairs::Keep);
    converter.points(&recorded.scan, &mut both).unwrap();
    assert!(both.len() > recorded.points.len());
}

/// A still rotor leaves the origin of the beams as the only difference between the conventions.
#[test]
fn ros_compat_agrees_where_nothing_is_interpolated() {
    let mut recorded = load(include_bytes!("oracle/strongest-still.bin"));
    compare(
        &points(Convention::Precise, &recorded.scan),
        &recorded.points,
    );
    for point in &mut recorded.points {
        let laser = laser(point.ring);
        let geometry = Model::Vlp32c.geometry();
        point.z += (geometry.beam_origin * geometry.elevation[laser].to_radians().tan()) as f32;
    }
    compare(
        &points(Convention::RosCompat, &recorded.scan),
        &recorded.points,
    );
}

/// On a turning rotor the ROS convention differs from the oracle by the turn since the block
/// began, laser pair by laser pair.
#[test]
fn ros_compat_differs_by_the_turn_within_a_block() {
    let recorded = load(include_bytes!("oracle/strongest-600rpm.bin"));
    let ros = points(Convention::RosCompat, &recorded.scan);
    let precise = points(Convention::Precise, &recorded.scan);
    assert_eq!(ros.len(), precise.len());
    let step = 0.199_065_6;
    for (ros, precise) in ros.iter().zip(&precise) {
        let laser = laser(ros.ring);
        let turned = step * (laser / 2) as f64 / 24.0;
        let difference = azimuth_between(ros, precise);
        assert!(
            (difference - turned).abs() < 0.0061,
            "laser {laser}: {difference}, not {turned}"
        );
    }
}

#[test]
fn ros_compat_follows_the_formula_of_the_driver() {
    let mut blocks = [Block::default(); 12];
    for (number, block) in blocks.iter_mut().enumerate() {
        block.azimuth = (35_900 + 20 * number as u16) % 36_000;
        block.returns = [Return {
            distance: 2_500,
            reflectivity: 40,
        }; 32];
    }
    let packet = Packet {
        model: Model::Vlp32c,
        blocks,
        timestamp_us: 0,
        return_mode: ReturnMode::Strongest,
    };
    let mut builder = Packets::builder(1);
    builder.push(Time { secs: 5, nsecs: 0 }, &packet.encode());
    let header = Header {
        stamp: Time {
            secs: 4,
            nsecs: 900_000_000,
        },
        ..Header::default()
    };
    let scan = VelodyneScan {
        header,
        packets: builder.build(),
    };
    for (index, point) in points(Convention::RosCompat, &scan).iter().enumerate() {
        let geometry = Model::Vlp32c.geometry();
        let (block, laser) = (index / 32, index % 32);
        let hundredths =
            f64::from(blocks[block].azimuth) + f64::from(geometry.azimuth_offset[laser]);
        let (azimuth, elevation) = (
            (hundredths / 100.0).to_radians(),
            geometry.elevation[laser].to_radians(),
        );
        let expected = [
            10.0 * elevation.cos() * azimuth.cos(),
            -10.0 * elevation.cos() * azimuth.sin(),
            10.0 * elevation.sin(),
        ];
        for (value, expected) in [point.x, point.y, point.z].iter().zip(expected) {
            assert!((f64::from(*value) - expected).abs() < 5e-6);
        }
        let time = 0.1 + 55.296e-6 * block as f64 + 2.304e-6 * (laser / 2) as f64;
        assert!((f64::from(point.time) - time).abs() < 1e-7);
    }
}
