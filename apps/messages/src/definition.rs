use crate::{Detection3DArray, Header, PointCloud2, PoseStamped, VelodynePacket, VelodyneScan};

/// What a ROS 1 connection header says about a message.
///
/// The md5 sum identifies the definition: two nodes talk only if theirs are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageType {
    /// `package/Type`.
    pub name: &'static str,
    /// 32 hexadecimal digits.
    pub md5: &'static str,
    /// Text of the message and of every message it contains.
    pub definition: &'static str,
}

/// Joins message texts the way `message_definition` carries them.
macro_rules! definition {
    ($text:expr $(, $name:literal: $part:expr)* $(,)?) => {
        concat!(
            $text,
            $(
                "\n====================================================\
                 ============================\nMSG: ",
                $name, "\n", $part,
            )*
        )
    };
}

macro_rules! header {
    () => {
        "uint32 seq\ntime stamp\nstring frame_id\n"
    };
}

macro_rules! velodyne_packet {
    () => {
        "time stamp\nuint8[1206] data\n"
    };
}

macro_rules! point_cloud2 {
    () => {
        "Header header\nuint32 height\nuint32 width\nPointField[] fields\nbool is_bigendian\n\
         uint32 point_step\nuint32 row_step\nuint8[] data\nbool is_dense\n"
    };
}

macro_rules! point_field {
    () => {
        "uint8 INT8=1\nuint8 UINT8=2\nuint8 INT16=3\nuint8 UINT16=4\nuint8 INT32=5\n\
         uint8 UINT32=6\nuint8 FLOAT32=7\nuint8 FLOAT64=8\n\
         string name\nuint32 offset\nuint8 datatype\nuint32 count\n"
    };
}

impl Header {
    /// `std_msgs/Header`.
    pub const TYPE: MessageType = MessageType {
        name: "std_msgs/Header",
        md5: "2176decaecbce78abc3b96ef049fabed",
        definition: header!(),
    };
}

impl VelodynePacket<'_> {
    /// `velodyne_msgs/VelodynePacket`.
    pub const TYPE: MessageType = MessageType {
        name: "velodyne_msgs/VelodynePacket",
        md5: "ae4f90a23256f44e82baa08dd45c3456",
        definition: velodyne_packet!(),
    };
}

impl VelodyneScan {
    /// `velodyne_msgs/VelodyneScan`.
    pub const TYPE: MessageType = MessageType {
        name: "velodyne_msgs/VelodyneScan",
        md5: "50804fc9533a0e579e6322c04ae70566",
        definition: definition!(
            "Header header\nVelodynePacket[] packets\n",
            "std_msgs/Header": header!(),
            "velodyne_msgs/VelodynePacket": velodyne_packet!(),
        ),
    };
}

impl PointCloud2 {
    /// `sensor_msgs/PointCloud2`.
    pub const TYPE: MessageType = MessageType {
        name: "sensor_msgs/PointCloud2",
        md5: "1158d486dd51d683ce2f1be655c3c181",
        definition: definition!(
            point_cloud2!(),
            "std_msgs/Header": header!(),
            "sensor_msgs/PointField": point_field!(),
        ),
    };
}

impl Detection3DArray {
    /// `vision_msgs/Detection3DArray` as of ROS 1 noetic.
    pub const TYPE: MessageType = MessageType {
        name: "vision_msgs/Detection3DArray",
        md5: "05c51d9aea1fb4cfdc8effb94f197b6f",
        definition: definition!(
            "Header header\nDetection3D[] detections\n",
            "std_msgs/Header": header!(),
            "vision_msgs/Detection3D":
                "Header header\nObjectHypothesisWithPose[] results\nBoundingBox3D bbox\n\
                 sensor_msgs/PointCloud2 source_cloud\n",
            "vision_msgs/ObjectHypothesisWithPose":
                "int64 id\nfloat64 score\ngeometry_msgs/PoseWithCovariance pose\n",
            "geometry_msgs/PoseWithCovariance": "Pose pose\nfloat64[36] covariance\n",
            "geometry_msgs/Pose": "Point position\nQuaternion orientation\n",
            "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z\n",
            "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n",
            "vision_msgs/BoundingBox3D":
                "geometry_msgs/Pose center\ngeometry_msgs/Vector3 size\n",
            "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z\n",
            "sensor_msgs/PointCloud2": point_cloud2!(),
            "sensor_msgs/PointField": point_field!(),
        ),
    };
}

impl PoseStamped {
    /// `geometry_msgs/PoseStamped`.
    pub const TYPE: MessageType = MessageType {
        name: "geometry_msgs/PoseStamped",
        md5: "d3812c3cbc69362b77dc0b19b345f8f5",
        definition: definition!(
            "Header header\nPose pose\n",
            "std_msgs/Header": header!(),
            "geometry_msgs/Pose": "Point position\nQuaternion orientation\n",
            "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z\n",
            "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n",
        ),
    };
}
