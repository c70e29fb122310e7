//! The metadata block, before, behind and without a payload: read the same again after writing.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use roundtrip_fuzz as _;
use transport_api::envelope::{Decoder, Encoder};

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    let mut decoder = Decoder::default();
    let _ = decoder.whole(data);
    let _ = decoder.trailer(frame.clone());
    let Ok((meta, payload)) = decoder.prefix(frame) else {
        return;
    };
    let block = Encoder::new(&meta);
    let mut again = BytesMut::new();
    block.prefix(&mut again);
    assert_eq!(again.len(), block.prefix_len());
    again.extend_from_slice(&payload);
    let (meta_again, payload_again) = decoder.prefix(again.freeze()).expect("our own block");
    assert_eq!((meta_again, payload_again), (meta, payload));
});
