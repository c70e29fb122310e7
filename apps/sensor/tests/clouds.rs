//! Files of clouds: PCD in its three forms, and those of KITTI.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod capture_file;

use std::fs;

use bytes::Bytes;
use capture_file::real_recording;
use lidar_messages::{CloudPoint, Datatype, Header, PointCloud2};
use lidar_sensor::{
    PcdError, read_kitti, read_pcd,
    source::{CloudFiles, CloudFormat, SourceSpec, Sweep},
    write_pcd,
};
use proptest::prelude::*;
use tempfile::TempDir;

const FIELDS: &str = "VERSION .7\nFIELDS ring x _ y z intensity\nSIZE 2 4 1 8 4 1\n\
                      TYPE U F U F F U\nCOUNT 1 1 3 1 1 1\n";

/// Bytes of a point of [`FIELDS`]: 2 + 4 + 3 + 8 + 4 + 1.
const STEP: usize = 22;

fn header(points: usize, data: &str) -> String {
    format!(
        "# comment\n{FIELDS}WIDTH {points}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {points}\nDATA {data}\n"
    )
}

fn value(point: usize, field: usize) -> u8 {
    (point * 7 + field) as u8
}

fn columns(point: usize) -> Vec<Vec<u8>> {
    let value = |field| value(point, field);
    vec![
        u16::from(value(0)).to_le_bytes().to_vec(),
        f32::from(value(1)).to_le_bytes().to_vec(),
        vec![0xee; 3],
        f64::from(value(2)).to_le_bytes().to_vec(),
        f32::from(value(3)).to_le_bytes().to_vec(),
        vec![value(4)],
    ]
}

/// Packs bytes by LZF: runs become references, the rest is taken as it is.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let run =
            (1..=264).take_while(|len| at > 0 && bytes.get(at + len - 1) == Some(&bytes[at - 1]));
        let run = run.count();
        if run >= 9 {
            packed.extend([0xe0, (run - 9) as u8, 0]);
            at += run;
        } else if run >= 3 {
            packed.extend([((run - 2) << 5) as u8, 0]);
            at += run;
        } else {
            let len = (bytes.len() - at).min(1 + at % 32);
            packed.push((len - 1) as u8);
            packed.extend_from_slice(&bytes[at..at + len]);
            at += len;
        }
    }
    let sizes = [packed.len() as u32, bytes.len() as u32].map(u32::to_le_bytes);
    [sizes.as_flattened(), &packed].concat()
}

/// The same points in every form.
fn forms(points: usize) -> [Vec<u8>; 3] {
    let rows: Vec<_> = (0..points).map(columns).collect();
    let text: String = (0..points)
        .map(|point| {
            let mut values: Vec<_> = (0..5)
                .map(|field| value(point, field).to_string())
                .collect();
            // A gap has words, too.
            values.insert(2, "0 0 0".to_owned());
            format!("{}\r\n", values.join(" "))
        })
        .collect();
    let by_column: Vec<u8> = (0..6)
        .flat_map(|column| rows.iter().flat_map(move |row| row[column].clone()))
        .collect();
    [
        [header(points, "ascii").as_bytes(), text.as_bytes()].concat(),
        [header(points, "binary").as_bytes(), &rows.concat().concat()].concat(),
        [
            header(points, "binary_compressed").as_bytes(),
            &pack(&by_column),
        ]
        .concat(),
    ]
}

fn read(bytes: &[u8]) -> Result<PointCloud2, PcdError> {
    read_pcd(&Bytes::copy_from_slice(bytes), Header::default())
}

