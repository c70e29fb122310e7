//! Each transport's feature brings its own libraries and no other's.

use std::collections::BTreeSet;

use crate::Result;
use crate::workspace::{Workspace, cargo};

/// A feature of the product and the crates that give away that its transport is built in.
struct Transport {
    feature: &'static str,
    /// Crates that must be there with the feature and must not be there without.
    marks: &'static [&'static str],
}

const TRANSPORTS: &[Transport] = &[
    Transport {
        feature: "mqtt",
        marks: &["transport-mqtt", "rumqttc", "mqtt5"],
    },
    Transport {
        feature: "zenoh",
        marks: &["transport-zenoh", "zenoh"],
    },
    Transport {
        feature: "rosmaster",
        marks: &["transport-rosmaster", "dxr"],
    },
];

/// The crate whose features they are.
const PRODUCT: &str = "roundtrip";

/// Wrong libraries for no feature and for each feature alone.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for enabled in std::iter::once("").chain(TRANSPORTS.iter().map(|t| t.feature)) {
        let tree = cargo(
            &workspace.root,
            &[
                "tree",
                "--locked",
                "--package",
                PRODUCT,
                "--no-default-features",
                "--features",
                enabled,
                "--edges",
                "normal,build",
                "--prefix",
                "none",
            ],
        )?;
        findings.extend(judge(enabled, &tree));
    }
    Ok(findings)
}

fn judge(enabled: &str, tree: &str) -> Vec<String> {
    let present: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let build = match enabled {
        "" => format!("`{PRODUCT}` without features"),
        feature => format!("`{PRODUCT}` with `{feature}` alone"),
    };
    let mut findings = Vec::new();
    for transport in TRANSPORTS {
        for mark in transport.marks {
            match (transport.feature == enabled, present.contains(mark)) {
                (true, false) => findings.push(format!(
                    "{build} does not bring `{mark}`; correct the marks in xtask/src/features.rs"
                )),
                (false, true) => findings.push(format!(
                    "{build} brings `{mark}`, which belongs to feature `{}`; \
                     `cargo tree -i {mark}` shows the way",
                    transport.feature
                )),
                _ => {}
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(crates: &[&str]) -> String {
        let crates = crates.iter().map(|name| format!("{name} v1.0.0\n"));
        std::iter::once("roundtrip v0.1.0 (/r)\n".to_owned())
            .chain(crates)
            .collect()
    }

    #[test]
    fn a_build_with_its_own_libraries_only_passes() {
        assert!(judge("", &tree(&["bytes"])).is_empty());
        for transport in TRANSPORTS {
            assert!(judge(transport.feature, &tree(transport.marks)).is_empty());
        }
    }

    #[test]
    fn a_foreign_library_and_a_missing_one_are_named() {
        let findings = judge("", &tree(&["zenoh"]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].contains("without features brings `zenoh`"),
            "{findings:?}"
        );
        let findings = judge("zenoh", &tree(&["zenoh"]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0].contains("does not bring `transport-zenoh`"),
            "{findings:?}"
        );
    }
}
