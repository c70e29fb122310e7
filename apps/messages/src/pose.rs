use bytes::Bytes;

use crate::{
    DecodeError, Header, Pose,
    wire::{Reader, Writer},
};

/// `geometry_msgs/PoseStamped`: where something was at a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoseStamped {
    /// When, and the frame of the pose.
    pub header: Header,
    /// Where, in metres.
    pub pose: Pose,
}

impl PoseStamped {
    /// Decodes a pose; any numbers are taken, also those that are none.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, or the frame is not UTF-8.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let header = Header::read(&mut reader)?;
        let pose = Pose::read(&mut reader, "pose")?;
        reader.finish("pose")?;
        Ok(Self { header, pose })
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        self.header.encoded_len() + Pose::LEN
    }

    /// Encodes the pose.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.header.write(&mut writer);
        self.pose.write(&mut writer);
        writer.finish()
    }
}
