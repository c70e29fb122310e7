//! The transport: what an app holds.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use transport_api::ledger::{Closing, Ledger};
use transport_api::outbox::{Limit, Outbox, Outgoing};
use transport_api::queue::Producer;
use transport_api::reception::{Subscribed, Subscription, reception};
use transport_api::{
    Capabilities, CloseReport, Error, Event, Events, Publisher, Qos, Result, Schema, Subscriber,
    TopicFilter, TopicName, Transport, TransportInfo,
};

use crate::node::Node;

/// What each publisher leaves with the transport, for the time of closing.
#[derive(Debug)]
struct Account {
    queue: Producer<Outgoing>,
    ledger: Arc<Ledger>,
}

/// A subscription of this peer. Nothing arrives for it once it is removed here.
#[derive(Debug)]
struct Membership {
    node: Arc<Node>,
    number: u64,
}

impl Subscription for Membership {}

impl Drop for Membership {
    fn drop(&mut self) {
        self.node.unsubscribe(self.number);
    }
}

/// An open transport over TCP.
#[derive(Debug)]
pub struct Tcp {
    node: Arc<Node>,
    info: TransportInfo,
    capabilities: Capabilities,
    limit: Limit,
    accounts: std::sync::Mutex<Vec<Account>>,
    report: Mutex<Option<CloseReport>>,
}

impl Tcp {
    /// A transport around a node that listens or is connected.
    pub fn new(node: Arc<Node>, info: TransportInfo, capabilities: Capabilities) -> Self {
        Self {
            limit: Limit::new(node.limit),
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
        let events = Arc::clone(&self.node.events);
        let ledger = Ledger::new(topic.clone(), granted.scope, events);
        let limit = self.limit.clone();
        let (outbox, mut queue) = Outbox::new(granted, Arc::clone(&ledger), schema, limit, ());
        let (node, topic) = (Arc::clone(&self.node), topic.clone());
        self.node.tasks().spawn(async move {
            while let Some(outgoing) = queue.pop().await {
                node.dispatch(&topic, outgoing, granted.overflow).await;
            }
        });
        let mut accounts = self.accounts();
        // Those of publishers that are gone and have nothing under way.
        accounts.retain(|account| Arc::strong_count(&account.ledger) > 1);
        accounts.push(Account {
            queue: outbox.queue(),
            ledger,
        });
        Ok(Box::new(outbox))
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
        let node = Arc::clone(&self.node);
        Ok(Box::new(Subscribed::new(
            reception,
            Membership { node, number },
        )))
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
        accounts.iter().for_each(|account| account.queue.close());
        let ledgers = accounts.iter().map(|account| Arc::clone(&account.ledger));
        let closing = Closing::begin(ledgers);
        let draining = async {
            closing.settled().await;
            self.node.finish_connections();
            self.node.disconnected().await;
        };
        // What is not through by then is given up below.
        let _ = timeout_at(deadline, draining).await;
        self.node.abort();
        self.node.ended().await;
        let closed = closing.report();
        self.node.events.emit(Event::Closed);
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
