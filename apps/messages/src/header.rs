use bytes::Bytes;

use crate::{
    DecodeError, Text,
    wire::{Reader, Writer},
};

/// A ROS time: seconds and nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds.
    pub secs: u32,
    /// The rest in nanoseconds. Foreign messages may carry more than a second here.
    pub nsecs: u32,
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

impl Time {
    pub(crate) const LEN: usize = 8;

    /// The time `nanos` after the epoch; the last representable one in the year 2106 if that is
    /// later still.
    pub fn from_nanos(nanos: u64) -> Self {
        match u32::try_from(nanos / NANOS_PER_SEC) {
            // The remainder of a division by 10^9 fits 32 bits.
            Ok(secs) => Self {
                secs,
                nsecs: (nanos % NANOS_PER_SEC) as u32,
            },
            Err(_) => Self {
                secs: u32::MAX,
                nsecs: 999_999_999,
            },
        }
    }

    /// Nanoseconds since the epoch.
    pub fn as_nanos(self) -> u64 {
        u64::from(self.secs) * NANOS_PER_SEC + u64::from(self.nsecs)
    }

    pub(crate) fn read(reader: &mut Reader, field: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            secs: reader.u32(field)?,
            nsecs: reader.u32(field)?,
        })
    }

    pub(crate) fn from_le_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [s0, s1, s2, s3, n0, n1, n2, n3] = bytes;
        Self {
            secs: u32::from_le_bytes([s0, s1, s2, s3]),
            nsecs: u32::from_le_bytes([n0, n1, n2, n3]),
        }
    }

    pub(crate) fn to_le_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.secs.to_le_bytes());
        bytes[4..].copy_from_slice(&self.nsecs.to_le_bytes());
        bytes
    }
}

/// `std_msgs/Header`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the message, counted by its publisher.
    pub seq: u32,
    /// When the data was taken.
    pub stamp: Time,
    /// Frame the coordinates are in.
    pub frame_id: Text,
}

impl Header {
    pub(crate) const MIN_LEN: usize = 4 + Time::LEN + 4;

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        Self::MIN_LEN + self.frame_id.len()
    }

    /// Encodes the header alone.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.write(&mut writer);
        writer.finish()
    }

    /// Decodes a message that is a header and nothing else.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, or the frame is not UTF-8.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let header = Self::read(&mut reader)?;
        reader.finish("frame_id")?;
        Ok(header)
    }

    pub(crate) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            seq: match reader.is_cdr() {
                true => 0,
                false => reader.u32("header.seq")?,
            },
            stamp: Time::read(reader, "header.stamp")?,
            frame_id: reader.text("header.frame_id")?,
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u32(self.seq);
        writer.slice(&self.stamp.to_le_bytes());
        writer.text(&self.frame_id);
    }
}
