//! Payloads and metadata between this contract and the library.

use bytes::{Bytes, BytesMut};
use transport_api::envelope::{Decoder, Encoder};
use transport_api::{Metadata, Result};
use zenoh::bytes::ZBytes;

/// Below this size a payload is copied out: keeping it would pin a receive buffer of 64 KiB.
const WORTH_PINNING: usize = 16 << 10;

/// The first bytes of a metadata block, by which foreign attachments are told apart.
const BLOCK_MAGIC: &[u8] = b"RT";

/// One contiguous piece of received memory.
struct Piece(ZBytes);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.0.slices().next().unwrap_or_default()
    }
}

/// The received bytes in one piece: shared where they are in one piece already and large, else
/// copied once.
pub(crate) fn received(bytes: &ZBytes) -> Bytes {
    let length = bytes.len();
    if length >= WORTH_PINNING && bytes.slices().nth(1).is_none() {
        return Bytes::from_owner(Piece(bytes.clone()));
    }
    let mut whole = BytesMut::with_capacity(length);
    for slice in bytes.slices() {
        whole.extend_from_slice(slice);
    }
    whole.freeze()
}

/// The attachment that carries `meta`; none for a message that has no metadata.
pub(crate) fn attachment(meta: &Metadata) -> Option<ZBytes> {
    if *meta == Metadata::default() {
        return None;
    }
    let encoder = Encoder::new(meta);
    let mut block = Vec::with_capacity(encoder.prefix_len());
    encoder.prefix(&mut block);
    Some(ZBytes::from(block))
}

/// The metadata in an attachment; empty for messages of foreign publishers.
pub(crate) fn metadata(decoder: &mut Decoder, attachment: Option<&ZBytes>) -> Result<Metadata> {
    match attachment.map(ZBytes::to_bytes) {
        Some(block) if block.starts_with(BLOCK_MAGIC) => decoder.whole(&block),
        _ => Ok(Metadata::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::MessageId;

    #[test]
    fn metadata_survives_and_foreign_attachments_are_not_ours() {
        let meta = Metadata {
            id: Some(MessageId { source: 1, seq: 2 }),
            ..Metadata::default()
        };
        let mut decoder = Decoder::default();
        let block = attachment(&meta).unwrap();
        assert_eq!(metadata(&mut decoder, Some(&block)).unwrap(), meta);
        assert!(attachment(&Metadata::default()).is_none());
        let foreign = ZBytes::from("anything");
        assert_eq!(
            metadata(&mut decoder, Some(&foreign)).unwrap(),
            Metadata::default()
        );
        let broken = ZBytes::from("RT\u{1}");
        assert!(metadata(&mut decoder, Some(&broken)).is_err());
    }

    #[test]
    fn a_payload_of_any_size_arrives_as_it_was() {
        for length in [0, 1, WORTH_PINNING - 1, WORTH_PINNING, 100_000] {
            let sent = Bytes::from(vec![7; length]);
            assert_eq!(received(&ZBytes::from(sent.clone())), sent);
        }
    }
}
