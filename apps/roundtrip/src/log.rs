//! The log, on standard error.

use tracing_subscriber::EnvFilter;

use crate::output::note;

/// Starts it at `level`, or as `RUST_LOG` says.
pub(crate) fn start(level: &str) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            note!("RUST_LOG `{text}` is not used: {error}");
            EnvFilter::new(level)
        }),
        _ => EnvFilter::new(level),
    };
    // It fails only where a log was started before, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // It would tell of a closed standard error on standard error, and panic.
        .log_internal_errors(false)
        .try_init();
}
