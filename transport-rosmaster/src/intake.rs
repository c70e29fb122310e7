//! Reads length-prefixed messages without trusting the length, and into memory that is used again.

use std::collections::VecDeque;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use transport_api::config::LARGEST_MAX_PAYLOAD;

/// Memory set aside on the word of a length that was never seen before, in bytes.
const TRUST: usize = 256 << 10;

/// Messages from this size on are read into memory of earlier ones: for smaller ones the allocator
/// is as fast, for larger ones it gives pages back and faults them in again for every message.
const REUSED: usize = 64 << 10;

/// Most memory kept for that per connection, in bytes and messages.
const KEPT_BYTES: usize = 16 << 20;
const KEPT: usize = 8;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Message(Bytes),
    /// A message of this many bytes, above the limit; it was skipped.
    Oversize(usize),
}

/// Reads messages of up to `limit` bytes.
#[derive(Debug)]
pub(crate) struct Intake {
    limit: usize,
    trusted: usize,
    /// Earlier messages; those that only we still hold give their memory to the next one.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
}

impl Intake {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            trusted: TRUST,
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// The next message; `None` at an end between messages. Not cancel-safe: a message that was
    /// read in part is gone.
    pub(crate) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<Taken>> {
        let mut head = [0; 4];
        let first = stream.read(&mut head).await?;
        if first == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut head[first..]).await?;
        let length = u32::from_le_bytes(head) as usize;
        if length > self.limit {
            skip(stream, length).await?;
            return Ok(Some(Taken::Oversize(length)));
        }
        let mut space = self.space(length);
        while space.len() < length {
            let missing = length - space.len();
            if space.len() == space.capacity() {
                space.reserve(missing.min(space.len().max(TRUST)));
            }
            if stream.read_buf(&mut (&mut space).limit(missing)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.trusted = self.trusted.max(length);
        let message = space.freeze();
        self.keep(&message);
        Ok(Some(Taken::Message(message)))
    }

    fn space(&mut self, length: usize) -> BytesMut {
        if length >= REUSED {
            for _ in 0..self.kept.len() {
                let Some(old) = self.kept.pop_front() else {
                    break;
                };
                let held = old.len();
                match old.try_into_mut() {
                    Ok(mut space) => {
                        self.kept_bytes -= held;
                        if space.capacity() >= length {
                            space.clear();
                            return space;
                        }
                    }
                    Err(old) => self.kept.push_back(old),
                }
            }
        }
        BytesMut::with_capacity(length.min(self.trusted))
    }

    fn keep(&mut self, message: &Bytes) {
        if message.len() < REUSED || message.len() > KEPT_BYTES {
            return;
        }
        while self.kept.len() >= KEPT || self.kept_bytes + message.len() > KEPT_BYTES {
            let Some(old) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= old.len();
        }
        self.kept_bytes += message.len();
        self.kept.push_back(message.clone());
    }
}

async fn skip(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<()> {
    if length > LARGEST_MAX_PAYLOAD * 2 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} B is announced; is this TCPROS?"),
        ));
    }
    let skipped = tokio::io::copy(&mut stream.take(length as u64), &mut tokio::io::sink()).await?;
    if skipped < length as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u32).to_le_bytes()[..], message].concat()
    }

    #[tokio::test]
    async fn messages_arrive_whole_however_they_are_cut() {
        let sizes = [0, 1, 4095, 4096, 4097, TRUST, TRUST + 1, 3 * TRUST];
        let message = |size: usize| -> Vec<u8> { (0..size).map(|n| n as u8).collect() };
        let wire: Vec<u8> = sizes
            .iter()
            .flat_map(|&size| framed(&message(size)))
            .collect();
        for chunk in [1000, 4096, 1 << 20] {
            let (mut near, far) = tokio::io::duplex(chunk);
            let wire = wire.clone();
            let writer = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut near, &wire)
                    .await
                    .unwrap();
            });
            let mut far = far;
            let mut intake = Intake::new(1 << 30);
            for size in sizes {
                let taken = intake.next(&mut far).await.unwrap().unwrap();
                assert_eq!(taken, Taken::Message(message(size).into()));
            }
            assert_eq!(intake.next(&mut far).await.unwrap(), None);
            writer.await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_oversize_message_is_skipped_and_the_next_one_read() {
        let wire = [framed(&[7; 11]), framed(b"next")].concat();
        let mut intake = Intake::new(10);
        let mut stream = &wire[..];
        assert_eq!(
            intake.next(&mut stream).await.unwrap(),
            Some(Taken::Oversize(11))
        );
        let next = intake.next(&mut stream).await.unwrap();
        assert_eq!(next, Some(Taken::Message("next".into())));
    }

    #[tokio::test]
    async fn an_announced_length_alone_allocates_little() {
        let mut intake = Intake::new(LARGEST_MAX_PAYLOAD);
        assert!(intake.space(LARGEST_MAX_PAYLOAD).capacity() <= TRUST);
        for wire in [
            &[0, 0, 0, 16, 1][..],
            &[255, 255, 255, 255][..],
            &[1, 0][..],
        ] {
            let mut stream = wire;
            assert!(intake.next(&mut stream).await.is_err());
        }
    }

    #[tokio::test]
    async fn memory_of_messages_that_are_done_with_is_used_again() {
        let wire = framed(&[1; REUSED]).repeat(3);
        let mut stream = &wire[..];
        let mut intake = Intake::new(1 << 20);
        let mut pointers = Vec::new();
        let mut held = None;
        for _ in 0..3 {
            let Some(Taken::Message(message)) = intake.next(&mut stream).await.unwrap() else {
                panic!("a message was sent");
            };
            pointers.push(message.as_ptr());
            held = Some(message);
        }
        // The second was read while the first was held, the third when it no longer was.
        assert_ne!(pointers[0], pointers[1]);
        assert_eq!(pointers[0], pointers[2]);
        drop(held);
    }
}
