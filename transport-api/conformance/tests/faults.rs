//! The suite finds faults: transports with one fault each fail the check that is about it, and pass
//! without the fault.
//!
//! The program runs itself again with the suite as its task, so that it sees what a user of the suite
//! sees.

#![allow(clippy::unwrap_used, reason = "a test")]

mod linked;

use std::any::Any;
use std::env;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use transport_api::{
    About, Capabilities, CloseReport, DeliveryToken, Error, ErrorKind, Events, Granted, Meeting,
    Message, Metadata, Publisher, PublisherCounters, Qos, Refused, Result, Sample, Schema, Stage,
    Subscriber, SubscriberCounters, TopicFilter, TopicName, Transport, TransportConfig,
    TransportFactory, TransportInfo, local,
};
use transport_conformance::{Fixture, LinkControl, ServerControl, Suite, Unavailable};

/// Says in the child which fault the transport has.
const FAULT: &str = "CONFORMANCE_TEST_FAULT";

/// Each fault with a check that must find it, of the fixture `faulty` unless another is named.
const FAULTS: &[(&str, &str)] = &[
    ("loses the first message", "first_message_is_delivered"),
    ("loses every tenth message", "at_least_once_delivers_all"),
    ("sends twice", "exactly_once_delivers_each_once"),
    ("damages payloads", "delivers_payload_unchanged_64k"),
    ("loses metadata", "metadata_survives"),
    (
        "returns another message",
        "publish_after_close_is_closed_error",
    ),
    ("loses acknowledgements", "token_resolves_after_ack"),
    ("counts nothing", "counters_add_up"),
    ("loses samples on cancelled reads", "recv_is_cancel_safe"),
    ("claims priorities", "priority_is_granted"),
    (
        "does not honour priorities",
        "linked::higher_priority_goes_first",
    ),
    ("has metadata nevertheless", "bare::metadata_is_absent"),
    (
        "compares schemas nevertheless",
        "bare::schema_mismatch_is_not_reported",
    ),
    ("refuses late", "oversize_is_refused_with_message_returned"),
    ("hides options", "every_documented_option_is_known"),
    ("is silent about closing", "events_end_after_closed"),
    ("panics", "order_per_publisher"),
    (
        "counts evictions as progress",
        "linked::flush_waits_for_what_was_accepted_before",
    ),
    ("does not notice silence", "linked::silent_link_is_noticed"),
];

fn fault() -> String {
    env::var(FAULT).unwrap_or_default()
}

struct Faulty;

#[async_trait]
impl Fixture for Faulty {
    const NAME: &'static str = "faulty";

    fn factory() -> impl TransportFactory {
        Factory {
            inner: local::Factory::default(),
            bare: false,
        }
    }

    async fn start() -> Result<Self, Unavailable> {
        match fault().as_str() {
            "is not installed" => Err(Unavailable::new("nothing here; install it somehow")),
            _ => Ok(Self),
        }
    }

    fn config(&self, _peer: &str) -> TransportConfig {
        TransportConfig::parse("local:faults").unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        None
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {}
}

/// The same without metadata and comparison of schemas.
struct Bare;

#[async_trait]
impl Fixture for Bare {
    const NAME: &'static str = "bare";

    fn factory() -> impl TransportFactory {
        Factory {
            inner: local::Factory::default(),
            bare: true,
        }
    }

    async fn start() -> Result<Self, Unavailable> {
        Faulty::start().await.map(|_| Self)
    }

    fn config(&self, peer: &str) -> TransportConfig {
        Faulty.config(peer)
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        None
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {}
}

/// The in-process transport with a fault.
struct Factory {
    inner: local::Factory,
    bare: bool,
}

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        self.inner.schemes()
    }

