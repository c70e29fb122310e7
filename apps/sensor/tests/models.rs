//! Every model against the formulas of its manual, written down here a second time.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use capture_file::packets_of;
use lidar_messages::{Header, Packets, Time, VelodyneScan};
use lidar_sensor::{
    Block, Convention, Converter, EqualPairs, Layout, Model, Packet, PacketError, Point, Return,
    ReturnMode,
    source::{SimulatorConfig, SourceSpec, Synthetic},
};
use proptest::prelude::*;

fn scan(packets: &[[u8; 1206]]) -> VelodyneScan {
    let mut builder = Packets::builder(packets.len());
    for data in packets {
        builder.push(Time::default(), data);
    }
    VelodyneScan {
        header: Header::default(),
        packets: builder.build(),
    }
}

fn points(convention: Convention, scan: &VelodyneScan) -> Vec<Point> {
    let mut points = Vec::new();
    let converter = Converter::new(convention).with_equal_pairs(EqualPairs::Keep);
    converter.points(scan, &mut points).unwrap();
    points
}

/// Elevation in degrees and time in microseconds of return `slot` of a block, from the manual.
fn manual(model: Model, slot: usize) -> (f64, f64) {
    match model {
        Model::Vlp32c => {
            let geometry = model.geometry();
            (geometry.elevation[slot], 2.304 * (slot / 2) as f64)
        }
        Model::Vlp16 => {
            // Odd lasers look up from 1 degree, even ones from -15, both in steps of 2.
            let laser = slot % 16;
            let base = if laser.is_multiple_of(2) { -15.0 } else { 1.0 };
            let elevation = base + 2.0 * (laser / 2) as f64;
            (
                elevation,
                55.296 * (slot / 16) as f64 + 2.304 * laser as f64,
            )
        }
        Model::Hdl32e => {
            // Two rows of 16 in steps of 4/3 of a degree, told to hundredths.
            let base = if slot.is_multiple_of(2) { -92.0 } else { -28.0 };
            let elevation = (base + 4.0 * (slot / 2) as f64) / 3.0;
            ((elevation * 100.0).round() / 100.0, 1.152 * slot as f64)
        }
    }
}

/// A packet's points as the manual has them, without regard to speed.
fn expected(convention: Convention, packet: &Packet, step: f64) -> Vec<[f64; 5]> {
    let model = packet.model;
    let (unit, block_micros, origin) = match model {
        Model::Vlp32c => (0.004, 55.296, 0.0424),
        Model::Vlp16 => (0.002, 110.592, 0.04191),
        Model::Hdl32e => (0.002, 46.08, 0.02896),
    };
    let per_firing = packet.return_mode.blocks_per_firing();
    let mut points = Vec::new();
    for (number, block) in packet.blocks.iter().enumerate() {
        for (slot, value) in block.returns.iter().enumerate() {
            if value.distance == 0 {
                continue;
            }
            let (elevation, micros) = manual(model, slot);
            let interpolated = convention == Convention::Precise || model == Model::Vlp16;
            let turned = if interpolated {
                step * micros / block_micros
            } else {
                0.0
            };
            // Halves are rounded up, also those that are no number of binary digits.
            let turned = (turned + 1e-9).round();
            let own = f64::from(model.geometry().azimuth_offset[slot]);
            let azimuth = ((f64::from(block.azimuth) + turned + own) / 100.0).to_radians();
            let (sin, cos) = elevation.to_radians().sin_cos();
            let range = f64::from(value.distance) * unit;
            let offset = -origin * sin / cos;
            let (level, z) = match (convention, model) {
                (Convention::Precise, _) => (range * cos, range * sin + offset),
                (Convention::RosCompat, Model::Vlp16) => {
                    (range * cos - offset * sin, range * sin + offset * cos)
                }
                (Convention::RosCompat, _) => (range * cos, range * sin),
            };
            let time = (number / per_firing) as f64 * block_micros + micros;
            let intensity = f64::from(value.reflectivity);
            points.push([
                level * azimuth.cos(),
                -level * azimuth.sin(),
                z,
                intensity,
                time * 1e-6,
            ]);
        }
    }
    points
}

