//! A transport with a link: the in-process one behind a path that can be stalled.

use std::any::Any;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use transport_api::event::EventHub;
use transport_api::ledger::Ledger;
use transport_api::outbox::{Limit, Outbox};
use transport_api::{
    About, AckScope, Capabilities, CloseReport, DeliveryToken, Error, ErrorKind, Event, Events,
    Granted, Meeting, Message, Publisher, PublisherCounters, PublisherExt, Qos, Refused, Result,
    Schema, Stage, Subscriber, TopicFilter, TopicName, Transport, TransportConfig,
    TransportFactory, TransportInfo, local,
};
use transport_conformance::{Fixture, LinkControl, ServerControl, Unavailable};

use crate::fault;

/// Whether the path of the peer `second` passes nothing.
static STALLED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

pub(crate) struct Linked;

#[async_trait]
impl LinkControl for Linked {
    async fn cut(&self, _peer: &str) {
        STALLED.send_replace(true);
    }

    async fn stall(&self, _peer: &str) {
        STALLED.send_replace(true);
    }

    async fn heal(&self, _peer: &str) {
        STALLED.send_replace(false);
    }
}

#[async_trait]
impl Fixture for Linked {
    const NAME: &'static str = "linked";

    const NO_SERVER: Option<&'static str> = Some("all peers share one process");

    const SILENCE: Duration = Duration::from_secs(1);

    fn factory() -> impl TransportFactory {
        Factory(local::Factory::default())
    }

    async fn start() -> Result<Self, Unavailable> {
        match fault().as_str() {
            "is not installed" => Err(Unavailable::new("nothing here either")),
            _ => Ok(Self),
        }
    }

    fn config(&self, _peer: &str) -> TransportConfig {
        TransportConfig::parse("local:linked").unwrap()
    }

    fn link(&self) -> Option<&dyn LinkControl> {
        Some(self)
    }

    fn server(&self) -> Option<&dyn ServerControl> {
        None
    }

    async fn stop(self) {
        STALLED.send_replace(false);
    }
}

struct Factory(local::Factory);

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        self.0.schemes()
    }

    fn about(&self) -> About {
        self.0.about()
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        self.0.check(config)
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        let events = Arc::new(EventHub::default());
        events.emit(Event::Connected);
        if config.peer().as_str() == "second" {
            tokio::spawn(follow(Arc::clone(&events)));
        }
        Ok(Arc::new(Behind {
            inner: self.0.open(config).await?,
            events,
        }))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        self.0.meet(config).await
    }
}

/// Tells of the path.
async fn follow(events: Arc<EventHub>) {
    let mut stalled = STALLED.subscribe();
    loop {
        let _ = stalled.wait_for(|stalled| *stalled).await;
        if fault() != "does not notice silence" {
            let error = Error::new(ErrorKind::Disconnected, "receive", "silence");
            let cause = Arc::new(error);
            events.emit(Event::Disconnected { cause });
        }
        let _ = stalled.wait_for(|stalled| !*stalled).await;
        events.emit(Event::Connected);
    }
}

#[derive(Debug)]
struct Behind {
    inner: Arc<dyn Transport>,
    events: Arc<EventHub>,
}

#[async_trait]
impl Transport for Behind {
    fn info(&self) -> &TransportInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            at_least_once: None,
            exactly_once: None,
            priority: fault() == "does not honour priorities",
            ..self.inner.capabilities()
        }
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let granted = self.capabilities().grant_publisher(&qos)?;
        let inner = self.inner.publisher(topic, schema, qos).await?;
        let events = Arc::clone(&self.events);
        let ledger = Ledger::new(topic.clone(), AckScope::Nothing, events);
        let limit = Limit::new(usize::MAX);
        let (outbox, mut queue) = Outbox::new(granted, ledger, schema, limit, ());
        tokio::spawn(async move {
            let mut stalled = STALLED.subscribe();
            while let Some(mut outgoing) = queue.pop().await {
                let _ = stalled.wait_for(|stalled| !*stalled).await;
                if granted.priority > Some(4) {
                    // With the fault: what is important comes last.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let bytes = outgoing.message.payload.len();
                drop(inner.publish(outgoing.message).await);
                outgoing.entry.written(bytes);
            }
        });
        Ok(Box::new(Flushed(outbox)))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        self.inner.subscriber(filter, schema, qos).await
    }

    fn events(&self) -> Events {
        self.events.subscribe()
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        let report = self.inner.close(deadline).await;
        self.events.emit(Event::Closed);
        report
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A publisher whose fault is in its flush.
#[derive(Debug)]
struct Flushed(Outbox);

#[async_trait]
impl Publisher for Flushed {
    fn granted(&self) -> Granted {
        self.0.granted()
    }

    fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused> {
        self.0.try_publish(message)
    }

    async fn ready(&self) -> Result<()> {
        self.0.ready().await
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        if fault() != "counts evictions as progress" {
            return self.0.flush(until).await;
        }
        let target = self.counters().accepted;
        loop {
            let counters = self.counters();
            if counters.written + counters.dropped + counters.lost >= target {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn counters(&self) -> PublisherCounters {
        self.0.counters()
    }
}
