//! Errors of the library.

use std::fmt;

/// What an error of the library says, without the places in its source that it adds: they are paths
/// of the machine it was built on.
#[derive(Debug)]
pub(crate) struct Cause(String);

/// The cause of one of our errors.
pub(crate) fn cause(error: impl fmt::Display) -> Cause {
    Cause(without_places(&error.to_string()))
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// Leaves out every ` at PATH.rs:LINE.` of a text.
fn without_places(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" at ") {
        kept.push_str(before);
        match place(after) {
            Some(length) => rest = &after[length..],
            None => {
                kept.push_str(" at ");
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// Length of the place in source that a text begins with.
fn place(text: &str) -> Option<usize> {
    let end = text.find(".rs:")?;
    if text[..end].contains(char::is_whitespace) {
        return None;
    }
    let line = end + ".rs:".len();
    let digits = text[line..].bytes().take_while(u8::is_ascii_digit).count();
    let dot = usize::from(text[line + digits..].starts_with('.'));
    (digits > 0).then_some(line + digits + dot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_name_no_places_in_source() {
        for (said, kept) in [
            (
                "Unable to open at /home/x/.cargo/registry/src/a-1/b/src/c.rs:123.",
                "Unable to open",
            ),
            (
                "one at /x/y.rs:1. - Caused by two at z.rs:22. three",
                "one - Caused by two three",
            ),
            ("not there at all", "not there at all"),
            ("look at me.rs:", "look at me.rs:"),
            ("", ""),
        ] {
            assert_eq!(cause(said).to_string(), kept);
        }
    }
}
