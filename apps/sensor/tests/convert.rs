//! From packets to points, on made and on real packets.
#![allow(clippy::unwrap_used)]

mod capture_file;

use std::fs;

use capture_file::{PACKET_NANOS, STEP_600_RPM, packets, read, real_recording, scans};
use lidar_messages::{CloudPoint, Header, Packets, PointCloud2, Time, VelodyneScan};
use lidar_sensor::{
    Convention, Converter, EqualPairs, Layout, Model, Packet, PacketError, Point, Return,
    ReturnMode, downsample, source::RecordingConfig,
};

const BOTH: [Convention; 2] = [Convention::RosCompat, Convention::Precise];

fn scan(packets: impl IntoIterator<Item = [u8; 1206]>) -> VelodyneScan {
    let mut builder = Packets::builder(151);
    for (number, data) in packets.into_iter().enumerate() {
        builder.push(Time::from_nanos(number as u64 * PACKET_NANOS), &data);
    }
    let header = Header {
        frame_id: "velodyne".into(),
        ..Header::default()
    };
    VelodyneScan {
        header,
        packets: builder.build(),
    }
}

fn turn() -> VelodyneScan {
    scan(packets(ReturnMode::Strongest, STEP_600_RPM, 151))
}

fn points(converter: &Converter, scan: &VelodyneScan) -> Vec<Point> {
    let mut points = Vec::new();
    converter.points(scan, &mut points).unwrap();
    points
}

fn real_scans() -> Option<Vec<VelodyneScan>> {
    let path = real_recording()?;
    let config = RecordingConfig {
        cut: 27_012,
        ..RecordingConfig::default()
    };
    Some(scans(read(&path, config).unwrap().0))
}

fn azimuth(point: &Point) -> f32 {
    (-point.y).atan2(point.x).to_degrees()
}

fn turned(a: &Point, b: &Point) -> f32 {
    let between = (azimuth(a) - azimuth(b)).abs();
    between.min(360.0 - between)
}

fn range(point: &Point) -> f32 {
    (point.x * point.x + point.y * point.y + point.z * point.z).sqrt()
}

#[test]
fn full_turn_becomes_a_cloud_of_57_984_points() {
    let mut converter = Converter::new(Convention::RosCompat);
    let cloud = converter.convert(&turn()).unwrap();
    assert_eq!(
        (cloud.width, cloud.height, cloud.is_dense),
        (57_984, 1, true)
    );
    assert_eq!(
        (cloud.point_step, cloud.row_step as usize),
        (22, cloud.data.len())
    );
    let layout: Vec<_> = cloud
        .fields
        .iter()
        .map(|field| {
            (
                field.name.to_string(),
                field.offset,
                field.datatype as u8,
                field.count,
            )
        })
        .collect();
    let expected = [
        ("x", 0, 7),
        ("y", 4, 7),
        ("z", 8, 7),
        ("intensity", 12, 7),
        ("ring", 16, 4),
        ("time", 18, 7),
    ];
    assert_eq!(
        layout,
        expected.map(|(name, at, kind)| (name.to_owned(), at, kind, 1))
    );
    assert_eq!(PointCloud2::decode(cloud.encode()).unwrap(), cloud);
}

#[test]
fn cloud_and_points_agree() {
    for convention in BOTH {
        let mut converter = Converter::new(convention);
        let cloud = converter.convert(&turn()).unwrap();
        let points = points(&converter, &turn());
        assert_eq!(points.len(), cloud.width as usize);
        for (point, read) in points.iter().zip(cloud.points().unwrap()) {
            let Point {
                x, y, z, intensity, ..
            } = *point;
            assert_eq!(
                read,
                CloudPoint {
                    x,
                    y,
                    z,
                    intensity: f32::from(intensity)
                }
            );
        }
        for (point, record) in points.iter().zip(cloud.data.as_chunks::<22>().0) {
            assert_eq!(record[16..18], point.ring.to_le_bytes());
            assert_eq!(record[18..], point.time.to_le_bytes());
        }
    }
}

