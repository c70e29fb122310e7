use bytes::Bytes;

use crate::{
    DecodeError, Header, PointCloud2, Pose, PoseWithCovariance, Vector3,
    wire::{Reader, Writer},
};

/// `vision_msgs/Detection3DArray` of ROS 1 noetic: the object list of one scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detection3DArray {
    /// Number, time and frame of the scan the objects were found in.
    pub header: Header,
    /// The objects; none is a valid list.
    pub detections: Vec<Detection3D>,
}

/// `vision_msgs/Detection3D`: one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detection3D {
    /// Time and frame of this object.
    pub header: Header,
    /// What it may be, most likely first.
    pub results: Vec<ObjectHypothesisWithPose>,
    /// The box around it.
    pub bbox: BoundingBox3D,
    /// The points it was found from; left empty here.
    pub source_cloud: PointCloud2,
}

/// `vision_msgs/ObjectHypothesisWithPose`: one class an object may have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ObjectHypothesisWithPose {
    /// Number of the class; the detector documents its numbers.
    pub id: i64,
    /// Confidence, 0 to 1.
    pub score: f64,
    /// Where the object is if it is of this class.
    pub pose: PoseWithCovariance,
}

/// `vision_msgs/BoundingBox3D`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BoundingBox3D {
    /// Middle and heading of the box.
    pub center: Pose,
    /// Its length, width and height.
    pub size: Vector3,
}

impl Detection3DArray {
    /// Decodes an object list; strings and clouds in it share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, announce more objects than they hold, or a part
    /// of them is not valid (see [`Fault`](crate::Fault)).
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let header = Header::read(&mut reader)?;
        let detections = reader.sequence("detections", Detection3D::MIN_LEN, Detection3D::read)?;
        reader.finish("detections")?;
        Ok(Self { header, detections })
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        let detections: usize = self.detections.iter().map(Detection3D::encoded_len).sum();
        self.header.encoded_len() + 4 + detections
    }

    /// Encodes the object list.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.header.write(&mut writer);
        writer.sequence(&self.detections, Detection3D::write);
        writer.finish()
    }
}

impl Detection3D {
    const MIN_LEN: usize = Header::MIN_LEN + 4 + BoundingBox3D::LEN + PointCloud2::MIN_LEN;

    fn encoded_len(&self) -> usize {
        self.header.encoded_len()
            + 4
            + self.results.len() * ObjectHypothesisWithPose::LEN
            + BoundingBox3D::LEN
            + self.source_cloud.encoded_len()
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let header = Header::read(reader)?;
        Ok(Self {
            header,
            results: reader.sequence(
                "detections.results",
                ObjectHypothesisWithPose::LEN,
                ObjectHypothesisWithPose::read,
            )?,
            bbox: BoundingBox3D::read(reader)?,
            source_cloud: PointCloud2::read(reader)?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.header.write(writer);
        writer.sequence(&self.results, ObjectHypothesisWithPose::write);
        self.bbox.write(writer);
        self.source_cloud.write(writer);
    }
}

impl ObjectHypothesisWithPose {
    const LEN: usize = 8 + 8 + Pose::LEN + 36 * 8;

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = reader.i64("detections.results.id")?;
        let [score] = reader.f64s("detections.results.score")?;
        let pose = Pose::read(reader, "detections.results.pose")?;
        let covariance = reader.f64s("detections.results.pose.covariance")?;
        Ok(Self {
            id,
            score,
            pose: PoseWithCovariance { pose, covariance },
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.i64(self.id);
        writer.f64s(&[self.score]);
        self.pose.pose.write(writer);
        writer.f64s(&self.pose.covariance);
    }
}

impl BoundingBox3D {
    const LEN: usize = Pose::LEN + Vector3::LEN;

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let center = Pose::read(reader, "detections.bbox.center")?;
        Ok(Self {
            center,
            size: Vector3::read(reader, "detections.bbox.size")?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.center.write(writer);
        self.size.write(writer);
    }
}
