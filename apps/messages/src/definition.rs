use crate::{
    Detection3DArray, Header, MarkerArray, ObjectList, PointCloud2, PoseStamped, VelodynePacket,
    VelodyneScan,
};

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

impl ObjectList {
    /// `perception_msgs/ObjectList` as of its first definition for ROS 1.
    pub const TYPE: MessageType = MessageType {
        name: "perception_msgs/ObjectList",
        md5: "8f3a5eddbbb9d4547069db98fba45ec7",
        definition: definition!(
            "std_msgs/Header header\nObject[] objects\n",
            "std_msgs/Header": header!(),
            "perception_msgs/Object":
                "uint64 id\nfloat64 existence_probability\nObjectState state\n\
                 ObjectState[] state_history\nObjectStatePrediction[] state_predictions\n",
            "perception_msgs/ObjectState":
                "std_msgs/Header header\nuint8 model_id\nuint64[] sensor_id\n\
                 float64[] continuous_state\nint64[] discrete_state\n\
                 float64[] continuous_state_covariance\n\
                 ObjectClassification[] classifications\nObjectReferencePoint reference_point\n",
            "perception_msgs/ObjectClassification":
                "uint8 UNCLASSIFIED=0\nuint8 PEDESTRIAN=1\nuint8 BICYCLE=2\nuint8 MOTORBIKE=3\n\
                 uint8 CAR=4\nuint8 TRUCK=5\nuint8 VAN=6\nuint8 BUS=7\nuint8 ANIMAL=8\n\
                 uint8 ROAD_OBSTACLE=9\nuint8 TRAIN=10\nuint8 TRAILER=11\nuint8 CAR_UNION=50\n\
                 uint8 TRUCK_UNION=51\nuint8 BIKE_UNION=52\nuint8 UNKNOWN=100\n\
                 uint8 type\nfloat64 probability\n",
            "perception_msgs/ObjectReferencePoint":
                "uint8 GEOMETRIC_CENTER=0\nuint8 BACK=1\nuint8 BACK_LEFT=2\nuint8 LEFT=3\n\
                 uint8 FRONT_LEFT=4\nuint8 FRONT=5\nuint8 FRONT_RIGHT=6\nuint8 RIGHT=7\n\
                 uint8 BACK_RIGHT=8\nuint8 GRAVITY_CENTER=10\nuint8 REAR_AXLE_GROUND=11\n\
                 uint8 UNKNOWN=100\nuint8 UNKNOWN_EDGE=101\nuint8 UNKNOWN_CORNER=102\n\
                 uint8 value\ngeometry_msgs/Vector3 translation_to_geometric_center\n",
            "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z\n",
            "perception_msgs/ObjectStatePrediction": "float64 probability\nObjectState[] states\n",
        ),
    };
}

impl MarkerArray {
    /// `visualization_msgs/MarkerArray` as of ROS 1 noetic.
    pub const TYPE: MessageType = MessageType {
        name: "visualization_msgs/MarkerArray",
        md5: "d155b9ce5188fbaf89745847fd5882d7",
        definition: definition!(
            "Marker[] markers\n",
            "visualization_msgs/Marker":
                "uint8 ARROW=0\nuint8 CUBE=1\nuint8 SPHERE=2\nuint8 CYLINDER=3\n\
                 uint8 LINE_STRIP=4\nuint8 LINE_LIST=5\nuint8 CUBE_LIST=6\nuint8 SPHERE_LIST=7\n\
                 uint8 POINTS=8\nuint8 TEXT_VIEW_FACING=9\nuint8 MESH_RESOURCE=10\n\
                 uint8 TRIANGLE_LIST=11\nuint8 ADD=0\nuint8 MODIFY=0\nuint8 DELETE=2\n\
                 uint8 DELETEALL=3\n\
                 Header header\nstring ns\nint32 id\nint32 type\nint32 action\n\
                 geometry_msgs/Pose pose\ngeometry_msgs/Vector3 scale\n\
                 std_msgs/ColorRGBA color\nduration lifetime\nbool frame_locked\n\
                 geometry_msgs/Point[] points\nstd_msgs/ColorRGBA[] colors\n\
                 string text\nstring mesh_resource\nbool mesh_use_embedded_materials\n",
            "std_msgs/Header": header!(),
            "geometry_msgs/Pose": "Point position\nQuaternion orientation\n",
            "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z\n",
            "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n",
            "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z\n",
            "std_msgs/ColorRGBA": "float32 r\nfloat32 g\nfloat32 b\nfloat32 a\n",
        ),
    };
}
