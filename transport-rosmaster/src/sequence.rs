//! Identities of messages that carry none but begin with a `std_msgs/Header`.

use std::hash::{DefaultHasher, Hash, Hasher};

use transport_api::MessageId;

/// Sequence number and stamp, the first twelve bytes of a header.
const HEAD: usize = 12;

/// Derives identities from the headers of one publisher.
#[derive(Debug)]
pub(crate) struct HeaderSequence {
    source: u64,
    last: Option<([u8; HEAD], u64)>,
}

impl HeaderSequence {
    /// A sequence of the publisher at `uri`: its port is new for each start, as a source has to be.
    pub(crate) fn new(topic: &str, uri: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (topic, uri).hash(&mut hasher);
        Self {
            source: hasher.finish(),
            last: None,
        }
    }

    /// The identity of a message; `None` if it is too short for a header, or if the publisher does
    /// not number its messages: the same number with another stamp.
    pub(crate) fn identify(&mut self, message: &[u8]) -> Option<MessageId> {
        let head = *message.first_chunk::<HEAD>()?;
        let number = |head: &[u8; HEAD]| u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let now = number(&head);
        let seq = match &self.last {
            Some((last, _)) if number(last) == now && *last != head => {
                self.last = Some((head, u64::from(now)));
                return None;
            }
            // The number has 32 bits; the nearest continuation of the last one is meant.
            Some((last, seq)) => {
                let step = i64::from(now.wrapping_sub(number(last)) as i32);
                seq.saturating_add_signed(step)
            }
            None => u64::from(now),
        };
        self.last = Some((head, seq));
        Some(MessageId {
            source: self.source,
            seq,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u32, stamp: u32) -> Vec<u8> {
        [seq.to_le_bytes(), stamp.to_le_bytes(), [0; 4], [0; 4]].concat()
    }

    #[test]
    fn numbers_become_identities_also_across_their_wrap() {
        let mut sequence = HeaderSequence::new("/a", "http://h:1/");
        let seqs = [u32::MAX - 1, u32::MAX, 0, 2]
            .map(|seq| sequence.identify(&message(seq, seq)).unwrap().seq);
        let start = u64::from(u32::MAX) - 1;
        assert_eq!(seqs, [0, 1, 2, 4].map(|step| start + step));
    }

    #[test]
    fn publishers_that_do_not_number_give_no_identity() {
        let mut sequence = HeaderSequence::new("/a", "http://h:1/");
        assert!(sequence.identify(&message(0, 1)).is_some());
        assert_eq!(sequence.identify(&message(0, 2)), None);
        assert_eq!(sequence.identify(&message(0, 3)), None);
        assert_eq!(sequence.identify(&[0; 11]), None);
    }
}
