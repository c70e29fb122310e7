//! Promises in the documents have a test, and checks of the conformance suite are documented.
//!
//! A promise names its test in backticks: `test: name_of_the_test`, where the name is that of a
//! test function or of a check of the conformance suite. In the contract, where each check has a heading,
//! the name alone in a heading does as well.

use std::collections::BTreeSet;
use std::path::Path;

use crate::source::{Source, code_spans};

/// The document that describes every check of the conformance suite.
const CONTRACT: &str = "docs/contract.md";

/// Where those checks are.
const CHECKS: &str = "transport-api/conformance/src/checks";

/// Names in the documents that no test has, and checks that the contract does not name.
pub(crate) fn check(papers: &[Source], sources: &[Source]) -> Vec<String> {
    let checks: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.path.starts_with(CHECKS))
        .flat_map(|source| names_after(&source.text, "check!("))
        .collect();
    let mut tests: BTreeSet<&str> = sources.iter().flat_map(test_functions).collect();
    tests.extend(&checks);
    let mut findings = Vec::new();
    let mut documented = BTreeSet::new();
    for paper in papers {
        let contract = paper.path == Path::new(CONTRACT);
        for (number, line) in paper.prose() {
            for name in promised(line).chain(heading(line).filter(|_| contract)) {
                if !tests.contains(name) {
                    findings.push(format!("{}: there is no test `{name}`", paper.at(number)));
                }
                if contract {
                    documented.insert(name);
                }
            }
        }
    }
    for name in checks.difference(&documented) {
        findings.push(format!(
            "{CONTRACT} does not name the check `{name}`; add what it promises and `test: {name}`"
        ));
    }
    findings
}

/// The names in `test: name` spans of a line.
fn promised(line: &str) -> impl Iterator<Item = &str> {
    code_spans(line).filter_map(|span| span.strip_prefix("test: "))
}

/// The name that a heading consists of.
fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#').strip_prefix(' ')?;
    let name = title.trim().trim_matches('`');
    let snake = name.contains('_') && name.chars().all(is_name);
    (line.starts_with('#') && snake).then_some(name)
}

/// The names of functions with an attribute that makes them tests, and of those in test programs,
/// some of which have a harness of their own.
fn test_functions(source: &Source) -> impl Iterator<Item = &str> {
    let program = source
        .path
        .components()
        .any(|part| part.as_os_str() == "tests");
    let mut marked = false;
    source.text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if line.starts_with("#[") {
            marked |= line.contains("test]") || line.contains("::test(");
            return None;
        }
        if line.is_empty() || line.starts_with("//") {
            return None;
        }
        let name = names_after(line, "fn ").next();
        (std::mem::take(&mut marked) || program)
            .then_some(name)
            .flatten()
    })
}

/// The names that follow `before` in Rust code.
fn names_after<'a>(code: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
    code.split(before).skip(1).filter_map(|rest| {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn promises_and_tests_are_matched_in_both_directions() {
        let papers = [
            source(
                CONTRACT,
                "## Closing\n### `close_is_idempotent`\n### gone_check\nOrder: `test: in_order`.",
            ),
            source(
                "docs/transports/mqtt.md",
                "Kept: `test: keeps`. Lost: `test: loses`.",
            ),
        ];
        let sources = [
            source(
                "transport-api/conformance/src/checks/close.rs",
                "check!(close_is_idempotent, always),\ncheck!(in_order, always, order(3)),\n\
                 check!(secret_check, always),\nmacro: check!($name)",
            ),
            source(
                "transport-mqtt/src/fault.rs",
                "#[tokio::test(flavor = \"current_thread\")]\n// Why.\nasync fn keeps() {}\n\
                 #[derive(Debug)]\nfn loses() {}",
            ),
        ];
        assert_eq!(
            check(&papers, &sources),
            [
                "docs/contract.md:3: there is no test `gone_check`",
                "docs/transports/mqtt.md:1: there is no test `loses`",
                "docs/contract.md does not name the check `secret_check`; \
                 add what it promises and `test: secret_check`",
            ]
        );
    }
}
