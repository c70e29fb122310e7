//! Subscribers.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use transport_api::reception::Reception;
use transport_api::{Granted, Result, Sample, Subscriber, SubscriberCounters};

use crate::node::Node;

/// Receives what its filter selects.
pub struct TcpSubscriber {
    /// The transport.
    pub node: Arc<Node>,
    /// The subscription.
    pub number: u64,
    /// Its queue.
    pub reception: Reception,
}

#[async_trait]
impl Subscriber for TcpSubscriber {
    fn granted(&self) -> Granted {
        self.reception.granted()
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        self.reception.poll_recv(cx)
    }

    fn counters(&self) -> SubscriberCounters {
        self.reception.counters()
    }

    async fn close(self: Box<Self>) -> Result<()> {
        // Dropping it is all: nothing arrives for a subscription that is removed here.
        Ok(())
    }
}

impl Drop for TcpSubscriber {
    fn drop(&mut self) {
        self.node.unsubscribe(self.number);
    }
}

impl fmt::Debug for TcpSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpSubscriber({}, {:?})", self.number, self.reception)
    }
}
