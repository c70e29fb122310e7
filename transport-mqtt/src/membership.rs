//! How a subscription ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc, oneshot};
use transport_api::Result;
use transport_api::reception::Subscription;

use crate::receiver::Command;

/// One subscriber among those of the receiver.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) gone: Arc<AtomicBool>,
    pub(crate) dropped: Arc<Notify>,
    pub(crate) commands: mpsc::Sender<Command>,
}

#[async_trait]
impl Subscription for Membership {
    async fn end(self) -> Result<()> {
        let (reply, done) = oneshot::channel();
        let command = Command::Unsubscribe(Arc::clone(&self.gone), reply);
        // An error means that the transport is closed, and the subscription with it.
        if self.commands.send(command).await.is_ok() {
            let _ = done.await;
        }
        Ok(())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
        self.dropped.notify_one();
    }
}
