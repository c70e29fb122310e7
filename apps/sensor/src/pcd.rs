use std::{fmt::Write, str::FromStr};

use bytes::Bytes;
use lidar_messages::{CloudPoint, Datatype, Header, LayoutError, PointCloud2, PointField};
use thiserror::Error;

/// Most fields of a point: more are no cloud.
const MAX_FIELDS: usize = 256;

/// Longest header taken for real, in bytes.
const MAX_HEADER: usize = 1 << 16;

/// Most bytes that one packed byte can become: a run of 264 from three.
const MAX_RATIO: usize = 88;

/// Why bytes are no PCD file that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PcdError {
    /// Without a line that says how the points are stored.
    #[error("not a PCD file: it has no line DATA")]
    Foreign,
    /// A line of the header that cannot be.
    #[error("line {name} of the header cannot be {value:?}; {wanted}")]
    Header {
        /// First word of the line.
        name: &'static str,
        /// The rest.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// Fewer bytes than points.
    #[error("{points} points of {step} B are announced and {len} B are there; the file is cut")]
    Short {
        /// Points by the header.
        points: usize,
        /// Bytes of each.
        step: usize,
        /// Bytes that follow the header, or that they unpack to.
        len: usize,
    },
    /// Packed points that cannot be unpacked.
    #[error("the packed points are damaged at byte {at}")]
    Packed {
        /// Place in the packed points.
        at: usize,
    },
    /// A word in place of a number.
    #[error("point {point} has {value:?} for field {field:?}, which is no {datatype:?}")]
    Number {
        /// The point, from 0.
        point: usize,
        /// The field.
        field: String,
        /// Its type.
        datatype: Datatype,
        /// The word; empty if the line ends before.
        value: String,
    },
    /// The fields do not agree with each other.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// How points are stored.
#[derive(Debug, Clone, Copy)]
enum Storage {
    Ascii,
    Binary,
    /// Field by field, packed by LZF.
    Compressed,
}

/// A field of the file, or a gap.
struct Column {
    is_gap: bool,
    datatype: Datatype,
    count: u32,
}

/// The header of a PCD file.
struct Description {
    fields: Vec<PointField>,
    columns: Vec<Column>,
    step: usize,
    width: u32,
    height: u32,
    storage: Storage,
}

/// Reads a PCD file, in any of its three forms, to a cloud with the same fields. Unnamed ones (`_`)
/// become gaps. The points of a binary file share the memory of `bytes`.
///
/// # Errors
///
/// If the header or the points cannot be.
pub fn read_pcd(bytes: &Bytes, header: Header) -> Result<PointCloud2, PcdError> {
    let (description, start) = Description::parse(bytes)?;
    let Description {
        fields,
        step,
        width,
        height,
        storage,
        ..
    } = &description;
    // Both are less than 2^32.
    let points = *width as usize * *height as usize;
    let body = bytes.slice(start..);
    let short = |len| PcdError::Short {
        points,
        step: *step,
        len,
    };
    let len = points.checked_mul(*step).ok_or(short(body.len()))?;
    let data = match storage {
        Storage::Binary if body.len() < len => return Err(short(body.len())),
        Storage::Binary => body.slice(..len),
        Storage::Compressed => {
            let columns = unpack(&body, len)?;
            description.rows(&columns, points).into()
        }
        Storage::Ascii => description.numbers(&body, points)?.into(),
    };
    let size = |value: usize, name| {
        u32::try_from(value).map_err(|_| PcdError::Header {
            name,
            value: value.to_string(),
            wanted: "a cloud has less than 4 GiB",
        })
    };
    let cloud = PointCloud2 {
        header,
        height: *height,
        width: *width,
        fields: fields.clone(),
        is_bigendian: false,
        point_step: size(*step, "SIZE")?,
        row_step: size(*width as usize * step, "WIDTH")?,
        data,
        // The format does not tell.
        is_dense: false,
    };
    cloud.check_layout()?;
    Ok(cloud)
}

/// The points of a cloud as a binary PCD file with `x`, `y`, `z` and `intensity`.
///
/// # Errors
///
/// If the points cannot be read.
pub fn write_pcd(cloud: &PointCloud2) -> Result<Vec<u8>, LayoutError> {
    let points = cloud.points()?;
    let count = u64::from(cloud.width) * u64::from(cloud.height);
    let mut header = String::from(
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z intensity\n\
         SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n",
    );
    let (width, height) = (cloud.width, cloud.height);
    // Writing to a string does not fail.
    let _ = write!(
        header,
        "WIDTH {width}\nHEIGHT {height}\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {count}\nDATA binary\n"
    );
    let mut file = header.into_bytes();
    for CloudPoint { x, y, z, intensity } in points {
        for value in [x, y, z, intensity] {
            file.extend_from_slice(&value.to_le_bytes());
        }
    }
    Ok(file)
}

impl Description {
    /// The description, and where the points begin.
    fn parse(bytes: &[u8]) -> Result<(Self, usize), PcdError> {
        let mut names: Vec<&str> = Vec::new();
        let (mut sizes, mut types, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut width, mut height, mut points) = (None, None, None);
        let mut at = 0;
        while at < bytes.len().min(MAX_HEADER) {
            let rest = &bytes[at..];
            let len = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or(PcdError::Foreign)?;
            at += len + 1;
            let line = std::str::from_utf8(&rest[..len]).map_err(|_| PcdError::Foreign)?;
            let (name, value) = line
                .trim()
                .split_once(char::is_whitespace)
                .unwrap_or((line.trim(), ""));
            match name {
                "FIELDS" | "COLUMNS" => names = words("FIELDS", value, "at most 256 fields")?,
                "SIZE" => sizes = words("SIZE", value, "1, 2, 4 or 8 for each field")?,
                "TYPE" => types = words("TYPE", value, "F, I or U for each field")?,
                "COUNT" => counts = words("COUNT", value, "a number for each field")?,
                "WIDTH" => width = Some(number("WIDTH", value)?),
                "HEIGHT" => height = Some(number("HEIGHT", value)?),
                "POINTS" => points = Some(number("POINTS", value)?),
                "DATA" => {
                    let storage = match value.trim() {
                        "ascii" => Storage::Ascii,
                        "binary" => Storage::Binary,
                        "binary_compressed" => Storage::Compressed,
                        _ => {
                            return Err(wrong("DATA", value, "ascii, binary or binary_compressed"));
                        }
                    };
                    let (fields, columns, step) = layout(&names, &sizes, &types, &counts)?;
                    // Files of before version 0.6 have no size but the number of points.
                    let width = width.or(points).ok_or(PcdError::Foreign)?;
                    let height = height.unwrap_or(1);
                    let all = u64::from(width) * u64::from(height);
                    if points.is_some_and(|points| u64::from(points) != all) {
                        let value = points.unwrap_or_default().to_string();
                        return Err(wrong("POINTS", &value, "it is WIDTH x HEIGHT"));
                    }
                    let description = Self {
                        fields,
                        columns,
                        step,
                        width,
                        height,
                        storage,
                    };
                    return Ok((description, at));
                }
                // Comments, VERSION, VIEWPOINT.
                _ => {}
            }
        }
        Err(PcdError::Foreign)
    }

    /// Points from columns, each of which holds one field of all points.
    fn rows(&self, columns: &[u8], points: usize) -> Vec<u8> {
        let mut rows = vec![0; columns.len()];
        let mut column = 0;
        let mut from = 0;
        // What lies between named fields are columns as well.
        while column < self.step {
            let len = self.column(column);
            for point in 0..points {
                let to = point * self.step + column;
                rows[to..to + len].copy_from_slice(&columns[from..from + len]);
                from += len;
            }
            column += len;
        }
        rows
    }

    /// Bytes of the field, or of the gap, that begins at a byte of the point.
    fn column(&self, at: usize) -> usize {
        let starts = self.fields.iter().map(|field| field.offset as usize);
        let field = self.fields.iter().find(|field| field.offset as usize == at);
        match field {
            Some(field) => field.datatype.size() as usize * field.count as usize,
            None => {
                starts
                    .filter(|start| *start > at)
                    .min()
                    .unwrap_or(self.step)
                    - at
            }
        }
    }

    /// Points from words.
    fn numbers(&self, text: &[u8], points: usize) -> Result<Vec<u8>, PcdError> {
        let short = || PcdError::Short {
            points,
            step: self.step,
            len: text.len(),
        };
        // Every value takes a digit and what parts it from the next, so memory follows the text.
        let counts = self.columns.iter().map(|column| u64::from(column.count));
        let values = counts.sum::<u64>().saturating_mul(points as u64);
        if values.saturating_mul(2) > text.len() as u64 + 1 {
            return Err(short());
        }
        let mut data = Vec::new();
        let mut lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty());
        for point in 0..points {
            let line = lines.next().ok_or_else(short)?;
            let mut words = line
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty());
            let mut fields = self.fields.iter();
            for column in &self.columns {
                let datatype = column.datatype;
                let field = if column.is_gap { None } else { fields.next() };
                for _ in 0..column.count {
                    let word = std::str::from_utf8(words.next().unwrap_or_default());
                    let word = word.unwrap_or_default();
                    let start = data.len();
                    data.resize(start + datatype.size() as usize, 0);
                    let Some(field) = field else { continue };
                    encode(word, datatype, &mut data[start..]).ok_or_else(|| PcdError::Number {
                        point,
                        field: field.name.to_string(),
                        datatype,
                        value: word.chars().take(40).collect(),
                    })?;
                }
            }
        }
        Ok(data)
    }
}

