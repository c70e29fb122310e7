//! The open transport.

use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, OnceCell, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use transport_api::event::EventHub;
use transport_api::ledger::Ledger;
use transport_api::outbox::{Limit, Outbox};
use transport_api::reception::{Subscribed, reception};
use transport_api::{
    Capabilities, CloseReport, Error, ErrorKind, Event, Events, Host, Publisher, Qos, Result,
    Schema, Subscriber, TopicFilter, TopicName, Transport, TransportInfo,
};

use crate::capability::capabilities;
use crate::membership::Membership;
use crate::phase::Phase;
use crate::receiver::{Command, Entry, Receiver};
use crate::sender::{Outlet, Sender};
use crate::settings::Settings;
use crate::status::Status;
use crate::topic;
use crate::wire::Dialer;

/// Requests of handles that wait for a task at once.
const WAITING: usize = 64;

/// An open MQTT transport: two connections to one broker, one for publishing and one for
/// subscribing, so that neither waits for the other.
#[derive(Debug)]
pub struct Mqtt {
    info: TransportInfo,
    capabilities: Capabilities,
    hub: Arc<EventHub>,
    outlets: mpsc::Sender<Outlet>,
    commands: mpsc::Sender<Command>,
    dropped: Arc<Notify>,
    limit: Limit,
    phase: watch::Sender<Phase>,
    tasks: Mutex<Option<Tasks>>,
    report: OnceCell<CloseReport>,
}

#[derive(Debug)]
struct Tasks {
    sender: JoinHandle<CloseReport>,
    receiver: JoinHandle<()>,
    host: Option<Box<dyn Host>>,
}

impl Mqtt {
    /// Connects. `host` is the embedded broker that ends with this transport.
    pub(crate) async fn open(settings: Settings, host: Option<Box<dyn Host>>) -> Result<Self> {
        let hub = Arc::new(EventHub::default());
        let status = Arc::new(Status::new(Arc::clone(&hub)));
        let limit = Limit::new(settings.max_payload);
        let mut info = TransportInfo {
            scheme: if settings.tls.is_some() {
                "mqtts"
            } else {
                "mqtt"
            }
            .to_owned(),
            implementation: IMPLEMENTATION.to_owned(),
            endpoint: settings.endpoint(),
            settings: settings.shown(),
        };
        let dialer = Arc::new(Dialer::new(settings)?);
        let (phase, watched) = watch::channel(Phase::Open);
        let (outlets, outlets_rx) = mpsc::channel(WAITING);
        let (commands, commands_rx) = mpsc::channel(WAITING);
        let dropped = Arc::new(Notify::new());
        let withdrawn = Arc::new(Notify::new());
        let sender = Sender::new(
            Arc::clone(&dialer),
            Arc::clone(&status),
            outlets_rx,
            watched.clone(),
            limit.clone(),
            Arc::clone(&withdrawn),
        );
        let receiver = Receiver::new(
            Arc::clone(&dialer),
            status,
            commands_rx,
            Arc::clone(&dropped),
            watched,
            withdrawn,
            &hub,
        );
        // The receiving side first: whoever sees this peer announced can be heard by it.
        let (ready, received) = oneshot::channel();
        let mut receiver = tokio::spawn(receiver.run(ready));
        if let Err(error) = received.await.unwrap_or_else(|_| Err(ended())) {
            let _ = (&mut receiver).await;
            return Err(error);
        }
        let (ready, greeted) = oneshot::channel();
        let sender = tokio::spawn(sender.run(ready));
        let greeting = match greeted.await.unwrap_or_else(|_| Err(ended())) {
            Ok(greeting) => greeting,
            Err(error) => {
                phase.send_replace(Phase::Abandoned);
                let _ = sender.await;
                let _ = receiver.await;
                return Err(error);
            }
        };
        let capabilities = capabilities(&dialer.settings, &greeting);
        let shown = [
            ("window", greeting.window.to_string()),
            (
                "broker_max_packet",
                greeting
                    .max_packet
                    .map_or("none announced".to_owned(), |it| format!("{it} B")),
            ),
        ];
        let shown = shown.map(|(key, value)| (key.to_owned(), value));
        info.settings.extend(shown);
        Ok(Self {
            info,
            capabilities,
            hub,
            outlets,
            commands,
            dropped,
            limit,
            phase,
            tasks: Mutex::new(Some(Tasks {
                sender,
                receiver,
                host,
            })),
            report: OnceCell::new(),
        })
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        match *self.phase.borrow() {
            Phase::Open => Ok(()),
            _ => Err(Error::closed(operation)),
        }
    }

