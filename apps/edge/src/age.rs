//! How old a scan is on arrival, without synchronised clocks.

use std::collections::HashMap;
use std::time::Duration;

use exchange::unpack_start;
use transport_api::Stamps;

/// The floor of a vehicle rises by one part in so many, 100 ppm: clocks drift apart more slowly, and
/// a floor that stood still would make every scan of a slow clock older and older.
const RISE: i64 = 10_000;

/// Vehicles followed at once. When one more comes, all are followed anew.
const VEHICLES: usize = 64;

/// Follows the fastest scan of each vehicle, by the vehicle's clock.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    floors: HashMap<u32, Floor>,
}

/// The least delay seen, offset of the clocks included.
#[derive(Clone, Copy, Debug)]
struct Floor {
    nanos: i64,
    /// When it was, by the edge's clock.
    at: i64,
}

impl Ages {
    /// How much later than the fastest scan of its vehicle this one came, in a scan that arrives at
    /// `now` of the edge's clock; `None` for a scan that does not say when it was published.
    pub(crate) fn of(&mut self, stamps: &Stamps, now: i64) -> Option<Duration> {
        let (clock, start) = unpack_start(stamps)?;
        let delay = now.wrapping_sub(start);
        let own = Floor {
            nanos: delay,
            at: now,
        };
        if self.floors.len() == VEHICLES && !self.floors.contains_key(&clock) {
            self.floors.clear();
        }
        let floor = self.floors.entry(clock).or_insert(own);
        let rise = now.wrapping_sub(floor.at) / RISE;
        let age = delay.wrapping_sub(floor.nanos.wrapping_add(rise));
        match u64::try_from(age) {
            Ok(age) => Some(Duration::from_nanos(age)),
            Err(_) => {
                *floor = own;
                Some(Duration::ZERO)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exchange::pack_start;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn age_is_the_delay_beyond_the_fastest_scan_whatever_the_clocks_say() {
        for offset in [0, 5 * SECOND, -5 * SECOND, i64::MAX, i64::MIN] {
            let mut ages = Ages::default();
            let mut age = |clock, sent: i64, arrives: i64| {
                let stamps = pack_start(sent.wrapping_add(offset), clock);
                ages.of(&stamps, arrives)
            };
            assert_eq!(age(1, 0, SECOND), Some(Duration::ZERO));
            // A faster one shows that the first was not the fastest.
            assert_eq!(age(1, SECOND, SECOND), Some(Duration::ZERO));
            let old = age(1, SECOND, 11 * SECOND).unwrap();
            assert_eq!(old.as_millis(), 9_999);
            // Another vehicle has a clock and a floor of its own.
            assert_eq!(age(2, 0, 12 * SECOND), Some(Duration::ZERO));
            assert!(age(1, 12 * SECOND, 12 * SECOND).unwrap() < Duration::from_millis(1));
        }
        assert_eq!(Ages::default().of(&Stamps::new(), 0), None);
    }

    #[test]
    fn a_clock_that_runs_slow_makes_no_scan_old() {
        let mut ages = Ages::default();
        for minute in 0..10_000 {
            let now = minute * 60 * SECOND;
            // 50 ppm slow: half a second of false age a quarter of a week later, if it were kept.
            let sent = now - now / 20_000;
            assert_eq!(ages.of(&pack_start(sent, 1), now), Some(Duration::ZERO));
        }
    }

    proptest! {
        #[test]
        fn any_stamps_have_an_age(readings in prop::collection::vec(any::<(u32, i64, i64)>(), 0..200)) {
            let mut ages = Ages::default();
            for (clock, start, now) in readings {
                prop_assert!(ages.of(&pack_start(start, clock), now).is_some());
                prop_assert!(ages.floors.len() <= VEHICLES);
            }
        }
    }
}
