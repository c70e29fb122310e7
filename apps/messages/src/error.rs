use thiserror::Error;

/// Why bytes were not the message they were taken for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}: field {field}: {fault}")]
pub struct DecodeError {
    /// ROS name of the message that was expected.
    pub message: &'static str,
    /// Field at which decoding stopped.
    pub field: &'static str,
    /// What was wrong there.
    pub fault: Fault,
}

/// The kinds of broken message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The message ends inside the field.
    #[error("needs {needed} B and {left} B are left; the message was cut or is of another type")]
    Short {
        /// Bytes the field takes.
        needed: usize,
        /// Bytes the message still has.
        left: usize,
    },
    /// A length field promises more than the message can hold.
    #[error(
        "announces {count} elements of at least {each} B and {left} B are left; the length field is \
         damaged or the message is of another type"
    )]
    Count {
        /// Elements announced.
        count: u32,
        /// Least bytes one of them takes.
        each: usize,
        /// Bytes the message still has.
        left: usize,
    },
    /// The message goes on after its last field.
    #[error("is followed by {left} B that belong to no field; is the message of another type?")]
    Trailing {
        /// Bytes too many.
        left: usize,
    },
    /// A string is not UTF-8.
    #[error("is not UTF-8 from byte {at} on")]
    Text {
        /// Length of the valid start.
        at: usize,
    },
    /// A point field has a type number that `sensor_msgs/PointField` does not define.
    #[error("has type number {value}; sensor_msgs/PointField defines 1 to 8")]
    Datatype {
        /// The number found.
        value: u8,
    },
    /// A message of ROS 2 is encoded in another way than plain CDR.
    #[error("is {kind:#06x}; CDR, which is 0x0000 or 0x0001, is read")]
    Encapsulation {
        /// The number found.
        kind: u16,
    },
    /// The sizes in a cloud contradict each other.
    #[error(transparent)]
    Layout(#[from] crate::LayoutError),
}
