use bytes::{Bytes, BytesMut};
use lidar_messages::{Datatype, PointCloud2, PointField, VelodyneScan};
use thiserror::Error;

use crate::{
    packet::{PacketError, PacketView, ReturnMode},
    vlp32c::{
        AZIMUTH_OFFSET, BEAM_ORIGIN, BLOCKS, CHANNELS, DISTANCE_UNIT, ELEVATION,
        FIRING_CYCLE_NANOS, FULL_TURN, MAX_AZIMUTH_OFFSET, PAIR_NANOS, RING,
    },
};

/// Bytes of a point in a converted cloud: `x`, `y`, `z` and `intensity` as `f32`, `ring` as
/// `u16`, `time` as `f32`, without padding.
pub const POINT_STEP: usize = 22;

/// Fastest plausible advance from firing to firing, in hundredths of a degree: 1,500 rpm, where
/// the sensor does at most 1,200.
const MAX_STEP: u16 = 50;

const PAIRS: usize = CHANNELS / 2;

/// Which of two common readings of the sensor's angles a cloud follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convention {
    /// As the ROS driver `velodyne_pointcloud`: all lasers of a block at the azimuth of the
    /// block, all beams from one origin.
    RosCompat,
    /// As the sensor measures: the rotor turns on while the pairs fire, and tilted beams leave
    /// the sensor at their own height. Azimuths are rounded to 0.01 degree.
    Precise,
}

/// What a dual return with equal distances becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EqualPairs {
    /// One point: it is one surface, reported twice.
    #[default]
    Merge,
    /// Two equal points, as the ROS driver gives.
    Keep,
}

/// Shape of a cloud.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One row of the returns there were; dense.
    #[default]
    Returns,
    /// A row for every block and a column for every ring, NaN where nothing returned; as the
    /// ROS driver's organised clouds.
    Organised,
}

/// A scan with a packet in it that cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("packet {packet} of {packets}: {reason}")]
pub struct ConvertError {
    /// Position of the packet in the scan, from 0.
    pub packet: usize,
    /// Packets in the scan.
    pub packets: usize,
    /// What is wrong with it.
    pub reason: PacketError,
}

/// A return in space.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Metres forward of the sensor.
    pub x: f32,
    /// Metres to its left.
    pub y: f32,
    /// Metres above it.
    pub z: f32,
    /// Reflectivity as measured: 0 to 100 diffuse, 101 to 255 retroreflective.
    pub intensity: u8,
    /// Rank of the laser by elevation, 0 is the lowest.
    pub ring: u16,
    /// Seconds after the stamp of the scan, by the nominal timing of the sensor. What follows a gap
    /// of the field of view inside a packet was in truth fired later.
    pub time: f32,
}

/// Converts scans to points.
///
/// Keeps the tables of sines and the memory of the last cloud: when that cloud is dropped before
/// the next is converted, as in a loop that sends one at a time, no memory is allocated for points.
#[derive(Debug)]
pub struct Converter {
    convention: Convention,
    equal_pairs: EqualPairs,
    layout: Layout,
    /// Cosine and negative sine by azimuth, from `-MAX_AZIMUTH_OFFSET` to past a full turn.
    rotation: Box<[[f32; 2]]>,
    lasers: Lasers,
    buffer: BytesMut,
}

/// Constants of the lasers in the form the inner loop reads.
#[derive(Debug)]
struct Lasers {
    /// Level part of one distance unit, in metres.
    level: [f32; CHANNELS],
    /// Upward part of one distance unit, in metres.
    upward: [f32; CHANNELS],
    /// Height of the beam's origin, in metres.
    height: [f32; CHANNELS],
    /// Seconds from the start of the firing.
    time: [f32; CHANNELS],
}

/// The returns of one block. Lanes without a return hold the origin.
struct Firing<'a> {
    returns: &'a [[u8; 3]; CHANNELS],
    x: [f32; CHANNELS],
    y: [f32; CHANNELS],
    z: [f32; CHANNELS],
    time: [f32; CHANNELS],
    valid: [bool; CHANNELS],
}

