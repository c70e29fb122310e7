//! One message on its way to the subscribers: length, ROS message, trailer.

use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use transport_api::Metadata;
use transport_api::envelope::{Encoder, MAX_TRAILER};
use transport_api::ledger::{Entry, Ledger};

const DROPPED: u8 = 1;
const LOST: u8 = 2;

/// A message, shared by the queues of all subscribers. When the last of them has let it go, its
/// fate is known and noted.
pub(crate) struct Frame {
    length: [u8; 4],
    payload: Bytes,
    trailer: [u8; MAX_TRAILER],
    trailer_len: usize,
    /// Its account, until the end.
    entry: Option<Entry>,
    fate: AtomicU8,
}

impl Frame {
    /// A frame of `payload`, with `meta` behind it unless metadata is switched off, with an
    /// entry in `ledger`. The caller has checked that the payload is not larger than
    /// [`transport_api::config::LARGEST_MAX_PAYLOAD`].
    pub(crate) fn new(payload: Bytes, meta: Option<&Metadata>, ledger: &Arc<Ledger>) -> Arc<Self> {
        let mut trailer = [0; MAX_TRAILER];
        let mut trailer_len = 0;
        if let Some(meta) = meta {
            let encoder = Encoder::new(meta);
            encoder.trailer(&mut trailer.as_mut_slice());
            trailer_len = encoder.trailer_len();
        }
        let length = (payload.len() + trailer_len) as u32;
        Arc::new(Self {
            length: length.to_le_bytes(),
            payload,
            trailer,
            trailer_len,
            entry: Some(ledger.accept()),
            fate: AtomicU8::new(0),
        })
    }

    /// Bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        4 + self.payload.len() + self.trailer_len
    }

    /// What follows after `sent` bytes.
    pub(crate) fn rest(&self, sent: usize) -> [IoSlice<'_>; 3] {
        let mut skip = sent;
        [
            &self.length[..],
            &self.payload[..],
            &self.trailer[..self.trailer_len],
        ]
        .map(|part| {
            let cut = skip.min(part.len());
            skip -= cut;
            IoSlice::new(&part[cut..])
        })
    }

    /// The overflow policy gave it up for one subscriber.
    pub(crate) fn give_up(&self) {
        self.fate.fetch_or(DROPPED, Ordering::Relaxed);
    }

    /// The connection to one subscriber ended before it was written.
    pub(crate) fn lose(&self) {
        self.fate.fetch_or(LOST, Ordering::Relaxed);
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else {
            return;
        };
        match self.fate.load(Ordering::Relaxed) {
            0 => entry.written(self.payload.len()),
            // Dropped unsettled, it counts as lost.
            marks if marks & LOST != 0 => {}
            _ => entry.give_up(),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({:?}, {} B)", self.entry, self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::{AckScope, TopicName};

    fn ledger() -> Arc<Ledger> {
        let topic = TopicName::parse("a").unwrap();
        Ledger::new(topic, AckScope::Nothing, Arc::default())
    }

    #[test]
    fn whatever_was_sent_the_rest_continues_there() {
        let ledger = ledger();
        let frame = Frame::new("payload".into(), Some(&Metadata::default()), &ledger);
        let whole: Vec<u8> = frame
            .rest(0)
            .iter()
            .flat_map(|part| part.to_vec())
            .collect();
        assert_eq!(whole.len(), frame.len());
        assert_eq!(whole[..4], ((frame.len() - 4) as u32).to_le_bytes());
        for sent in 0..=frame.len() {
            let rest: Vec<u8> = frame
                .rest(sent)
                .iter()
                .flat_map(|part| part.to_vec())
                .collect();
            assert_eq!(rest, whole[sent..]);
        }
    }

    #[test]
    fn the_last_holder_settles_the_worst_fate() {
        let ledger = ledger();
        for marks in [[false, false], [true, false], [true, true]] {
            let frame = Frame::new(Bytes::new(), None, &ledger);
            let other = Arc::clone(&frame);
            if marks[0] {
                frame.give_up();
            }
            if marks[1] {
                other.lose();
            }
        }
        let counters = ledger.counters();
        assert_eq!(
            (counters.written, counters.dropped, counters.lost),
            (1, 1, 1)
        );
    }
}
