//! Subscribers.

use std::fmt;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::runtime::Handle;
use transport_api::envelope::Decoder;
use transport_api::reception::{Arrived, Inlet, Reception};
use transport_api::{
    Capabilities, Granted, Result, Sample, Subscriber, SubscriberCounters, TopicFilter, TopicName,
};
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

use crate::barrier::off_worker;
use crate::payload;

/// A handle for the app.
pub(crate) struct ZenohSubscriber {
    reception: Reception,
    /// Taken when the subscription ends.
    declared: Option<zenoh::pubsub::Subscriber<()>>,
    runtime: Handle,
}

impl fmt::Debug for ZenohSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZenohSubscriber")
            .field(&self.reception)
            .finish()
    }
}

impl ZenohSubscriber {
    pub(crate) async fn declare(
        session: &Session,
        filter: &TopicFilter,
        capabilities: Capabilities,
        (inlet, reception): (Inlet, Reception),
    ) -> Result<Self> {
        let session = session.clone();
        let key = filter.as_str().to_owned();
        let mut intake = Intake {
            inlet,
            decoder: Decoder::default(),
            topic: filter.as_name(),
            capabilities,
        };
        let declared = off_worker("subscribe", move || {
            session
                .declare_subscriber(key)
                .callback_mut(move |sample| intake.take(&sample))
                .wait()
        })
        .await?;
        Ok(Self {
            reception,
            declared: Some(declared),
            runtime: Handle::current(),
        })
    }
}

impl Drop for ZenohSubscriber {
    fn drop(&mut self) {
        self.reception.close();
        if let Some(declared) = self.declared.take() {
            // Undeclaring may wait for a congested connection.
            self.runtime.spawn_blocking(move || drop(declared));
        }
    }
}

#[async_trait]
impl Subscriber for ZenohSubscriber {
    fn granted(&self) -> Granted {
        self.reception.granted()
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Sample>>> {
        self.reception.poll_recv(cx)
    }

    fn counters(&self) -> SubscriberCounters {
        self.reception.counters()
    }

    async fn close(mut self: Box<Self>) -> Result<()> {
        match self.declared.take() {
            Some(declared) => off_worker("unsubscribe", move || declared.undeclare().wait()).await,
            None => Ok(()),
        }
    }
}

/// Where arrivals come in, on threads of the library; never blocks them.
struct Intake {
    inlet: Inlet,
    decoder: Decoder,
    /// The topic of the filter, or of the last arrival where the filter has wildcards.
    topic: Option<TopicName>,
    capabilities: Capabilities,
}

impl Intake {
    fn take(&mut self, sample: &zenoh::sample::Sample) {
        if sample.kind() != SampleKind::Put {
            return;
        }
        let key = sample.key_expr().as_str();
        match self.read(key, sample) {
            Ok(arrived) => {
                let _ = self.inlet.offer(arrived);
            }
            Err(error) => self.inlet.reject(&key, &error),
        }
    }

    fn read(&mut self, key: &str, sample: &zenoh::sample::Sample) -> Result<Arrived> {
        let topic = match &self.topic {
            Some(topic) if topic.as_str() == key => topic.clone(),
            _ => {
                let topic = TopicName::parse(key)?;
                self.topic = Some(topic.clone());
                topic
            }
        };
        self.capabilities.check_size(sample.payload().len())?;
        Ok(Arrived {
            topic,
            meta: payload::metadata(&mut self.decoder, sample.attachment())?,
            payload: payload::received(sample.payload()),
        })
    }
}

impl Drop for Intake {
    /// The library lets go of it when the subscription or the session ends.
    fn drop(&mut self) {
        self.inlet.close();
    }
}
