//! The transport: what an app holds.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use transport_api::queue::{self, Producer};
use transport_api::reception::reception;
use transport_api::{
    Capabilities, CloseReport, Error, Event, Events, Publisher, Qos, Result, Schema, Subscriber,
    TopicFilter, TopicName, Transport, TransportInfo,
};

use crate::node::Node;
use crate::publisher::{self, Accepted, TcpPublisher};
use crate::subscriber::TcpSubscriber;
use crate::tally::Tally;

/// What each publisher leaves with the transport, for the time of closing.
#[derive(Debug)]
struct Account {
    queue: Producer<Accepted>,
    tally: Arc<Tally>,
}

/// An open transport over TCP.
#[derive(Debug)]
pub struct Tcp {
    node: Arc<Node>,
    info: TransportInfo,
    capabilities: Capabilities,
    accounts: std::sync::Mutex<Vec<Account>>,
    report: Mutex<Option<CloseReport>>,
}

impl Tcp {
    /// A transport around a node that listens or is connected.
    pub fn new(node: Arc<Node>, info: TransportInfo, capabilities: Capabilities) -> Self {
        Self {
            node,
            info,
            capabilities,
            accounts: std::sync::Mutex::default(),
            report: Mutex::default(),
        }
    }

    fn accounts(&self) -> std::sync::MutexGuard<'_, Vec<Account>> {
        self.accounts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl Transport for Tcp {
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
        if self.node.is_closed() {
            return Err(Error::closed("declare publisher"));
        }
        let granted = self.capabilities.grant_publisher(&qos)?;
        let (producer, consumer) = queue::bounded(granted.depth, granted.overflow);
        let tally = Arc::new(Tally::default());
        let run = publisher::run(Arc::clone(&self.node), topic.clone(), granted, consumer);
        self.node.tasks().spawn(run);
        let mut accounts = self.accounts();
        // Those of publishers that are gone and have nothing under way.
        accounts.retain(|account| Arc::strong_count(&account.tally) > 1);
        accounts.push(Account {
            queue: producer.clone(),
            tally: Arc::clone(&tally),
        });
        Ok(Box::new(TcpPublisher {
            node: Arc::clone(&self.node),
            topic: topic.clone(),
            schema: schema.id().cloned(),
            granted,
            capabilities: self.capabilities,
            queue: producer,
            tally,
        }))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        if self.node.is_closed() {
            return Err(Error::closed("declare subscriber"));
        }
        let granted = self.capabilities.grant_subscriber(&qos)?;
        let (inlet, reception) = reception(granted, schema);
        let number = self.node.subscribe(filter, inlet).await?;
        Ok(Box::new(TcpSubscriber {
            node: Arc::clone(&self.node),
            number,
            reception,
        }))
    }

    fn events(&self) -> Events {
        self.node.events.subscribe()
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        let deadline = Instant::now() + deadline;
        let mut report = self.report.lock().await;
        if let Some(report) = *report {
            return report;
        }
        self.node.shut();
        let accounts = std::mem::take(&mut *self.accounts());
        let lost = || {
            accounts
                .iter()
                .map(|a| a.tally.counters().lost)
                .sum::<u64>()
        };
        let before = lost();
        accounts.iter().for_each(|account| account.queue.close());
        let draining = async {
            for account in &accounts {
                account.tally.flush().await;
            }
            self.node.finish_connections();
            self.node.disconnected().await;
        };
        // What is not through by then is counted as lost below.
        let _ = timeout_at(deadline, draining).await;
        self.node.abort();
        self.node.ended().await;
        self.node.events.emit(Event::Closed);
        let flushed = accounts.iter().map(|a| a.tally.counters().written).sum();
        let closed = CloseReport {
            flushed,
            abandoned: lost() - before,
        };
        *report = Some(closed);
        closed
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.node.shut();
        self.node.abort();
    }
}
