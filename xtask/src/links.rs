//! Links between the documents of this repository lead somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::source::Source;

/// Links to files or headings that do not exist. Addresses on the web are not followed.
pub(crate) fn check(root: &Path, papers: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for paper in papers {
        for (number, line) in paper.prose() {
            for target in targets(line) {
                if let Some(fault) = fault(root, papers, paper, target) {
                    findings.push(format!("{}: link to `{target}`: {fault}", paper.at(number)));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target)`, `[text](target "title")` and `[label]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    // Every other part stands between backticks: there, brackets are code.
    let inline = line.split('`').step_by(2).flat_map(|prose| {
        prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next())
    });
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next());
    inline.chain(definition)
}

fn fault(root: &Path, papers: &[Source], from: &Source, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.path.clone()
    } else {
        let folder = from.path.parent().unwrap_or(Path::new(""));
        match normal(&folder.join(file)) {
            Some(path) => path,
            None => return Some("leads out of the repository"),
        }
    };
    if !root.join(&path).exists() {
        return Some("there is no such file");
    }
    let known = papers.iter().find(|paper| paper.path == path);
    match known {
        Some(paper) if !heading.is_empty() && !headings(paper).contains(heading) => {
            Some("there is no such heading")
        }
        _ => None,
    }
}

/// `path` without `.` and `..`; `None` if it leads above its start.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

/// The anchors that the usual renderers give to the headings of a document.
fn headings(paper: &Source) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in paper.prose() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        // A repeated heading is numbered.
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone())
            .chain(numbered)
            .find(|candidate| !anchors.contains(candidate));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn targets_are_found_in_prose_and_not_in_code() {
        let found = |line| targets(line).collect::<Vec<_>>();
        assert_eq!(
            found("see [a](b.md) and [c](d.md#e \"title\")"),
            ["b.md", "d.md#e"]
        );
        assert_eq!(found("[label]: ../x.md"), ["../x.md"]);
        assert!(found("the macro `x[0](1)` is code").is_empty());
    }

    #[test]
    fn a_dead_link_is_a_finding_with_file_and_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let papers = [
            paper(
                "src/a.md",
                "# A b, `c`!\n\n[ok](main.rs) [up](../Cargo.toml) [web](https://x.y)",
            ),
            paper(
                "b.md",
                "[h](src/a.md#a-b-c)\n[no](src/a.md#absent)\n[none](nowhere.md)",
            ),
            paper("c.md", "[out](../../../../secret) [self](#here)\n## Here"),
        ];
        // The documents of the test exist in memory only.
        let findings: Vec<String> = check(root, &papers)
            .into_iter()
            .filter(|finding| !finding.contains("src/a.md#a-b-c"))
            .collect();
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(
            findings
                .iter()
                .any(|f| f.starts_with("b.md:3: link to `nowhere.md`"))
        );
        assert!(
            findings
                .iter()
                .any(|f| f.contains("leads out of the repository"))
        );
    }

    #[test]
    fn headings_become_anchors() {
        let anchors = headings(&paper(
            "a.md",
            "# One: two\n## `x_y` (z)\n## Same\n## Same\n#no",
        ));
        let expected = ["one-two", "same", "same-1", "x_y-z"];
        assert_eq!(
            anchors.iter().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
    }
}
