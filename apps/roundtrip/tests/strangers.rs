//! A child that panics, reported by a run. The transport that panics is a stranger's, so this test is
//! a program of its own: the run starts this file again as its children.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::process::{Command, ExitCode};
use std::sync::Arc;

use async_trait::async_trait;
use transport_api::{
    About, Capabilities, Meeting, Registry, Result, Transport, TransportConfig, TransportFactory,
};

/// Opens nothing: it panics.
struct Panicking;

#[async_trait]
impl TransportFactory for Panicking {
    fn schemes(&self) -> &'static [&'static str] {
        &["panicking"]
    }

    fn about(&self) -> About {
        About {
            name: "Panicking",
            implementation: "none".to_owned(),
            summary: "for a test",
            default_url: "panicking://here",
            examples: &[],
            capabilities: Capabilities::default(),
            options: &[],
        }
    }

    async fn open(&self, _: &TransportConfig) -> Result<Arc<dyn Transport>> {
        panic!("this transport panics when it is opened");
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        Ok(Meeting::external(config))
    }
}

fn main() -> ExitCode {
    let mut registry = Registry::default();
    registry.register(Panicking).unwrap();
    let ours = ["run", "host", "edge", "vehicle"];
    if std::env::args()
        .nth(1)
        .is_some_and(|name| ours.contains(&&*name))
    {
        return roundtrip::main_with(registry);
    }
    println!("test a_panic_in_a_child_is_reported");
    a_panic_in_a_child_is_reported();
    ExitCode::SUCCESS
}

fn a_panic_in_a_child_is_reported() {
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["run", "--samples=1", "--results"])
        .arg(results.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("panicking: edge ended unexpectedly with exit code 101; its log is"),
        "{said}"
    );
    let folder = std::fs::read_dir(results.path()).unwrap().next().unwrap();
    let summary = folder.unwrap().path().join("summary.json");
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
    let failure = summary["arms"][0]["failure"].as_str().unwrap();
    assert!(failure.contains("exit code 101"), "{failure}");
}