fn any_packet() -> impl Strategy<Value = (Packet, u16)> {
    let model = prop::sample::select(Model::ALL.to_vec());
    let mode = prop::sample::select(vec![
        ReturnMode::Strongest,
        ReturnMode::Last,
        ReturnMode::Dual,
    ]);
    let values = proptest::collection::vec((any::<u16>(), any::<u8>()), 12 * 32);
    (model, mode, 0..36_000_u16, 1..40_u16, values, any::<u32>()).prop_map(
        |(model, return_mode, azimuth, step, values, timestamp_us)| {
            let per_firing = return_mode.blocks_per_firing();
            let blocks = std::array::from_fn(|block| {
                let firing = u32::from(step) * (block / per_firing) as u32;
                Block {
                    azimuth: ((u32::from(azimuth) + firing) % 36_000) as u16,
                    returns: std::array::from_fn(|slot| {
                        let (distance, reflectivity) = values[block * 32 + slot];
                        Return {
                            // One in four beams meets nothing.
                            distance: if reflectivity % 4 == 0 { 0 } else { distance },
                            reflectivity,
                        }
                    }),
                }
            });
            let packet = Packet {
                model,
                blocks,
                timestamp_us,
                return_mode,
            };
            (packet, step)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn points_are_where_the_manual_puts_them((packet, step) in any_packet()) {
        let rings = |point: &Point| usize::from(point.ring) < packet.model.geometry().lasers;
        for convention in [Convention::RosCompat, Convention::Precise] {
            let ours = points(convention, &scan(&[packet.encode()]));
            let theirs = expected(convention, &packet, f64::from(step));
            prop_assert_eq!(ours.len(), theirs.len());
            prop_assert!(ours.iter().all(rings));
            for (point, [x, y, z, intensity, time]) in ours.iter().zip(theirs) {
                // Single precision at 262 m.
                prop_assert!((f64::from(point.x) - x).abs() < 6e-5, "{:?} {} {}", point, x, y);
                prop_assert!((f64::from(point.y) - y).abs() < 6e-5, "{:?} {} {}", point, x, y);
                prop_assert!((f64::from(point.z) - z).abs() < 6e-5, "{:?} {}", point, z);
                prop_assert_eq!(f64::from(point.intensity), intensity);
                prop_assert!((f64::from(point.time) - time).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn packets_of_every_model_survive((packet, _) in any_packet()) {
        let data = packet.encode();
        prop_assert_eq!(data[1205], packet.model.product());
        prop_assert_eq!(Packet::decode(&data), Ok(packet));
    }
}

#[test]
fn rings_are_ranks_of_the_elevation() {
    for model in Model::ALL {
        let geometry = model.geometry();
        let mut rings: Vec<_> = geometry.ring.iter().zip(geometry.elevation).collect();
        rings.sort_by(|a, b| a.1.total_cmp(&b.1));
        rings.dedup();
        assert!(
            rings
                .iter()
                .map(|(ring, _)| usize::from(**ring))
                .eq(0..geometry.lasers)
        );
    }
}

#[test]
fn models_are_known_by_name_and_byte() {
    for (model, product, text) in [
        (Model::Vlp32c, 0x28, "vlp-32c"),
        (Model::Vlp16, 0x22, "VLP-16"),
        (Model::Hdl32e, 0x21, "hdl-32E"),
    ] {
        assert_eq!(Model::from_product(product), Some(model));
        assert_eq!(text.parse(), Ok(model));
    }
    let error = "vls-128".parse::<Model>().unwrap_err().to_string();
    assert!(
        error.contains("vls-128") && error.contains("hdl-32e"),
        "{error}"
    );
}

#[test]
fn a_scan_of_two_models_is_refused() {
    let one = |model| packets_of(model, ReturnMode::Last, 20.0, 1).next().unwrap();
    let scan = scan(&[one(Model::Vlp32c), one(Model::Vlp32c), one(Model::Vlp16)]);
    let error = Converter::new(Convention::Precise)
        .convert(&scan)
        .unwrap_err();
    assert_eq!(error.packet, 2);
    let expected = PacketError::MixedModels {
        model: Model::Vlp16,
        before: Model::Vlp32c,
    };
    assert_eq!(error.reason, expected);
}

#[test]
fn an_organised_cloud_has_a_row_for_every_firing_and_a_column_for_every_laser() {
    for (model, rows, columns) in [(Model::Vlp16, 48, 16), (Model::Hdl32e, 24, 32)] {
        let packets: Vec<_> = packets_of(model, ReturnMode::Strongest, 20.0, 2).collect();
        let mut converter = Converter::new(Convention::Precise).with_layout(Layout::Organised);
        let cloud = converter.convert(&scan(&packets)).unwrap();
        assert_eq!((cloud.height, cloud.width), (rows, columns));
        for (index, record) in cloud.data.as_chunks::<22>().0.iter().enumerate() {
            assert_eq!(
                record[16..18],
                (index as u16 % columns as u16).to_le_bytes()
            );
        }
        // A row is one firing: its times grow from row to row.
        let time = |row: u32| {
            let at = (row * columns) as usize * 22 + 18;
            f32::from_le_bytes(cloud.data[at..at + 4].try_into().unwrap())
        };
        assert!((0..rows / 2 - 1).all(|row| time(row) < time(row + 1)));
    }
}

#[test]
fn every_model_sees_the_same_street() {
    for (model, packets, returns) in [
        (Model::Vlp32c, 151, 44_000..54_000),
        (Model::Vlp16, 75, 15_000..29_000),
        (Model::Hdl32e, 181, 40_000..69_600),
    ] {
        let mut street = Synthetic::new(SimulatorConfig::new(model, 3), 2);
        for _ in 0..3 {
            let turn = street.next_scan();
            assert_eq!(
                (turn.scan.packets.len(), turn.partial, turn.lost),
                (packets, false, 0)
            );
            let cloud = Converter::new(Convention::Precise)
                .convert(&turn.scan)
                .unwrap();
            println!("{model}: {} returns", cloud.width);
            assert!(
                returns.contains(&cloud.width),
                "{model}: {} returns",
                cloud.width
            );
            // Nothing lies deeper under a street than this, whatever the lasers' angles.
            assert!(cloud.points().unwrap().all(|point| point.z > -8.0));
        }
        let spec = format!("synthetic:3?turns=2&model={}", model.name().to_lowercase());
        let spec: SourceSpec = spec.parse().unwrap();
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
}
