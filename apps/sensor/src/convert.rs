use bytes::{Bytes, BytesMut};
use lidar_messages::{Datatype, PointCloud2, PointField, VelodyneScan};
use thiserror::Error;

use crate::{
    continuity::advance,
    model::{Geometry, MAX_AZIMUTH_OFFSET, Model},
    packet::{BLOCKS, FULL_TURN, PacketError, PacketView, ReturnMode, SLOTS},
};

/// Bytes of a point in a converted cloud: `x`, `y`, `z` and `intensity` as `f32`, `ring` as
/// `u16`, `time` as `f32`, without padding.
pub const POINT_STEP: usize = 22;

/// Which of two common readings of the sensor's angles a cloud follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convention {
    /// As the ROS driver `velodyne_pointcloud`. VLP-32C and HDL-32E: all lasers of a block at the
    /// azimuth of the block, all beams from one origin. VLP-16: the rotor turns on while the lasers
    /// fire, and beams are moved across their direction to their own origin; to 0.01 degree and
    /// 0.1 mm, as the driver takes the step of every block where the median is taken here.
    RosCompat,
    /// As the sensor measures: the rotor turns on while the lasers fire, and tilted beams leave
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
    /// A row for every firing of all lasers and a column for every ring, NaN where nothing returned; as the
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
    equal_pairs: EqualPairs,
    layout: Layout,
    /// Cosine and negative sine by azimuth, from `-MAX_AZIMUTH_OFFSET` to past a full turn.
    rotation: Box<[[f32; 2]]>,
    lasers: Box<[Lasers; Model::ALL.len()]>,
    buffer: BytesMut,
}

/// Constants of a model's slots in the form the inner loop reads.
#[derive(Debug)]
struct Lasers {
    geometry: &'static Geometry,
    /// Level part of one distance unit, in metres.
    level: [f32; SLOTS],
    /// Level distance of the beam's origin from the axis, in metres.
    reach: [f32; SLOTS],
    /// Upward part of one distance unit, in metres.
    upward: [f32; SLOTS],
    /// Height of the beam's origin, in metres.
    height: [f32; SLOTS],
    /// Seconds from the start of the block.
    time: [f32; SLOTS],
    /// Whether the rotor turns on while a block is fired.
    interpolate: bool,
    /// Place in the rows of an organised cloud.
    place: [usize; SLOTS],
}

impl Lasers {
    fn new(model: Model, convention: Convention) -> Self {
        let geometry = model.geometry();
        let unit = f64::from(geometry.distance_unit);
        let angle = |slot: usize| geometry.elevation[slot].to_radians();
        let offset = |slot: usize| -geometry.beam_origin * angle(slot).tan();
        // The driver has no offsets for the other models.
        let ros_offset = |slot: usize| match model {
            Model::Vlp16 => offset(slot),
            Model::Vlp32c | Model::Hdl32e => 0.0,
        };
        Self {
            geometry,
            level: std::array::from_fn(|slot| (unit * angle(slot).cos()) as f32),
            reach: std::array::from_fn(|slot| match convention {
                Convention::RosCompat => (-ros_offset(slot) * angle(slot).sin()) as f32,
                Convention::Precise => 0.0,
            }),
            upward: std::array::from_fn(|slot| (unit * angle(slot).sin()) as f32),
            height: std::array::from_fn(|slot| match convention {
                Convention::RosCompat => (ros_offset(slot) * angle(slot).cos()) as f32,
                Convention::Precise => offset(slot) as f32,
            }),
            time: geometry.fired_nanos.map(|nanos| nanos as f32 * 1e-9),
            interpolate: convention == Convention::Precise || model == Model::Vlp16,
            place: std::array::from_fn(|slot| {
                let firing = slot / geometry.lasers;
                firing * geometry.lasers + usize::from(geometry.ring[slot])
            }),
        }
    }
}

/// The returns of one block. Lanes without a return hold the origin.
struct Block<'a> {
    lasers: &'a Lasers,
    returns: &'a [[u8; 3]; SLOTS],
    x: [f32; SLOTS],
    y: [f32; SLOTS],
    z: [f32; SLOTS],
    time: [f32; SLOTS],
    valid: [bool; SLOTS],
}