#[test]
fn a_unit_is_four_millimetres() {
    for point in points(&Converter::new(Convention::RosCompat), &turn()) {
        assert!((range(&point) - 10.0).abs() < 0.0005, "{point:?}");
    }
    let geometry = Model::Vlp32c.geometry();
    let rings = geometry.ring.iter().copied();
    let mut rings: Vec<_> = rings.zip(geometry.elevation).collect();
    rings.sort_by_key(|(ring, _)| *ring);
    assert!(rings.iter().map(|(ring, _)| usize::from(*ring)).eq(0..32));
    assert!(rings.windows(2).all(|pair| pair[0].1 < pair[1].1));
    assert_eq!(
        rings[..4]
            .iter()
            .map(|(_, angle)| *angle)
            .collect::<Vec<_>>(),
        [-25.0, -15.639, -11.31, -8.843]
    );
    assert_eq!((rings[29].1, rings[30].1, rings[31].1), (7.0, 10.333, 15.0));
}

#[test]
fn real_room_has_its_real_size() {
    let Some(scans) = real_scans() else { return };
    let converter = Converter::new(Convention::RosCompat);
    let far = scans
        .iter()
        .flat_map(|scan| points(&converter, scan))
        .map(|p| range(&p));
    let far = far.fold(0.0, f32::max);
    assert!((far - 24.008).abs() < 0.0005, "{far} m");
}

/// The cloud beside the recording was made by other software. It need not be of the same packets,
/// so only the room is compared.
#[test]
fn real_room_has_the_shape_others_found() {
    let Some(scans) = real_scans() else { return };
    let file = fs::read(real_recording().unwrap().with_extension("pcd")).unwrap();
    let start = file
        .windows(12)
        .position(|part| part == b"DATA binary\n")
        .unwrap()
        + 12;
    let cell = |x: f32, y: f32, z: f32| [x, y, z].map(|value| (value / 0.1).floor() as i32);
    let converter = Converter::new(Convention::Precise);
    let mut room = std::collections::HashSet::new();
    for point in scans.iter().flat_map(|scan| points(&converter, scan)) {
        let [x, y, z] = cell(point.x, point.y, point.z);
        for near in 0..27 {
            room.insert([x + near % 3 - 1, y + near / 3 % 3 - 1, z + near / 9 - 1]);
        }
    }
    let theirs = file[start..].as_chunks::<12>().0;
    let inside = theirs.iter().filter(|record| {
        let value = |at: usize| f32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        room.contains(&cell(value(0), value(4), value(8)))
    });
    let (inside, all) = (inside.count(), theirs.len());
    assert!(
        inside * 100 >= all * 99,
        "{inside} of {all} points are where ours are"
    );
}

#[test]
fn gap_inside_a_packet_does_not_smear() {
    let mut data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 1).collect();
    for block in 0..12u16 {
        let azimuth = if block < 8 {
            8_956 + 20 * block
        } else {
            27_017 + 20 * (block - 8)
        };
        let at = 100 * usize::from(block) + 2;
        data[0][at..at + 2].copy_from_slice(&azimuth.to_le_bytes());
    }
    check_smear(&[scan(data)], 0.2);
}

#[test]
fn real_gaps_do_not_smear() {
    let Some(scans) = real_scans() else { return };
    check_smear(&scans, 0.23);
}

/// Within a block the rotor turns by 15/24 of its step, and no point is farther than that from the
/// azimuth of its block.
fn check_smear(scans: &[VelodyneScan], largest_step: f32) {
    let [ros, precise] = BOTH.map(Converter::new);
    for scan in scans {
        for (a, b) in points(&ros, scan).iter().zip(points(&precise, scan)) {
            let limit = largest_step * 15.0 / 24.0 + 0.006;
            assert!(turned(a, &b) <= limit, "{a:?} became {b:?}");
        }
    }
}

