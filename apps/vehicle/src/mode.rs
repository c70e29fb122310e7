//! On whom the vehicle relies: on the edge, or on itself.

use serde::{Deserialize, Serialize};

/// Whose object lists the vehicle waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The edge's, until the deadline; then it detects by itself.
    Edge,
    /// Its own, from the moment a scan is there. Scans are still sent, so that the edge's return is
    /// seen.
    Local,
}

/// What became of the edge's answer to one frame. Each frame has one, and it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was there by the deadline.
    InTime,
    /// It was not.
    Late,
    /// There will be none: the transport did not take the scan.
    Refused,
}

/// Changes the mode after so many verdicts in a row that speak against it. One that speaks for it
/// begins the count anew, so an edge that is late now and then changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    misses: u32,
    recoveries: u32,
    mode: Mode,
    in_a_row: u32,
}

impl Switch {
    /// Relies on the edge until it misses `misses` in a row, then on the vehicle until there are
    /// `recoveries` in a row in time. At least one each.
    pub(crate) fn new(misses: u32, recoveries: u32) -> Self {
        Self {
            misses: misses.max(1),
            recoveries: recoveries.max(1),
            mode: Mode::Edge,
            in_a_row: 0,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Takes a verdict, in the order in which they fall; whether the mode has changed by it.
    pub(crate) fn note(&mut self, verdict: Verdict) -> bool {
        let in_time = verdict == Verdict::InTime;
        let (against, patience, other) = match self.mode {
            Mode::Edge => (!in_time, self.misses, Mode::Local),
            Mode::Local => (in_time, self.recoveries, Mode::Edge),
        };
        self.in_a_row = if against { self.in_a_row + 1 } else { 0 };
        let changes = self.in_a_row >= patience;
        if changes {
            self.mode = other;
            self.in_a_row = 0;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict() -> impl Strategy<Value = Verdict> {
        // Runs are what matters, so in time and late come about as often.
        prop_oneof![
            3 => Just(Verdict::InTime),
            2 => Just(Verdict::Late),
            1 => Just(Verdict::Refused),
        ]
    }

    proptest! {
        #[test]
        fn the_mode_changes_after_so_many_in_a_row_and_never_before(
            verdicts in prop::collection::vec(verdict(), 0..300),
            misses in 1u32..6,
            recoveries in 1u32..6,
        ) {
            let mut switch = Switch::new(misses, recoveries);
            // How many of the last verdicts were alike.
            let (mut bad, mut good, mut since) = (0, 0, 0);
            for verdict in verdicts {
                let before = switch.mode();
                match verdict {
                    Verdict::InTime => (bad, good) = (0, good + 1),
                    Verdict::Late | Verdict::Refused => (bad, good) = (bad + 1, 0),
                }
                since += 1;
                let changed = switch.note(verdict);
                prop_assert_eq!(changed, before != switch.mode());
                // It is away from the edge that misses, and back at the one that has returned.
                prop_assert!(bad < misses || switch.mode() == Mode::Local);
                prop_assert!(good < recoveries || switch.mode() == Mode::Edge);
                if changed {
                    // No flapping: every change has its whole run behind it.
                    let (run, wanted) = match switch.mode() {
                        Mode::Local => (bad, misses),
                        Mode::Edge => (good, recoveries),
                    };
                    prop_assert!(run >= wanted && since >= wanted, "{run} of {wanted}");
                    since = 0;
                }
            }
        }

        #[test]
        fn an_edge_that_is_late_now_and_then_changes_nothing(
            pattern in prop::collection::vec(0u32..3, 1..50),
        ) {
            let mut switch = Switch::new(3, 5);
            for late in pattern {
                for _ in 0..late {
                    prop_assert!(!switch.note(Verdict::Late));
                }
                prop_assert!(!switch.note(Verdict::InTime));
            }
        }
    }
}
