//! What a run makes of transports that misbehave. They are strangers', so this test is a program of
//! its own: the run starts this file again as its children.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod process;

use std::any::Any;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use process::{Process, arms};
use transport_api::{
    About, Capabilities, CloseReport, Events, Meeting, Publisher, Qos, Registry, Result, Schema,
    Subscriber, TopicFilter, TopicName, Transport, TransportConfig, TransportFactory,
    TransportInfo, local,
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

    fn check(&self, _: &TransportConfig) -> Result<()> {
        Ok(())
    }

    async fn open(&self, _: &TransportConfig) -> Result<Arc<dyn Transport>> {
        panic!("this transport panics when it is opened");
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        Ok(Meeting::external(config))
    }
}

/// The transport in process, but for its end: a close takes for ever, and its thread with it.
#[derive(Default)]
struct Clinging(local::Factory);

#[async_trait]
impl TransportFactory for Clinging {
    fn schemes(&self) -> &'static [&'static str] {
        &["clinging"]
    }

    fn about(&self) -> About {
        About {
            name: "Clinging",
            default_url: "clinging:here",
            examples: &[],
            ..self.0.about()
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        self.0.check(config)
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(Clings(self.0.open(config).await?)))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        self.0.meet(config).await
    }
}

#[derive(Debug)]
struct Clings(Arc<dyn Transport>);

#[async_trait]
impl Transport for Clings {
    fn info(&self) -> &TransportInfo {
        self.0.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        self.0.publisher(topic, schema, qos).await
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        self.0.subscriber(filter, schema, qos).await
    }

    fn events(&self) -> Events {
        self.0.events()
    }

    async fn close(&self, _: Duration) -> CloseReport {
        loop {
            std::thread::park();
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn main() -> ExitCode {
    let mut registry = Registry::default();
    registry.register(Panicking).unwrap();
    registry.register(Clinging::default()).unwrap();
    let ours = ["run", "host", "edge", "vehicle"];
    if std::env::args()
        .nth(1)
        .is_some_and(|name| ours.contains(&&*name))
    {
        return roundtrip::main_with(registry);
    }
    println!("test a_panic_in_a_child_is_reported");
    a_panic_in_a_child_is_reported();
    println!("test a_close_that_hangs_takes_nothing_along");
    a_close_that_hangs_takes_nothing_along();
    ExitCode::SUCCESS
}

/// A run of this file over `transport`.
fn run(transport: &str, samples: u32, results: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "run",
            "--warmup=0",
            "--queue=10",
            "--source=synthetic:1?turns=1",
        ])
        .args(["--detector=fixed-delay:1ms", "--transport", transport])
        .arg(format!("--samples={samples}"))
        .arg("--results")
        .arg(results);
    command
}

fn a_close_that_hangs_takes_nothing_along() {
    let results = tempfile::tempdir().unwrap();
    let mut whole = Process::start(run("clinging:whole", 5, results.path()));
    assert_eq!(whole.code(), Some(0), "{}", whole.said);
    assert_eq!(arms(results.path())[0]["answered"], 5);

    let results = tempfile::tempdir().unwrap();
    let mut stopped = Process::start(run("clinging:stopped", 100_000, results.path()));
    stopped.says("clinging: measuring");
    stopped.send(Signal::SIGINT);
    assert_eq!(stopped.code(), Some(1), "{}", stopped.said);
    let arm = &arms(results.path())[0];
    assert!(arm["answered"].as_u64() > Some(0), "{arm:#}");
}

fn a_panic_in_a_child_is_reported() {
    let results = tempfile::tempdir().unwrap();
    let output = run("panicking://here", 1, results.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("panicking: edge ended unexpectedly with exit code 101; its log is"),
        "{said}"
    );
    let failure = arms(results.path())[0]["failure"].clone();
    assert!(
        failure.as_str().unwrap().contains("exit code 101"),
        "{failure}"
    );
}
