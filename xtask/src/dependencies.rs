//! Every crate that we chose to depend on is used and has a line that says why.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::workspace::Workspace;

const PAPER: &str = "docs/dependencies.md";

/// Direct dependencies without a row in the document, rows without a dependency, and dependencies
/// that the root `manifest` offers to the crates and none takes.
pub(crate) fn check(workspace: &Workspace, manifest: &str, papers: &[Source]) -> Vec<String> {
    let Some(paper) = papers.iter().find(|paper| paper.path.as_os_str() == PAPER) else {
        return vec![format!("{PAPER} does not exist")];
    };
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in &workspace.members {
        for dependency in &member.dependencies {
            if workspace.member(&dependency.name).is_none() {
                let users = used.entry(&dependency.name).or_default();
                users.push(&member.name);
            }
        }
    }
    // A row names its crate in the first column.
    let named: BTreeSet<&str> = paper
        .prose()
        .filter_map(|(_, line)| line.strip_prefix("| `"))
        .filter_map(|row| row.split('`').next())
        .collect();
    let mut findings = Vec::new();
    for (name, users) in &used {
        if !named.contains(name) {
            findings.push(format!(
                "{PAPER} has no row for `{name}` (used by {}); say why this one",
                users.join(", ")
            ));
        }
    }
    for name in &named {
        if !used.contains_key(name) {
            findings.push(format!(
                "{PAPER} has a row for `{name}`, which nobody uses; remove it"
            ));
        }
    }
    for name in offered(manifest) {
        if !used.contains_key(name) && workspace.member(name).is_none() {
            findings.push(format!(
                "Cargo.toml offers `{name}`, which nobody uses; remove it"
            ));
        }
    }
    findings
}

/// The keys of `[workspace.dependencies]`.
fn offered(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .filter(|key| !key.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Kind, Package};

    #[test]
    fn rows_and_dependencies_must_be_the_same() {
        let dependency = |name: &str| Dependency {
            name: name.to_owned(),
            kind: Kind::Shipped,
        };
        let member = |name: &str, uses: &[&str]| Package {
            name: name.to_owned(),
            dependencies: uses.iter().copied().map(dependency).collect(),
            ..Package::default()
        };
        let workspace = Workspace {
            members: vec![
                member("ours", &["bytes", "serde"]),
                member("other", &["ours"]),
            ],
            ..Workspace::default()
        };
        let paper = Source {
            path: PAPER.into(),
            text: "| crate | why |\n|---|---|\n| `bytes` | x `y` |\n| `gone` | z |".to_owned(),
        };
        let manifest = "[workspace]\n[workspace.dependencies]\nours = { path = \"x\" }\n\n\
                        bytes = \"1\"\n# old = \"1\"\nspare = \"1\"\n[profile.dev]\nopt = 1\n";
        let findings = check(&workspace, manifest, &[paper]);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(
            findings[0].contains("no row for `serde` (used by ours)"),
            "{findings:?}"
        );
        assert!(findings[1].contains("a row for `gone`"), "{findings:?}");
        assert!(findings[2].contains("offers `spare`"), "{findings:?}");
        assert_eq!(check(&workspace, manifest, &[]).len(), 1);
    }
}
