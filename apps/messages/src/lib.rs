//! The ROS 1 messages of the round trip and their wire format.
//!
//! | type | what it carries |
//! |---|---|
//! | [`VelodyneScan`] | one turn of a lidar as the sensor's own packets |
//! | [`PointCloud2`] | the same turn as points |
//! | [`Detection3DArray`] | the objects found in it |
//! | [`ObjectList`] | the same with states and identities |
//! | [`MarkerArray`] | what a viewer draws of them |
//! | [`PoseStamped`] | where a vehicle is |
//! | [`Header`] | sequence number, stamp and frame of each of them |
//!
//! Every type has `decode`, `encode`, `encoded_len` and a [`MessageType`] constant with the name,
//! md5 sum and full definition a ROS 1 connection header carries.
//!
//! Decoding copies no bulk data: a decoded scan or cloud holds slices of the [`bytes::Bytes`] it
//! was decoded from and keeps them alive. Encoding sizes exactly and allocates once. A foreign
//! length field is compared with the bytes that are there before anything is allocated for it.
//!
//! ```
//! use lidar_messages::{Header, Packets, Time, VelodyneScan};
//!
//! let mut packets = Packets::builder(1);
//! packets.push(Time { secs: 7, nsecs: 0 }, &[0; 1206]);
//! let scan = VelodyneScan {
//!     header: Header { seq: 1, stamp: Time { secs: 7, nsecs: 0 }, frame_id: "velodyne".into() },
//!     packets: packets.build(),
//! };
//! let wire = scan.encode();
//! assert_eq!(wire.len(), 28 + 8 + 1206);
//! assert_eq!(VelodyneScan::decode(wire)?, scan);
//! # Ok::<(), lidar_messages::DecodeError>(())
//! ```

mod cdr;
mod cloud;
mod definition;
mod detection;
mod error;
mod geometry;
mod header;
mod marker;
mod object_list;
mod pose;
mod scan;
mod text;
mod wire;

pub use cloud::{CloudPoint, Datatype, LayoutError, PointCloud2, PointField, Points};
pub use definition::MessageType;
pub use detection::{BoundingBox3D, Detection3D, Detection3DArray, ObjectHypothesisWithPose};
pub use error::{DecodeError, Fault};
pub use geometry::{Point, Pose, PoseWithCovariance, Quaternion, Vector3};
pub use header::{Header, Time};
pub use marker::{Color, Marker, MarkerArray};
pub use object_list::{
    Iscactr, Object, ObjectClassification, ObjectList, ObjectReferencePoint, ObjectState,
    ObjectStatePrediction,
};
pub use pose::PoseStamped;
pub use scan::{PACKET_DATA_LEN, Packets, PacketsBuilder, VelodynePacket, VelodyneScan};
pub use text::Text;
