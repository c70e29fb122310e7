//! Fields as ROS 1 has them, little-endian and without padding, or as ROS 2 has them: CDR, in which
//! values are aligned to their size. A sequence or string is a `u32` count and its elements.

use bytes::{Buf, BufMut, Bytes};

use crate::{DecodeError, Fault, Text};

/// Takes fields off the front of a message.
pub(crate) struct Reader {
    message: &'static str,
    rest: Bytes,
    encoding: Encoding,
}

/// How a message is encoded.
#[derive(Clone, Copy)]
enum Encoding {
    Ros1,
    /// With the bytes of the whole message, from whose start alignment counts.
    Cdr {
        len: usize,
        big_endian: bool,
    },
}

impl Reader {
    /// Reads what ROS 1 has encoded.
    pub(crate) fn new(message: &'static str, bytes: Bytes) -> Self {
        Self {
            message,
            rest: bytes,
            encoding: Encoding::Ros1,
        }
    }

    /// Reads what ROS 2 has encoded; the first four bytes say how.
    pub(crate) fn cdr(message: &'static str, bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Self::new(message, bytes);
        let [high, low, _, _] = reader.array("encapsulation")?;
        let big_endian = match u16::from_be_bytes([high, low]) {
            0 => true,
            1 => false,
            kind => return Err(reader.error("encapsulation", Fault::Encapsulation { kind })),
        };
        reader.encoding = Encoding::Cdr {
            len: reader.rest.len(),
            big_endian,
        };
        Ok(reader)
    }

    /// Whether ROS 2 has encoded it, whose headers have no number and whose strings end with a zero.
    pub(crate) fn is_cdr(&self) -> bool {
        matches!(self.encoding, Encoding::Cdr { .. })
    }

    pub(crate) fn error(&self, field: &'static str, fault: Fault) -> DecodeError {
        DecodeError {
            message: self.message,
            field,
            fault,
        }
    }

    fn need(&self, field: &'static str, needed: usize) -> Result<(), DecodeError> {
        let left = self.rest.len();
        if needed <= left {
            return Ok(());
        }
        Err(self.error(field, Fault::Short { needed, left }))
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        self.need(field, N)?;
        let mut array = [0; N];
        self.rest.copy_to_slice(&mut array);
        Ok(array)
    }

    /// The next number of `N` bytes, in little-endian order.
    fn number<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Encoding::Cdr { len, big_endian } = self.encoding else {
            return self.array(field);
        };
        let before = len - self.rest.len();
        self.slice(field, before.next_multiple_of(N) - before)?;
        let mut array = self.array(field)?;
        if big_endian {
            array.reverse();
        }
        Ok(array)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.number(field).map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.need(field, 4)?;
        Ok(self.rest.get_i32_le())
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.need(field, 8)?;
        Ok(self.rest.get_u64_le())
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.number(field).map(i64::from_le_bytes)
    }

    pub(crate) fn f64s<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[f64; N], DecodeError> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.number(field).map(f64::from_le_bytes)?;
        }
        Ok(values)
    }

    /// The count of a sequence whose elements take at least `each` bytes; it fits the message.
    pub(crate) fn count(&mut self, field: &'static str, each: usize) -> Result<usize, DecodeError> {
        let count = self.u32(field)?;
        let left = self.rest.len();
        match usize::try_from(count) {
            Ok(elements) if elements <= left / each => Ok(elements),
            _ => Err(self.error(field, Fault::Count { count, each, left })),
        }
    }

    /// A sequence of what `read` takes, each at least `each` bytes.
    pub(crate) fn sequence<T>(
        &mut self,
        field: &'static str,
        each: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(field, each)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    /// The next `len` bytes, sharing the message's memory.
    pub(crate) fn slice(&mut self, field: &'static str, len: usize) -> Result<Bytes, DecodeError> {
        self.need(field, len)?;
        Ok(self.rest.split_to(len))
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<Text, DecodeError> {
        let len = self.count(field, 1)?;
        let mut bytes = self.slice(field, len)?;
        if self.is_cdr() && bytes.last() == Some(&0) {
            bytes.truncate(len - 1);
        }
        Text::new(bytes).map_err(|at| self.error(field, Fault::Text { at }))
    }

    /// Refuses bytes after the last field.
    pub(crate) fn finish(self, last_field: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.error(last_field, Fault::Trailing { left })),
        }
    }
}

/// Appends fields to a message whose exact size was given.
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(encoded_len: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(encoded_len),
        }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.put_u32_le(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.put_i32_le(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.put_u64_le(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.put_i64_le(value);
    }

    pub(crate) fn f64s(&mut self, values: &[f64]) {
        for value in values {
            self.bytes.put_f64_le(*value);
        }
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("no message here reaches 4 GiB, so no count does"));
    }

    /// A count and its elements.
    pub(crate) fn sequence<T>(&mut self, elements: &[T], mut write: impl FnMut(&T, &mut Self)) {
        self.count(elements.len());
        for element in elements {
            write(element, self);
        }
    }

    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.slice(text.as_bytes());
    }

    /// The message. Length and capacity are equal, so this does not allocate.
    pub(crate) fn finish(self) -> Bytes {
        debug_assert_eq!(
            self.bytes.len(),
            self.bytes.capacity(),
            "encoded_len was not exact"
        );
        Bytes::from(self.bytes)
    }
}