    fn about(&self) -> About {
        const HIDDEN: transport_api::OptionHelp = transport_api::OptionHelp {
            key: "there_is_no_such_option",
            default: "1",
            help: "none",
        };
        let mut about = self.inner.about();
        if fault() == "hides options" {
            about.options = &[HIDDEN];
        }
        about
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        self.inner.check(config)
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(FaultyTransport {
            inner: self.inner.open(config).await?,
            metadata: !self.bare || fault() == "has metadata nevertheless",
            schemas: !self.bare || fault() == "compares schemas nevertheless",
            bare: self.bare,
        }))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        self.inner.meet(config).await
    }
}

#[derive(Debug)]
struct FaultyTransport {
    inner: Arc<dyn Transport>,
    /// Whether metadata and the schemas of handles are passed on.
    metadata: bool,
    schemas: bool,
    /// Whether it says that neither is.
    bare: bool,
}

impl FaultyTransport {
    fn schema(&self, schema: &Schema) -> Schema {
        match self.schemas {
            true => schema.clone(),
            false => Schema::opaque(),
        }
    }
}

#[async_trait]
impl Transport for FaultyTransport {
    fn info(&self) -> &TransportInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.metadata &= !self.bare;
        capabilities.schema_check &= !self.bare;
        capabilities.priority |= fault() == "claims priorities";
        capabilities
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(FaultyPublisher {
            inner: self
                .inner
                .publisher(topic, &self.schema(schema), qos)
                .await?,
            metadata: self.metadata,
            count: AtomicU64::new(0),
        }))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        let schema = self.schema(schema);
        let inner = self.inner.subscriber(filter, &schema, qos).await?;
        Ok(Box::new(FaultySubscriber { inner, looks: 0 }))
    }

    fn events(&self) -> Events {
        match fault().as_str() {
            "is silent about closing" => transport_api::event::EventHub::default().subscribe(),
            _ => self.inner.events(),
        }
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        self.inner.close(deadline).await
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct FaultyPublisher {
    inner: Box<dyn Publisher>,
    metadata: bool,
    count: AtomicU64,
}

#[async_trait]
impl Publisher for FaultyPublisher {
    fn granted(&self) -> Granted {
        self.inner.granted()
    }

    fn try_publish(&self, mut message: Message) -> Result<DeliveryToken, Refused> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if !self.metadata {
            message.meta = Metadata::default();
        }
        let pretend = || Ok(DeliveryToken::settled(Ok(Stage::Acknowledged)));
        match fault().as_str() {
            "loses the first message" if count == 0 => return pretend(),
            "loses every tenth message" if count % 10 == 9 => return pretend(),
            "sends twice" => {
                // Another identity, or the receiving end would hold it back.
                let mut twin = message.clone();
                twin.meta.id = twin.meta.id.map(|mut id| {
                    id.source = !id.source;
                    id
                });
                drop(self.inner.try_publish(twin)?);
            }
            "damages payloads" if message.payload.len() > 1000 => {
                let mut bytes = message.payload.to_vec();
                bytes[999] ^= 1;
                message.payload = Bytes::from(bytes);
            }
            "loses metadata" => message.meta.correlation = None,
            "panics" if count == 500 => panic!("on purpose"),
            "refuses late" if message.payload.len() > 100_000 => return pretend(),
            _ => {}
        }
        let outcome = self.inner.try_publish(message);
        match (fault().as_str(), outcome) {
            ("returns another message", Err(Refused { why, .. })) => {
                let message = Message::new("another");
                Err(Refused { message, why })
            }
            ("loses acknowledgements", Ok(_)) => {
                let text = "on purpose";
                let error = Error::new(ErrorKind::Disconnected, "deliver", text);
                Ok(DeliveryToken::settled(Err(error)))
            }
            (_, outcome) => outcome,
        }
    }

    async fn ready(&self) -> Result<()> {
        self.inner.ready().await
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        self.inner.flush(until).await
    }

    fn counters(&self) -> PublisherCounters {
        match fault().as_str() {
            "counts nothing" => PublisherCounters::default(),
            _ => self.inner.counters(),
        }
    }
}

