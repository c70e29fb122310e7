//! What vehicle and edge agree on: topics, schemas, and how the edge's stamps travel in the answer.
//!
//! Scans go out on [`Topics::scan`] or clouds on [`Topics::cloud`]; for each of them one object list
//! comes back on [`Topics::objects`], whose metadata names the scan it answers (`correlation`) and
//! carries the edge's stamps.

use latency_timeline::{Point, Timeline};
use lidar_messages::{Detection3DArray, MessageType, PointCloud2, VelodyneScan};
use transport_api::{ClockId, Error, Result, Schema, Stamp, StampPoint, Stamps, TopicName};

/// The topics of one vehicle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    /// `velodyne_msgs/VelodyneScan`, vehicle to edge.
    pub scan: TopicName,
    /// `sensor_msgs/PointCloud2`, vehicle to edge.
    pub cloud: TopicName,
    /// `vision_msgs/Detection3DArray`, edge to vehicle.
    pub objects: TopicName,
}

impl Topics {
    /// The topics below `prefix`; an empty prefix gives `velodyne_packets`, `points`, `objects`.
    ///
    /// # Errors
    /// The prefix is no topic name.
    pub fn below(prefix: &str) -> Result<Self> {
        let topic = |name: &str| match prefix {
            "" => TopicName::parse(name),
            _ => TopicName::parse(&format!("{prefix}/{name}")),
        };
        Ok(Self {
            scan: topic("velodyne_packets")?,
            cloud: topic("points")?,
            objects: topic("objects")?,
        })
    }
}

/// The schema of scans.
///
/// # Errors
/// None for the types of this project; see [`schema`].
pub fn scan_schema() -> Result<Schema> {
    schema(&VelodyneScan::TYPE)
}

/// The schema of clouds.
///
/// # Errors
/// None for the types of this project; see [`schema`].
pub fn cloud_schema() -> Result<Schema> {
    schema(&PointCloud2::TYPE)
}

/// The schema of object lists.
///
/// # Errors
/// None for the types of this project; see [`schema`].
pub fn objects_schema() -> Result<Schema> {
    schema(&Detection3DArray::TYPE)
}

/// A ROS 1 message type as a schema: its md5 sum is the fingerprint.
///
/// # Errors
/// The md5 sum is not 32 hexadecimal digits.
pub fn schema(message: &MessageType) -> Result<Schema> {
    let fault = || Error::config(format!("md5 `{}` of `{}`", message.md5, message.name));
    let mut fingerprint = [0; 16];
    if message.md5.len() != 32 || !message.md5.is_ascii() {
        return Err(fault());
    }
    for (n, byte) in fingerprint.iter_mut().enumerate() {
        let digits = &message.md5[2 * n..2 * n + 2];
        *byte = u8::from_str_radix(digits, 16).map_err(|_| fault())?;
    }
    Ok(Schema::new(message.name, fingerprint, message.definition))
}

/// Puts the edge's stamps of `timeline` into the metadata of the answer.
pub fn pack(timeline: &Timeline, clock: u32) -> Stamps {
    let mut stamps = Stamps::new();
    for point in Point::EDGE {
        if let Some(nanos) = timeline.get(point) {
            stamps.push(Stamp {
                point: StampPoint(point.number()),
                clock: ClockId(clock),
                nanos,
            });
        }
    }
    stamps
}

/// Takes the edge's stamps from an answer into `timeline`. Stamps of other points, and of another
/// clock than the first one's, are left out: they could not be subtracted.
pub fn unpack(stamps: &Stamps, timeline: &mut Timeline) {
    let clock = stamps.as_slice().first().map(|stamp| stamp.clock);
    for stamp in stamps
        .as_slice()
        .iter()
        .filter(|stamp| Some(stamp.clock) == clock)
    {
        match Point::from_number(stamp.point.0) {
            Some(point) if Point::EDGE.contains(&point) => timeline.set(point, stamp.nanos),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_the_usual_ros_names_without_a_prefix() {
        let topics = Topics::below("").unwrap();
        assert_eq!(topics.scan.as_str(), "velodyne_packets");
        assert_eq!(
            Topics::below("veh1").unwrap().objects.as_str(),
            "veh1/objects"
        );
        assert!(Topics::below("/veh1").is_err());
    }

    #[test]
    fn schemas_carry_the_md5_sums_of_ros() {
        let schema = cloud_schema().unwrap();
        let id = schema.id().unwrap();
        assert_eq!(id.fingerprint_hex(), "1158d486dd51d683ce2f1be655c3c181");
    }

    #[test]
    fn edge_stamps_travel_and_vehicle_points_cannot_be_overwritten() {
        let mut edge = Timeline::default();
        Point::EDGE
            .into_iter()
            .enumerate()
            .for_each(|(n, point)| edge.set(point, n as i64));
        let mut stamps = pack(&edge, 7);
        let start = StampPoint(Point::Start.number());
        stamps.push(Stamp {
            point: start,
            clock: ClockId(7),
            nanos: 99,
        });
        let mut vehicle = Timeline::default();
        unpack(&stamps, &mut vehicle);
        assert_eq!(vehicle, edge);
    }
}
