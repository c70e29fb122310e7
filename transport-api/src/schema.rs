//! What the bytes of a payload mean.

use std::fmt;
use std::sync::Arc;

/// Longest schema name that travels with a message, in bytes.
pub const MAX_NAME: usize = 255;

/// The identity of a schema, small enough to travel with every message.
///
/// Cloning copies a reference count.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SchemaId {
    name: Arc<str>,
    fingerprint: [u8; 16],
}

/// A schema as declared by publishers and expected by subscribers: its identity and its definition.
///
/// For ROS 1 messages the name is `package/Type`, the fingerprint the md5 sum and the definition
/// the full message definition, so a ROS transport can advertise the topic as what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Schema {
    id: Option<SchemaId>,
    definition: Arc<str>,
}

impl SchemaId {
    /// An identity; a name longer than [`MAX_NAME`] bytes is cut at a character boundary.
    pub fn new(name: &str, fingerprint: [u8; 16]) -> Self {
        let mut end = name.len().min(MAX_NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            name: name[..end].into(),
            fingerprint,
        }
    }

    /// The name, such as `sensor_msgs/PointCloud2`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fingerprint; for ROS 1 the md5 sum of the definition.
    pub fn fingerprint(&self) -> &[u8; 16] {
        &self.fingerprint
    }

    /// The fingerprint in lower-case hexadecimal.
    pub fn fingerprint_hex(&self) -> String {
        self.fingerprint
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, self.fingerprint_hex())
    }
}

impl fmt::Debug for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Schema {
    /// A schema with its full definition.
    pub fn new(name: &str, fingerprint: [u8; 16], definition: &str) -> Self {
        Self {
            id: Some(SchemaId::new(name, fingerprint)),
            definition: definition.into(),
        }
    }

    /// Bytes without a declared meaning. A subscriber that expects this accepts every schema.
    pub fn opaque() -> Self {
        Self {
            id: None,
            definition: "".into(),
        }
    }

    /// The identity; `None` for opaque bytes.
    pub fn id(&self) -> Option<&SchemaId> {
        self.id.as_ref()
    }

    /// The definition text; empty for opaque bytes.
    pub fn definition(&self) -> &str {
        &self.definition
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "Schema({id})"),
            None => f.write_str("Schema(opaque)"),
        }
    }
}