/// The packets of a scan as a dual-return sensor would have sent them: every block twice.
fn doubled(scan: &VelodyneScan) -> VelodyneScan {
    let mut builder = Packets::builder(2 * scan.packets.len());
    for packet in scan.packets.iter() {
        let single = Packet::decode(packet.data).unwrap();
        for half in 0..2 {
            let dual = Packet {
                model: Model::Vlp32c,
                blocks: std::array::from_fn(|block| single.blocks[6 * half + block / 2]),
                return_mode: ReturnMode::Dual,
                ..single.clone()
            };
            let nanos = packet.stamp.as_nanos() + half as u64 * PACKET_NANOS / 2;
            builder.push(Time::from_nanos(nanos), &dual.encode());
        }
    }
    VelodyneScan {
        header: scan.header.clone(),
        packets: builder.build(),
    }
}

fn check_doubling(scan: &VelodyneScan) {
    let dual = doubled(scan);
    for convention in BOTH {
        let converter = Converter::new(convention);
        let single = points(&converter, scan);
        let merged = points(&converter, &dual);
        assert_eq!(merged.len(), single.len());
        for (a, b) in single.iter().zip(&merged) {
            assert_eq!((a.z, a.intensity, a.ring), (b.z, b.intensity, b.ring));
            // The median of half as many steps may be another one, by a count or two.
            assert!(
                turned(a, b) < 0.03 && (a.time - b.time).abs() < 2e-6,
                "{a:?} {b:?}"
            );
        }
        let converter = converter.with_equal_pairs(EqualPairs::Keep);
        assert_eq!(points(&converter, &dual).len(), 2 * single.len());
    }
}

#[test]
fn equal_pairs_of_dual_returns_are_one_point() {
    check_doubling(&turn());
}

#[test]
fn equal_pairs_of_the_real_recording_are_one_point() {
    for scan in real_scans().into_iter().flatten() {
        check_doubling(&scan);
    }
}

#[test]
fn distinct_pairs_of_dual_returns_are_two_points() {
    let data = packets(ReturnMode::Dual, STEP_600_RPM, 1).next().unwrap();
    let mut packet = Packet::decode(&data).unwrap();
    // One beam through a window, one lost in the last return, one lost in both.
    packet.blocks[0].returns[3].distance = 5_000;
    packet.blocks[2].returns[4].distance = 0;
    for block in 4..6 {
        packet.blocks[block].returns[5] = Return::default();
    }
    let points = points(
        &Converter::new(Convention::RosCompat),
        &scan([packet.encode()]),
    );
    assert_eq!(points.len(), 6 * 32 + 1 - 1);
    let far: Vec<_> = points.iter().filter(|point| range(point) > 15.0).collect();
    assert_eq!(far.len(), 1);
    assert_eq!(far[0].ring, Model::Vlp32c.geometry().ring[3]);
}

#[test]
fn return_mode_is_read_from_every_packet() {
    let single = packets(ReturnMode::Strongest, STEP_600_RPM, 1);
    let dual = packets(ReturnMode::Dual, STEP_600_RPM, 1);
    let last = packets(ReturnMode::Last, STEP_600_RPM, 1);
    let points = points(
        &Converter::new(Convention::Precise),
        &scan(single.chain(dual).chain(last)),
    );
    assert_eq!(points.len(), 32 * (12 + 6 + 12));
}

#[test]
fn clouds_of_returns_are_dense() {
    let cloud = |scan: &VelodyneScan| Converter::new(Convention::Precise).convert(scan).unwrap();
    for scan in real_scans().into_iter().flatten().chain([turn()]) {
        let cloud = cloud(&scan);
        assert!(cloud.is_dense);
        assert!(
            cloud
                .points()
                .unwrap()
                .all(|point| { [point.x, point.y, point.z].into_iter().all(f32::is_finite) })
        );
    }
}

fn check_organised(scan: &VelodyneScan, blocks: u32) {
    let mut converter = Converter::new(Convention::RosCompat).with_layout(Layout::Organised);
    let cloud = converter.convert(scan).unwrap();
    assert_eq!((cloud.width, cloud.height), (32, blocks));
    cloud.check_layout().unwrap();
    let all: Vec<_> = cloud.points().unwrap().collect();
    let missing = all.iter().filter(|point| point.x.is_nan()).count();
    assert_eq!(cloud.is_dense, missing == 0);
    assert_eq!(all.len() - missing, points(&converter, scan).len());
    for (index, record) in cloud.data.as_chunks::<22>().0.iter().enumerate() {
        assert_eq!(
            record[16..18],
            (index as u16 % 32).to_le_bytes(),
            "column is ring"
        );
    }
}