/// Writes a word as a little-endian number of a type.
fn encode(word: &str, datatype: Datatype, to: &mut [u8]) -> Option<()> {
    fn parse<T: FromStr>(word: &str) -> Option<T> {
        word.parse().ok()
    }
    match datatype {
        Datatype::Int8 => to.copy_from_slice(&parse::<i8>(word)?.to_le_bytes()),
        Datatype::Uint8 => to.copy_from_slice(&parse::<u8>(word)?.to_le_bytes()),
        Datatype::Int16 => to.copy_from_slice(&parse::<i16>(word)?.to_le_bytes()),
        Datatype::Uint16 => to.copy_from_slice(&parse::<u16>(word)?.to_le_bytes()),
        Datatype::Int32 => to.copy_from_slice(&parse::<i32>(word)?.to_le_bytes()),
        Datatype::Uint32 => to.copy_from_slice(&parse::<u32>(word)?.to_le_bytes()),
        Datatype::Float32 => to.copy_from_slice(&parse::<f32>(word)?.to_le_bytes()),
        Datatype::Float64 => to.copy_from_slice(&parse::<f64>(word)?.to_le_bytes()),
    }
    Some(())
}

fn wrong(name: &'static str, value: &str, wanted: &'static str) -> PcdError {
    PcdError::Header {
        name,
        value: value.chars().take(80).collect(),
        wanted,
    }
}

