//! What vehicle and edge agree on: topics, schemas, how the edge's stamps travel in the answer, and
//! what both note of their transport.
//!
//! Scans go out on [`Topics::scan`] or clouds on [`Topics::cloud`]; for each of them one object list
//! comes back on [`Topics::objects`], whose metadata names the scan it answers (`correlation`) and
//! carries the edge's stamps. A scan carries when its publishing began.
//!
//! Of several vehicles each has topics below its own [`VehicleId`]. Those that know where they are say so
//! on [`Topics::pose`], and what all of them see comes on [`collective_topic`], in frame [`MAP`].

mod objects;
mod outage;
mod receipt;
mod vehicle_id;

use latency_timeline::{Point, Timeline};
use lidar_messages::{MarkerArray, MessageType, PointCloud2, PoseStamped, VelodyneScan};
use serde::{Deserialize, Serialize};
use transport_api::{
    ClockId, Error, ErrorKind, Qos, Result, Schema, Stamp, StampPoint, Stamps, TopicName, Transport,
};

pub use objects::ObjectsFormat;
pub use outage::{Outage, Outages};
pub use receipt::Receipt;
pub use vehicle_id::VehicleId;

/// As what the vehicle sends its scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataType {
    /// `velodyne_msgs/VelodyneScan`, converted at the edge.
    #[default]
    Scan,
    /// `sensor_msgs/PointCloud2`, converted in the vehicle before the first stamp.
    Cloud,
}

/// Who made an object list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The edge.
    Edge,
    /// The vehicle itself.
    Local,
}

/// The topics of one vehicle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topics {
    /// `velodyne_msgs/VelodyneScan`, vehicle to edge.
    pub scan: TopicName,
    /// `sensor_msgs/PointCloud2`, vehicle to edge.
    pub cloud: TopicName,
    /// Object lists, edge to vehicle ([`ObjectsFormat`]).
    pub objects: TopicName,
    /// `visualization_msgs/MarkerArray`, edge to viewers.
    pub markers: TopicName,
    /// `vision_msgs/Detection3DArray`: the lists that the vehicle acts on, whoever made them.
    pub selected: TopicName,
    /// `geometry_msgs/PoseStamped` of the lidar in [`MAP`], vehicle to edge.
    pub pose: TopicName,
}

impl Topics {
    /// The topics below `prefix`; an empty prefix gives `velodyne_packets`, `points`, `objects`,
    /// `objects/selected`, `pose`.
    ///
    /// # Errors
    /// The prefix is no topic name.
    pub fn below(prefix: &str) -> Result<Self> {
        Ok(Self {
            scan: below(prefix, "velodyne_packets")?,
            cloud: below(prefix, "points")?,
            objects: below(prefix, "objects")?,
            markers: below(prefix, "objects/markers")?,
            selected: below(prefix, "objects/selected")?,
            pose: below(prefix, "pose")?,
        })
    }

    /// The topics of one of several vehicles: those below `prefix/vehicle`.
    ///
    /// # Errors
    /// The prefix is no topic name.
    pub fn of(prefix: &str, vehicle: &VehicleId) -> Result<Self> {
        Self::below(below(prefix, vehicle.as_str())?.as_str())
    }
}

/// The frame that all vehicles share.
pub const MAP: &str = "map";

/// Where the edge publishes what all vehicles see: `collective/objects` below `prefix`.
///
/// # Errors
/// The prefix is no topic name.
pub fn collective_topic(prefix: &str) -> Result<TopicName> {
    below(prefix, "collective/objects")
}

fn below(prefix: &str, name: &str) -> Result<TopicName> {
    match prefix {
        "" => TopicName::parse(name),
        _ => TopicName::parse(&format!("{prefix}/{name}")),
    }
}

