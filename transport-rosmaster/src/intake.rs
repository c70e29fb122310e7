//! Reads length-prefixed messages.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use transport_api::config::LARGEST_MAX_PAYLOAD;
use transport_api::intake;

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
    memory: intake::Intake,
}

impl Intake {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            memory: intake::Intake::default(),
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
        let mut space = self.memory.space(length);
        while let Some(mut room) = space.room() {
            if stream.read_buf(&mut room).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Some(Taken::Message(self.memory.take(space))))
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
        let sizes = [0, 1, 4095, 4096, 4097, 65_536, 1 << 20];
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
    async fn a_message_that_breaks_off_is_an_error() {
        let mut intake = Intake::new(LARGEST_MAX_PAYLOAD);
        for wire in [
            &[0, 0, 0, 16, 1][..],
            &[255, 255, 255, 255][..],
            &[1, 0][..],
        ] {
            let mut stream = wire;
            assert!(intake.next(&mut stream).await.is_err());
        }
    }
}
