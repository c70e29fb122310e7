//! Topic names and filters that are legal in every transport.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Longest topic name or filter, in bytes; every protocol in use allows more.
pub const MAX_LENGTH: usize = 255;

/// A topic name: segments `[A-Za-z][A-Za-z0-9_]*` joined by `/`, without a leading slash.
///
/// This is the common subset of ROS graph names, MQTT topics and Zenoh key expressions, so each
/// transport maps it by a pure function and back. Cloning copies a reference count.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

/// A topic filter: a topic name whose segments may be `*` (one segment) or, in last place only,
/// `**` (any number of segments, also none).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicFilter(Arc<str>);

impl TopicName {
    /// Validates a name.
    ///
    /// # Errors
    /// [`ErrorKind::Topic`] naming the text and the byte position of the fault.
    pub fn parse(name: &str) -> Result<Self> {
        check(name, false)?;
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TopicFilter {
    /// Validates a filter.
    ///
    /// # Errors
    /// [`ErrorKind::Topic`] naming the text and the byte position of the fault.
    pub fn parse(filter: &str) -> Result<Self> {
        check(filter, true)?;
        Ok(Self(filter.into()))
    }

    /// The filter as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the filter has a wildcard.
    pub fn is_wild(&self) -> bool {
        self.0.contains('*')
    }

    /// Whether `name` is selected by this filter.
    pub fn matches(&self, name: &TopicName) -> bool {
        let mut names = name.0.split('/');
        for segment in self.0.split('/') {
            match (segment, names.next()) {
                ("**", _) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(found)) if wanted == found => {}
                _ => return false,
            }
        }
        names.next().is_none()
    }

    /// The topic name, if the filter has no wildcard.
    pub fn as_name(&self) -> Option<TopicName> {
        (!self.is_wild()).then(|| TopicName(Arc::clone(&self.0)))
    }
}

impl From<&TopicName> for TopicFilter {
    fn from(name: &TopicName) -> Self {
        Self(Arc::clone(&name.0))
    }
}

fn check(text: &str, wild: bool) -> Result<()> {
    let fault = |at: usize, what: &str| {
        Err(Error::new(
            ErrorKind::Topic,
            "parse topic",
            format!(
                "`{}` at byte {at}: {what}; use segments [A-Za-z][A-Za-z0-9_]* joined by `/`{}",
                text.chars().take(80).collect::<String>().escape_debug(),
                if wild {
                    ", `*` for one segment, `**` last for the rest"
                } else {
                    ""
                },
            ),
        ))
    };
    if text.len() > MAX_LENGTH {
        return fault(MAX_LENGTH, "longer than 255 bytes");
    }
    let mut at = 0;
    let mut segments = text.split('/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "" => return fault(at, "empty segment"),
            "*" if wild => {}
            "**" if wild && segments.peek().is_none() => {}
            "**" if wild => return fault(at, "`**` before the last segment"),
            _ => {
                let head = segment.as_bytes()[0];
                if !head.is_ascii_alphabetic() {
                    return fault(at, "a segment starts with a letter");
                }
                let bad = segment
                    .bytes()
                    .position(|b| !(b.is_ascii_alphanumeric() || b == b'_'));
                if let Some(offset) = bad {
                    return fault(at + offset, "character not allowed");
                }
            }
        }
        at += segment.len() + 1;
    }
    Ok(())
}

macro_rules! text {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl std::str::FromStr for $type {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::parse(text)
            }
        }
    };
}
text!(TopicName);
text!(TopicFilter);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_common_subset_are_refused_with_their_position() {
        for (name, at) in [
            ("", 0),
            ("/a", 0),
            ("a/", 2),
            ("a//b", 2),
            ("a/9b", 2),
            ("a/b c", 3),
            ("a/$SYS", 2),
            ("a/@v1", 2),
            ("a/*", 2),
            ("é", 0),
        ] {
            let error = TopicName::parse(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Topic);
            assert!(
                error.to_string().contains(&format!("byte {at}:")),
                "{name}: {error}"
            );
        }
        assert!(TopicName::parse(&"a".repeat(256)).is_err());
        assert!(TopicName::parse("vehicle1/velodyne_packets").is_ok());
    }

    #[test]
    fn filters_select_by_segment() {
        let matches = |filter: &str, name: &str| {
            TopicFilter::parse(filter)
                .unwrap()
                .matches(&TopicName::parse(name).unwrap())
        };
        assert!(matches("a/b", "a/b"));
        assert!(!matches("a/b", "a/b/c"));
        assert!(!matches("a/b/c", "a/b"));
        assert!(matches("a/*/c", "a/b/c"));
        assert!(!matches("a/*", "a"));
        assert!(matches("a/**", "a"));
        assert!(matches("a/**", "a/b/c"));
        assert!(matches("**", "a/b"));
        assert!(TopicFilter::parse("**/a").is_err());
    }
}
