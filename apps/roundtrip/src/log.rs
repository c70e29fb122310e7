//! The log, on standard error.

use tracing_subscriber::EnvFilter;

/// Starts it at `level`, or as `RUST_LOG` says.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // It fails only where a log was started before, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // It would tell of a closed standard error on standard error, and panic.
        .log_internal_errors(false)
        .try_init();
}