fn words<'a>(
    name: &'static str,
    value: &'a str,
    wanted: &'static str,
) -> Result<Vec<&'a str>, PcdError> {
    let words: Vec<_> = value.split_whitespace().take(MAX_FIELDS + 1).collect();
    if words.len() > MAX_FIELDS {
        return Err(wrong(name, value, wanted));
    }
    Ok(words)
}

fn number(name: &'static str, value: &str) -> Result<u32, PcdError> {
    let number = value.trim().parse();
    number.map_err(|_| wrong(name, value, "a number less than 2^32"))
}

/// The named fields, all columns, and the bytes of a point.
fn layout(
    names: &[&str],
    sizes: &[&str],
    types: &[&str],
    counts: &[&str],
) -> Result<(Vec<PointField>, Vec<Column>, usize), PcdError> {
    for (name, words) in [("SIZE", sizes), ("TYPE", types)] {
        if words.len() != names.len() {
            return Err(wrong(name, &words.join(" "), "one for each of FIELDS"));
        }
    }
    if !counts.is_empty() && counts.len() != names.len() {
        return Err(wrong("COUNT", &counts.join(" "), "one for each of FIELDS"));
    }
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    let mut offset = 0_u32;
    for (index, name) in names.iter().enumerate() {
        let (size, kind) = (sizes[index], types[index]);
        let datatype = match (kind, size) {
            ("I", "1") => Datatype::Int8,
            ("I", "2") => Datatype::Int16,
            ("I", "4") => Datatype::Int32,
            ("U", "1") => Datatype::Uint8,
            ("U", "2") => Datatype::Uint16,
            ("U", "4") => Datatype::Uint32,
            ("F", "4") => Datatype::Float32,
            ("F", "8") => Datatype::Float64,
            _ => {
                let value = format!("{kind} of {size} B for {name}");
                let wanted = "a cloud has I and U of 1, 2 and 4 B, F of 4 and 8 B";
                return Err(wrong("TYPE", &value, wanted));
            }
        };
        let count = counts
            .get(index)
            .map_or(Ok(1), |count| number("COUNT", count))?;
        let end = datatype
            .size()
            .checked_mul(count)
            .and_then(|len| len.checked_add(offset));
        let end = end.ok_or_else(|| wrong("COUNT", counts[index], "a point of less than 4 GiB"))?;
        let is_gap = *name == "_";
        columns.push(Column {
            is_gap,
            datatype,
            count,
        });
        if !is_gap {
            fields.push(PointField {
                name: (*name).to_owned().into(),
                offset,
                datatype,
                count,
            });
        }
        offset = end;
    }
    if fields.is_empty() || offset == 0 {
        return Err(wrong("FIELDS", &names.join(" "), "a point has fields"));
    }
    Ok((fields, columns, offset as usize))
}

