use bytes::Bytes;

use crate::{
    DecodeError, Header, Point, Pose, Text, Vector3,
    wire::{Reader, Writer},
};

/// `visualization_msgs/MarkerArray`: what a viewer is to draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MarkerArray {
    /// In the order they are worked off.
    pub markers: Vec<Marker>,
}

/// `visualization_msgs/Marker`: something drawn, or deleted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marker {
    /// Time and frame.
    pub header: Header,
    /// Markers of different namespaces may have the same number.
    pub ns: Text,
    /// Its number.
    pub id: i32,
    /// Its shape, such as [`CUBE`](Self::CUBE).
    pub kind: i32,
    /// What becomes of it, such as [`ADD`](Self::ADD).
    pub action: i32,
    /// Where.
    pub pose: Pose,
    /// How large, in metres.
    pub scale: Vector3,
    /// Its colour.
    pub color: Color,
    /// Seconds and nanoseconds after which it vanishes by itself; zeros for never.
    pub lifetime: [i32; 2],
    /// Whether it moves with its frame.
    pub frame_locked: bool,
    /// Of lines and lists.
    pub points: Vec<Point>,
    /// Of each point.
    pub colors: Vec<Color>,
    /// Of a text.
    pub text: Text,
    /// Of a mesh.
    pub mesh_resource: Text,
    /// Of a mesh.
    pub mesh_use_embedded_materials: bool,
}

/// `std_msgs/ColorRGBA`, each part 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Color {
    /// Red.
    pub r: f32,
    /// Green.
    pub g: f32,
    /// Blue.
    pub b: f32,
    /// Opacity.
    pub a: f32,
}

impl MarkerArray {
    /// Decodes markers; strings in them share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, announce more markers than they hold, or a part of
    /// them is not valid (see [`Fault`](crate::Fault)).
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let markers = reader.sequence("markers", Marker::MIN_LEN, Marker::read)?;
        reader.finish("markers")?;
        Ok(Self { markers })
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        4 + self.markers.iter().map(Marker::encoded_len).sum::<usize>()
    }

    /// Encodes the markers.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        writer.sequence(&self.markers, Marker::write);
        writer.finish()
    }
}

impl Marker {
    /// A box.
    pub const CUBE: i32 = 1;
    /// A text that faces the viewer, as high as its scale.
    pub const TEXT_VIEW_FACING: i32 = 9;
    /// Draws it, or changes the one with its namespace and number.
    pub const ADD: i32 = 0;
    /// Deletes the one with its namespace and number.
    pub const DELETE: i32 = 2;
    /// Deletes all of the topic.
    pub const DELETE_ALL: i32 = 3;

    const MIN_LEN: usize = Header::MIN_LEN
        + 4
        + 3 * 4
        + Pose::LEN
        + Vector3::LEN
        + Color::LEN
        + 2 * 4
        + 1
        + 4
        + 4
        + 4
        + 4
        + 1;

    fn encoded_len(&self) -> usize {
        Self::MIN_LEN
            + self.header.frame_id.len()
            + self.ns.len()
            + self.points.len() * Point::LEN
            + self.colors.len() * Color::LEN
            + self.text.len()
            + self.mesh_resource.len()
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            header: Header::read(reader)?,
            ns: reader.text("markers.ns")?,
            id: reader.i32("markers.id")?,
            kind: reader.i32("markers.type")?,
            action: reader.i32("markers.action")?,
            pose: Pose::read(reader, "markers.pose")?,
            scale: Vector3::read(reader, "markers.scale")?,
            color: Color::read(reader)?,
            lifetime: [
                reader.i32("markers.lifetime")?,
                reader.i32("markers.lifetime")?,
            ],
            frame_locked: reader.u8("markers.frame_locked")? != 0,
            points: reader.sequence("markers.points", Point::LEN, |reader| {
                Point::read(reader, "markers.points")
            })?,
            colors: reader.sequence("markers.colors", Color::LEN, Color::read)?,
            text: reader.text("markers.text")?,
            mesh_resource: reader.text("markers.mesh_resource")?,
            mesh_use_embedded_materials: reader.u8("markers.mesh_use_embedded_materials")? != 0,
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.header.write(writer);
        writer.text(&self.ns);
        for value in [self.id, self.kind, self.action] {
            writer.i32(value);
        }
        self.pose.write(writer);
        self.scale.write(writer);
        self.color.write(writer);
        for value in self.lifetime {
            writer.i32(value);
        }
        writer.u8(self.frame_locked.into());
        writer.sequence(&self.points, Point::write);
        writer.sequence(&self.colors, Color::write);
        writer.text(&self.text);
        writer.text(&self.mesh_resource);
        writer.u8(self.mesh_use_embedded_materials.into());
    }
}

impl Color {
    const LEN: usize = 4 * 4;

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let mut part = || reader.u32("markers.color").map(f32::from_bits);
        Ok(Self {
            r: part()?,
            g: part()?,
            b: part()?,
            a: part()?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        for part in [self.r, self.g, self.b, self.a] {
            writer.u32(part.to_bits());
        }
    }
}