impl Converter {
    /// A converter to clouds of returns, with equal pairs merged.
    pub fn new(convention: Convention) -> Self {
        let fastest = Model::ALL.map(|model| model.geometry().max_step());
        let margin = usize::from(fastest.into_iter().fold(0, u16::max));
        let entries = usize::from(FULL_TURN) + 2 * MAX_AZIMUTH_OFFSET as usize + margin;
        let rotation = (0..entries)
            .map(|entry| {
                let hundredths = entry as f64 - f64::from(MAX_AZIMUTH_OFFSET);
                let (sin, cos) = (hundredths / 100.0).to_radians().sin_cos();
                [cos as f32, -sin as f32]
            })
            .collect();
        let lasers = Box::new(Model::ALL.map(|model| Lasers::new(model, convention)));
        Self {
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
    /// If a packet is not a good data packet, or of another [`Model`] than those before it. Nothing is
    /// converted in part.
    pub fn convert(&mut self, scan: &VelodyneScan) -> Result<PointCloud2, ConvertError> {
        let slots = scan.packets.len() * BLOCKS * SLOTS;
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
            Layout::Organised => columns(scan),
        };
        Ok(cloud(scan, data, columns, is_dense))
    }

    /// Appends the points of a scan to `points`, whatever the layout of clouds.
    ///
    /// # Errors
    ///
    /// As [`convert`](Self::convert); the points before the bad packet have been appended.
    pub fn points(&self, scan: &VelodyneScan, points: &mut Vec<Point>) -> Result<(), ConvertError> {
        points.reserve(scan.packets.len() * BLOCKS * SLOTS);
        self.for_each_block(scan, |block| {
            let valid = (0..SLOTS).filter(|&slot| block.valid[slot]);
            points.extend(valid.map(|slot| block.point(slot)));
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
        let mut stage = [[0; POINT_STEP]; SLOTS + 1];
        self.for_each_block(scan, |block| {
            let mut used = 0;
            for slot in 0..SLOTS {
                stage[used] = block.record(slot);
                used += usize::from(block.valid[slot]);
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
        let mut rows = [[0; POINT_STEP]; SLOTS];
        self.for_each_block(scan, |block| {
            for slot in 0..SLOTS {
                let mut record = block.record(slot);
                if !block.valid[slot] {
                    complete = false;
                    let nan = f32::NAN.to_le_bytes();
                    for value in record[..12].as_chunks_mut().0 {
                        *value = nan;
                    }
                }
                rows[block.lasers.place[slot]] = record;
            }
            buffer.extend_from_slice(rows.as_flattened());
        })?;
        Ok(complete)
    }

    fn for_each_block(
        &self,
        scan: &VelodyneScan,
        mut visit: impl FnMut(&Block<'_>),
    ) -> Result<(), ConvertError> {
        let start = scan.header.stamp.as_nanos();
        let packets = scan.packets.len();
        let mut before = None;
        for (number, packet) in scan.packets.iter().enumerate() {
            let view = PacketView::new(packet.data)
                .and_then(|view| view.follows(&mut before))
                .map_err(|reason| ConvertError {
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
        visit: &mut impl FnMut(&Block<'_>),
    ) {
        let per_firing = packet.return_mode().blocks_per_firing();
        let merge =
            packet.return_mode() == ReturnMode::Dual && self.equal_pairs == EqualPairs::Merge;
        let lasers = &self.lasers[packet.model() as usize];
        let lanes = rotation_lanes(lasers, packet);
        for number in 0..BLOCKS {
            let cycle = (number / per_firing) as u64 * lasers.geometry.block_nanos;
            let start = (offset + cycle as f64 * 1e-9) as f32;
            let rotation = &self.rotation[usize::from(packet.azimuth(number))..];
            let mut block = Block::new(lasers, packet.returns(number), rotation, &lanes, start);
            if merge && number % 2 == 1 {
                block.drop_repeated(packet.returns(number - 1));
            }
            visit(&block);
        }
    }
}

/// Where the slots find their sine, relative to the azimuth of a block.
fn rotation_lanes(lasers: &Lasers, packet: &PacketView<'_>) -> [usize; SLOTS] {
    let geometry = lasers.geometry;
    let step = if lasers.interpolate {
        u64::from(median_step(packet))
    } else {
        0
    };
    std::array::from_fn(|slot| {
        let part = step * geometry.fired_nanos[slot] + geometry.block_nanos / 2;
        let offset = MAX_AZIMUTH_OFFSET + geometry.azimuth_offset[slot];
        // The rotor turns by less than a step within a block.
        usize::from(offset.unsigned_abs()) + (part / geometry.block_nanos) as usize
    })
}

impl<'a> Block<'a> {
    #[inline]
    fn new(
        lasers: &'a Lasers,
        returns: &'a [[u8; 3]; SLOTS],
        rotation: &[[f32; 2]],
        lanes: &[usize; SLOTS],
        start: f32,
    ) -> Self {
        let Lasers {
            level,
            reach,
            upward,
            height,
            time,
            ..
        } = lasers;
        let distance: [u16; SLOTS] =
            std::array::from_fn(|lane| u16::from_le_bytes([returns[lane][0], returns[lane][1]]));
        let units = distance.map(f32::from);
        let direction: [[f32; 2]; SLOTS] = lanes.map(|lane| rotation[lane]);
        let ahead: [f32; SLOTS] =
            std::array::from_fn(|lane| units[lane] * level[lane] + reach[lane]);
        Self {
            lasers,
            returns,
            x: std::array::from_fn(|lane| ahead[lane] * direction[lane][0]),
            y: std::array::from_fn(|lane| ahead[lane] * direction[lane][1]),
            z: std::array::from_fn(|lane| units[lane] * upward[lane] + height[lane]),
            time: time.map(|time| start + time),
            valid: distance.map(|distance| distance != 0),
        }
    }

    /// Leaves out what the other block of a dual return has at the same distance.
    fn drop_repeated(&mut self, other: &[[u8; 3]; SLOTS]) {
        let pairs = self.returns.iter().zip(other);
        for (valid, (ours, theirs)) in self.valid.iter_mut().zip(pairs) {
            *valid &= ours[..2] != theirs[..2];
        }
    }

    fn point(&self, slot: usize) -> Point {
        Point {
            x: self.x[slot],
            y: self.y[slot],
            z: self.z[slot],
            intensity: self.returns[slot][2],
            ring: self.lasers.geometry.ring[slot],
            time: self.time[slot],
        }
    }

    #[inline]
    fn record(&self, slot: usize) -> [u8; POINT_STEP] {
        let mut record = [0; POINT_STEP];
        let intensity = f32::from(self.returns[slot][2]);
        record[..4].copy_from_slice(&self.x[slot].to_le_bytes());
        record[4..8].copy_from_slice(&self.y[slot].to_le_bytes());
        record[8..12].copy_from_slice(&self.z[slot].to_le_bytes());
        record[12..16].copy_from_slice(&intensity.to_le_bytes());
        record[16..18].copy_from_slice(&self.lasers.geometry.ring[slot].to_le_bytes());
        record[18..].copy_from_slice(&self.time[slot].to_le_bytes());
        record
    }
}

/// The rotor's advance from block to block, in hundredths of a degree.
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
        *step = advance(from, to);
    }
    let (_, median, _) = steps[..count].select_nth_unstable(count / 2);
    if *median <= packet.model().geometry().max_step() {
        *median
    } else {
        0
    }
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

/// Points in a row of an organised cloud.
fn columns(scan: &VelodyneScan) -> usize {
    let first = scan.packets.iter().next();
    // The scan was converted, so its packets are good; without any there is no row to be long.
    let model = first.and_then(|packet| PacketView::new(packet.data).ok());
    model
        .map_or_else(Model::default, |view| view.model())
        .geometry()
        .lasers
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