#[test]
fn organised_clouds_say_what_is_missing() {
    check_organised(&turn(), 12 * 151);
    let mut packet = Packet::decode(&packets(ReturnMode::Last, 20.0, 1).next().unwrap()).unwrap();
    packet.blocks[3].returns[9].distance = 0;
    check_organised(&scan([packet.encode()]), 12);
    if let Some(scans) = real_scans() {
        check_organised(&scans[0], 912);
    }
}

#[test]
fn a_scan_without_packets_is_a_cloud_without_points() {
    let empty = scan([]);
    assert_eq!(empty.encode().len(), 28);
    for layout in [Layout::Returns, Layout::Organised] {
        let mut converter = Converter::new(Convention::RosCompat).with_layout(layout);
        let cloud = converter.convert(&empty).unwrap();
        assert_eq!((cloud.data.len(), cloud.is_dense), (0, true));
        assert_eq!(cloud.header, empty.header);
        let decoded = PointCloud2::decode(cloud.encode()).unwrap();
        assert_eq!(decoded.points().unwrap().count(), 0);
    }
}

#[test]
fn a_turn_without_returns_is_a_cloud_without_points() {
    let mut data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 2).collect();
    for packet in &mut data {
        for block in packet[..1200].as_chunks_mut::<100>().0 {
            block[4..].fill(0);
        }
    }
    let cloud = Converter::new(Convention::Precise)
        .convert(&scan(data))
        .unwrap();
    assert_eq!((cloud.width, cloud.height, cloud.row_step), (0, 1, 0));
}

#[test]
fn other_models_are_refused_by_name_and_place() {
    let mut data: Vec<_> = packets(ReturnMode::Strongest, STEP_600_RPM, 3).collect();
    for (product, name) in [
        (0x24, "VLP-16 Hi-Res"),
        (0x31, "Velarray"),
        (0xa1, "VLS-128"),
    ] {
        data[1][1205] = product;
        let error = Converter::new(Convention::Precise)
            .convert(&scan(data.clone()))
            .unwrap_err();
        assert_eq!((error.packet, error.packets), (1, 3));
        assert!(matches!(error.reason, PacketError::ForeignModel { .. }));
        assert!(error.to_string().contains(name), "{error}");
    }
    data[1][1205] = 0x77;
    let error = Converter::new(Convention::Precise)
        .convert(&scan(data))
        .unwrap_err();
    assert_eq!(error.reason, PacketError::UnknownModel { product: 0x77 });
}

#[test]
fn down_sampling_keeps_the_share_asked_for() {
    let turn = turn();
    for (percent, packets) in [(0, 0), (25, 38), (50, 76), (75, 113), (100, 151)] {
        let kept = downsample(&turn, percent, 3).unwrap();
        assert_eq!(kept.packets.len(), packets, "{percent} %");
        assert_eq!(kept.header, turn.header);
        assert_eq!(
            kept,
            downsample(&turn, percent, 3).unwrap(),
            "same seed, same choice"
        );
        let mut rest = turn.packets.iter();
        assert!(
            kept.packets
                .iter()
                .all(|packet| rest.any(|other| other == packet)),
            "in order"
        );
    }
    assert_ne!(downsample(&turn, 50, 3), downsample(&turn, 50, 4));
    assert!(
        downsample(&turn, 101, 3)
            .unwrap_err()
            .to_string()
            .contains("101 %")
    );
    assert_eq!(downsample(&scan([]), 50, 3).unwrap().packets.len(), 0);
}

#[test]
fn down_sampling_prefers_no_packet() {
    let turn = turn();
    let mut kept = [0; 151];
    for seed in 0..2_000 {
        for packet in downsample(&turn, 25, seed).unwrap().packets.iter() {
            kept[(packet.stamp.as_nanos() / PACKET_NANOS) as usize] += 1;
        }
    }
    // 503 expected, standard deviation 19.
    assert!(
        kept.iter().all(|count| (400..610).contains(count)),
        "{kept:?}"
    );
}
