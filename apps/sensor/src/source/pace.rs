use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use lidar_messages::Time;

/// When the turns of a recording come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as they are asked for.
    #[default]
    Fast,
    /// As they were recorded, and no sooner. A reader that is late gets them at once until it is on
    /// time again.
    Real,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fast => "fast",
            Self::Real => "real",
        })
    }
}

impl FromStr for Pace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "fast" => Ok(Self::Fast),
            "real" => Ok(Self::Real),
            _ => Err(()),
        }
    }
}

/// Keeps a [`Pace`].
#[derive(Debug, Default)]
pub(super) struct Pacer {
    /// The first stamp, and when it was due.
    start: Option<(Time, Instant)>,
}

impl Pacer {
    /// How long after `now` what is stamped with `stamp` is due.
    pub(super) fn wait(&mut self, stamp: Time, now: Instant) -> Duration {
        let (first, start) = *self.start.get_or_insert((stamp, now));
        let since = stamp.as_nanos().saturating_sub(first.as_nanos());
        let due = start.checked_add(Duration::from_nanos(since));
        due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_catches_up() {
        let mut pacer = Pacer::default();
        let start = Instant::now();
        let ms = Duration::from_millis;
        let stamp = |millis: u64| Time::from_nanos(1_000_000_000 + millis * 1_000_000);
        assert_eq!(pacer.wait(stamp(0), start), ms(0));
        assert_eq!(pacer.wait(stamp(100), start + ms(30)), ms(70));
        assert_eq!(pacer.wait(stamp(200), start + ms(350)), ms(0));
        assert_eq!(pacer.wait(stamp(300), start + ms(360)), ms(0));
        assert_eq!(pacer.wait(stamp(400), start + ms(370)), ms(30));
    }
}