#[test]
fn every_form_of_a_pcd_file_holds_the_same_points() {
    for points in [0, 1, 500] {
        for bytes in forms(points) {
            let cloud = read(&bytes).unwrap();
            assert_eq!(
                (cloud.width as usize, cloud.point_step as usize),
                (points, STEP)
            );
            let names: Vec<_> = cloud
                .fields
                .iter()
                .map(|field| field.name.to_string())
                .collect();
            assert_eq!(names, ["ring", "x", "y", "z", "intensity"]);
            assert_eq!(cloud.fields[2].datatype, Datatype::Float64);
            let read: Vec<_> = cloud.points().unwrap().collect();
            let expected = (0..points).map(|point| CloudPoint {
                x: f32::from(value(point, 1)),
                y: f32::from(value(point, 2)),
                z: f32::from(value(point, 3)),
                intensity: f32::from(value(point, 4)),
            });
            assert_eq!(read, expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn written_clouds_are_read_again() {
    let cloud = read(&forms(300)[1]).unwrap();
    let again = read(&write_pcd(&cloud).unwrap()).unwrap();
    assert!(again.points().unwrap().eq(cloud.points().unwrap()));
}

#[test]
fn a_real_pcd_file_is_read() {
    let Some(path) = real_recording() else { return };
    let bytes = fs::read(path.with_extension("pcd")).unwrap();
    let cloud = read(&bytes).unwrap();
    assert_eq!(cloud.points().unwrap().count(), 26_216);
    let finite = cloud.points().unwrap().filter(|point| point.x.is_finite());
    assert!(finite.map(|point| point.x.abs()).fold(0.0, f32::max) < 30.0);
}

#[test]
fn points_that_are_no_numbers_stay_so() {
    let text = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 1\nDATA ascii\nnan -inf 1e30\n";
    let point = read(text.as_bytes())
        .unwrap()
        .points()
        .unwrap()
        .next()
        .unwrap();
    assert!(point.x.is_nan() && point.y == f32::NEG_INFINITY && point.z == 1e30);
}

#[test]
fn what_is_wrong_with_a_pcd_file_is_named() {
    let [ascii, binary, packed] = forms(20);
    let text = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(matches!(read(b""), Err(PcdError::Foreign)));
    assert!(matches!(read(b"ply\nformat ascii"), Err(PcdError::Foreign)));
    assert!(text(&binary[..binary.len() - 1]).contains("20 points of 22 B"));
    assert!(
        text(&ascii[..ascii.len() - 30]).contains("point 1")
            || matches!(
                read(&ascii[..ascii.len() - 30]),
                Err(PcdError::Short { .. })
            )
    );
    assert!(matches!(
        read(&packed[..packed.len() - 1]),
        Err(PcdError::Packed { .. })
    ));
    let change = |from: &str, to: &str| {
        let header = header(20, "binary").replace(from, to);
        text(&[header.as_bytes(), &[0; 1_000]].concat())
    };
    assert!(change("DATA binary", "DATA zip").contains("binary_compressed"));
    assert!(change("SIZE 2 4", "SIZE 8 4").contains("ring"));
    assert!(change("TYPE U F", "TYPE F").contains("one for each"));
    assert!(change("COUNT 1 1", "COUNT 1 x").contains("COUNT"));
    assert!(change("POINTS 20", "POINTS 21").contains("WIDTH x HEIGHT"));
    assert!(change("WIDTH 20", "WIDTH -1").contains("less than 2^32"));
    let word = String::from_utf8(ascii)
        .unwrap()
        .replacen("DATA ascii\n0 ", "DATA ascii\nx ", 1);
    let error = text(word.as_bytes());
    assert!(error.contains("ring") && error.contains("\"x\""), "{error}");
}

#[test]
fn announced_points_reserve_no_memory() {
    let huge = header(1, "binary")
        .replace("WIDTH 1", "WIDTH 4294967295")
        .replace("HEIGHT 1", "HEIGHT 4294967295");
    let huge = huge.replace("POINTS 1\n", "");
    assert!(matches!(read(huge.as_bytes()), Err(PcdError::Short { .. })));
    let wide = header(1, "ascii").replace("COUNT 1 1 3", "COUNT 1 1 4000000000");
    let wide = [wide.as_bytes(), b"1 2 3\n"].concat();
    assert!(matches!(read(&wide), Err(PcdError::Short { .. })));
    for data in ["ascii", "binary_compressed"] {
        let huge = header(1, data)
            .replace("WIDTH 1", "WIDTH 4000000000")
            .replace("POINTS 1", "POINTS 4000000000");
        let announced = [9_u32, 0xffff_ffff].map(u32::to_le_bytes);
        let bytes = [huge.as_bytes(), announced.as_flattened(), &[0xff; 9]].concat();
        assert!(read(&bytes).is_err());
    }
}

#[test]
fn folders_are_read_in_the_order_of_names() {
    let directory = TempDir::new().unwrap();
    for (name, x) in [
        ("000010.bin", 10.0_f32),
        ("000002.bin", 2.0),
        ("notes.txt", 0.0),
    ] {
        let point = [x, 1.0, 2.0, 0.5].map(f32::to_le_bytes);
        fs::write(directory.path().join(name), point.as_flattened()).unwrap();
    }
    fs::write(directory.path().join("000011.bin"), []).unwrap();
    let spec: SourceSpec = format!("kitti:{}", directory.path().display())
        .parse()
        .unwrap();
    assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
    let mut source = spec.open().unwrap();
    let mut seen = Vec::new();
    while let Some(sweep) = source.next_sweep().unwrap() {
        let Sweep::Cloud(cloud) = sweep else {
            panic!("{sweep:?}")
        };
        let x = cloud.points().unwrap().next().map(|point| point.x);
        seen.push((cloud.header.seq, cloud.header.stamp.as_nanos(), x));
    }
    let expected = [
        (0, 0, Some(2.0)),
        (1, 100_000_000, Some(10.0)),
        (2, 200_000_000, None),
    ];
    assert_eq!(seen, expected);
    assert_eq!(source.statistics().turns, 3);
}

#[test]
fn files_that_cannot_be_are_named_and_passed_over() {
    let directory = TempDir::new().unwrap();
    let empty = CloudFiles::open(directory.path(), CloudFormat::Pcd).unwrap_err();
    assert!(empty.to_string().contains(".pcd"), "{empty}");
    fs::write(directory.path().join("1.bin"), [0; 15]).unwrap();
    fs::write(directory.path().join("2.bin"), [0; 16]).unwrap();
    let mut files = CloudFiles::open(directory.path(), CloudFormat::Kitti).unwrap();
    let error = files.next_cloud().unwrap_err().to_string();
    assert!(error.contains("1.bin") && error.contains("15 B"), "{error}");
    assert!(files.next_cloud().unwrap().is_some());
    assert!(files.next_cloud().unwrap().is_none());
    let missing = directory.path().join("missing.pcd");
    let error = CloudFiles::open(&missing, CloudFormat::Pcd).unwrap_err();
    assert!(error.to_string().contains("missing.pcd"), "{error}");
}

/// The format has no mark, so any file could be one.
#[test]
fn what_no_lidar_measures_is_no_kitti_file() {
    let read = |points: &[[f32; 4]]| {
        let values = points.as_flattened().iter();
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
        read_kitti(bytes.into(), Header::default())
    };
    let good = [1.0, -120.0, 0.5, 255.0];
    assert_eq!(read(&[good, good]).unwrap().points().unwrap().count(), 2);
    assert_eq!(read(&[]).unwrap().width, 0);
    for (place, value, name) in [
        (0, f32::NAN, "x"),
        (1, f32::INFINITY, "y"),
        (2, -1e30, "z"),
        (3, -0.5, "intensity"),
        (3, f32::NAN, "intensity"),
    ] {
        let mut bad = good;
        bad[place] = value;
        let error = read(&[good, good, bad]).unwrap_err().to_string();
        let expected = format!("{name} of the point at byte 32 is {value}");
        assert!(error.contains(&expected), "{error}");
    }
    // Text, and noise.
    assert!(read_kitti(b"0123456789abcdef"[..].into(), Header::default()).is_err());
    let mut noise = 1_u64;
    let noise = (0..1024).map(|_| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (noise >> 40) as u8
    });
    assert!(read_kitti(noise.collect::<Vec<u8>>().into(), Header::default()).is_err());
}

proptest! {
    #[test]
    fn any_damage_to_a_pcd_file_is_an_error_or_a_cloud(
        form in 0..3_usize,
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = forms(40)[form].clone();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(cloud) = read(&bytes) {
            cloud.check_layout().unwrap();
        }
    }
}
