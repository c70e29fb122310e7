//! From a scan or cloud as it was sent to an object list: decode, convert, detect.
//!
//! The edge does this with everything that it receives, and the vehicle with what the edge does not
//! answer in time.

mod lists;

use std::fmt;

use bytes::Bytes;
use exchange::DataType;
use latency_timeline::{Clock, Point, Timeline};
use lidar_detector::{DetectError, Detector};
use lidar_messages::{DecodeError, PointCloud2, VelodyneScan};
use lidar_sensor::{Convention, ConvertError, Converter};
use thiserror::Error;

pub use lists::{Found, ListSettings, Lister};

/// A detector with the conversion before it. It keeps buffers between messages.
pub struct Perception {
    detector: Box<dyn Detector>,
    converter: Converter,
    clock: Clock,
}

impl fmt::Debug for Perception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perception")
            .field("detector", &self.detector.name())
            .finish_non_exhaustive()
    }
}

/// Why there is no object list for a message.
#[derive(Debug, Error)]
pub enum Fault {
    /// It is no message of its type.
    #[error("not decodable: {0}")]
    Undecodable(#[from] DecodeError),
    /// A scan that does not convert to a cloud.
    #[error("not convertible: {0}")]
    Unconvertible(#[from] ConvertError),
    /// A cloud that the detector refuses.
    #[error("not detected: {0}")]
    Undetected(#[from] DetectError),
}

impl Perception {
    /// Detects with `detector` in clouds that are converted by `convention`; stamps are of `clock`.
    pub fn new(detector: Box<dyn Detector>, convention: Convention, clock: Clock) -> Self {
        Self {
            detector,
            converter: Converter::new(convention),
            clock,
        }
    }

    /// The detector's name.
    pub fn detector(&self) -> &str {
        self.detector.name()
    }

    /// The objects in `payload`, an encoded message of `data_type`. Stamps the points from
    /// [`Point::EdgeOut`] to [`Point::DetectorOut`]. Blocks for as long as the detector does.
    ///
    /// # Errors
    /// The payload is no such message or the detector refuses it; the next one may be better.
    pub fn detect(
        &mut self,
        data_type: DataType,
        payload: Bytes,
        timeline: &mut Timeline,
    ) -> Result<Found, Fault> {
        let clock = self.clock;
        let cloud = match data_type {
            DataType::Scan => {
                let scan = VelodyneScan::decode(payload)?;
                timeline.set(Point::EdgeOut, clock.now());
                self.converter.convert(&scan)?
            }
            DataType::Cloud => {
                let cloud = PointCloud2::decode(payload)?;
                timeline.set(Point::EdgeOut, clock.now());
                cloud
            }
        };
        timeline.set(Point::Converted, clock.now());

        timeline.set(Point::DetectorIn, clock.now());
        let detections = self.detector.detect(&cloud)?;
        timeline.set(Point::DetectorOut, clock.now());
        Ok(Found {
            header: cloud.header,
            detections,
        })
    }
}