impl Converter {
    /// A converter to clouds of returns, with equal pairs merged.
    pub fn new(convention: Convention) -> Self {
        let margin = usize::from(MAX_STEP);
        let entries = usize::from(FULL_TURN) + 2 * MAX_AZIMUTH_OFFSET as usize + margin;
        let rotation = (0..entries)
            .map(|entry| {
                let hundredths = entry as f64 - f64::from(MAX_AZIMUTH_OFFSET);
                let (sin, cos) = (hundredths / 100.0).to_radians().sin_cos();
                [cos as f32, -sin as f32]
            })
            .collect();
        let angle = |channel: usize| ELEVATION[channel].to_radians();
        let unit = f64::from(DISTANCE_UNIT);
        let lasers = Lasers {
            level: std::array::from_fn(|channel| (unit * angle(channel).cos()) as f32),
            upward: std::array::from_fn(|channel| (unit * angle(channel).sin()) as f32),
            height: std::array::from_fn(|channel| match convention {
                Convention::RosCompat => 0.0,
                Convention::Precise => (-BEAM_ORIGIN * angle(channel).tan()) as f32,
            }),
            time: std::array::from_fn(|channel| (PAIR_NANOS * (channel / 2) as u64) as f32 * 1e-9),
        };
        Self {
            convention,
            equal_pairs: EqualPairs::default(),
            layout: Layout::default(),
            rotation,
            lasers,
            buffer: BytesMut::new(),
        }
    }

    /// Sets what becomes of equal pairs in dual mode.
    #[must_use]
    pub fn with_equal_pairs(mut self, equal_pairs: EqualPairs) -> Self {
        self.equal_pairs = equal_pairs;
        self
    }

    /// Sets the shape of clouds.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Converts a scan to a cloud with the scan's header and points of [`POINT_STEP`] bytes.
    ///
    /// `time` counts from the stamp of the scan and is only meaningful if that is near the stamps
    /// of its packets. A scan without packets gives a cloud without points.
    ///
    /// # Errors
    ///
    /// If a packet is not a good VLP-32C data packet. Nothing is converted in part.
    pub fn convert(&mut self, scan: &VelodyneScan) -> Result<PointCloud2, ConvertError> {
        let slots = scan.packets.len() * BLOCKS * CHANNELS;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.reserve(slots * POINT_STEP);
        let converted = match self.layout {
            Layout::Returns => self.write_returns(scan, &mut buffer).map(|()| true),
            Layout::Organised => self.write_organised(scan, &mut buffer),
        };
        let data = buffer.split().freeze();
        self.buffer = buffer;
        let is_dense = converted?;
        let columns = match self.layout {
            Layout::Returns => data.len() / POINT_STEP,
            Layout::Organised => CHANNELS,
        };
        Ok(cloud(scan, data, columns, is_dense))
    }

    /// Appends the points of a scan to `points`, whatever the layout of clouds.
    ///
    /// # Errors
    ///
    /// As [`convert`](Self::convert); the points before the bad packet have been appended.
    pub fn points(&self, scan: &VelodyneScan, points: &mut Vec<Point>) -> Result<(), ConvertError> {
        points.reserve(scan.packets.len() * BLOCKS * CHANNELS);
        self.for_each_firing(scan, |firing| {
            let lanes = (0..CHANNELS).filter(|&channel| firing.valid[channel]);
            points.extend(lanes.map(|channel| firing.point(channel)));
        })
    }

    fn write_returns(
        &self,
        scan: &VelodyneScan,
        buffer: &mut BytesMut,
    ) -> Result<(), ConvertError> {
        // Staged on the stack so that the copy, not each point, checks for room. Every lane is
        // written and the next one overwrites it if there was no return: a branch would be
        // mispredicted too often.
        let mut stage = [[0; POINT_STEP]; CHANNELS + 1];
        self.for_each_firing(scan, |firing| {
            let mut used = 0;
            for channel in 0..CHANNELS {
                stage[used] = firing.record(channel);
                used += usize::from(firing.valid[channel]);
            }
            buffer.extend_from_slice(stage[..used].as_flattened());
        })
    }

