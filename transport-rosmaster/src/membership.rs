//! How a subscription ends.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use transport_api::Result;

use crate::node::Node;
use crate::subscription::Subscription;

/// One subscriber of a topic.
pub(crate) struct Membership {
    pub(crate) node: Arc<Node>,
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) id: u64,
}

#[async_trait]
impl transport_api::reception::Subscription for Membership {
    async fn end(self) -> Result<()> {
        let (node, topic) = (Arc::clone(&self.node), self.subscription.topic.clone());
        drop(self);
        node.left(&topic).await
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.node.leave(&self.subscription, self.id);
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({})", self.subscription.topic)
    }
}