#[derive(Debug)]
struct FaultySubscriber {
    inner: Box<dyn Subscriber>,
    looks: u64,
}

#[async_trait]
impl Subscriber for FaultySubscriber {
    fn granted(&self) -> Granted {
        self.inner.granted()
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        let sample = self.inner.poll_recv(cx);
        self.looks += 1;
        if fault() == "loses samples on cancelled reads" && sample.is_ready() && self.looks == 50 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        sample
    }

    fn counters(&self) -> SubscriberCounters {
        self.inner.counters()
    }

    async fn close(self: Box<Self>) -> Result<()> {
        self.inner.close().await
    }
}

/// Runs one check, or all, with a fault; returns whether it passed, and what was printed.
fn run(fault: &str, filter: &[&str], require: &str) -> (bool, String) {
    // A fault may show as a wait in vain; a good transport gets all the time it needs.
    let patience = if fault == "none" { "30" } else { "2" };
    let output = Command::new(env::current_exe().unwrap())
        .args(filter)
        .env(FAULT, fault)
        .env("CONFORMANCE_REQUIRE", require)
        .env("CONFORMANCE_PATIENCE", patience)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), printed)
}

fn main() -> ExitCode {
    if env::var_os(FAULT).is_some() {
        let mut suite = Suite::default();
        suite.add::<Faulty>();
        suite.add::<Bare>();
        suite.add::<linked::Linked>();
        return suite.run();
    }
    for (fault, check) in FAULTS {
        let name = match check.contains("::") {
            true => (*check).to_owned(),
            false => format!("faulty::{check}"),
        };
        let filter = ["--exact", name.as_str()];
        let (passed, printed) = run("none", &filter, "");
        let ran = printed.contains(" 1 passed") || fault.contains("priorities");
        assert!(
            passed && ran,
            "without a fault {check} should pass: {printed}"
        );
        let (passed, printed) = run(fault, &filter, "");
        assert!(
            !passed,
            "{check} should fail for one that {fault}: {printed}"
        );
        println!("{check} finds a transport that {fault}");
    }
    // What is not installed is shown and ignored, or fails where everything is required.
    let (passed, printed) = run("is not installed", &[], "");
    let shown = printed.contains("faulty::available [nothing here; install it somehow]");
    assert!(
        passed && shown && printed.contains(" 3 ignored"),
        "{printed}"
    );
    let (passed, printed) = run("is not installed", &[], "all");
    assert!(!passed && printed.contains(" 3 failed"), "{printed}");
    // A fixture that could give control and does not is an unmet need, one that says why it cannot is
    // none, and neither is a capability that is not offered.
    let unmet = [
        (
            "faulty::stalled_link_fills",
            "[the fixture gives no control over its link]",
        ),
        (
            "faulty::server_restart_keeps",
            "[the fixture gives no control over its server]",
        ),
    ];
    for (check, reason) in unmet {
        let (passed, printed) = run("none", &[check], "");
        let shown = printed.contains(reason) && printed.contains(" 1 ignored");
        assert!(passed && shown, "{printed}");
        let (passed, printed) = run("none", &[check], "all");
        assert!(!passed && printed.contains(" 1 failed"), "{printed}");
    }
    let pointless = [
        (
            "linked::server_restart_keeps",
            "[there is no server: all peers share one process]",
        ),
        (
            "faulty::higher_priority_goes_first",
            "[priority is not offered]",
        ),
    ];
    for (check, reason) in pointless {
        let (passed, printed) = run("none", &[check], "all");
        let shown = printed.contains(reason) && printed.contains(" 1 ignored");
        assert!(passed && shown, "{printed}");
    }
    println!("missing control fails where all is required; what there is not never does");
    println!("a fixture that is not available is ignored, or fails where all is required");
    ExitCode::SUCCESS
}
