//! Standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints a line. A reader that has seen enough and gone away, such as `head`, is no error.
pub(crate) fn line(text: Arguments<'_>) {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: write to standard output: {error}");
        }
        _ => {}
    }
}

/// As `println!`, which would panic when standard output is closed.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;
