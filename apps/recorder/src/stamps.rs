//! What a frame's clocks said.

use std::collections::BTreeMap;

use exchange::DataType;
use latency_timeline::Point;
use serde::Serialize;
use vehicle::{Frame, Source};

/// The JSON schema of the messages on `/stamps`.
pub const STAMPS_SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Stamps",
  "description": "The stamps of one frame, in nanoseconds; those of vehicle and edge are of different clocks.",
  "type": "object",
  "properties": {
    "seq": { "type": "integer", "description": "Number of the frame in the sequence of the vehicle." },
    "data_type": { "enum": ["scan", "cloud"], "description": "As what it was sent." },
    "bytes": { "type": "integer", "description": "Bytes of the payload." },
    "source": { "enum": ["edge", "local", null], "description": "Who made its object list; null if none came." },
    "age_ns": { "type": ["integer", "null"], "description": "From when it was due until its list was there." },
    "list_bytes": { "type": ["integer", "null"], "description": "Bytes of the list." },
    "stamps": {
      "type": "object",
      "description": "By the names of the columns of samples.csv.",
      "additionalProperties": { "type": "integer" }
    }
  },
  "required": ["seq", "data_type", "bytes", "source", "age_ns", "list_bytes", "stamps"]
}"#;

#[derive(Debug, Serialize)]
pub(crate) struct Stamps {
    seq: u64,
    data_type: DataType,
    bytes: usize,
    source: Option<Source>,
    age_ns: Option<u64>,
    list_bytes: Option<usize>,
    stamps: BTreeMap<&'static str, i64>,
}

impl Stamps {
    pub(crate) fn of(frame: &Frame) -> Self {
        let objects = frame.objects.as_ref();
        let age = objects.and_then(|objects| u64::try_from(objects.age.as_nanos()).ok());
        let stamps = Point::ALL.into_iter().filter_map(|point| {
            let nanos = frame.timeline.get(point)?;
            Some((point.column(), nanos))
        });
        Self {
            seq: frame.seq,
            data_type: frame.data_type,
            bytes: frame.payload.len(),
            source: objects.map(|objects| objects.source),
            age_ns: age,
            list_bytes: objects.map(|objects| objects.list.len()),
            stamps: stamps.collect(),
        }
    }
}
