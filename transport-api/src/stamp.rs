//! Time stamps that travel with a message.

use std::fmt;

/// Most stamps one message can carry.
pub const CAPACITY: usize = 12;

/// Which clock a stamp was taken from. Stamps of different clocks are never subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockId(pub u32);

/// Which point of the data flow a stamp marks; the meaning of the number is the app's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StampPoint(pub u8);

/// One reading of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The marked point.
    pub point: StampPoint,
    /// The clock that was read.
    pub clock: ClockId,
    /// The reading, in nanoseconds since an arbitrary origin of that clock.
    pub nanos: i64,
}

impl Stamp {
    /// Nanoseconds from `earlier` to `self`; `None` across clocks, where a difference means nothing.
    pub fn since(&self, earlier: &Stamp) -> Option<i64> {
        (self.clock == earlier.clock).then(|| self.nanos.wrapping_sub(earlier.nanos))
    }
}

/// Up to [`CAPACITY`] stamps, held inline.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamps {
    list: [Stamp; CAPACITY],
    len: u8,
}

impl Stamps {
    /// No stamps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a stamp and says whether there was room; a full list stays as it is.
    pub fn push(&mut self, stamp: Stamp) -> bool {
        match self.list.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = stamp;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The first stamp at `point`.
    pub fn get(&self, point: StampPoint) -> Option<&Stamp> {
        self.as_slice().iter().find(|stamp| stamp.point == point)
    }

    /// All stamps in the order they were appended.
    pub fn as_slice(&self) -> &[Stamp] {
        &self.list[..usize::from(self.len)]
    }
}

impl fmt::Debug for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_different_clocks_are_not_subtracted() {
        let at = |clock, nanos| Stamp {
            point: StampPoint(0),
            clock: ClockId(clock),
            nanos,
        };
        assert_eq!(at(1, 30).since(&at(1, 10)), Some(20));
        assert_eq!(at(1, 30).since(&at(2, 10)), None);
    }

    #[test]
    fn a_full_list_says_so_and_keeps_what_it_has() {
        let mut stamps = Stamps::new();
        for n in 0..CAPACITY {
            assert!(stamps.push(Stamp {
                point: StampPoint(n as u8),
                ..Stamp::default()
            }));
        }
        assert!(!stamps.push(Stamp {
            point: StampPoint(99),
            ..Stamp::default()
        }));
        assert!(stamps.get(StampPoint(99)).is_none());
        assert_eq!(stamps.as_slice().len(), CAPACITY);
    }
}
