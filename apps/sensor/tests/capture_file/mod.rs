//! Captures as `tcpdump` would write them, and the recording real ones are compared with.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use lidar_messages::VelodyneScan;
use lidar_sensor::source::{Recording, RecordingConfig, SourceError};
use lidar_sensor::{Block, Model, Packet, Return, ReturnMode, Turn};
use tempfile::TempDir;

/// A capture under construction.
pub(crate) struct CaptureFile {
    pub(crate) bytes: Vec<u8>,
    micros: u64,
}

impl CaptureFile {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&65_535u32.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        Self {
            bytes,
            micros: 1_000_000_000_000,
        }
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) {
        let len = (frame.len() as u32).to_le_bytes();
        self.bytes
            .extend_from_slice(&((self.micros / 1_000_000) as u32).to_le_bytes());
        self.bytes
            .extend_from_slice(&((self.micros % 1_000_000) as u32).to_le_bytes());
        self.bytes.extend_from_slice(&len);
        self.bytes.extend_from_slice(&len);
        self.bytes.extend_from_slice(frame);
    }

    pub(crate) fn udp(&mut self, port: u16, payload: &[u8]) {
        self.frame(&ethernet(0x0800, &ipv4(17, &udp(port, payload))));
    }

    pub(crate) fn data(&mut self, packet: &[u8]) {
        self.micros += 664;
        self.udp(2368, packet);
    }

    pub(crate) fn write(&self, directory: &TempDir) -> PathBuf {
        write(directory, &self.bytes)
    }
}

pub(crate) fn write(directory: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join("capture.pcap");
    fs::write(&path, bytes).unwrap();
    path
}

pub(crate) fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[0x60, 0x76, 0x88, 0, 0, 0]);
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(payload.len() as u16 + 20).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0, 0xff, protocol, 0, 0]);
    packet.extend_from_slice(&[192, 168, 1, 201, 255, 255, 255, 255]);
    packet.extend_from_slice(payload);
    packet
}

/// With what stands between the header and the payload.
pub(crate) fn ipv6(extension: &[u8], next: u8, payload: &[u8]) -> Vec<u8> {
    let len = (extension.len() + payload.len()) as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[next, 64]);
    packet.extend_from_slice(&[0xfe; 32]);
    packet.extend_from_slice(extension);
    packet.extend_from_slice(payload);
    packet
}

/// A capture in the format pcapng under construction.
pub(crate) struct Pcapng {
    pub(crate) bytes: Vec<u8>,
    big_endian: bool,
}

impl Pcapng {
    pub(crate) fn new(big_endian: bool) -> Self {
        let mut file = Self {
            bytes: Vec::new(),
            big_endian,
        };
        let version = [file.u16(1), file.u16(0)].concat();
        let body = [&file.u32(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        file.block(0x0a0d_0d0a, &body);
        file
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    /// A block of any kind; its body is padded.
    pub(crate) fn block(&mut self, kind: u32, body: &[u8]) {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let len = self.u32((12 + body.len() + padding.len()) as u32);
        let parts = [&self.u32(kind)[..], &len, body, &padding, &len].concat();
        self.bytes.extend_from_slice(&parts);
    }

    /// An interface whose clock ticks `10^-resolution` seconds and is `offset` seconds behind.
    pub(crate) fn interface(&mut self, link: u16, resolution: u8, offset: u32) {
        let mut seconds = [self.u32(0), self.u32(offset)];
        if !self.big_endian {
            seconds.reverse();
        }
        let body = [
            &self.u16(link)[..],
            &[0, 0],
            &self.u32(262_144),
            &self.u16(9),
            &self.u16(1),
            &[resolution, 0, 0, 0],
            &self.u16(14),
            &self.u16(8),
            seconds.as_flattened(),
            &[0; 4],
        ];
        self.block(1, &body.concat());
    }

    pub(crate) fn enhanced(&mut self, interface: u32, ticks: u64, frame: &[u8]) {
        let len = self.u32(frame.len() as u32);
        let body = [
            &self.u32(interface)[..],
            &self.u32((ticks >> 32) as u32),
            &self.u32(ticks as u32),
            &len,
            &len,
            frame,
        ];
        self.block(6, &body.concat());
    }
}

pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = port.to_be_bytes().repeat(2);
    datagram.extend_from_slice(&(payload.len() as u16 + 8).to_be_bytes());
    datagram.extend_from_slice(&[0, 0]);
    datagram.extend_from_slice(payload);
    datagram
}

/// Nanoseconds of a single-return packet of a VLP-32C.
pub(crate) const PACKET_NANOS: u64 = 663_552;

/// Packets of a VLP-32C whose rotor turns by `step` hundredths of a degree per firing, all returns
/// at 10 m.
pub(crate) fn packets(
    mode: ReturnMode,
    step: f64,
    count: usize,
) -> impl Iterator<Item = [u8; 1206]> {
    packets_of(Model::Vlp32c, mode, step, count)
}

/// The same of any model, by `step` per block.
pub(crate) fn packets_of(
    model: Model,
    mode: ReturnMode,
    step: f64,
    count: usize,
) -> impl Iterator<Item = [u8; 1206]> {
    let per_firing = mode.blocks_per_firing();
    (0..count).map(move |number| {
        let blocks = std::array::from_fn(|block| {
            let firing = (number * 12 + block) / per_firing;
            Block {
                azimuth: (step * firing as f64).rem_euclid(36_000.0) as u16,
                returns: [Return {
                    distance: 2_500,
                    reflectivity: 9,
                }; 32],
            }
        });
        let nanos = model.geometry().packet_nanos() as f64 / per_firing as f64;
        let micros = number as f64 * nanos / 1e3;
        Packet {
            model,
            blocks,
            timestamp_us: micros as u32,
            return_mode: mode,
        }
        .encode()
    })
}

/// Hundredths of a degree per firing at 600 rpm.
pub(crate) const STEP_600_RPM: f64 = 55.296e-6 * 10.0 * 36_000.0;

/// All turns of a recording that is read once.
pub(crate) fn read(
    path: &Path,
    config: RecordingConfig,
) -> Result<(Vec<Turn>, Recording), SourceError> {
    let mut recording = Recording::open(path, config)?;
    let mut turns = Vec::new();
    while let Some(turn) = recording.next_scan()? {
        turns.push(turn);
    }
    Ok((turns, recording))
}

/// The packets of all turns, as they were sent.
pub(crate) fn payloads(turns: &[Turn]) -> Vec<Vec<u8>> {
    let packets = turns.iter().flat_map(|turn| turn.scan.packets.iter());
    packets.map(|packet| packet.data.to_vec()).collect()
}

pub(crate) fn scans(turns: Vec<Turn>) -> Vec<VelodyneScan> {
    turns.into_iter().map(|turn| turn.scan).collect()
}

/// The real recording `vlp32.pcap`, where `ROUNDTRIP_DATA` names its directory.
pub(crate) fn real_recording() -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("ROUNDTRIP_DATA") else {
        println!("skipped: ROUNDTRIP_DATA names no directory with vlp32.pcap");
        return None;
    };
    let path = Path::new(&directory).join("vlp32.pcap");
    assert!(
        path.is_file(),
        "ROUNDTRIP_DATA is set, but {} is no file",
        path.display()
    );
    Some(path)
}
