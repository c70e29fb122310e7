//! Standard output and standard error. Whoever reads them may go away, and nothing else may end or
//! be lost by that.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output, still read by somebody, did not take what was printed.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether something that should have been printed is missing.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Prints a line. A reader that has seen enough and gone away, such as `head`, is no error.
pub(crate) fn line(text: Arguments<'_>) {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            FAILED.store(true, Ordering::Relaxed);
            note!("error: write to standard output: {error}");
        }
        _ => {}
    }
}

/// Prints a line to standard error. Where that fails nobody is left to be told.
pub(crate) fn remark(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// As `println!`, which would panic when standard output is closed.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// As `eprintln!`, which would panic when standard error is closed.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::remark(format_args!($($text)*)) };
}
pub(crate) use note;
