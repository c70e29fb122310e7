//! Text files of this repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// A text file and where it is, seen from the root.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Folders that hold what is made, not what is written.
const MADE: &[&str] = &["target", "results", "node_modules", "__pycache__"];

/// Every file below `root` whose name ends in `.extension`, ordered by path; hidden folders and
/// build products left out.
pub(crate) fn read(root: &Path, extension: &str) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder)
            .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !MADE.contains(&&*name) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                let path = path.strip_prefix(root).unwrap_or(&path).to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

impl Source {
    /// The lines of a Markdown document outside fenced code, numbered from 1.
    pub(crate) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fenced = false;
        self.text.lines().enumerate().filter_map(move |(n, line)| {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                return None;
            }
            (!fenced).then_some((n + 1, line))
        })
    }

    /// `path:line`, for findings.
    pub(crate) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// What stands between backticks in a line.
pub(crate) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_lines_are_not_prose() {
        let source = Source {
            path: "a.md".into(),
            text: "one\n```sh\ntwo\n```\nthree".to_owned(),
        };
        assert_eq!(
            source.prose().collect::<Vec<_>>(),
            [(1, "one"), (5, "three")]
        );
        assert_eq!(source.at(5), "a.md:5");
    }

    #[test]
    fn code_spans_are_what_stands_between_backticks() {
        assert_eq!(
            code_spans("a `b c` d `e`").collect::<Vec<_>>(),
            ["b c", "e"]
        );
        assert_eq!(code_spans("plain").count(), 0);
    }
}
