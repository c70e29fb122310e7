use lidar_messages::Time;

use crate::packet::{BLOCKS, FULL_TURN, PacketView};

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// The sensor's clock and the host's may differ by this much in what they say has passed, in
/// microseconds: receiving may have waited meanwhile.
const TOLERATED_MICROS: i64 = 1_000_000;

/// How far the ends of a gap may move from turn to turn, in hundredths of a degree.
const SAME_PLACE: u16 = 100;

/// What lies between a packet and those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Nothing: it is the first or the next.
    Next,
    /// So many packets that never arrived.
    Lost(u64),
    /// It was sent before one that has already arrived.
    Late,
    /// The sensor's clock was set.
    ClockStep,
}

/// Tells from the sensor's clock what is missing between two packets.
///
/// A sensor that is limited to a field of view sends nothing while it looks elsewhere. Nearly always
/// the gap falls into a packet, which shows where it is; from then on it is no loss between packets
/// either. A gap between packets alone does not show it: what is lost in every turn, because
/// something else happens once a turn, looks the same.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    last: Option<Last>,
    blank: Option<Blank>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    stamp: Time,
    micros: u32,
    /// Of its last block.
    azimuth: u16,
    rotor: Rotor,
}

/// How a packet was fired.
#[derive(Debug, Clone, Copy)]
struct Rotor {
    /// Hundredths of a degree in a microsecond; 0 if it stands still.
    speed: f64,
    /// Microseconds of a packet without a gap.
    packet: f64,
    /// The largest jump inside the packet, if that is more than turning.
    gap: Option<Gap>,
}

/// The sector in which nothing is sent.
#[derive(Debug, Clone, Copy)]
struct Blank {
    gap: Gap,
    /// How long passing it takes, in microseconds.
    micros: f64,
}

/// A part of the turn, clockwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from: u16,
    to: u16,
}

impl Gap {
    fn width(self) -> f64 {
        f64::from(advance(self.from, self.to))
    }

    fn is_near(self, other: Self) -> bool {
        let near = |a, b| advance(a, b).min(advance(b, a)) <= SAME_PLACE;
        near(self.from, other.from) && near(self.to, other.to)
    }

    /// Whether this one lies in `whole`, as far as ends are certain.
    fn is_within(self, whole: Self) -> bool {
        let reach = advance(whole.from, whole.to) + SAME_PLACE;
        let before = match whole.from.checked_sub(SAME_PLACE) {
            Some(before) => before,
            None => whole.from + (FULL_TURN - SAME_PLACE),
        };
        let start = advance(before, self.from);
        f64::from(start) + self.width() <= f64::from(reach) + f64::from(SAME_PLACE)
    }
}

impl Continuity {
    pub(crate) fn follow(&mut self, stamp: Time, view: &PacketView<'_>) -> Passage {
        let rotor = Rotor::new(view);
        let new = Last {
            stamp,
            micros: view.timestamp_us(),
            azimuth: view.azimuth(BLOCKS - 1),
            rotor,
        };
        let passage = match self.last {
            Some(last) => self.passage(&last, stamp, view),
            None => Passage::Next,
        };
        if passage != Passage::Late {
            self.last = Some(new);
        }
        passage
    }

    fn passage(&mut self, last: &Last, stamp: Time, view: &PacketView<'_>) -> Passage {
        let host = (i128::from(stamp.as_nanos()) - i128::from(last.stamp.as_nanos())) / 1_000;
        // Two times of 32 bit seconds differ by less than 2^63 microseconds.
        let host = host as i64;
        let elapsed = elapsed(last.micros, view.timestamp_us(), host);
        if (elapsed - host).abs() > TOLERATED_MICROS {
            return Passage::ClockStep;
        }
        if elapsed < 0 {
            return Passage::Late;
        }
        let Rotor { speed, packet, gap } = last.rotor;
        let between = Gap {
            from: last.azimuth,
            to: view.azimuth(0),
        };
        let mut excess = elapsed as f64 - packet;
        if let Some(gap) = gap {
            let known = self.blank.filter(|blank| blank.gap.is_near(gap));
            let micros = known.map_or(gap.width() / speed, |blank| blank.micros);
            let adjoins = between.width() <= f64::from(2 * view.model().geometry().max_step());
            if adjoins && (excess - micros).abs() < micros / 2.0 {
                // The way is certain, and the clock says how long it took.
                let micros = excess;
                self.blank = Some(Blank { gap, micros });
                return Passage::Next;
            }
            excess -= micros;
        }
        if excess < packet / 2.0 {
            return Passage::Next;
        }
        if let Some(Blank { gap, micros }) = self.blank {
            let speed = gap.width() / micros;
            let turns = (excess * speed - between.width()) / f64::from(FULL_TURN);
            let passes = turns.round().max(0.0) + f64::from(u8::from(gap.is_within(between)));
            excess -= passes * micros;
        }
        let lost = (excess / packet).round().max(0.0);
        if lost == 0.0 {
            return Passage::Next;
        }
        // Less than there are microseconds.
        Passage::Lost(lost as u64)
    }
}

impl Rotor {
    fn new(view: &PacketView<'_>) -> Self {
        let geometry = view.model().geometry();
        let per_firing = view.return_mode().blocks_per_firing();
        let block = geometry.block_nanos as f64 / 1e3;
        let mut gap: Option<Gap> = None;
        let (mut turned, mut steps) = (0.0, 0);
        for number in (per_firing..BLOCKS).step_by(per_firing) {
            let step = Gap {
                from: view.azimuth(number - per_firing),
                to: view.azimuth(number),
            };
            if step.width() <= f64::from(2 * geometry.max_step()) {
                turned += step.width();
                steps += 1;
            } else if gap.is_none_or(|gap| gap.width() < step.width()) {
                gap = Some(step);
            }
        }
        let speed = turned / f64::from(steps.max(1)) / block;
        Self {
            speed,
            packet: geometry.packet_nanos() as f64 / 1e3 / per_firing as f64,
            gap: gap.filter(|_| speed > 0.0),
        }
    }
}

/// Microseconds from one reading of the sensor's clock to another. It starts over every hour; the
/// host tells how many have passed.
fn elapsed(from: u32, to: u32, host: i64) -> i64 {
    let within = i64::from(to) - i64::from(from);
    let hours = (host - within + MICROS_PER_HOUR / 2).div_euclid(MICROS_PER_HOUR);
    within + hours * MICROS_PER_HOUR
}

/// Clockwise way from one azimuth to another, less than a full turn.
pub(crate) fn advance(from: u16, to: u16) -> u16 {
    if to >= from {
        to - from
    } else {
        FULL_TURN - (from - to)
    }
}
