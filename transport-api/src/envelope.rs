//! The in-band metadata codec, for protocols that have no place for metadata of their own.
//!
//! A block is placed before the payload ([`Encoder::prefix`]) or behind it
//! ([`Encoder::trailer`]). All numbers are little-endian.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 2 | `52 54` ("RT") |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | flags: 1 id, 2 correlation, 4 trace, 8 schema |
//! | 4 | 2 | length of the block |
//! | 6 | 1 | number of stamps, at most 12 |
//! | 7 | 1 | 0 |
//! | 8 | 16 | id: source, seq (if flagged) |
//! | | 16 | correlation: source, seq (if flagged) |
//! | | 25 | trace, span, flags (if flagged) |
//! | | 17 + n | schema: fingerprint, name length n, name (if flagged) |
//! | | 13 each | stamps: point, clock, nanoseconds |
//!
//! A trailer is the block followed by its length (4 B) and `72 74 72 6C 00 FF 5A 01`.

use bytes::{Buf, BufMut, Bytes};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{MessageId, Metadata, TraceContext};
use crate::schema::SchemaId;
use crate::stamp::{CAPACITY, ClockId, Stamp, StampPoint};

const MAGIC: [u8; 2] = *b"RT";
const VERSION: u8 = 1;
const HEAD: usize = 8;
const STAMP: usize = 13;
const TRAILER_MAGIC: [u8; 8] = [0x72, 0x74, 0x72, 0x6c, 0x00, 0xff, 0x5a, 0x01];
const TRAILER_TAIL: usize = 4 + TRAILER_MAGIC.len();

const ID: u8 = 1;
const CORRELATION: u8 = 2;
const TRACE: u8 = 4;
const SCHEMA: u8 = 8;

/// Largest block, in bytes.
pub const MAX_BLOCK: usize = HEAD + 16 + 16 + 25 + 17 + crate::schema::MAX_NAME + CAPACITY * STAMP;

/// Largest trailer, in bytes.
pub const MAX_TRAILER: usize = MAX_BLOCK + TRAILER_TAIL;

/// Encodes the metadata of one message; no allocation.
#[derive(Clone, Copy, Debug)]
pub struct Encoder<'a> {
    meta: &'a Metadata,
    length: usize,
}

impl<'a> Encoder<'a> {
    /// An encoder of `meta`.
    pub fn new(meta: &'a Metadata) -> Self {
        let mut length = HEAD + meta.stamps.as_slice().len() * STAMP;
        length += if meta.id.is_some() { 16 } else { 0 };
        length += if meta.correlation.is_some() { 16 } else { 0 };
        length += if meta.trace.is_some() { 25 } else { 0 };
        length += meta
            .schema
            .as_ref()
            .map_or(0, |schema| 17 + schema.name().len());
        Self { meta, length }
    }

    /// Bytes of [`Encoder::prefix`].
    pub fn prefix_len(&self) -> usize {
        self.length
    }

    /// Bytes of [`Encoder::trailer`].
    pub fn trailer_len(&self) -> usize {
        self.length + TRAILER_TAIL
    }

    /// Writes the block, to be followed by the payload.
    pub fn prefix(&self, out: &mut impl BufMut) {
        let meta = self.meta;
        let mut flags = 0;
        flags |= if meta.id.is_some() { ID } else { 0 };
        flags |= if meta.correlation.is_some() {
            CORRELATION
        } else {
            0
        };
        flags |= if meta.trace.is_some() { TRACE } else { 0 };
        flags |= if meta.schema.is_some() { SCHEMA } else { 0 };
        out.put_slice(&MAGIC);
        out.put_u8(VERSION);
        out.put_u8(flags);
        // MAX_BLOCK is far below 65,536.
        out.put_u16_le(self.length as u16);
        out.put_u8(meta.stamps.as_slice().len() as u8);
        out.put_u8(0);
        for id in [meta.id, meta.correlation].into_iter().flatten() {
            out.put_u64_le(id.source);
            out.put_u64_le(id.seq);
        }
        if let Some(trace) = &meta.trace {
            out.put_u128_le(trace.trace);
            out.put_u64_le(trace.span);
            out.put_u8(trace.flags);
        }
        if let Some(schema) = &meta.schema {
            out.put_slice(schema.fingerprint());
            out.put_u8(schema.name().len() as u8);
            out.put_slice(schema.name().as_bytes());
        }
        for stamp in meta.stamps.as_slice() {
            out.put_u8(stamp.point.0);
            out.put_u32_le(stamp.clock.0);
            out.put_i64_le(stamp.nanos);
        }
    }

    /// Writes the trailer, to be placed behind the payload.
    pub fn trailer(&self, out: &mut impl BufMut) {
        self.prefix(out);
        out.put_u32_le(self.length as u32);
        out.put_slice(&TRAILER_MAGIC);
    }
}

