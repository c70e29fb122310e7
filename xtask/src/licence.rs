//! Which licences the crates that we use may have.

use crate::workspace::{Package, Workspace};

/// Licences that ask for no more than to be named.
const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
];

/// `(crate, licence, why it is used all the same)`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "colored",
        "MPL-2.0",
        "copyleft per file, used unchanged; comes with rosrust, in the benches only",
    ),
    (
        "libbz2-rs-sys",
        "bzip2-1.0.6",
        "as BSD-3-Clause, in words of its own; comes with bzip2",
    ),
    (
        "option-ext",
        "MPL-2.0",
        "copyleft per file, used unchanged; comes with zenoh",
    ),
    (
        "webpki-roots",
        "CDLA-Permissive-2.0",
        "data, not code: root certificates, free to pass on; comes with TLS",
    ),
];

/// Crates whose licence is neither allowed nor excepted, and exceptions that nobody needs.
pub(crate) fn check(workspace: &Workspace) -> Vec<String> {
    let mut findings = Vec::new();
    for package in &workspace.foreign {
        if let Some(finding) = judge(package) {
            findings.push(finding);
        }
    }
    for (name, ..) in EXCEPTIONS {
        if !workspace
            .foreign
            .iter()
            .any(|package| package.name == *name)
        {
            findings.push(format!(
                "xtask/src/licence.rs excepts `{name}`, which is not used; remove it"
            ));
        }
    }
    findings
}

fn judge(package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(licence) = &package.licence else {
        return Some(format!(
            "{name} {version} names no licence; replace it or except it"
        ));
    };
    if EXCEPTIONS.iter().any(|(n, l, _)| n == name && l == licence) {
        return None;
    }
    match allows(licence) {
        Some(true) => None,
        Some(false) => Some(format!(
            "{name} {version} is under `{licence}`, which needs a licence that is not allowed here; \
             replace it, or except it with the reason in xtask/src/licence.rs and deny.toml"
        )),
        None => Some(format!(
            "{name} {version}: `{licence}` is not an SPDX expression"
        )),
    }
}

/// Whether one can comply with an SPDX expression by allowed licences alone; `None` if it is none.
/// The old `MIT/Apache-2.0` means OR.
fn allows(expression: &str) -> Option<bool> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let allowed = any(&mut words)?;
    words.is_empty().then_some(allowed)
}

// The words are on a stack, the first on top. AND binds closer than OR.

fn any(words: &mut Vec<&str>) -> Option<bool> {
    let mut allowed = all(words)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        allowed |= all(words)?;
    }
    Some(allowed)
}

fn all(words: &mut Vec<&str>) -> Option<bool> {
    let mut allowed = one(words)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut Vec<&str>) -> Option<bool> {
    match words.pop()? {
        "(" => {
            let allowed = any(words)?;
            (words.pop()? == ")").then_some(allowed)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence => match words.pop_if(|word| *word == "WITH") {
            Some(_) => {
                let exception = words.pop()?;
                Some(ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()))
            }
            None => Some(ALLOWED.contains(&licence)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged_by_their_logic() {
        for (expression, verdict) in [
            ("MIT", Some(true)),
            ("MIT/Apache-2.0", Some(true)),
            ("EPL-2.0 OR Apache-2.0", Some(true)),
            ("EPL-2.0", Some(false)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
            ("(MIT OR Apache-2.0) AND OpenSSL", Some(false)),
            ("MIT OR GPL-3.0 AND OpenSSL", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("GPL-3.0 WITH Classpath-exception-2.0", Some(false)),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT Apache-2.0", None),
            ("", None),
        ] {
            assert_eq!(allows(expression), verdict, "{expression}");
        }
    }

    #[test]
    fn a_crate_without_an_allowed_licence_is_named() {
        let package = |licence: Option<&str>| Package {
            name: "foreign".to_owned(),
            version: "1.2.3".to_owned(),
            licence: licence.map(str::to_owned),
            ..Package::default()
        };
        assert_eq!(judge(&package(Some("ISC"))), None);
        for licence in [None, Some("SSPL-1.0"), Some("see LICENSE")] {
            let finding = judge(&package(licence)).unwrap();
            assert!(finding.starts_with("foreign 1.2.3"), "{finding}");
        }
    }
}