    /// Returns whether every lane had a return.
    fn write_organised(
        &self,
        scan: &VelodyneScan,
        buffer: &mut BytesMut,
    ) -> Result<bool, ConvertError> {
        let mut complete = true;
        let mut row = [[0; POINT_STEP]; CHANNELS];
        self.for_each_firing(scan, |firing| {
            for channel in 0..CHANNELS {
                let mut record = firing.record(channel);
                if !firing.valid[channel] {
                    complete = false;
                    let nan = f32::NAN.to_le_bytes();
                    for value in record[..12].as_chunks_mut().0 {
                        *value = nan;
                    }
                }
                row[usize::from(RING[channel])] = record;
            }
            buffer.extend_from_slice(row.as_flattened());
        })?;
        Ok(complete)
    }

    fn for_each_firing(
        &self,
        scan: &VelodyneScan,
        mut visit: impl FnMut(&Firing<'_>),
    ) -> Result<(), ConvertError> {
        let start = scan.header.stamp.as_nanos();
        let packets = scan.packets.len();
        for (number, packet) in scan.packets.iter().enumerate() {
            let view = PacketView::new(packet.data).map_err(|reason| ConvertError {
                packet: number,
                packets,
                reason,
            })?;
            let stamp = packet.stamp.as_nanos();
            let offset = stamp.abs_diff(start) as f64 * 1e-9;
            let offset = if stamp < start { -offset } else { offset };
            self.visit_packet(&view, offset, &mut visit);
        }
        Ok(())
    }

    fn visit_packet(
        &self,
        packet: &PacketView<'_>,
        offset: f64,
        visit: &mut impl FnMut(&Firing<'_>),
    ) {
        let per_firing = packet.return_mode().blocks_per_firing();
        let merge =
            packet.return_mode() == ReturnMode::Dual && self.equal_pairs == EqualPairs::Merge;
        let lanes = self.rotation_lanes(packet);
        for block in 0..BLOCKS {
            let firing = (block / per_firing) as u64;
            let start = (offset + (firing * FIRING_CYCLE_NANOS) as f64 * 1e-9) as f32;
            let rotation = &self.rotation[usize::from(packet.azimuth(block))..];
            let mut firing = self.firing(packet.returns(block), rotation, &lanes, start);
            if merge && block % 2 == 1 {
                firing.drop_repeated(packet.returns(block - 1));
            }
            visit(&firing);
        }
    }

    /// Where the lasers find their sine, relative to the azimuth of a block.
    fn rotation_lanes(&self, packet: &PacketView<'_>) -> [usize; CHANNELS] {
        let turned: [u16; PAIRS] = match self.convention {
            Convention::RosCompat => [0; PAIRS],
            Convention::Precise => {
                let step = u64::from(median_step(packet));
                std::array::from_fn(|pair| {
                    let part = step * pair as u64 * PAIR_NANOS;
                    ((part + FIRING_CYCLE_NANOS / 2) / FIRING_CYCLE_NANOS) as u16
                })
            }
        };
        std::array::from_fn(|channel| {
            let offset = MAX_AZIMUTH_OFFSET + AZIMUTH_OFFSET[channel];
            usize::from(offset.unsigned_abs() + turned[channel / 2])
        })
    }

    #[inline]
    fn firing<'a>(
        &self,
        returns: &'a [[u8; 3]; CHANNELS],
        rotation: &[[f32; 2]],
        lanes: &[usize; CHANNELS],
        start: f32,
    ) -> Firing<'a> {
        let Lasers {
            level,
            upward,
            height,
            time,
        } = &self.lasers;
        let distance: [u16; CHANNELS] =
            std::array::from_fn(|lane| u16::from_le_bytes([returns[lane][0], returns[lane][1]]));
        let units = distance.map(f32::from);
        let direction: [[f32; 2]; CHANNELS] = lanes.map(|lane| rotation[lane]);
        Firing {
            returns,
            x: std::array::from_fn(|lane| units[lane] * level[lane] * direction[lane][0]),
            y: std::array::from_fn(|lane| units[lane] * level[lane] * direction[lane][1]),
            z: std::array::from_fn(|lane| units[lane] * upward[lane] + height[lane]),
            time: time.map(|time| start + time),
            valid: distance.map(|distance| distance != 0),
        }
    }
}

