//! Subscribers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc, oneshot};
use transport_api::reception::Reception;
use transport_api::{Granted, Result, Sample, Subscriber, SubscriberCounters};

use crate::receiver::Command;

/// The app's end of a subscription.
#[derive(Debug)]
pub(crate) struct MqttSubscriber {
    pub(crate) reception: Reception,
    pub(crate) gone: Arc<AtomicBool>,
    pub(crate) dropped: Arc<Notify>,
    pub(crate) commands: mpsc::Sender<Command>,
}

#[async_trait]
impl Subscriber for MqttSubscriber {
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
        let (reply, done) = oneshot::channel();
        let command = Command::Unsubscribe(Arc::clone(&self.gone), reply);
        // An error means that the transport is closed, and the subscription with it.
        if self.commands.send(command).await.is_ok() {
            let _ = done.await;
        }
        Ok(())
    }
}

impl Drop for MqttSubscriber {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
        self.dropped.notify_one();
    }
}
