//! MCAP files.

use std::{
    collections::HashMap,
    io::{Read, Seek},
};

use super::{
    Bag, BagError, Chunk, Connection, Encoding, Fault, MAX_DATA, MCAP_MAGIC, Packing, read_bytes,
    skip,
};

/// Numbers of the records that are read; the others only repeat what these say.
const FOOTER: u8 = 0x02;
const SCHEMA: u8 = 0x03;
const CHANNEL: u8 = 0x04;
const MESSAGE: u8 = 0x05;
const CHUNK: u8 = 0x06;
const DATA_END: u8 = 0x0f;

/// Bytes of a message record before the message: channel, sequence, two times.
const MESSAGE_HEADER: usize = 2 + 4 + 8 + 8;

/// Longest part of a chunk before its records: times, size, checksum, compression, length.
const CHUNK_HEADER: u64 = 8 + 8 + 8 + 4 + 4 + 32 + 8;

/// Names of the schemas so far, by number.
type Schemas = HashMap<u16, String>;

impl<R: Read + Seek> Bag<R> {
    pub(super) fn look_through_mcap(&mut self) -> Result<(), Fault> {
        self.file
            .seek(std::io::SeekFrom::Start(MCAP_MAGIC.len() as u64))?;
        let mut schemas = Schemas::new();
        loop {
            let head = read_bytes(&mut self.file, 9)?;
            let mut head = Values(&head);
            let (op, len) = (head.u8()?, head.u64()?);
            let at = self.file.stream_position()?;
            match op {
                // What follows is an index of what was seen.
                DATA_END | FOOTER => return Ok(()),
                CHUNK => self.look_through_chunk_mcap(&mut schemas, at, len)?,
                SCHEMA | CHANNEL | MESSAGE => {
                    let chunk = Chunk {
                        at,
                        len: length(len)?,
                        packing: Packing::None,
                        size: length(len)?,
                    };
                    if op == MESSAGE {
                        // A message of its own is a chunk of one.
                        let (number, record) = self.add_chunk(chunk)?;
                        self.message(&record, number, 0)?;
                    } else {
                        let record = self.unpack(chunk)?;
                        self.describe(&mut schemas, op, &record)?;
                    }
                }
                _ => skip(&mut self.file, length(len)?)?,
            }
        }
    }

    fn look_through_chunk_mcap(
        &mut self,
        schemas: &mut Schemas,
        at: u64,
        len: u64,
    ) -> Result<(), Fault> {
        length(len)?;
        let head = read_bytes(&mut self.file, CHUNK_HEADER.min(len) as u32)?;
        let mut values = Values(&head);
        values.bytes(8 + 8)?;
        let size = length(values.u64()?)?;
        values.bytes(4)?;
        let packing = match values.text()?.as_str() {
            "" => Packing::None,
            "lz4" => Packing::Lz4,
            "zstd" => Packing::Zstd,
            name => {
                let name = name.to_owned();
                return Err(Fault::Refused(BagError::Compression { name }));
            }
        };
        let packed = length(values.u64()?)?;
        let before = (head.len() - values.0.len()) as u64;
        if before + u64::from(packed) > len {
            return Err(Fault::Damaged("the records of a chunk reach out of it"));
        }
        let (number, unpacked) = self.add_chunk(Chunk {
            at: at + before,
            len: packed,
            packing,
            size,
        })?;
        self.file.seek(std::io::SeekFrom::Start(at + len))?;
        let mut rest = Values(&unpacked);
        while !rest.0.is_empty() {
            let (op, len) = (rest.u8()?, rest.u64()?);
            let place = unpacked.len() - rest.0.len();
            let record = rest.bytes(length(len)? as usize)?;
            match op {
                MESSAGE => self.message(record, number, place)?,
                SCHEMA | CHANNEL => self.describe(schemas, op, record)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A message, whose record is at `place` of its chunk.
    fn message(&mut self, record: &[u8], chunk: u32, place: usize) -> Result<(), Fault> {
        let mut values = Values(record);
        let channel = values.u16()?;
        values.bytes(4)?;
        let time = values.u64()?;
        values.bytes(8)?;
        let (at, len) = (place + MESSAGE_HEADER, values.0.len());
        self.add_message(time, u32::from(channel), chunk, at, len)
    }

    /// A schema or a channel.
    fn describe(&mut self, schemas: &mut Schemas, op: u8, record: &[u8]) -> Result<(), Fault> {
        let mut values = Values(record);
        let number = values.u16()?;
        if op == SCHEMA {
            schemas.insert(number, values.text()?);
            return Ok(());
        }
        let schema = values.u16()?;
        let topic = values.text()?;
        let encoding = match values.text()?.as_str() {
            "ros1" => Encoding::Ros1,
            "cdr" => Encoding::Cdr,
            other => Encoding::Other(other.to_owned()),
        };
        // ROS 2 names a type `package/msg/Type`.
        let kind = schemas.get(&schema).map(|name| name.replace("/msg/", "/"));
        let connection = Connection {
            topic,
            kind: kind.unwrap_or_default(),
            md5: None,
            encoding,
        };
        self.connections.insert(u32::from(number), connection);
        Ok(())
    }
}

fn length(len: u64) -> Result<u32, Fault> {
    match u32::try_from(len) {
        Ok(len) if len <= MAX_DATA => Ok(len),
        _ => Err(Fault::Damaged("a record claims more than 256 MiB")),
    }
}

/// Takes little-endian values off the front of a record.
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let parts = self.0.split_at_checked(len);
        let (part, rest) = parts.ok_or(Fault::Damaged("a record is shorter than its values"))?;
        self.0 = rest;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.bytes(N)?.try_into();
        Ok(bytes.expect("as many bytes as were asked for"))
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Fault> {
        let len = self.array().map(u32::from_le_bytes)?;
        let bytes = self.bytes(len as usize)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}