    async fn shut(&self, deadline: Duration) -> CloseReport {
        let deadline = Instant::now() + deadline;
        let tasks = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(tasks) = tasks else {
            return CloseReport::default();
        };
        self.phase.send_replace(Phase::Closing(deadline));
        let report = tasks.sender.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task of the publishing connection failed");
            CloseReport::default()
        });
        self.phase.send_replace(Phase::Leaving(deadline));
        if let Err(error) = tasks.receiver.await {
            tracing::error!(%error, "the task of the subscribing connection failed");
        }
        if let Some(host) = tasks.host {
            host.stop().await;
        }
        if report.abandoned > 0 {
            tracing::warn!(
                abandoned = report.abandoned,
                "messages given up at the deadline"
            );
        }
        self.hub.emit(Event::Closed);
        report
    }
}

/// Name and version of the library below.
pub(crate) const IMPLEMENTATION: &str = "rumqttc 0.25.1";

fn ended() -> Error {
    Error::new(ErrorKind::Backend, "open", "the connection's task ended")
}

#[async_trait]
impl Transport for Mqtt {
    fn info(&self) -> &TransportInfo {
        &self.info
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        self.check_open("create publisher")?;
        let granted = self.capabilities.grant_publisher(&qos)?;
        let ledger = Ledger::new(topic.clone(), granted.scope, Arc::clone(&self.hub));
        let (outbox, consumer) = Outbox::new(granted, ledger, schema, self.limit.clone(), ());
        self.outlets
            .send(Outlet::new(consumer, topic.clone(), granted))
            .await
            .map_err(|_| Error::closed("create publisher"))?;
        Ok(Box::new(outbox))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        self.check_open("subscribe")?;
        if filter.is_wild() && !self.capabilities.wildcards {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "subscribe",
                format!("filter `{filter}`: the broker takes no wildcards"),
            ));
        }
        let granted = self.capabilities.grant_subscriber(&qos)?;
        let (inlet, reception) = reception(granted, schema);
        let gone = Arc::new(AtomicBool::new(false));
        // Made first: if this future is dropped, so is the subscription.
        let membership = Membership {
            gone: Arc::clone(&gone),
            dropped: Arc::clone(&self.dropped),
            commands: self.commands.clone(),
        };
        let subscriber = Subscribed::new(reception, membership);
        let entry = Entry {
            filter: topic::filter(filter),
            delivery: granted.delivery,
            inlet,
            gone,
        };
        let (reply, answer) = oneshot::channel();
        let closed = || Error::closed("subscribe");
        self.commands
            .send(Command::Subscribe(entry, reply))
            .await
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())??;
        Ok(Box::new(subscriber))
    }

    fn events(&self) -> Events {
        self.hub.subscribe()
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        *self.report.get_or_init(|| self.shut(deadline)).await
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Mqtt {
    /// Stops the tasks without waiting for them.
    fn drop(&mut self) {
        let tasks = self
            .tasks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if tasks.is_some() {
            self.phase.send_replace(Phase::Abandoned);
            self.hub.emit(Event::Closed);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn implementation_names_the_version_that_is_built_in() {
        let lock = include_str!("../../Cargo.lock");
        let (name, version) = super::IMPLEMENTATION.split_once(' ').unwrap();
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
        assert!(lock.contains(&entry), "{entry} is not in Cargo.lock");
    }
}
