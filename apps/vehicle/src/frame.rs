//! What viewers and recorders see of a trial while it runs.

use std::time::Duration;

use bytes::Bytes;
use exchange::{DataType, Source};
use latency_timeline::Timeline;

/// One frame of the schedule, told when its object list is there or given up: for viewers and
/// recorders ([`crate::Settings::frames`]). Everything in it is passed on without a copy.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its number in the sequence of the vehicle's messages, as on the wire.
    pub seq: u64,
    /// T0, in nanoseconds of the vehicle's clock.
    pub start_ns: i64,
    /// As what it was sent.
    pub data_type: DataType,
    /// As it was sent: an encoded `velodyne_msgs/VelodyneScan` or `sensor_msgs/PointCloud2`.
    pub payload: Bytes,
    /// The list that is there for it; `None` if it was given up.
    pub objects: Option<Objects>,
    /// The stamps known by now: the vehicle's, and the edge's if its answer is there. Those that the
    /// edge takes after answering come later, and only into the trial's records.
    pub timeline: Timeline,
}

/// The object list of a frame.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Who found them.
    pub source: Source,
    /// Encoded as [`crate::Settings::lists`] says.
    pub list: Bytes,
    /// From T0 until the list was there.
    pub age: Duration,
}
