//! Which crate may depend on which: the table is the architecture.

use std::collections::BTreeSet;

use crate::workspace::{Kind, Workspace};

/// The arrows that may leave one of our crates to others of ours.
struct Arrows {
    from: &'static str,
    shipped: &'static [&'static str],
    /// For tests, examples and benches, besides those of `shipped`.
    dev: &'static [&'static str],
}

const fn arrows(from: &'static str, shipped: &'static [&'static str]) -> Arrows {
    Arrows {
        from,
        shipped,
        dev: &[],
    }
}

impl Arrows {
    const fn dev(self, dev: &'static [&'static str]) -> Self {
        Self { dev, ..self }
    }
}

/// One line per crate. A crate that is not here may not exist.
const ARROWS: &[Arrows] = &[
    arrows("lidar-messages", &[]),
    arrows("lidar-scene", &[]),
    arrows("lidar-sensor", &["lidar-messages", "lidar-scene"]),
    arrows("lidar-detector", &["lidar-messages"]).dev(&[
        "lidar-sensor",
        "lidar-scene",
        "lidar-eval",
    ]),
    arrows("lidar-eval", &[]),
    arrows("latency-timeline", &[]),
    arrows("transport-api", &[]).dev(&["transport-conformance"]),
    arrows("transport-relay", &[]),
    arrows(
        "transport-conformance",
        &["transport-api", "transport-relay"],
    ),
    arrows("transport-mqtt", &["transport-api"]).dev(&["transport-conformance"]),
    arrows("transport-zenoh", &["transport-api"]).dev(&["transport-conformance"]),
    arrows("transport-rosmaster", &["transport-api"]).dev(&["transport-conformance"]),
    arrows(
        "backends",
        &[
            "transport-api",
            "transport-mqtt",
            "transport-zenoh",
            "transport-rosmaster",
        ],
    ),
    arrows(
        "exchange",
        &["transport-api", "lidar-messages", "latency-timeline"],
    ),
    arrows(
        "perception",
        &[
            "exchange",
            "lidar-messages",
            "lidar-sensor",
            "lidar-detector",
            "latency-timeline",
        ],
    ),
    arrows(
        "vehicle",
        &[
            "exchange",
            "perception",
            "transport-api",
            "lidar-messages",
            "lidar-sensor",
            "latency-timeline",
        ],
    )
    .dev(&["lidar-detector", "lidar-scene"]),
    arrows(
        "edge",
        &[
            "exchange",
            "perception",
            "transport-api",
            "lidar-messages",
            "lidar-sensor",
            "lidar-detector",
            "latency-timeline",
        ],
    )
    .dev(&["lidar-scene"]),
    arrows(
        "view",
        &[
            "vehicle",
            "lidar-messages",
            "lidar-sensor",
            "latency-timeline",
        ],
    ),
    arrows(
        "recorder",
        &[
            "vehicle",
            "exchange",
            "lidar-messages",
            "lidar-sensor",
            "lidar-detector",
            "latency-timeline",
        ],
    ),
    arrows(
        "roundtrip",
        &[
            "backends",
            "recorder",
            "vehicle",
            "view",
            "edge",
            "exchange",
            "perception",
            "transport-api",
            "transport-relay",
            "lidar-messages",
            "lidar-scene",
            "lidar-sensor",
            "lidar-detector",
            "lidar-eval",
            "latency-timeline",
        ],
    )
    .dev(&["transport-conformance"]),
    arrows(
        "benches",
        &[
            "backends",
            "transport-mqtt",
            "transport-zenoh",
            "transport-rosmaster",
            "vehicle",
            "edge",
            "exchange",
            "perception",
            "transport-api",
            "lidar-messages",
            "lidar-scene",
            "lidar-sensor",
            "lidar-detector",
            "latency-timeline",
        ],
    )
    .dev(&["roundtrip"]),
    arrows("xtask", &[]),
];

/// A library that belongs to one backend: nobody else may name it, so no type of it can appear in
/// anybody else's interface. `benches` may, to compare with the library used bare.
const LIBRARIES: &[(&str, &str)] = &[
    ("rumqttc", "transport-mqtt"),
    ("mqtt5", "transport-mqtt"),
    ("zenoh", "transport-zenoh"),
    ("dxr", "transport-rosmaster"),
];

/// Crates that are built without any of [`RUNTIMES`], however indirectly, and why.
const RUNTIME_FREE: &[(&str, &str)] = &[
    ("transport-api", "the contract runs on any async runtime"),
    ("lidar-messages", "a codec is plain computation"),
    ("lidar-scene", "ray casting is plain computation"),
    ("lidar-sensor", "a sensor is read by a thread of its own"),
    ("lidar-detector", "detection is plain computation"),
    ("lidar-eval", "scoring is plain computation"),
    (
        "latency-timeline",
        "arithmetic on stamps is plain computation",
    ),
];

const RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];

