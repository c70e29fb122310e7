//! Bags of ROS 1, format 2.0.

use std::io::{Read, Seek};

use lidar_messages::Time;

use super::{
    Bag, BagError, Chunk, Connection, Encoding, Fault, MAX_DATA, Packing, read_bytes, read_len,
    skip,
};

/// Longest header of a record taken for real, in bytes.
const MAX_HEADER: u32 = 1 << 20;

/// Numbers of the records that are read; the others only repeat what these say.
const MESSAGE: u8 = 0x02;
const BAG_HEADER: u8 = 0x03;
const CHUNK: u8 = 0x05;
const CONNECTION: u8 = 0x07;

impl<R: Read + Seek> Bag<R> {
    pub(super) fn look_through_ros1(&mut self) -> Result<(), Fault> {
        loop {
            let Some(header_len) = read_len(&mut self.file)? else {
                return Ok(());
            };
            if header_len > MAX_HEADER {
                return Err(Fault::Damaged(
                    "the header of a record claims more than 1 MiB",
                ));
            }
            let header = read_bytes(&mut self.file, header_len)?;
            let fields = Fields(&header);
            let len =
                read_len(&mut self.file)?.ok_or(Fault::Damaged("the file ends inside a record"))?;
            if len > MAX_DATA {
                return Err(Fault::Damaged("a record claims more than 256 MiB"));
            }
            match fields.op()? {
                CHUNK => self.look_through_chunk_ros1(&fields, len)?,
                CONNECTION => {
                    let data = read_bytes(&mut self.file, len)?;
                    self.connect(&fields, &data)?;
                }
                BAG_HEADER => {
                    if let Some(name) = fields.get(b"encryptor").filter(|name| !name.is_empty()) {
                        let name = String::from_utf8_lossy(name).into_owned();
                        return Err(Fault::Refused(BagError::Encrypted { name }));
                    }
                    skip(&mut self.file, len)?;
                }
                _ => skip(&mut self.file, len)?,
            }
        }
    }

    fn look_through_chunk_ros1(&mut self, fields: &Fields<'_>, len: u32) -> Result<(), Fault> {
        let packing = match fields.get(b"compression") {
            Some(b"none") => Packing::None,
            Some(b"lz4") => Packing::Lz4,
            Some(b"bz2") => Packing::Bz2,
            name => {
                let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
                return Err(Fault::Refused(BagError::Compression { name }));
            }
        };
        let chunk = Chunk {
            at: self.file.stream_position()?,
            len,
            packing,
            size: fields.number(b"size")?,
        };
        let (number, unpacked) = self.add_chunk(chunk)?;
        let mut rest = &unpacked[..];
        let damaged = Fault::Damaged("a record reaches out of its chunk");
        while !rest.is_empty() {
            let (Some(header), Some(data)) = (take(&mut rest), take(&mut rest)) else {
                return Err(damaged);
            };
            let fields = Fields(header);
            match fields.op()? {
                MESSAGE => {
                    let at = data.as_ptr().addr() - unpacked.as_ptr().addr();
                    let (time, connection) = (fields.time(b"time")?, fields.number(b"conn")?);
                    self.add_message(time, connection, number, at, data.len())?;
                }
                CONNECTION => self.connect(&fields, data)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn connect(&mut self, fields: &Fields<'_>, data: &[u8]) -> Result<(), Fault> {
        let about = Fields(data);
        let text = |name: &[u8]| {
            let text = about.get(name).or_else(|| fields.get(name));
            String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
        };
        let connection = Connection {
            topic: text(b"topic"),
            kind: text(b"type"),
            md5: Some(text(b"md5sum")),
            encoding: Encoding::Ros1,
        };
        self.connections.insert(fields.number(b"conn")?, connection);
        Ok(())
    }
}

/// Named values: `length name=value` one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let Some(field) = take(&mut rest) {
            if let Some(value) = field
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(b"="))
            {
                return Some(value);
            }
        }
        None
    }

    fn op(&self) -> Result<u8, Fault> {
        match self.get(b"op") {
            Some(&[op]) => Ok(op),
            _ => Err(Fault::Damaged("a record does not say what it is")),
        }
    }

    fn number(&self, name: &[u8]) -> Result<u32, Fault> {
        let bytes = self.get(name).and_then(|value| value.try_into().ok());
        let bytes = bytes.ok_or(Fault::Damaged("a record lacks a number"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn time(&self, name: &[u8]) -> Result<u64, Fault> {
        let bytes = self
            .get(name)
            .and_then(|value| <[u8; 8]>::try_from(value).ok());
        let bytes = bytes.ok_or(Fault::Damaged("a message lacks its time"))?;
        let word = |at: usize| {
            let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes(bytes)
        };
        let (secs, nsecs) = (word(0), word(4));
        Ok(Time { secs, nsecs }.as_nanos())
    }
}

/// Takes a length and as many bytes off the front.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk()?;
    let (part, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = tail;
    Some(part)
}
