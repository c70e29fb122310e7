//! What Cargo says about this workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;

/// Whether a dependency is part of what is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A normal or build dependency.
    Shipped,
    /// A dependency of tests, examples and benches only.
    Dev,
}

/// A dependency as a manifest declares it, whether or not a feature turns it on.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// A crate of this workspace or one that it uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// The members, everything they use, and who uses whom.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where Cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Our own crates.
    pub(crate) members: Vec<Package>,
    /// Everybody else's.
    pub(crate) foreign: Vec<Package>,
    /// By crate name: the crates that it is built with, as resolved, dev-dependencies left out.
    pub(crate) built_with: BTreeMap<String, BTreeSet<String>>,
}

/// The Cargo that runs us.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs Cargo and returns what it prints.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program())
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "`cargo {}` failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )
        .into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The folder that holds the workspace's manifest.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

impl Workspace {
    /// Asks Cargo, with the committed lock file and all features.
    pub(crate) fn load() -> Result<Self> {
        let root = root();
        let text = cargo(
            &root,
            &[
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--all-features",
            ],
        )?;
        Self::read(root, &serde_json::from_str(&text)?)
    }

    fn read(root: PathBuf, metadata: &Value) -> Result<Self> {
        let members: BTreeSet<&str> = list(metadata, "workspace_members")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut workspace = Self {
            root,
            target: text(metadata, "target_directory")?.into(),
            ..Self::default()
        };
        let mut names = BTreeMap::new();
        for package in list(metadata, "packages")? {
            let id = text(package, "id")?;
            names.insert(id, text(package, "name")?);
            let side = if members.contains(id) {
                &mut workspace.members
            } else {
                &mut workspace.foreign
            };
            side.push(read_package(package)?);
        }
        for node in list(&metadata["resolve"], "nodes")? {
            let uses = list(node, "deps")?
                .iter()
                .filter(|dependency| {
                    // `null` stands for a normal dependency.
                    dependency["dep_kinds"]
                        .as_array()
                        .is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
                })
                .filter_map(|dependency| names.get(dependency["pkg"].as_str()?))
                .map(|name| (*name).to_owned());
            let name = names
                .get(text(node, "id")?)
                .ok_or("cargo metadata: a node without a package")?;
            // Versions of one crate count as one.
            workspace
                .built_with
                .entry((*name).to_owned())
                .or_default()
                .extend(uses);
        }
        Ok(workspace)
    }

    /// A crate of ours.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Everything that `name` is built with, directly or not, with the way to it.
    pub(crate) fn tree<'a>(&'a self, name: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut ways = BTreeMap::from([(name, vec![name])]);
        let mut open = vec![name];
        while let Some(at) = open.pop() {
            for next in self.built_with.get(at).into_iter().flatten() {
                if !ways.contains_key(next.as_str()) {
                    let mut way = ways[at].clone();
                    way.push(next);
                    ways.insert(next, way);
                    open.push(next);
                }
            }
        }
        ways.remove(name);
        ways
    }
}

fn read_package(package: &Value) -> Result<Package> {
    let mut dependencies = Vec::new();
    for dependency in list(package, "dependencies")? {
        dependencies.push(Dependency {
            name: text(dependency, "name")?.to_owned(),
            kind: match dependency["kind"].as_str() {
                Some("dev") => Kind::Dev,
                _ => Kind::Shipped,
            },
        });
    }
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        version: text(package, "version")?.to_owned(),
        licence: package["license"].as_str().map(str::to_owned),
        description: package["description"].as_str().map(str::to_owned),
        dependencies,
    })
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata: no list `{key}`").into())
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata: no text `{key}`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_kinds_and_edges_are_told_apart() {
        let metadata = serde_json::json!({
            "target_directory": "/target",
            "workspace_members": ["ours 0.1"],
            "packages": [
                {"id": "ours 0.1", "name": "ours", "version": "0.1.0", "license": "MIT",
                 "description": "a crate", "dependencies": [
                    {"name": "shipped", "kind": null},
                    {"name": "built", "kind": "build"},
                    {"name": "tested", "kind": "dev"}]},
                {"id": "shipped 1", "name": "shipped", "version": "1.0.0", "license": null,
                 "dependencies": []},
                {"id": "tested 1", "name": "tested", "version": "1.0.0", "license": null,
                 "dependencies": []}],
            "resolve": {"nodes": [
                {"id": "ours 0.1", "deps": [
                    {"pkg": "shipped 1", "dep_kinds": [{"kind": null}]},
                    {"pkg": "tested 1", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "shipped 1", "deps": []},
                {"id": "tested 1", "deps": []}]},
        });
        let workspace = Workspace::read(PathBuf::new(), &metadata).unwrap();
        let ours = workspace.member("ours").unwrap();
        let kinds: Vec<Kind> = ours.dependencies.iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [Kind::Shipped, Kind::Shipped, Kind::Dev]);
        assert_eq!(workspace.foreign.len(), 2);
        assert_eq!(
            workspace.built_with["ours"],
            BTreeSet::from(["shipped".to_owned()])
        );
    }

    #[test]
    fn metadata_without_packages_is_an_error_not_a_panic() {
        let error = Workspace::read(PathBuf::new(), &serde_json::json!({})).unwrap_err();
        assert!(error.to_string().contains("workspace_members"), "{error}");
    }
}
