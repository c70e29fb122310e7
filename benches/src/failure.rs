//! Why a path cannot be measured.

use std::fmt;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a path cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A program is not installed; says which one and how to get it.
    Missing(String),
    /// Something went wrong; says what.
    Broken(String),
}

impl Failure {
    /// `what` failed because of `cause`.
    pub fn new(what: &str, cause: impl fmt::Display) -> Self {
        Self::Broken(format!("{what}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) | Self::Broken(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

impl From<transport_api::Error> for Failure {
    fn from(error: transport_api::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        Self::Broken(text)
    }
}
