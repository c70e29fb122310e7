//! What is missing here.

use std::fmt;

/// Why a fixture cannot start here, and what to do about it.
#[derive(Clone, Debug)]
pub struct Unavailable(pub String);

impl Unavailable {
    /// The reason, such as `mosquitto not found; install it with apt-get install mosquitto`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}