/// Decodes metadata; keeps the last schema so that a steady stream allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    schema: Option<SchemaId>,
}

impl Decoder {
    /// Splits `frame` into metadata and payload; the payload shares the frame's memory.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if the block is not one of this version or is cut.
    pub fn prefix(&mut self, mut frame: Bytes) -> Result<(Metadata, Bytes)> {
        let (meta, length) = self.block(&frame)?;
        frame.advance(length);
        Ok((meta, frame))
    }

    /// Splits `frame` into payload and the metadata of its trailer; `None` without a trailer, as
    /// from a foreign publisher. The payload shares the frame's memory.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if there is a trailer that cannot be read.
    pub fn trailer(&mut self, mut frame: Bytes) -> Result<(Option<Metadata>, Bytes)> {
        let Some(body) = frame.strip_suffix(&TRAILER_MAGIC) else {
            return Ok((None, frame));
        };
        let Some((rest, length)) = body.split_last_chunk::<4>() else {
            return Err(fault("the trailer has no length"));
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some(start) = rest.len().checked_sub(length) else {
            return Err(fault("the trailer announces more bytes than the frame has"));
        };
        let (meta, used) = self.block(&rest[start..])?;
        if used != length {
            return Err(fault("the trailer's two lengths differ"));
        }
        frame.truncate(start);
        Ok((Some(meta), frame))
    }

    /// Reads a block that fills the whole of `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if the block is not one of this version, is cut or is too long.
    pub fn whole(&mut self, bytes: &[u8]) -> Result<Metadata> {
        let (meta, used) = self.block(bytes)?;
        if used != bytes.len() {
            return Err(fault("bytes behind the block"));
        }
        Ok(meta)
    }

    fn block(&mut self, bytes: &[u8]) -> Result<(Metadata, usize)> {
        let cut = || fault("the block is cut");
        let mut head = bytes.get(..HEAD).ok_or_else(cut)?;
        if head[..2] != MAGIC {
            return Err(fault("no metadata block; the publisher is not one of ours"));
        }
        head.advance(2);
        let version = head.get_u8();
        if version != VERSION {
            return Err(fault(&format!(
                "metadata version {version}, this build reads {VERSION}"
            )));
        }
        let flags = head.get_u8();
        let length = usize::from(head.get_u16_le());
        let stamps = usize::from(head.get_u8());
        if flags & !(ID | CORRELATION | TRACE | SCHEMA) != 0 || head.get_u8() != 0 {
            return Err(fault("unknown flags"));
        }
        if stamps > CAPACITY {
            return Err(fault(&format!(
                "{stamps} stamps, at most {CAPACITY} are allowed"
            )));
        }
        let mut body = bytes.get(HEAD..length).ok_or_else(cut)?;
        let mut take = |n: usize| -> Result<&[u8]> {
            let (taken, rest) = body.split_at_checked(n).ok_or_else(cut)?;
            body = rest;
            Ok(taken)
        };
        let mut meta = Metadata::default();
        let read_id = |mut bytes: &[u8]| MessageId {
            source: bytes.get_u64_le(),
            seq: bytes.get_u64_le(),
        };
        if flags & ID != 0 {
            meta.id = Some(read_id(take(16)?));
        }
        if flags & CORRELATION != 0 {
            meta.correlation = Some(read_id(take(16)?));
        }
        if flags & TRACE != 0 {
            let mut bytes = take(25)?;
            meta.trace = Some(TraceContext {
                trace: bytes.get_u128_le(),
                span: bytes.get_u64_le(),
                flags: bytes.get_u8(),
            });
        }
        if flags & SCHEMA != 0 {
            let mut fingerprint = [0; 16];
            fingerprint.copy_from_slice(take(16)?);
            let length = usize::from(take(1)?[0]);
            let name = std::str::from_utf8(take(length)?)
                .map_err(|_| fault("the schema's name is not UTF-8"))?;
            let known = self
                .schema
                .as_ref()
                .filter(|known| known.fingerprint() == &fingerprint && known.name() == name);
            let schema = known
                .cloned()
                .unwrap_or_else(|| SchemaId::new(name, fingerprint));
            self.schema = Some(schema.clone());
            meta.schema = Some(schema);
        }
        for _ in 0..stamps {
            let mut bytes = take(STAMP)?;
            meta.stamps.push(Stamp {
                point: StampPoint(bytes.get_u8()),
                clock: ClockId(bytes.get_u32_le()),
                nanos: bytes.get_i64_le(),
            });
        }
        if !body.is_empty() {
            return Err(fault("the block is longer than its fields"));
        }
        Ok((meta, length))
    }
}

fn fault(what: &str) -> Error {
    Error::new(ErrorKind::Codec, "decode metadata", what)
}
