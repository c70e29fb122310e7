use std::fmt;

use bytes::Bytes;

use crate::{
    DecodeError, Header, Time,
    wire::{Reader, Writer},
};

/// Bytes of sensor data in one packet.
pub const PACKET_DATA_LEN: usize = 1206;

/// Bytes of one packet on the wire: its stamp and its data, a fixed-size array without a count.
const RECORD_LEN: usize = Time::LEN + PACKET_DATA_LEN;

/// `velodyne_msgs/VelodyneScan`: one turn of the sensor as it sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VelodyneScan {
    /// Number, time and frame of the scan.
    pub header: Header,
    /// The packets in the order they were sent.
    pub packets: Packets,
}

impl VelodyneScan {
    /// Decodes a scan whose packets share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, announce more packets than they hold, or the
    /// frame is not UTF-8.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let header = Header::read(&mut reader)?;
        let count = reader.count("packets", RECORD_LEN)?;
        let records = reader.slice("packets", count * RECORD_LEN)?;
        reader.finish("packets")?;
        Ok(Self {
            header,
            packets: Packets { records },
        })
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        self.header.encoded_len() + 4 + self.packets.records.len()
    }

    /// Encodes the scan.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.header.write(&mut writer);
        writer.count(self.packets.len());
        writer.slice(&self.packets.records);
        writer.finish()
    }
}

/// `velodyne_msgs/VelodynePacket`, borrowed from a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VelodynePacket<'a> {
    /// When the packet was received.
    pub stamp: Time,
    /// What the sensor sent.
    pub data: &'a [u8; PACKET_DATA_LEN],
}

impl fmt::Debug for VelodynePacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VelodynePacket")
            .field("stamp", &self.stamp)
            .finish_non_exhaustive()
    }
}

/// The packets of a scan in one piece of shared memory, as they are on the wire.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Packets {
    records: Bytes,
}

impl Packets {
    /// Starts a sequence with room for `packets` packets.
    pub fn builder(packets: usize) -> PacketsBuilder {
        PacketsBuilder {
            records: Vec::with_capacity(packets * RECORD_LEN),
        }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.records.len() / RECORD_LEN
    }

    /// Whether there is none, as in a scan reduced to 0 %.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The packets in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = VelodynePacket<'_>> + Clone {
        let (records, _) = self.records.as_chunks::<RECORD_LEN>();
        records.iter().map(|record| {
            let (stamp, data) = record
                .split_first_chunk()
                .expect("a record is longer than its stamp");
            VelodynePacket {
                stamp: Time::from_le_bytes(*stamp),
                data: data
                    .try_into()
                    .expect("a record is a stamp and PACKET_DATA_LEN bytes"),
            }
        })
    }
}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packets({})", self.len())
    }
}

/// Collects packets for a scan.
#[derive(Default)]
pub struct PacketsBuilder {
    records: Vec<u8>,
}

impl PacketsBuilder {
    /// Appends a packet.
    pub fn push(&mut self, stamp: Time, data: &[u8; PACKET_DATA_LEN]) {
        self.records.extend_from_slice(&stamp.to_le_bytes());
        self.records.extend_from_slice(data);
    }

    /// Number of packets so far.
    pub fn len(&self) -> usize {
        self.records.len() / RECORD_LEN
    }

    /// Whether nothing was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The finished sequence. Copies nothing.
    pub fn build(self) -> Packets {
        Packets {
            records: Bytes::from(self.records),
        }
    }
}

impl fmt::Debug for PacketsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketsBuilder({})", self.len())
    }
}
