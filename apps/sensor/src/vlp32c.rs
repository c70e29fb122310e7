//! Constants of the Velodyne VLP-32C, from its user manual (63-9325 rev. B): packet structure,
//! firing timing and the table of laser angles.
//!
//! Channels are in firing order, as in a packet. The lasers fire in pairs, so channels `2n` and
//! `2n + 1` fire together.

/// Lasers, and returns in a block.
pub const CHANNELS: usize = 32;

/// Blocks in a data packet.
pub const BLOCKS: usize = 12;

/// Bytes of a data packet.
pub const PACKET_LEN: usize = 1206;

/// Bytes of the position packet the sensor sends beside its data.
pub const POSITION_PACKET_LEN: usize = 512;

/// UDP port of data packets unless set otherwise.
pub const DATA_PORT: u16 = 2368;

/// UDP port of position packets unless set otherwise.
pub const POSITION_PORT: u16 = 8308;

/// Product byte of the VLP-32C.
pub const PRODUCT: u8 = 0x28;

/// Metres in one unit of distance. Other Velodyne sensors count in 2 mm.
pub const DISTANCE_UNIT: f32 = 0.004;

/// Azimuths are counted in hundredths of a degree, clockwise seen from above, 0 is forward.
pub const FULL_TURN: u16 = 36_000;

/// Nanoseconds from one firing of all lasers to the next.
pub const FIRING_CYCLE_NANOS: u64 = 55_296;

/// Nanoseconds from one pair of lasers to the next.
pub const PAIR_NANOS: u64 = 2_304;

/// Nanoseconds one packet covers in a single-return mode; half as many in dual mode.
pub const PACKET_NANOS: u64 = BLOCKS as u64 * FIRING_CYCLE_NANOS;

/// Vertical distance in metres between the points where a level and a tilted beam leave the
/// sensor, per tangent of the tilt: beams cross the axis this far from their origin.
pub const BEAM_ORIGIN: f64 = 0.0424;

/// Elevation of each laser in degrees, up is positive.
pub const ELEVATION: [f64; CHANNELS] = [
    -25.0, -1.0, -1.667, -15.639, -11.31, 0.0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148,
    -5.333, 1.333, 0.667, -4.0, -4.667, 1.667, 1.0, -3.667, -3.333, 3.333, 2.333, -2.667, -3.0,
    7.0, 4.667, -2.333, -2.0, 15.0, 10.333, -1.333,
];

/// Azimuth of each laser relative to the azimuth of its block, in hundredths of a degree.
pub const AZIMUTH_OFFSET: [i16; CHANNELS] = [
    140, -420, 140, -140, 140, -140, 420, -140, 140, -420, 140, -140, 420, -140, 420, -140, 140,
    -420, 140, -420, 420, -140, 140, -140, 140, -140, 140, -420, 420, -140, 140, -140,
];

/// Largest magnitude in [`AZIMUTH_OFFSET`].
pub(crate) const MAX_AZIMUTH_OFFSET: i16 = 420;

/// Ring of each laser: its rank by elevation, 0 is the lowest.
pub const RING: [u16; CHANNELS] = rank();

const fn rank() -> [u16; CHANNELS] {
    let mut ring = [0; CHANNELS];
    let mut channel = 0;
    while channel < CHANNELS {
        let mut other = 0;
        while other < CHANNELS {
            if ELEVATION[other] < ELEVATION[channel] {
                ring[channel] += 1;
            }
            other += 1;
        }
        channel += 1;
    }
    ring
}
