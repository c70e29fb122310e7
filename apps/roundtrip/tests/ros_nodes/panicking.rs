//! The ROS transport with publishers that panic in the threads that vehicle and edge have of their own.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use transport_api::{
    About, Capabilities, CloseReport, DeliveryToken, Events, Granted, Meeting, Message, Publisher,
    PublisherCounters, Qos, Refused, Registry, Result, Schema, Stage, Subscriber, TopicFilter,
    TopicName, Transport, TransportConfig, TransportFactory, TransportInfo,
};

pub(crate) const SCHEME: &str = "panicking";

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(Factory).unwrap();
    registry
}

struct Factory;

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &[SCHEME]
    }

    fn about(&self) -> About {
        About {
            name: "Panicking",
            implementation: "the ROS transport".to_owned(),
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

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        let url = config.expose().replace(SCHEME, "rosmaster");
        let config = TransportConfig::parse(&url)?.with_peer(config.peer().clone());
        let inner = backends::builtin().open(&config).await?;
        Ok(Arc::new(Panicking(inner)))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        Ok(Meeting::external(config))
    }
}

#[derive(Debug)]
struct Panicking<T: ?Sized>(T);

#[async_trait]
impl Transport for Panicking<Arc<dyn Transport>> {
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
        let inner = self.0.publisher(topic, schema, qos).await?;
        Ok(Box::new(Panicking(inner)))
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

    async fn close(&self, deadline: Duration) -> CloseReport {
        self.0.close(deadline).await
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[async_trait]
impl Publisher for Panicking<Box<dyn Publisher>> {
    fn granted(&self) -> Granted {
        self.0.granted()
    }

    fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused> {
        let thread = std::thread::current();
        if matches!(thread.name(), Some("edge" | "schedule")) {
            panic!("this publisher panics");
        }
        self.0.try_publish(message)
    }

    async fn ready(&self) -> Result<()> {
        self.0.ready().await
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        self.0.flush(until).await
    }

    fn counters(&self) -> PublisherCounters {
        self.0.counters()
    }
}
