//! What travels over a connection.
//!
//! | size | content |
//! |---|---|
//! | 4 | length of the body, little-endian as all numbers |
//! | 1 | kind |
//! | 1 | length of the topic |
//! | 2 | length of the metadata block |
//! | | the body: topic, metadata block, rest |
//!
//! The rest is the payload of a [`Kind::Publish`], else numbers of 8 B.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use transport_api::envelope::{Encoder, MAX_BLOCK};
use transport_api::intake::Intake;
use transport_api::topic::MAX_LENGTH;
use transport_api::{Error, ErrorKind, Metadata, Result};

/// Bytes before the body.
pub const HEAD: usize = 8;

/// What a peer says first: protocol and version. Anything else is not one of ours.
pub const GREETING: u64 = u64::from_le_bytes(*b"RTtcp\0\0\x01");

/// Most a body has besides the payload.
pub const OVERHEAD: usize = MAX_LENGTH + MAX_BLOCK;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// First of each side: [`GREETING`] and the largest payload.
    Hello = 1,
    /// A message.
    Publish = 2,
    /// The sender wants what the filter selects: number of the subscription.
    Subscribe = 3,
    /// The sender wants it no more: number of the subscription.
    Unsubscribe = 4,
    /// Asks for the answer [`Kind::Synced`] with the same number: all before it was read then.
    Sync = 5,
    /// The answer.
    Synced = 6,
}

/// A frame as it was read, ready to be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it says.
    pub kind: Kind,
    topic: usize,
    block: usize,
    body: Bytes,
}

impl Frame {
    /// A frame without metadata and payload.
    pub fn control(kind: Kind, topic: &str, numbers: &[u64]) -> Self {
        let mut body = BytesMut::with_capacity(topic.len() + 8 * numbers.len());
        body.put_slice(topic.as_bytes());
        numbers.iter().for_each(|number| body.put_u64_le(*number));
        Self {
            kind,
            topic: topic.len(),
            block: 0,
            body: body.freeze(),
        }
    }

    /// Topic or filter.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if it is no text.
    pub fn topic(&self) -> Result<&str> {
        std::str::from_utf8(&self.body[..self.topic])
            .map_err(|error| fault("the topic is not UTF-8").with_source(error))
    }

    /// The metadata block.
    pub fn block(&self) -> &[u8] {
        &self.body[self.topic..self.topic + self.block]
    }

    /// The payload, sharing the memory of the frame.
    pub fn payload(&self) -> Bytes {
        self.body.slice(self.topic + self.block..)
    }

    /// The numbers of a frame that is not a message.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if there are more or fewer.
    pub fn numbers<const N: usize>(&self) -> Result<[u64; N]> {
        let mut rest = self.payload();
        if rest.len() != 8 * N {
            return Err(fault("a frame without its numbers"));
        }
        Ok(std::array::from_fn(|_| rest.get_u64_le()))
    }

    /// Bytes before the body, and the body.
    pub fn parts(&self) -> ([u8; HEAD], Bytes) {
        let head = head(self.kind, self.topic, self.block, self.body.len());
        (head, self.body.clone())
    }
}

/// Writes all of a message but its payload; `topic` is at most [`MAX_LENGTH`] long.
pub fn prefix(topic: &str, meta: &Metadata, payload: usize, out: &mut BytesMut) {
    let encoder = Encoder::new(meta);
    let block = encoder.prefix_len();
    let body = topic.len() + block + payload;
    out.put_slice(&head(Kind::Publish, topic.len(), block, body));
    out.put_slice(topic.as_bytes());
    encoder.prefix(out);
}

fn head(kind: Kind, topic: usize, block: usize, body: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let mut out = &mut head[..];
    // Payloads are at most 256 MiB, topics 255 B and blocks a few hundred.
    out.put_u32_le(body as u32);
    out.put_u8(kind as u8);
    out.put_u8(topic as u8);
    out.put_u16_le(block as u16);
    head
}

/// Reads the next frame; `None` at the end of the stream. Memory is taken as bytes arrive and not on
/// the word of a length; that of dropped frames is used again, so that a steady stream allocates
/// nothing.
///
/// # Errors
/// [`ErrorKind::Codec`] for a frame that is not well formed or longer than `limit`,
/// [`ErrorKind::Disconnected`] if reading fails.
pub async fn read(
    input: &mut (impl AsyncRead + Unpin),
    intake: &mut Intake,
    limit: usize,
) -> Result<Option<Frame>> {
    let mut head = [0; HEAD];
    // The end of the stream is tidy between two frames only.
    let first = input.read(&mut head).await.map_err(|e| broken(&e))?;
    if first == 0 {
        return Ok(None);
    }
    let rest = input.read_exact(&mut head[first..]).await;
    rest.map_err(|e| broken(&e))?;
    let mut head = &head[..];
    let length = head.get_u32_le() as usize;
    let kind = match head.get_u8() {
        1 => Kind::Hello,
        2 => Kind::Publish,
        3 => Kind::Subscribe,
        4 => Kind::Unsubscribe,
        5 => Kind::Sync,
        6 => Kind::Synced,
        kind => return Err(fault(&format!("unknown kind {kind}"))),
    };
    let topic = usize::from(head.get_u8());
    let block = usize::from(head.get_u16_le());
    if length > limit {
        return Err(fault(&format!(
            "a frame of {length} B, at most {limit} B are allowed"
        )));
    }
    if topic + block > length {
        return Err(fault("a frame shorter than its parts"));
    }
    let mut space = intake.space(length);
    while let Some(mut room) = space.room() {
        let read = input.read_buf(&mut room).await.map_err(|e| broken(&e))?;
        if read == 0 {
            return Err(broken(&io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(Some(Frame {
        kind,
        topic,
        block,
        body: intake.take(space),
    }))
}

/// The other side does not follow the protocol.
pub fn fault(what: &str) -> Error {
    Error::new(ErrorKind::Codec, "read frame", what)
}

fn broken(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Disconnected,
        "read frame",
        format!("the connection broke: {error}"),
    )
}
