use bytes::Bytes;
use thiserror::Error;

use crate::{
    DecodeError, Fault, Header, Text,
    wire::{Reader, Writer},
};

/// `sensor_msgs/PointCloud2`.
///
/// `data` holds `height` rows of `row_step` bytes, a row `width` points of `point_step` bytes and
/// perhaps padding. Width or height 0 is a valid, empty cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PointCloud2 {
    /// Number, time and frame of the cloud.
    pub header: Header,
    /// Rows; 1 for an unordered cloud.
    pub height: u32,
    /// Points in a row.
    pub width: u32,
    /// What a point consists of.
    pub fields: Vec<PointField>,
    /// Whether `data` is big-endian.
    pub is_bigendian: bool,
    /// Bytes from one point to the next.
    pub point_step: u32,
    /// Bytes from one row to the next.
    pub row_step: u32,
    /// The points.
    pub data: Bytes,
    /// Whether every value is finite.
    pub is_dense: bool,
}

/// `sensor_msgs/PointField`: one value of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointField {
    /// For instance `x` or `intensity`.
    pub name: Text,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// Type of the value.
    pub datatype: Datatype,
    /// How many values; nearly always 1.
    pub count: u32,
}

/// Value types of `sensor_msgs/PointField` with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Datatype {
    /// Signed byte.
    Int8 = 1,
    /// Unsigned byte.
    Uint8 = 2,
    /// Signed 16 bit.
    Int16 = 3,
    /// Unsigned 16 bit.
    Uint16 = 4,
    /// Signed 32 bit.
    Int32 = 5,
    /// Unsigned 32 bit.
    Uint32 = 6,
    /// IEEE single.
    Float32 = 7,
    /// IEEE double.
    Float64 = 8,
}

impl Datatype {
    pub(crate) fn new(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Int8,
            2 => Self::Uint8,
            3 => Self::Int16,
            4 => Self::Uint16,
            5 => Self::Int32,
            6 => Self::Uint32,
            7 => Self::Float32,
            8 => Self::Float64,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub fn size(self) -> u32 {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }
}

/// Sizes or fields of a cloud that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A row is too short for its points.
    #[error("row_step {row_step} B is less than width {width} x point_step {point_step} B")]
    Row {
        /// The cloud's `row_step`.
        row_step: u32,
        /// The cloud's `width`.
        width: u32,
        /// The cloud's `point_step`.
        point_step: u32,
    },
    /// The data does not have the announced rows.
    #[error("data has {len} B, height {height} x row_step {row_step} B need {needed} B")]
    Data {
        /// Bytes of data.
        len: usize,
        /// The cloud's `height`.
        height: u32,
        /// The cloud's `row_step`.
        row_step: u32,
        /// Their product.
        needed: u64,
    },
    /// A field reaches past the end of its point.
    #[error("field {name:?} ends at byte {end} of a point of {point_step} B")]
    Field {
        /// The field.
        name: Text,
        /// Where it ends.
        end: u64,
        /// The cloud's `point_step`.
        point_step: u32,
    },
    /// A field the reader needs is missing.
    #[error("the cloud has no field {name:?}, which is needed to read its points")]
    Missing {
        /// The field.
        name: &'static str,
    },
    /// A field the reader needs is there more than once.
    #[error("the cloud has several fields {name:?}; which one is meant is not told")]
    Repeated {
        /// The field.
        name: &'static str,
    },
    /// A field the reader needs is of a kind that cannot be taken for what it should be.
    #[error("field {name:?} is {count} x {datatype:?}; one {wanted} is needed to read the points")]
    Kind {
        /// The field.
        name: &'static str,
        /// Type of its values.
        datatype: Datatype,
        /// How many there are.
        count: u32,
        /// What it may be.
        wanted: &'static str,
    },
}

/// Position and reflectivity of a point, as [`PointCloud2::points`] yields it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CloudPoint {
    /// Forward in metres.
    pub x: f32,
    /// To the left in metres.
    pub y: f32,
    /// Up in metres.
    pub z: f32,
    /// Reflectivity as the sensor gave it, 0 to 255 for a Velodyne; 0 if the cloud has none. Whole
    /// numbers above 2^24 are rounded.
    pub intensity: f32,
}

impl PointCloud2 {
    pub(crate) const MIN_LEN: usize = Header::MIN_LEN + 4 + 4 + 4 + 1 + 4 + 4 + 4 + 1;

