use bytes::Bytes;
use lidar_messages::{DecodeError, Detection3DArray, MessageType, ObjectList};
use serde::{Deserialize, Serialize};
use transport_api::{Result, Schema};

use crate::schema;

/// As what object lists travel; vehicle and edge must agree on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectsFormat {
    /// `vision_msgs/Detection3DArray`: boxes with a class.
    #[default]
    Detection3d,
    /// `perception_msgs/ObjectList`: states with an identity.
    ObjectList,
}

impl ObjectsFormat {
    /// The message type.
    pub fn message(self) -> &'static MessageType {
        match self {
            Self::Detection3d => &Detection3DArray::TYPE,
            Self::ObjectList => &ObjectList::TYPE,
        }
    }

    /// How many objects are in an encoded list.
    ///
    /// # Errors
    /// It is no such list.
    pub fn count(self, list: Bytes) -> std::result::Result<usize, DecodeError> {
        match self {
            Self::Detection3d => Ok(Detection3DArray::decode(list)?.detections.len()),
            Self::ObjectList => Ok(ObjectList::decode(list)?.objects.len()),
        }
    }

    /// The schema.
    ///
    /// # Errors
    /// None for these types; see [`schema`](crate::schema()).
    pub fn schema(self) -> Result<Schema> {
        schema(self.message())
    }
}
