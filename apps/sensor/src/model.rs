use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::packet::{BLOCKS, FULL_TURN, SLOTS};

/// A sensor whose packets are read here.
///
/// All of them send packets of the same frame: [`BLOCKS`] blocks of [`SLOTS`] returns. What a slot
/// means differs, and that is the [`Geometry`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// VLP-32C, also called Ultra Puck: 32 lasers that fire in pairs.
    #[default]
    Vlp32c,
    /// VLP-16, also called Puck: 16 lasers, fired twice in a block.
    Vlp16,
    /// HDL-32E: 32 lasers that fire one after the other.
    Hdl32e,
}

/// A text that names no model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("sensor model {text:?} is unknown; give vlp-32c, vlp-16 or hdl-32e")]
pub struct ModelError {
    /// The text.
    pub text: String,
}

/// Where and when the returns of a block were measured, slot by slot.
///
/// The numbers are those of the user manuals: 63-9325 rev. B (VLP-32C), 63-9243 rev. E (VLP-16)
/// and 63-9277 rev. D (HDL-32E).
#[derive(Debug)]
pub struct Geometry {
    /// Lasers, and so rings.
    pub lasers: usize,
    /// Metres in one unit of distance.
    pub distance_unit: f32,
    /// Metres that its data sheet promises.
    pub range: f32,
    /// Nanoseconds a block covers, from its first laser to the first one of the next block of
    /// other firings.
    pub block_nanos: u64,
    /// Nanoseconds from the start of the block to the firing of each slot.
    pub fired_nanos: [u64; SLOTS],
    /// Elevation of each slot's laser in degrees, up is positive.
    pub elevation: [f64; SLOTS],
    /// Azimuth of each slot's laser relative to the azimuth of the rotor, in hundredths of a degree.
    pub azimuth_offset: [i16; SLOTS],
    /// Ring of each slot: its laser's rank by elevation, 0 is the lowest.
    pub ring: [u16; SLOTS],
    /// Beams cross the axis of the sensor this many metres before they leave it, so a tilted one
    /// leaves it this far below or above the level one, times the tangent of its tilt.
    pub beam_origin: f64,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vlp32c, Self::Vlp16, Self::Hdl32e];

    /// The model whose data packets end with this byte.
    pub fn from_product(product: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|model| model.product() == product)
    }

    /// The last byte of its data packets.
    pub fn product(self) -> u8 {
        match self {
            Self::Vlp32c => 0x28,
            Self::Vlp16 => 0x22,
            Self::Hdl32e => 0x21,
        }
    }

    /// As the manufacturer writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vlp32c => "VLP-32C",
            Self::Vlp16 => "VLP-16",
            Self::Hdl32e => "HDL-32E",
        }
    }

    /// What its slots mean.
    pub fn geometry(self) -> &'static Geometry {
        match self {
            Self::Vlp32c => &VLP_32C,
            Self::Vlp16 => &VLP_16,
            Self::Hdl32e => &HDL_32E,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let found = Self::ALL
            .into_iter()
            .find(|model| model.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| ModelError {
            text: text.to_owned(),
        })
    }
}

impl Geometry {
    /// Nanoseconds that a packet covers in a single-return mode; half as many in dual mode.
    pub fn packet_nanos(&self) -> u64 {
        BLOCKS as u64 * self.block_nanos
    }

    /// Hundredths of a degree that the fastest plausible rotor turns in a block: at 1,500 rpm, where
    /// all sensors do at most 1,200.
    pub(crate) fn max_step(&self) -> u16 {
        // 25 turns a second; at most 100.
        (25 * u64::from(FULL_TURN) * self.block_nanos / 1_000_000_000 + 1) as u16
    }
}

/// Largest magnitude in [`Geometry::azimuth_offset`] of any model.
pub(crate) const MAX_AZIMUTH_OFFSET: i16 = 420;

static VLP_32C: Geometry = {
    let elevation = [
        -25.0, -1.0, -1.667, -15.639, -11.31, 0.0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148,
        -5.333, 1.333, 0.667, -4.0, -4.667, 1.667, 1.0, -3.667, -3.333, 3.333, 2.333, -2.667, -3.0,
        7.0, 4.667, -2.333, -2.0, 15.0, 10.333, -1.333,
    ];
    Geometry {
        lasers: 32,
        distance_unit: 0.004,
        range: 200.0,
        block_nanos: 55_296,
        fired_nanos: firings(32, 2, 2_304, 0),
        elevation,
        azimuth_offset: [
            140, -420, 140, -140, 140, -140, 420, -140, 140, -420, 140, -140, 420, -140, 420, -140,
            140, -420, 140, -420, 420, -140, 140, -140, 140, -140, 140, -420, 420, -140, 140, -140,
        ],
        ring: rank(&elevation),
        beam_origin: 0.0424,
    }
};

static VLP_16: Geometry = {
    let elevation = twice([
        -15.0, 1.0, -13.0, 3.0, -11.0, 5.0, -9.0, 7.0, -7.0, 9.0, -5.0, 11.0, -3.0, 13.0, -1.0,
        15.0,
    ]);
    Geometry {
        lasers: 16,
        distance_unit: 0.002,
        range: 100.0,
        block_nanos: 110_592,
        fired_nanos: firings(16, 1, 2_304, 55_296),
        elevation,
        azimuth_offset: [0; SLOTS],
        ring: rank(&elevation),
        beam_origin: 0.04191,
    }
};

static HDL_32E: Geometry = {
    let elevation = [
        -30.67, -9.33, -29.33, -8.0, -28.0, -6.67, -26.67, -5.33, -25.33, -4.0, -24.0, -2.67,
        -22.67, -1.33, -21.33, 0.0, -20.0, 1.33, -18.67, 2.67, -17.33, 4.0, -16.0, 5.33, -14.67,
        6.67, -13.33, 8.0, -12.0, 9.33, -10.67, 10.67,
    ];
    Geometry {
        lasers: 32,
        distance_unit: 0.002,
        range: 100.0,
        block_nanos: 46_080,
        fired_nanos: firings(32, 1, 1_152, 0),
        elevation,
        azimuth_offset: [0; SLOTS],
        ring: rank(&elevation),
        beam_origin: 0.02896,
    }
};

/// When each slot fires: `together` lasers at once every `step` nanoseconds, all `lasers` of them
/// again after `cycle`.
const fn firings(lasers: usize, together: usize, step: u64, cycle: u64) -> [u64; SLOTS] {
    let mut fired = [0; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        let laser = slot % lasers;
        fired[slot] = (slot / lasers) as u64 * cycle + (laser / together) as u64 * step;
        slot += 1;
    }
    fired
}

const fn twice(lasers: [f64; SLOTS / 2]) -> [f64; SLOTS] {
    let mut slots = [0.0; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        slots[slot] = lasers[slot % lasers.len()];
        slot += 1;
    }
    slots
}

/// Rank by elevation; slots of one laser have the same.
const fn rank(elevation: &[f64; SLOTS]) -> [u16; SLOTS] {
    let mut ring = [0; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        let mut other = 0;
        while other < SLOTS {
            let mut repeated = false;
            let mut before = 0;
            while before < other {
                repeated |= elevation[before] == elevation[other];
                before += 1;
            }
            if elevation[other] < elevation[slot] && !repeated {
                ring[slot] += 1;
            }
            other += 1;
        }
        slot += 1;
    }
    ring
}
