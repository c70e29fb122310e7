//! The subscriber handle.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use transport_api::reception::Reception;
use transport_api::{Granted, Result, Sample, Subscriber, SubscriberCounters};

use crate::node::Node;
use crate::subscription::Subscription;

/// Receives one topic.
pub(crate) struct TopicSubscriber {
    pub(crate) node: Arc<Node>,
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) id: u64,
    pub(crate) reception: Reception,
}

#[async_trait]
impl Subscriber for TopicSubscriber {
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
        let (node, topic) = (Arc::clone(&self.node), self.subscription.topic.clone());
        drop(self);
        node.left(&topic).await
    }
}

impl Drop for TopicSubscriber {
    fn drop(&mut self) {
        self.node.leave(&self.subscription, self.id);
    }
}

impl fmt::Debug for TopicSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicSubscriber({})", self.subscription.topic)
    }
}
