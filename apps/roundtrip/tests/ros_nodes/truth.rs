//! What the sides must have sent, made without them and without a transport.

use std::time::Duration;

use bytes::Bytes;
use lidar_detector::{Detector, FixedDelay, to_detection_array};
use lidar_messages::{Header, MessageType, PointCloud2, VelodyneScan};
use lidar_sensor::source::SourceSpec;
use lidar_sensor::{Convention, Converter, FRAME_ID};

const TURNS: usize = 2;

/// The source of the vehicle.
pub(crate) const SOURCE: &str = "synthetic:1?turns=2";

/// The scans of the source, their clouds, and what the edge's detector finds in each.
pub(crate) struct Truth {
    scans: Vec<VelodyneScan>,
    clouds: Vec<PointCloud2>,
}

impl Truth {
    pub(crate) fn new() -> Self {
        let spec: SourceSpec = SOURCE.parse().unwrap();
        let mut source = spec.open().unwrap();
        let turns = (0..TURNS).map(|_| source.next_scan().unwrap().unwrap().scan);
        let mut scans: Vec<VelodyneScan> = turns.collect();
        // What is sent before a trial.
        let header = Header {
            frame_id: FRAME_ID.into(),
            ..Header::default()
        };
        scans.push(VelodyneScan {
            header,
            ..VelodyneScan::default()
        });
        let mut converter = Converter::new(Convention::RosCompat);
        let clouds = scans.iter().map(|scan| converter.convert(scan).unwrap());
        Self {
            clouds: clouds.collect(),
            scans,
        }
    }

    /// The clouds that have points.
    pub(crate) fn clouds(&self) -> &[PointCloud2] {
        &self.clouds[..TURNS]
    }

    /// Whether `payload` is a whole scan, cloud or list; it panics if it is nothing that was sent.
    pub(crate) fn is_full(&self, kind: &MessageType, payload: &[u8]) -> bool {
        let seq = u32::from_le_bytes(*payload.first_chunk().unwrap());
        let found = (0..=TURNS).find(|&n| self.payload(kind, n, seq) == payload);
        found.unwrap_or_else(|| panic!("a {} that was not sent, number {seq}", kind.name)) < TURNS
    }

    fn payload(&self, kind: &MessageType, n: usize, seq: u32) -> Bytes {
        let mut cloud = self.clouds[n].clone();
        cloud.header.seq = seq;
        if *kind == PointCloud2::TYPE {
            cloud.encode()
        } else if *kind == VelodyneScan::TYPE {
            let mut scan = self.scans[n].clone();
            scan.header.seq = seq;
            scan.encode()
        } else {
            let found = FixedDelay::new(Duration::ZERO).detect(&cloud).unwrap();
            to_detection_array(cloud.header, &found).encode()
        }
    }
}