/// Arrows that the table does not allow, rows of the table without a crate, and crates without a
/// description.
pub(crate) fn check(workspace: &Workspace) -> Vec<String> {
    let mut findings = Vec::new();
    let ours: BTreeSet<&str> = workspace.members.iter().map(|m| m.name.as_str()).collect();
    for row in ARROWS.iter().filter(|row| !ours.contains(row.from)) {
        findings.push(format!(
            "xtask/src/arch.rs has a row for `{}`, which is not a member of the workspace; remove it",
            row.from
        ));
    }
    for member in &workspace.members {
        if member
            .description
            .as_deref()
            .is_none_or(|d| d.is_empty() || d == "TODO")
        {
            findings.push(format!(
                "`{}` has no description in its Cargo.toml",
                member.name
            ));
        }
        let Some(row) = ARROWS.iter().find(|row| row.from == member.name) else {
            findings.push(format!(
                "`{}` has no row in xtask/src/arch.rs; say there what it may depend on",
                member.name
            ));
            continue;
        };
        for dependency in &member.dependencies {
            let to = dependency.name.as_str();
            let dev = dependency.kind == Kind::Dev;
            let arrow = if dev { "->(dev)" } else { "->" };
            if ours.contains(to) && !row.shipped.contains(&to) && !(dev && row.dev.contains(&to)) {
                findings.push(format!(
                    "{} {arrow} {to} is not allowed: {}",
                    member.name,
                    rule(row, dev)
                ));
            }
            let library = LIBRARIES.iter().find(|(library, _)| *library == to);
            if let Some((_, owner)) = library
                && ![*owner, "benches"].contains(&member.name.as_str())
            {
                findings.push(format!(
                    "{} {arrow} {to} is not allowed: only `{owner}` (and `benches`) may name it",
                    member.name
                ));
            }
        }
    }
    for (name, why) in RUNTIME_FREE {
        for (found, way) in workspace.tree(name) {
            if RUNTIMES.contains(&found) {
                findings.push(format!("{} is not allowed: {why}", way.join(" -> ")));
            }
        }
    }
    findings
}

fn rule(row: &Arrows, dev: bool) -> String {
    let mut allowed = row.shipped.to_vec();
    if dev {
        allowed.extend(row.dev);
    }
    match allowed.as_slice() {
        [] => format!("`{}` depends on none of our crates", row.from),
        allowed => format!(
            "of our crates `{}` may use only {}",
            row.from,
            allowed.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    /// Our crates, all of them, with these extra arrows `(from, to, kind)`.
    fn workspace(arrows: &[(&str, &str, Kind)]) -> Workspace {
        let mut workspace = Workspace::default();
        for row in ARROWS {
            let dependencies = arrows
                .iter()
                .filter(|(from, ..)| *from == row.from)
                .map(|(_, to, kind)| Dependency {
                    name: (*to).to_owned(),
                    kind: *kind,
                })
                .collect();
            workspace.members.push(Package {
                name: row.from.to_owned(),
                description: Some("a crate".to_owned()),
                dependencies,
                ..Package::default()
            });
        }
        for (from, to, kind) in arrows {
            if *kind == Kind::Shipped {
                let uses = workspace.built_with.entry((*from).to_owned()).or_default();
                uses.insert((*to).to_owned());
            }
        }
        workspace
    }

    #[test]
    fn allowed_arrows_pass() {
        let findings = check(&workspace(&[
            ("transport-mqtt", "transport-api", Kind::Shipped),
            ("transport-mqtt", "transport-conformance", Kind::Dev),
            ("transport-mqtt", "rumqttc", Kind::Shipped),
            ("transport-mqtt", "tokio", Kind::Shipped),
            ("benches", "rumqttc", Kind::Shipped),
        ]));
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn an_arrow_outside_the_table_is_named_with_its_rule() {
        for (from, to, kind, said) in [
            (
                "transport-mqtt",
                "transport-zenoh",
                Kind::Shipped,
                "may use only transport-api",
            ),
            (
                "lidar-sensor",
                "transport-api",
                Kind::Shipped,
                "lidar-messages, lidar-scene",
            ),
            ("vehicle", "backends", Kind::Shipped, "may use only"),
            (
                "edge",
                "transport-mqtt",
                Kind::Dev,
                "edge ->(dev) transport-mqtt",
            ),
            (
                "transport-mqtt",
                "transport-conformance",
                Kind::Shipped,
                "may use only",
            ),
            (
                "lidar-scene",
                "lidar-messages",
                Kind::Shipped,
                "depends on none of our crates",
            ),
            (
                "roundtrip",
                "rumqttc",
                Kind::Shipped,
                "only `transport-mqtt`",
            ),
            ("vehicle", "zenoh", Kind::Dev, "only `transport-zenoh`"),
        ] {
            let findings = check(&workspace(&[(from, to, kind)]));
            assert_eq!(findings.len(), 1, "{from} -> {to}: {findings:?}");
            assert!(
                findings[0].contains(from) && findings[0].contains(to),
                "{findings:?}"
            );
            assert!(findings[0].contains(said), "{findings:?}");
        }
    }

    #[test]
    fn a_runtime_under_the_contract_is_found_with_the_way_to_it() {
        let findings = check(&workspace(&[
            ("transport-api", "harmless", Kind::Shipped),
            ("harmless", "tokio", Kind::Shipped),
        ]));
        assert_eq!(
            findings,
            [
                "transport-api -> harmless -> tokio is not allowed: the contract runs on any async runtime"
            ]
        );
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_findings() {
        let mut workspace = workspace(&[]);
        workspace.members.retain(|member| member.name != "edge");
        workspace.members.push(Package {
            name: "newcomer".to_owned(),
            ..Package::default()
        });
        let findings = check(&workspace).join("\n");
        assert!(findings.contains("row for `edge`"), "{findings}");
        assert!(findings.contains("`newcomer` has no row"), "{findings}");
        assert!(
            findings.contains("`newcomer` has no description"),
            "{findings}"
        );
    }
}
