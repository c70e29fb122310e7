//! The answer to a page that asks what is new; `docs/view.md` describes its bytes.

use bytes::{BufMut, Bytes, BytesMut};
use lidar_messages::Detection3DArray;
use lidar_sensor::Converter;
use serde::Serialize;
use vehicle::{DataType, Source};

use crate::board::{Look, Shown, StreamHead};

/// What an answer begins with: the format and its version.
const MAGIC: &[u8; 4] = b"RTV1";

/// Objects that are passed on; more cannot be told apart on a page.
const MOST_OBJECTS: usize = 500;

#[derive(Serialize)]
struct Head<'a> {
    /// Which program run this is.
    run: &'a str,
    version: u64,
    ended: bool,
    streams: &'a [StreamHead],
    frame: Option<FrameHead<'a>>,
}

#[derive(Serialize)]
struct FrameHead<'a> {
    sequence: u64,
    data_type: DataType,
    /// Payload bytes as sent.
    bytes: usize,
    /// Metres of one unit.
    unit: f32,
    rings: u16,
    /// Who found the objects; `null` if nobody did.
    source: Option<Source>,
    objects: Vec<Object>,
    /// Objects that are not passed on.
    more_objects: usize,
    /// Why there are no points or no objects.
    unreadable: Option<String>,
    #[serde(skip)]
    points: &'a Bytes,
}

/// An upright box; metres and radians in the frame of the cloud.
#[derive(Serialize)]
struct Object {
    /// As in `vision_msgs/ObjectHypothesisWithPose`; 0 if there is none.
    class: i64,
    score: f64,
    center: [f64; 3],
    /// Length, width, height.
    size: [f64; 3],
    yaw: f64,
}

/// Head and points of the answer; the points are shared by all pages.
pub(crate) fn answer(run: &str, look: &Look, converter: &Converter) -> [Bytes; 2] {
    let none = Bytes::new();
    let frame = look
        .newest
        .as_deref()
        .map(|shown| describe(shown, converter, &none));
    let points = frame.as_ref().map_or(&none, |frame| frame.points).clone();
    let head = Head {
        run,
        version: look.version,
        ended: look.ended,
        streams: &look.streams,
        frame,
    };
    // Numbers, texts and lists of them: nothing that JSON cannot hold.
    let json = serde_json::to_vec(&head).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(MAGIC.len() + 4 + json.len());
    bytes.put_slice(MAGIC);
    bytes.put_u32_le(u32::try_from(json.len()).unwrap_or(u32::MAX));
    bytes.put_slice(&json);
    [bytes.freeze(), points]
}

fn describe<'a>(shown: &'a Shown, converter: &Converter, none: &'a Bytes) -> FrameHead<'a> {
    let mut unreadable = None;
    let (points, unit, rings) = match shown.cloud(converter) {
        Ok(cloud) => (&cloud.points, cloud.unit, cloud.rings),
        Err(error) => {
            unreadable = Some(error.to_string());
            (none, 1.0, 0)
        }
    };
    let mut objects = Vec::new();
    let mut more_objects = 0;
    let source = shown.objects.as_ref().map(|(source, list)| {
        match Detection3DArray::decode(list.clone()) {
            Ok(list) => {
                objects = list
                    .detections
                    .iter()
                    .take(MOST_OBJECTS)
                    .map(object)
                    .collect();
                more_objects = list.detections.len() - objects.len();
            }
            Err(error) => unreadable = Some(error.to_string()),
        }
        *source
    });
    FrameHead {
        sequence: shown.sequence,
        data_type: shown.data_type,
        bytes: shown.bytes(),
        unit,
        rings,
        source,
        objects,
        more_objects,
        unreadable,
        points,
    }
}

fn object(detection: &lidar_messages::Detection3D) -> Object {
    let (class, score) = detection
        .results
        .first()
        .map_or((0, 0.0), |result| (result.id, result.score));
    let center = detection.bbox.center;
    let size = detection.bbox.size;
    Object {
        class,
        score,
        center: [center.position.x, center.position.y, center.position.z],
        size: [size.x, size.y, size.z],
        yaw: center.orientation.yaw(),
    }
}
