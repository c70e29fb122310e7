//! Loss accounting from sequence numbers.

use crate::message::MessageId;

/// How far behind the newest message of a source a late one is still recognised, in messages.
pub const WINDOW: u64 = 1024;

/// How many sources are followed at once; the one longest silent gives way.
pub const SOURCES: usize = 256;

const WORDS: usize = (WINDOW / 64) as usize;

/// What one arrival says about its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one, or the first of its source.
    Next,
    /// Newer than expected: this many before it have not arrived.
    Ahead(u64),
    /// One that was counted as missing has arrived after all.
    Late,
    /// One that arrived before, or is older than [`WINDOW`] messages.
    Duplicate,
}

/// Follows the sequences of several sources and counts gaps.
#[derive(Debug, Default)]
pub struct GapTracker {
    sources: Vec<Source>,
    clock: u64,
    missed: u64,
    duplicates: u64,
    reordered: u64,
}

#[derive(Debug)]
struct Source {
    source: u64,
    newest: u64,
    first: u64,
    /// Bit `seq % WINDOW` says whether `seq` has arrived, for the last `WINDOW` numbers.
    seen: [u64; WORDS],
    heard: u64,
}

impl Source {
    fn bit(seq: u64) -> (usize, u64) {
        let slot = seq % WINDOW;
        ((slot / 64) as usize, 1 << (slot % 64))
    }
    fn mark(&mut self, seq: u64) {
        let (word, mask) = Self::bit(seq);
        self.seen[word] |= mask;
    }
    fn clear(&mut self, seq: u64) {
        let (word, mask) = Self::bit(seq);
        self.seen[word] &= !mask;
    }
    fn has(&self, seq: u64) -> bool {
        let (word, mask) = Self::bit(seq);
        self.seen[word] & mask != 0
    }
}

impl GapTracker {
    /// Takes note of an arrival. What a source sent before its first arrival here is not counted:
    /// a subscriber may have joined late.
    pub fn observe(&mut self, id: MessageId) -> Arrival {
        self.clock += 1;
        let Some(source) = self.sources.iter_mut().find(|s| s.source == id.source) else {
            self.follow(id);
            return Arrival::Next;
        };
        source.heard = self.clock;
        if id.seq > source.newest {
            let missing = id.seq - source.newest - 1;
            if missing >= WINDOW {
                source.seen = [0; WORDS];
            } else {
                for seq in source.newest + 1..id.seq {
                    source.clear(seq);
                }
            }
            source.newest = id.seq;
            source.mark(id.seq);
            self.missed = self.missed.saturating_add(missing);
            return if missing == 0 {
                Arrival::Next
            } else {
                Arrival::Ahead(missing)
            };
        }
        if id.seq < source.first || source.newest - id.seq >= WINDOW || source.has(id.seq) {
            // A number below the first one seen was never counted as missing; it is late, not lost.
            if id.seq < source.first && source.newest - id.seq < WINDOW && !source.has(id.seq) {
                source.mark(id.seq);
                self.reordered += 1;
                return Arrival::Late;
            }
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        source.mark(id.seq);
        self.missed = self.missed.saturating_sub(1);
        self.reordered += 1;
        Arrival::Late
    }

    fn follow(&mut self, id: MessageId) {
        if self.sources.len() == SOURCES {
            let quiet = self.sources.iter().enumerate().min_by_key(|(_, s)| s.heard);
            if let Some((index, _)) = quiet {
                self.sources.swap_remove(index);
            }
        }
        let mut source = Source {
            source: id.source,
            newest: id.seq,
            first: id.seq,
            seen: [0; WORDS],
            heard: self.clock,
        };
        source.mark(id.seq);
        self.sources.push(source);
    }

    /// Messages missing so far.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Messages that arrived again.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Messages that arrived late.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(seq: u64) -> MessageId {
        MessageId { source: 7, seq }
    }

    #[test]
    fn every_gap_is_counted_and_a_late_arrival_takes_it_back() {
        let mut gaps = GapTracker::default();
        assert_eq!(gaps.observe(id(5)), Arrival::Next);
        assert_eq!(gaps.observe(id(6)), Arrival::Next);
        assert_eq!(gaps.observe(id(10)), Arrival::Ahead(3));
        assert_eq!(gaps.missed(), 3);
        assert_eq!(gaps.observe(id(8)), Arrival::Late);
        assert_eq!(gaps.observe(id(8)), Arrival::Duplicate);
        assert_eq!(gaps.observe(id(10)), Arrival::Duplicate);
        assert_eq!(gaps.observe(id(4)), Arrival::Late);
        assert_eq!(
            (gaps.missed(), gaps.duplicates(), gaps.reordered()),
            (2, 2, 2)
        );
    }

    #[test]
    fn huge_jumps_and_many_sources_stay_bounded() {
        let mut gaps = GapTracker::default();
        gaps.observe(id(0));
        assert_eq!(gaps.observe(id(u64::MAX)), Arrival::Ahead(u64::MAX - 1));
        for source in 0..10 * SOURCES as u64 {
            gaps.observe(MessageId { source, seq: 0 });
        }
        assert!(gaps.sources.len() <= SOURCES);
    }

    #[test]
    fn arrival_counts_agree_with_a_plain_set() {
        let mut gaps = GapTracker::default();
        let mut set = std::collections::BTreeSet::new();
        let mut state = 1u64;
        gaps.observe(id(0));
        set.insert(0);
        let (mut base, mut duplicates) = (0u64, 0);
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            base += (state >> 60) % 3;
            let seq = base.saturating_sub((state >> 40) % 50);
            if !set.insert(seq) {
                duplicates += 1;
            }
            gaps.observe(id(seq));
        }
        let newest = *set.last().unwrap();
        assert_eq!(gaps.missed(), newest + 1 - set.len() as u64);
        assert_eq!(gaps.duplicates(), duplicates);
    }
}