/// Quality of service of scans that nobody waits for: a scan that still waits gives way to the next
/// one and is counted as dropped, so after an outage or behind a busy detector the newest comes first.
pub fn freshest() -> Qos {
    Qos::default().with_depth(1)
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

/// The schema of markers.
///
/// # Errors
/// None for the types of this project; see [`schema`].
pub fn markers_schema() -> Result<Schema> {
    schema(&MarkerArray::TYPE)
}

/// The schema of poses.
///
/// # Errors
/// None for the types of this project; see [`schema`].
pub fn pose_schema() -> Result<Schema> {
    schema(&PoseStamped::TYPE)
}

/// Whether `transport` carries what answers are matched by.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if it carries no metadata.
pub fn check_metadata(transport: &dyn Transport) -> Result<()> {
    if transport.capabilities().metadata {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "match answers with scans",
        "this transport carries bare payloads, so no answer would name its scan and no time stamp \
         would arrive; leave out `metadata=off`",
    ))
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

/// Puts the edge's stamps into the metadata of an answer: those of this answer from `timeline`, and
/// those that were known only after the answer before had left from `previous`.
pub fn pack(timeline: &Timeline, previous: &Timeline, clock: u32) -> Stamps {
    let mut stamps = Stamps::new();
    let own = Point::EDGE.map(|point| (point, timeline.get(point)));
    let after = Point::EDGE_AFTER.map(|point| (point, previous.get(point)));
    for (point, nanos) in own.into_iter().chain(after) {
        if let Some(nanos) = nanos {
            stamps.push(Stamp {
                point: StampPoint(point.number()),
                clock: ClockId(clock),
                nanos,
            });
        }
    }
    stamps
}

/// The stamp that a scan carries: when publishing began, by the vehicle's clock.
pub fn pack_start(nanos: i64, clock: u32) -> Stamps {
    let mut stamps = Stamps::new();
    // An empty list has room for one.
    stamps.push(Stamp {
        point: StampPoint(Point::Start.number()),
        clock: ClockId(clock),
        nanos,
    });
    stamps
}

/// The vehicle's clock and when publishing began by it, out of a scan's stamps.
pub fn unpack_start(stamps: &Stamps) -> Option<(u32, i64)> {
    let stamp = stamps.get(StampPoint(Point::Start.number()))?;
    Some((stamp.clock.0, stamp.nanos))
}

/// The stamps of a list that the vehicle acts on: T0 and when the list was there by the vehicle's
/// clock, and, if the edge made it, the edge's own.
pub fn pack_selected(timeline: &Timeline, clock: u32, edge_clock: Option<u32>) -> Stamps {
    let mut stamps = Stamps::new();
    let vehicle = [Point::Start, Point::End].map(|point| (point, Some(clock)));
    let edge = Point::EDGE.map(|point| (point, edge_clock));
    for (point, clock) in vehicle.into_iter().chain(edge) {
        if let Some((nanos, clock)) = timeline.get(point).zip(clock) {
            stamps.push(Stamp {
                point: StampPoint(point.number()),
                clock: ClockId(clock),
                nanos,
            });
        }
    }
    stamps
}

/// Who made a list that the vehicle acts on: only the edge's have its stamps.
pub fn source(stamps: &Stamps) -> Source {
    match stamps.get(StampPoint(Point::AnswerOut.number())) {
        Some(_) => Source::Edge,
        None => Source::Local,
    }
}

/// The edge's stamps out of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeStamps {
    /// The edge's clock; `None` without any stamp.
    pub clock: Option<u32>,
    /// Those of this answer.
    pub own: Timeline,
    /// Those of the edge's answer before, after it had left.
    pub previous: Timeline,
}

/// Takes the edge's stamps from an answer. Stamps of other points, and of another clock than the
/// first one's, are left out: they could not be subtracted.
pub fn unpack(stamps: &Stamps) -> EdgeStamps {
    let clock = stamps.as_slice().first().map(|stamp| stamp.clock);
    let mut edge = EdgeStamps {
        clock: clock.map(|clock| clock.0),
        ..EdgeStamps::default()
    };
    for stamp in stamps
        .as_slice()
        .iter()
        .filter(|stamp| Some(stamp.clock) == clock)
    {
        match Point::from_number(stamp.point.0) {
            Some(point) if Point::EDGE.contains(&point) => edge.own.set(point, stamp.nanos),
            Some(point) if Point::EDGE_AFTER.contains(&point) => {
                edge.previous.set(point, stamp.nanos);
            }
            _ => {}
        }
    }
    edge
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
    fn topics_of_several_vehicles_are_below_their_ids() {
        let id = "veh2".parse().unwrap();
        assert_eq!(Topics::of("", &id).unwrap().pose.as_str(), "veh2/pose");
        let topics = Topics::of("depot/a", &id).unwrap();
        assert_eq!(topics.scan.as_str(), "depot/a/veh2/velodyne_packets");
        let collective = |prefix| collective_topic(prefix).unwrap().to_string();
        assert_eq!(collective(""), "collective/objects");
        assert_eq!(collective("depot"), "depot/collective/objects");
    }

    #[test]
    fn schemas_carry_the_md5_sums_of_ros() {
        let schema = cloud_schema().unwrap();
        let id = schema.id().unwrap();
        assert_eq!(id.fingerprint_hex(), "1158d486dd51d683ce2f1be655c3c181");
    }

    #[test]
    fn a_scan_carries_when_it_was_published() {
        assert_eq!(unpack_start(&pack_start(-5, 7)), Some((7, -5)));
        assert_eq!(unpack_start(&Stamps::new()), None);
    }

    #[test]
    fn a_selected_list_says_who_made_it() {
        let mut timeline = Timeline::default();
        timeline.set(Point::Start, 3);
        timeline.set(Point::End, 9);
        let local = pack_selected(&timeline, 7, None);
        assert_eq!(source(&local), Source::Local);
        assert_eq!(unpack_start(&local), Some((7, 3)));
        timeline.set(Point::AnswerOut, 5);
        let edge = pack_selected(&timeline, 7, Some(8));
        assert_eq!(source(&edge), Source::Edge);
        assert_eq!(
            (edge.as_slice().len(), edge.as_slice()[2].clock),
            (3, ClockId(8))
        );
    }

    #[test]
    fn edge_stamps_travel_and_vehicle_points_cannot_be_overwritten() {
        let (mut own, mut previous) = (Timeline::default(), Timeline::default());
        for (n, point) in Point::EDGE.into_iter().enumerate() {
            own.set(point, n as i64);
        }
        for (n, point) in Point::EDGE_AFTER.into_iter().enumerate() {
            previous.set(point, -(n as i64));
        }
        let mut stamps = pack(&own, &previous, 7);
        for (point, clock) in [(Point::Start, 7), (Point::EdgeIn, 8)] {
            assert!(stamps.push(Stamp {
                point: StampPoint(point.number()),
                clock: ClockId(clock),
                nanos: 99,
            }));
        }
        let expected = EdgeStamps {
            clock: Some(7),
            own,
            previous,
        };
        assert_eq!(unpack(&stamps), expected);
        assert_eq!(unpack(&Stamps::new()), EdgeStamps::default());
    }
}
