//! Memory for frames that announce their length: it grows with what arrives, since the length is a
//! stranger's word, and is used again, so that a steady stream allocates nothing.
//!
//! A transport reads the length, checks it against its limit, and fills a [`Space`]:
//!
//! ```
//! # use bytes::{Buf, BufMut};
//! use transport_api::intake::Intake;
//!
//! let mut intake = Intake::default();
//! let mut input = &b"all that arrives"[..];
//! let mut space = intake.space(16);
//! while let Some(mut room) = space.room() {
//!     // A socket would be read here; at its end the frame is cut off.
//!     let piece = room.remaining_mut().min(5);
//!     room.put(input.copy_to_bytes(piece));
//! }
//! assert_eq!(intake.take(space), "all that arrives");
//! ```

use std::collections::VecDeque;

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

/// Memory set aside on the word of a length that was never seen before, in bytes.
const TRUST: usize = 256 << 10;

/// Frames from this size on are read into memory of several earlier ones: the app may hold one while
/// the next is read, and an allocator gives pages back and faults them in again for every frame.
const LARGE: usize = 64 << 10;

/// Most memory kept for that, in bytes and frames.
const KEPT_BYTES: usize = 16 << 20;
const KEPT: usize = 8;

/// The memory of one connection.
#[derive(Debug, Default)]
pub struct Intake {
    /// The longest frame that came whole, in bytes.
    seen: usize,
    /// What small frames are read into.
    small: BytesMut,
    /// Earlier large frames; those that only we still hold give their memory to the next one.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
}

/// Where one frame is read into.
#[derive(Debug)]
pub struct Space {
    memory: BytesMut,
    length: usize,
}

impl Space {
    /// Where the rest goes, and no more than the rest; `None` once the frame is there.
    pub fn room(&mut self) -> Option<Limit<&mut BytesMut>> {
        let filled = self.memory.len();
        let missing = self.length - filled;
        if missing == 0 {
            return None;
        }
        if filled == self.memory.capacity() {
            self.memory.reserve(missing.min(filled.max(TRUST)));
        }
        Some((&mut self.memory).limit(missing))
    }
}

impl Intake {
    /// Where a frame of `length` bytes is read into. The caller has compared the length with its
    /// limit.
    pub fn space(&mut self, length: usize) -> Space {
        let mut memory = match length < LARGE {
            true => std::mem::take(&mut self.small),
            false => self.earlier(length).unwrap_or_default(),
        };
        memory.reserve(length.min(self.seen.max(TRUST)));
        Space { memory, length }
    }

    /// The frame that was read. Its memory is used again when the frame was dropped.
    pub fn take(&mut self, space: Space) -> Bytes {
        let Space { mut memory, length } = space;
        self.seen = self.seen.max(length);
        if length < LARGE {
            let frame = memory.split().freeze();
            self.small = memory;
            return frame;
        }
        let frame = memory.freeze();
        self.keep(&frame);
        frame
    }

    fn earlier(&mut self, length: usize) -> Option<BytesMut> {
        for _ in 0..self.kept.len() {
            let old = self.kept.pop_front()?;
            let held = old.len();
            match old.try_into_mut() {
                Ok(mut memory) => {
                    self.kept_bytes -= held;
                    if memory.capacity() >= length {
                        memory.clear();
                        return Some(memory);
                    }
                }
                Err(old) => self.kept.push_back(old),
            }
        }
        None
    }

    fn keep(&mut self, frame: &Bytes) {
        if frame.len() > KEPT_BYTES {
            return;
        }
        while self.kept.len() >= KEPT || self.kept_bytes + frame.len() > KEPT_BYTES {
            let Some(old) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= old.len();
        }
        self.kept_bytes += frame.len();
        self.kept.push_back(frame.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a frame that arrives in pieces.
    fn read(intake: &mut Intake, frame: &[u8], piece: usize) -> Bytes {
        let mut space = intake.space(frame.len());
        let mut rest = frame;
        while let Some(mut room) = space.room() {
            let (now, later) = rest.split_at(piece.min(room.chunk_mut().len()));
            room.put_slice(now);
            rest = later;
        }
        intake.take(space)
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        for piece in [1000, 4096, 1 << 20] {
            let mut intake = Intake::default();
            for size in [0, 1, LARGE - 1, LARGE, TRUST, TRUST + 1, 3 * TRUST, 5] {
                let frame: Vec<u8> = (0..size).map(|n| n as u8).collect();
                assert_eq!(read(&mut intake, &frame, piece), frame);
            }
        }
    }

    #[test]
    fn an_announced_length_alone_takes_little_memory() {
        let mut intake = Intake::default();
        let mut space = intake.space(256 << 20);
        let mut arrived = 0;
        for piece in [0, 8, TRUST, 4 * TRUST] {
            while arrived < piece {
                let mut room = space.room().unwrap();
                let step = room.chunk_mut().len().min(piece - arrived);
                room.put_bytes(1, step);
                arrived += step;
            }
            assert!(space.room().is_some());
            let taken = space.memory.capacity();
            assert!(taken <= 2 * arrived.max(TRUST), "{taken} B for {arrived} B");
        }
    }

    #[test]
    fn memory_of_frames_that_are_done_with_is_used_again() {
        for size in [600, LARGE] {
            let mut intake = Intake::default();
            let frame = vec![1; size];
            let first = read(&mut intake, &frame, size);
            let place = first.as_ptr();
            // A large frame that is held leaves its place as soon as it no longer is.
            let held = (size == LARGE).then(|| read(&mut intake, &frame, size));
            assert!(held.as_ref().is_none_or(|held| held.as_ptr() != place));
            drop(first);
            assert_eq!(read(&mut intake, &frame, size).as_ptr(), place);
        }
    }
}
