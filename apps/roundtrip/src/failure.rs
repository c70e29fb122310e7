//! Why a command failed.

use std::fmt;
use std::process::ExitCode;

/// A failure as one line for the user: what was done, what went wrong, and the causes.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    usage: bool,
}

impl Failure {
    /// `error`, with all its causes, while doing `what`.
    pub(crate) fn new(what: impl fmt::Display, error: impl std::error::Error) -> Self {
        let mut text = format!("{what}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some libraries repeat the cause in their own text.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self { text, usage: false }
    }

    /// A failure without a cause.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            usage: false,
        }
    }

    /// A wrong command line, environment or settings file.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            usage: true,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl From<transport_api::Error> for Failure {
    fn from(error: transport_api::Error) -> Self {
        let usage = error.kind() == transport_api::ErrorKind::Config;
        let failure = Self::new(error.operation(), ShortError(&error));
        Self { usage, ..failure }
    }
}

/// A transport error without its operation, which the failure names already.
#[derive(Debug)]
struct ShortError<'a>(&'a transport_api::Error);

impl fmt::Display for ShortError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for ShortError<'_> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(self.0)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
