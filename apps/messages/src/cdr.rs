//! The same messages as ROS 2 encodes them.

use bytes::Bytes;

use crate::{
    DecodeError, Header, Packets, PointCloud2, Time, VelodyneScan, scan::PACKET_DATA_LEN,
    wire::Reader,
};

impl PointCloud2 {
    /// Decodes a cloud that ROS 2 has encoded; its data shares the memory of `bytes`. Its number is
    /// 0, which ROS 2 has not. Padding behind the last field is ignored.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the encoding is not plain CDR.
    pub fn decode_cdr(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::read(&mut Reader::cdr(Self::TYPE.name, bytes)?)
    }
}

impl VelodyneScan {
    /// Decodes a scan that ROS 2 has encoded. Its packets are copied, as their stamps are aligned
    /// there. Its number is 0, which ROS 2 has not. Padding behind the last packet is ignored.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the encoding is not plain CDR.
    pub fn decode_cdr(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::cdr(Self::TYPE.name, bytes)?;
        let header = Header::read(&mut reader)?;
        let count = reader.count("packets", Time::LEN + PACKET_DATA_LEN)?;
        let mut packets = Packets::builder(count);
        for _ in 0..count {
            let stamp = Time::read(&mut reader, "packets.stamp")?;
            packets.push(stamp, &reader.array("packets.data")?);
        }
        Ok(Self {
            header,
            packets: packets.build(),
        })
    }
}
