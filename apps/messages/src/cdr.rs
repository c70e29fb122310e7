//! The same messages as ROS 2 encodes them: CDR, in which values are aligned to their size.

use bytes::Bytes;

use crate::{
    DecodeError, Fault, Header, LayoutError, Packets, PointCloud2, PointField, Text, Time,
    VelodyneScan, cloud::Datatype, scan::PACKET_DATA_LEN,
};

/// Bytes that say how the rest is encoded. Alignment counts from behind them.
const ENCAPSULATION_LEN: usize = 4;

/// Takes values off the front of a message.
struct Reader {
    message: &'static str,
    bytes: Bytes,
    at: usize,
    big_endian: bool,
}

impl Reader {
    fn new(message: &'static str, bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Self {
            message,
            bytes,
            at: 0,
            big_endian: true,
        };
        let kind = reader.array("encapsulation").map(u16::from_be_bytes)?;
        reader.array::<2>("encapsulation")?;
        reader.big_endian = match kind {
            0 => true,
            1 => false,
            kind => return Err(reader.error("encapsulation", Fault::Encapsulation { kind })),
        };
        Ok(reader)
    }

    fn error(&self, field: &'static str, fault: Fault) -> DecodeError {
        DecodeError {
            message: self.message,
            field,
            fault,
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes, sharing the message's memory.
    fn slice(&mut self, field: &'static str, len: usize) -> Result<Bytes, DecodeError> {
        let left = self.left();
        if len > left {
            return Err(self.error(field, Fault::Short { needed: len, left }));
        }
        let slice = self.bytes.slice(self.at..self.at + len);
        self.at += len;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let left = self.left();
        let found = self.bytes[self.at..].first_chunk().copied();
        let array = found.ok_or_else(|| self.error(field, Fault::Short { needed: N, left }))?;
        self.at += N;
        Ok(array)
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array(field).map(u8::from_le_bytes)
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let behind = self.at - ENCAPSULATION_LEN;
        self.slice(field, behind.next_multiple_of(4) - behind)?;
        let bytes = self.array(field)?;
        Ok(if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// The count of a sequence whose elements take at least `each` bytes; it fits the message.
    fn count(&mut self, field: &'static str, each: usize) -> Result<usize, DecodeError> {
        let count = self.u32(field)?;
        let left = self.left();
        match usize::try_from(count) {
            Ok(elements) if elements <= left / each => Ok(elements),
            _ => Err(self.error(field, Fault::Count { count, each, left })),
        }
    }

    /// A string, which ends with a zero that belongs to its length.
    fn text(&mut self, field: &'static str) -> Result<Text, DecodeError> {
        let len = self.count(field, 1)?;
        let mut bytes = self.slice(field, len)?;
        if bytes.last() == Some(&0) {
            bytes.truncate(len - 1);
        }
        Text::new(bytes).map_err(|at| self.error(field, Fault::Text { at }))
    }

    fn time(&mut self, field: &'static str) -> Result<Time, DecodeError> {
        let (secs, nsecs) = (self.u32(field)?, self.u32(field)?);
        Ok(Time { secs, nsecs })
    }

    /// A header, which has no number in ROS 2.
    fn header(&mut self) -> Result<Header, DecodeError> {
        Ok(Header {
            seq: 0,
            stamp: self.time("header.stamp")?,
            frame_id: self.text("header.frame_id")?,
        })
    }
}

impl PointCloud2 {
    /// Decodes a cloud that ROS 2 has encoded; its data shares the memory of `bytes`. Its number is
    /// 0, which ROS 2 has not. Padding behind the last field is ignored.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and if the encoding is not plain CDR.
    pub fn decode_cdr(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes)?;
        let header = reader.header()?;
        let (height, width) = (reader.u32("height")?, reader.u32("width")?);
        // Length of the name, offset, type and count.
        let count = reader.count("fields", 4 + 4 + 1 + 4)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let name = reader.text("fields.name")?;
            let offset = reader.u32("fields.offset")?;
            let value = reader.u8("fields.datatype")?;
            let datatype = Datatype::new(value)
                .ok_or_else(|| reader.error("fields.datatype", Fault::Datatype { value }))?;
            fields.push(PointField {
                name,
                offset,
                datatype,
                count: reader.u32("fields.count")?,
            });
        }
        let is_bigendian = reader.u8("is_bigendian")? != 0;
        let (point_step, row_step) = (reader.u32("point_step")?, reader.u32("row_step")?);
        let len = reader.count("data", 1)?;
        let data = reader.slice("data", len)?;
        let cloud = Self {
            header,
            height,
            width,
            fields,
            is_bigendian,
            point_step,
            row_step,
            data,
            is_dense: reader.u8("is_dense")? != 0,
        };
        let checked: Result<(), LayoutError> = cloud.check_layout();
        checked.map_err(|error| reader.error("data", Fault::Layout(error)))?;
        Ok(cloud)
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
        let mut reader = Reader::new(Self::TYPE.name, bytes)?;
        let header = reader.header()?;
        let count = reader.count("packets", 8 + PACKET_DATA_LEN)?;
        let mut packets = Packets::builder(count);
        for _ in 0..count {
            let stamp = reader.time("packets.stamp")?;
            packets.push(stamp, &reader.array("packets.data")?);
        }
        Ok(Self {
            header,
            packets: packets.build(),
        })
    }
}
