//! What the tests share: two transports that meet, and waiting with a watchdog.

// Not every test program uses all of it; helpers of tests may unwrap as tests do.
#![allow(dead_code, clippy::unwrap_used)]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use transport_api::{
    Delivery, Event, Events, Host, Qos, Schema, Subscriber, TopicFilter, TopicName, Transport,
    TransportConfig, TransportFactory,
};
use transport_mqtt::Factory;

/// Long enough for any machine; a hang fails the test instead of blocking it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(WATCHDOG, future)
        .await
        .expect("finished in time")
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

pub(crate) fn opaque() -> Schema {
    Schema::opaque()
}

pub(crate) fn config(url: &str) -> TransportConfig {
    TransportConfig::parse(url).unwrap()
}

pub(crate) async fn open(config: &TransportConfig) -> Arc<dyn Transport> {
    within(Factory.open(config)).await.unwrap()
}

/// A subscriber whose queue never has to drop what a test sends.
pub(crate) async fn listen(
    transport: &Arc<dyn Transport>,
    topic: &TopicName,
    delivery: Delivery,
) -> Box<dyn Subscriber> {
    let qos = Qos {
        delivery,
        ..Qos::default().with_depth(1024)
    };
    let filter = TopicFilter::from(topic);
    within(transport.subscriber(&filter, &opaque(), qos))
        .await
        .unwrap()
}

/// Waits for an event.
pub(crate) async fn until(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    within(async {
        loop {
            let event = events.next().await.expect("the transport is open");
            if wanted(&event) {
                return event;
            }
        }
    })
    .await
}

/// Two transports at one embedded broker.
pub(crate) struct Pair {
    pub(crate) edge: Arc<dyn Transport>,
    pub(crate) vehicle: Arc<dyn Transport>,
    pub(crate) host: Option<Box<dyn Host>>,
}

pub(crate) async fn pair(url: &str) -> Pair {
    let meeting = within(Factory.meet(&config(url))).await.unwrap();
    Pair {
        edge: open(&meeting.first).await,
        vehicle: open(&meeting.second).await,
        host: meeting.host,
    }
}

impl Pair {
    pub(crate) async fn end(self) {
        for side in [&self.vehicle, &self.edge] {
            let report = within(side.close(Duration::from_secs(10))).await;
            assert_eq!(report.abandoned, 0);
        }
        if let Some(host) = self.host {
            within(host.stop()).await;
        }
    }
}
