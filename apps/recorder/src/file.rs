//! The frames in the file.

use std::collections::BTreeMap;
use std::io::{Seek, Write};

use exchange::{DataType, ObjectsFormat};
use latency_timeline::ClockPair;
use lidar_detector::{from_detection_array, from_object_list, to_markers};
use lidar_messages::{
    DecodeError, Detection3DArray, MarkerArray, MessageType, ObjectList, PointCloud2, VelodyneScan,
};
use lidar_sensor::Converter;
use mcap::records::MessageHeader;
use mcap::{McapResult, WriteOptions, Writer};
use vehicle::Frame;

use crate::Settings;
use crate::stamps::{STAMPS_SCHEMA, Stamps};

/// A file that is written.
pub(crate) struct Recording<W: Write + Seek> {
    writer: Option<Writer<W>>,
    scans: u16,
    clouds: u16,
    objects: u16,
    markers: u16,
    stamps: u16,
    format: ObjectsFormat,
    clocks: ClockPair,
    converter: Converter,
}

impl<W: Write + Seek> Recording<W> {
    pub(crate) fn begin(target: W, settings: Settings) -> McapResult<Self> {
        let mut writer = WriteOptions::new()
            .profile("ros1")
            .library(concat!("roundtrip ", env!("CARGO_PKG_VERSION")))
            // A chunk is written as a whole when its frame is complete, so a file that ends early is
            // whole up to there.
            .disable_seeking(true)
            .chunk_size(None)
            .create(target)?;
        let mut ros = |topic: &str, kind: &MessageType| {
            let schema = writer.add_schema(kind.name, "ros1msg", kind.definition.as_bytes())?;
            let about = BTreeMap::from([("md5sum".to_owned(), kind.md5.to_owned())]);
            writer.add_channel(schema, topic, "ros1", &about)
        };
        let scans = ros("/velodyne_packets", &VelodyneScan::TYPE)?;
        let clouds = ros("/points", &PointCloud2::TYPE)?;
        let objects = ros("/objects", settings.objects.message())?;
        let markers = ros("/objects/markers", &MarkerArray::TYPE)?;
        let schema = writer.add_schema("Stamps", "jsonschema", STAMPS_SCHEMA.as_bytes())?;
        let stamps = writer.add_channel(schema, "/stamps", "json", &BTreeMap::new())?;
        writer.flush()?;
        Ok(Self {
            writer: Some(writer),
            scans,
            clouds,
            objects,
            markers,
            stamps,
            format: settings.objects,
            clocks: settings.clocks,
            converter: Converter::new(settings.convention),
        })
    }

    /// Writes a frame and hands it to the system. Returns how much of it could not be converted.
    pub(crate) fn write(&mut self, frame: &Frame) -> McapResult<u64> {
        let written = self.append(frame);
        if written.is_err()
            && let Some(writer) = self.writer.take()
        {
            // Its end would be tried to be written behind what is broken.
            drop(writer.into_inner());
        }
        written
    }

    fn append(&mut self, frame: &Frame) -> McapResult<u64> {
        let mut unconverted = 0;
        let sent = self.time(frame.start_ns);
        let seq = frame.seq;
        let cloud = match frame.data_type {
            DataType::Cloud => Some(frame.payload.clone()),
            DataType::Scan => {
                self.put(self.scans, seq, sent, &frame.payload)?;
                let scan = VelodyneScan::decode(frame.payload.clone()).ok();
                let cloud = scan.and_then(|scan| self.converter.convert(&scan).ok());
                cloud.map(|cloud| cloud.encode())
            }
        };
        match cloud {
            Some(cloud) => self.put(self.clouds, seq, sent, &cloud)?,
            None => unconverted += 1,
        }
        let mut there = sent;
        if let Some(objects) = &frame.objects {
            there += u64::try_from(objects.age.as_nanos()).unwrap_or(0);
            self.put(self.objects, seq, there, &objects.list)?;
            match markers(self.format, objects.list.clone()) {
                Ok(markers) => self.put(self.markers, seq, there, &markers.encode())?,
                Err(_) => unconverted += 1,
            }
        }
        let stamps = serde_json::to_vec(&Stamps::of(frame));
        let stamps = stamps.map_err(std::io::Error::other)?;
        self.put(self.stamps, seq, there, &stamps)?;
        if let Some(writer) = &mut self.writer {
            writer.flush()?;
        }
        Ok(unconverted)
    }

    fn put(&mut self, channel_id: u16, seq: u64, time: u64, payload: &[u8]) -> McapResult<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let header = MessageHeader {
            channel_id,
            // Its lower half, as in ROS headers.
            sequence: seq as u32,
            log_time: time,
            publish_time: time,
        };
        writer.write_to_known_channel(&header, payload)
    }

    /// By the clock of the day, which stamps nothing that is measured.
    fn time(&self, stamp: i64) -> u64 {
        let since = stamp.saturating_sub(self.clocks.monotonic_ns);
        let time = self.clocks.realtime_ns.saturating_add(since);
        u64::try_from(time).unwrap_or(0)
    }

    /// Writes the index and the end.
    pub(crate) fn finish(mut self) -> McapResult<()> {
        match &mut self.writer {
            Some(writer) => writer.finish().map(drop),
            None => Ok(()),
        }
    }
}

/// What a viewer draws of an object list.
fn markers(format: ObjectsFormat, list: bytes::Bytes) -> Result<MarkerArray, DecodeError> {
    Ok(match format {
        ObjectsFormat::Detection3d => {
            let list = Detection3DArray::decode(list)?;
            to_markers(&list.header, &from_detection_array(&list), None)
        }
        ObjectsFormat::ObjectList => {
            let list = ObjectList::decode(list)?;
            let (detections, ids) = from_object_list(&list);
            to_markers(&list.header, &detections, Some(&ids))
        }
    })
}
