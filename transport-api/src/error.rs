//! Errors: a closed set of kinds to branch on, an open cause to read.

use std::fmt;

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, in terms a caller can branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A URL, option or other setting is wrong; nothing was attempted.
    Config,
    /// The transport cannot do what was asked; nothing was attempted.
    Unsupported,
    /// The other side could not be reached.
    Connect,
    /// The other side refused our identity, or we refused theirs.
    Auth,
    /// The connection ended while the operation was under way.
    Disconnected,
    /// A deadline passed.
    Timeout,
    /// A payload exceeds a limit of the transport.
    TooLarge,
    /// A topic name or filter is not valid.
    Topic,
    /// Publisher and subscriber disagree about what the bytes mean.
    Schema,
    /// Received bytes do not follow the wire format.
    Codec,
    /// The handle or its transport is closed.
    Closed,
    /// The message was given up by an overflow policy and not delivered.
    Dropped,
    /// The library below failed in a way of its own; see the source.
    Backend,
}

/// Whether the same call may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same call fails again until something is changed.
    Never,
    /// The same call may succeed later.
    Later,
}

/// An error of a transport: what was being done, what failed, and why.
///
/// `Display` is one line, lower case, operation first; the cause is in [`std::error::Error::source`].
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` in `operation`; `message` names the value at fault and what to do.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            operation,
            message: message.into(),
            source: None,
        }))
    }

    /// A configuration error.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, "configure", message)
    }

    /// The error of every call on a closed handle.
    pub fn closed(operation: &'static str) -> Self {
        Self::new(ErrorKind::Closed, operation, "the transport is closed")
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later.
    pub fn retry(&self) -> Retry {
        match self.0.kind {
            ErrorKind::Connect
            | ErrorKind::Disconnected
            | ErrorKind::Timeout
            | ErrorKind::Dropped => Retry::Later,
            _ => Retry::Never,
        }
    }

    /// What was being done.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The message without operation and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