    /// Decodes a cloud whose data and names share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, announce more than they hold, contain a string
    /// that is not UTF-8 or a field type that is not defined, or if the sizes contradict each
    /// other (see [`check_layout`](Self::check_layout)).
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let cloud = Self::read(&mut reader)?;
        reader.finish("is_dense")?;
        Ok(cloud)
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        let names: usize = self.fields.iter().map(|field| field.name.len()).sum();
        Self::MIN_LEN
            + self.header.frame_id.len()
            + self.fields.len() * PointField::MIN_LEN
            + names
            + self.data.len()
    }

    /// Encodes the cloud.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.write(&mut writer);
        writer.finish()
    }

    /// Whether the sizes agree: every field inside its point, every point inside its row, and as
    /// much data as there are rows. A decoded cloud has passed this.
    ///
    /// # Errors
    ///
    /// The first contradiction.
    pub fn check_layout(&self) -> Result<(), LayoutError> {
        let &Self {
            height,
            width,
            point_step,
            row_step,
            ..
        } = self;
        for field in &self.fields {
            let size = u64::from(field.datatype.size()) * u64::from(field.count);
            let end = u64::from(field.offset) + size;
            if end > u64::from(point_step) {
                return Err(LayoutError::Field {
                    name: field.name.clone(),
                    end,
                    point_step,
                });
            }
        }
        if u64::from(row_step) < u64::from(width) * u64::from(point_step) {
            return Err(LayoutError::Row {
                row_step,
                width,
                point_step,
            });
        }
        let needed = u64::from(height) * u64::from(row_step);
        let len = self.data.len();
        if needed != len as u64 {
            return Err(LayoutError::Data {
                len,
                height,
                row_step,
                needed,
            });
        }
        Ok(())
    }

    /// Reads position and intensity of every point, whatever the order, types and places of the
    /// fields and whatever else there is, row by row. Nothing is allocated for it.
    ///
    /// Positions are `float32` or `float64`, of which the nearest `float32` is taken; the intensity
    /// is of any type. Points may be NaN or infinite: a cloud from elsewhere need not tell the
    /// truth in `is_dense`. A cloud without points needs no fields.
    ///
    /// # Errors
    ///
    /// If the sizes contradict each other, or `x`, `y` or `z` is missing, there twice, or neither a
    /// `float32` nor a `float64`, or if `intensity` is there twice or several values.
    pub fn points(&self) -> Result<Points<'_>, LayoutError> {
        self.check_layout()?;
        if self.width == 0 || self.height == 0 {
            return Ok(Points::default());
        }
        let position = |name| {
            let wanted = "float32 or float64";
            let value = self
                .value(name, wanted)?
                .ok_or(LayoutError::Missing { name })?;
            match value.datatype {
                Datatype::Float32 | Datatype::Float64 => Ok(value),
                datatype => Err(LayoutError::Kind {
                    name,
                    datatype,
                    count: 1,
                    wanted,
                }),
            }
        };
        let xyz = [position("x")?, position("y")?, position("z")?];
        let intensity = self.value("intensity", "number")?;
        let mut values = xyz.iter().chain(&intensity);
        Ok(Points {
            data: &self.data,
            xyz,
            intensity,
            is_plain: values.all(|value| value.datatype == Datatype::Float32 && !value.big_endian),
            // Points of zero bytes have no x, so there are no more points than bytes.
            point_step: self.point_step as usize,
            padding: (self.row_step - self.width * self.point_step) as usize,
            width: self.width,
            column: 0,
        })
    }

    /// Where the values of a field are, if there is one of this name.
    fn value(
        &self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<Value>, LayoutError> {
        let mut named = self.fields.iter().filter(|field| field.name == name);
        let Some(field) = named.next() else {
            return Ok(None);
        };
        if named.next().is_some() {
            return Err(LayoutError::Repeated { name });
        }
        if field.count != 1 {
            return Err(LayoutError::Kind {
                name,
                datatype: field.datatype,
                count: field.count,
                wanted,
            });
        }
        Ok(Some(Value {
            offset: field.offset as usize,
            datatype: field.datatype,
            big_endian: self.is_bigendian,
        }))
    }

    pub(crate) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let header = Header::read(reader)?;
        let height = reader.u32("height")?;
        let width = reader.u32("width")?;
        let count = reader.count("fields", PointField::MIN_LEN)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            fields.push(PointField::read(reader)?);
        }
        let is_bigendian = reader.u8("is_bigendian")? != 0;
        let point_step = reader.u32("point_step")?;
        let row_step = reader.u32("row_step")?;
        let len = reader.count("data", 1)?;
        let data = reader.slice("data", len)?;
        let is_dense = reader.u8("is_dense")? != 0;
        let cloud = Self {
            header,
            height,
            width,
            fields,
            is_bigendian,
            point_step,
            row_step,
            data,
            is_dense,
        };
        cloud
            .check_layout()
            .map_err(|error| reader.error("data", Fault::Layout(error)))?;
        Ok(cloud)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.header.write(writer);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.count(self.fields.len());
        for field in &self.fields {
            field.write(writer);
        }
        writer.u8(u8::from(self.is_bigendian));
        writer.u32(self.point_step);
        writer.u32(self.row_step);
        writer.count(self.data.len());
        writer.slice(&self.data);
        writer.u8(u8::from(self.is_dense));
    }
}