impl Firing<'_> {
    /// Leaves out what the other block of a dual return has at the same distance.
    fn drop_repeated(&mut self, other: &[[u8; 3]; CHANNELS]) {
        let pairs = self.returns.iter().zip(other);
        for (valid, (ours, theirs)) in self.valid.iter_mut().zip(pairs) {
            *valid &= ours[..2] != theirs[..2];
        }
    }

    fn point(&self, channel: usize) -> Point {
        Point {
            x: self.x[channel],
            y: self.y[channel],
            z: self.z[channel],
            intensity: self.returns[channel][2],
            ring: RING[channel],
            time: self.time[channel],
        }
    }

    #[inline]
    fn record(&self, channel: usize) -> [u8; POINT_STEP] {
        let mut record = [0; POINT_STEP];
        let intensity = f32::from(self.returns[channel][2]);
        record[..4].copy_from_slice(&self.x[channel].to_le_bytes());
        record[4..8].copy_from_slice(&self.y[channel].to_le_bytes());
        record[8..12].copy_from_slice(&self.z[channel].to_le_bytes());
        record[12..16].copy_from_slice(&intensity.to_le_bytes());
        record[16..18].copy_from_slice(&RING[channel].to_le_bytes());
        record[18..].copy_from_slice(&self.time[channel].to_le_bytes());
        record
    }
}

/// The rotor's advance from firing to firing, in hundredths of a degree.
///
/// The median, since a sensor limited to a field of view jumps over the rest inside a packet, and
/// a mean would spread that jump over its points. 0 if even the median is no rotor's.
fn median_step(packet: &PacketView<'_>) -> u16 {
    let stride = packet.return_mode().blocks_per_firing();
    let count = BLOCKS / stride - 1;
    let mut steps = [0; BLOCKS];
    for (number, step) in steps[..count].iter_mut().enumerate() {
        let from = packet.azimuth(number * stride);
        let to = packet.azimuth((number + 1) * stride);
        *step = if to >= from {
            to - from
        } else {
            FULL_TURN - (from - to)
        };
    }
    let (_, median, _) = steps[..count].select_nth_unstable(count / 2);
    if *median <= MAX_STEP { *median } else { 0 }
}

fn cloud(scan: &VelodyneScan, data: Bytes, columns: usize, is_dense: bool) -> PointCloud2 {
    let row = columns * POINT_STEP;
    // A scan decoded from a message of less than 4 GiB has less than 2^32 points.
    let size = |value: usize| u32::try_from(value).expect("a cloud has less than 2^32 points");
    PointCloud2 {
        header: scan.header.clone(),
        height: size(data.len().checked_div(row).unwrap_or(1)),
        width: size(columns),
        fields: fields(),
        is_bigendian: false,
        point_step: POINT_STEP as u32,
        row_step: size(row),
        data,
        is_dense,
    }
}

fn fields() -> Vec<PointField> {
    let field = |name: &'static str, offset, datatype| PointField {
        name: name.into(),
        offset,
        datatype,
        count: 1,
    };
    vec![
        field("x", 0, Datatype::Float32),
        field("y", 4, Datatype::Float32),
        field("z", 8, Datatype::Float32),
        field("intensity", 12, Datatype::Float32),
        field("ring", 16, Datatype::Uint16),
        field("time", 18, Datatype::Float32),
    ]
}
