//! The wire format: what goes in comes out, and nothing else gets in.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use transport_api::envelope::Decoder;
use transport_api::intake::Intake;
use transport_api::{ErrorKind, MessageId, Metadata, Result};
use transport_template::frame::{self, Frame, HEAD, Kind};

const LIMIT: usize = 1000;

/// Reads one frame from bytes that are all there, so one look is enough.
fn read(mut bytes: &[u8], intake: &mut Intake) -> Result<Option<Frame>> {
    let reading = pin!(frame::read(&mut bytes, intake, LIMIT));
    match reading.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("all bytes are there"),
    }
}

fn message(topic: &str, payload: &[u8], id: (u64, u64)) -> (Metadata, Vec<u8>) {
    let (source, seq) = id;
    let meta = Metadata {
        id: Some(MessageId { source, seq }),
        ..Metadata::default()
    };
    let mut bytes = BytesMut::new();
    frame::prefix(topic, &meta, payload.len(), &mut bytes);
    bytes.put_slice(payload);
    (meta, bytes.to_vec())
}

proptest! {
    #[test]
    fn a_message_arrives_as_it_was_sent(
        topic in "[a-z]{1,20}(/[a-z]{1,20}){0,5}",
        payload in vec(any::<u8>(), 0..500),
        id in any::<(u64, u64)>(),
    ) {
        let (meta, bytes) = message(&topic, &payload, id);
        let mut intake = Intake::default();
        let frame = read(&bytes, &mut intake).unwrap().unwrap();
        prop_assert_eq!(frame.kind, Kind::Publish);
        prop_assert_eq!(frame.topic().unwrap(), topic);
        prop_assert_eq!(Decoder::default().whole(frame.block()).unwrap(), meta);
        prop_assert_eq!(&frame.payload()[..], &payload[..]);
        // Passed on, it is the same again.
        let (head, body) = frame.parts();
        prop_assert_eq!([&head[..], &body[..]].concat(), bytes);
    }

    #[test]
    fn numbers_arrive_as_they_were_sent(numbers in any::<[u64; 2]>(), topic in "[a-z]{0,255}") {
        let frame = Frame::control(Kind::Subscribe, &topic, &numbers);
        let (head, body) = frame.parts();
        let bytes = [&head[..], &body[..]].concat();
        let found = read(&bytes, &mut Intake::default()).unwrap().unwrap();
        prop_assert_eq!(found.numbers::<2>().unwrap(), numbers);
        prop_assert_eq!(found.numbers::<1>().unwrap_err().kind(), ErrorKind::Codec);
        prop_assert_eq!(found.topic().unwrap(), topic);
    }

    #[test]
    fn a_truncated_frame_is_an_error(cut in any::<prop::sample::Index>()) {
        let (_, bytes) = message("a/b", b"payload", (1, 2));
        let cut = cut.index(bytes.len());
        let outcome = read(&bytes[..cut], &mut Intake::default());
        match cut {
            0 => prop_assert_eq!(outcome.unwrap(), None),
            _ => prop_assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Disconnected),
        }
    }

    #[test]
    fn random_bytes_are_an_error_or_a_frame(bytes in vec(any::<u8>(), 0..200)) {
        // The answer is of no interest; that there is one is.
        let outcome = read(&bytes, &mut Intake::default());
        if let Ok(Some(frame)) = outcome {
            let _ = (frame.topic().is_ok(), frame.block().len(), frame.payload());
        }
    }
}

#[test]
fn an_oversized_length_is_refused() {
    for length in [LIMIT as u32 + 1, 1 << 30, u32::MAX] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([Kind::Publish as u8, 0, 0, 0]);
        let error = read(&bytes, &mut Intake::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Codec);
        assert!(error.to_string().contains(&length.to_string()), "{error}");
    }
}

#[test]
fn parts_longer_than_the_frame_are_refused() {
    let mut bytes = [0; HEAD + 4];
    bytes[..8].copy_from_slice(&[4, 0, 0, 0, Kind::Publish as u8, 3, 2, 0]);
    let error = read(&bytes, &mut Intake::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Codec);
}

#[test]
fn memory_is_used_again_once_the_frame_is_dropped() {
    let (_, bytes) = message("a/b", &[7; 600], (1, 2));
    let mut intake = Intake::default();
    let first = read(&bytes, &mut intake).unwrap().unwrap();
    let place = first.block().as_ptr();
    drop(first);
    for _ in 0..10 {
        let frame = read(&bytes, &mut intake).unwrap().unwrap();
        assert_eq!(frame.block().as_ptr(), place);
    }
}