/// Unpacks what LZF has packed to `len` bytes.
fn unpack(body: &[u8], len: usize) -> Result<Vec<u8>, PcdError> {
    let word = |at: usize| {
        let bytes = body.get(at..).and_then(|rest| rest.first_chunk().copied());
        bytes.map(|bytes| u32::from_le_bytes(bytes) as usize)
    };
    let (packed_len, announced) = (word(0), word(4));
    let (Some(packed_len), Some(announced)) = (packed_len, announced) else {
        return Err(PcdError::Packed { at: 0 });
    };
    let packed = body[8..]
        .get(..packed_len)
        .ok_or(PcdError::Packed { at: body.len() })?;
    // What is announced must be what the points take, and be possible.
    if announced != len || len / MAX_RATIO > packed.len() {
        return Err(PcdError::Packed { at: 4 });
    }
    let mut bytes = Vec::with_capacity(len);
    let mut at = 0;
    while at < packed.len() {
        let damaged = PcdError::Packed { at };
        let control = usize::from(packed[at]);
        if control < 32 {
            let literal = packed.get(at + 1..at + 2 + control).ok_or(damaged)?;
            bytes.extend_from_slice(literal);
            at += 2 + control;
        } else {
            let mut copied = control >> 5;
            let mut next = at + 1;
            if copied == 7 {
                copied += usize::from(*packed.get(next).ok_or(damaged.clone())?);
                next += 1;
            }
            let low = usize::from(*packed.get(next).ok_or(damaged.clone())?);
            let back = ((control & 0x1f) << 8 | low) + 1;
            let from = bytes.len().checked_sub(back).ok_or(damaged)?;
            // What is copied may be what this writes.
            for index in from..from + copied + 2 {
                bytes.push(bytes[index]);
            }
            at = next + 1;
        }
        if bytes.len() > len {
            return Err(PcdError::Packed { at });
        }
    }
    if bytes.len() < len {
        return Err(PcdError::Packed { at });
    }
    Ok(bytes)
}