impl PointField {
    const MIN_LEN: usize = 4 + 4 + 1 + 4;

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let name = reader.text("fields.name")?;
        let offset = reader.u32("fields.offset")?;
        let value = reader.u8("fields.datatype")?;
        let datatype = Datatype::new(value)
            .ok_or_else(|| reader.error("fields.datatype", Fault::Datatype { value }))?;
        let count = reader.u32("fields.count")?;
        Ok(Self {
            name,
            offset,
            datatype,
            count,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.text(&self.name);
        writer.u32(self.offset);
        writer.u8(self.datatype as u8);
        writer.u32(self.count);
    }
}

/// Where a value is in a point.
#[derive(Debug, Clone, Copy)]
struct Value {
    offset: usize,
    datatype: Datatype,
    big_endian: bool,
}

impl Value {
    /// Reads the value of a point, which is long enough for it.
    #[inline]
    fn read(self, point: &[u8]) -> f32 {
        match self.datatype {
            Datatype::Float32 => f32::from_bits(u32::from_le_bytes(self.bytes(point))),
            Datatype::Float64 => f64::from_bits(u64::from_le_bytes(self.bytes(point))) as f32,
            Datatype::Int8 => f32::from(i8::from_le_bytes(self.bytes(point))),
            Datatype::Uint8 => f32::from(u8::from_le_bytes(self.bytes(point))),
            Datatype::Int16 => f32::from(i16::from_le_bytes(self.bytes(point))),
            Datatype::Uint16 => f32::from(u16::from_le_bytes(self.bytes(point))),
            Datatype::Int32 => i32::from_le_bytes(self.bytes(point)) as f32,
            Datatype::Uint32 => u32::from_le_bytes(self.bytes(point)) as f32,
        }
    }

    /// The bytes of the value, the lowest first.
    #[inline]
    fn bytes<const N: usize>(self, point: &[u8]) -> [u8; N] {
        let mut bytes = point[self.offset..]
            .first_chunk()
            .copied()
            .unwrap_or([0; N]);
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

/// The points of a cloud; see [`PointCloud2::points`].
#[derive(Debug, Clone)]
pub struct Points<'a> {
    data: &'a [u8],
    xyz: [Value; 3],
    intensity: Option<Value>,
    /// Whether all values are little-endian `float32`, as in nearly every cloud.
    is_plain: bool,
    point_step: usize,
    padding: usize,
    /// 0 for a cloud without points.
    width: u32,
    column: u32,
}

impl Default for Points<'_> {
    fn default() -> Self {
        let nowhere = Value {
            offset: 0,
            datatype: Datatype::Float32,
            big_endian: false,
        };
        Self {
            data: &[],
            xyz: [nowhere; 3],
            intensity: None,
            is_plain: true,
            point_step: 0,
            padding: 0,
            width: 0,
            column: 0,
        }
    }
}

impl Iterator for Points<'_> {
    type Item = CloudPoint;

    fn next(&mut self) -> Option<CloudPoint> {
        if self.width == 0 {
            return None;
        }
        let (point, rest) = self.data.split_at_checked(self.point_step)?;
        self.column += 1;
        self.data = rest;
        if self.column == self.width {
            self.column = 0;
            self.data = rest.get(self.padding..)?;
        }
        let is_plain = self.is_plain;
        let read = |value: Value| {
            if is_plain {
                let bytes = point[value.offset..].first_chunk().copied();
                f32::from_le_bytes(bytes.unwrap_or_default())
            } else {
                value.read(point)
            }
        };
        let [x, y, z] = self.xyz.map(read);
        Some(CloudPoint {
            x,
            y,
            z,
            intensity: self.intensity.map_or(0.0, read),
        })
    }
}
