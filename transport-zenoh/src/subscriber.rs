//! Subscribers.

use async_trait::async_trait;
use tokio::runtime::Handle;
use transport_api::envelope::Decoder;
use transport_api::reception::{Arrived, Inlet, Subscription};
use transport_api::{Capabilities, Result, TopicFilter, TopicName};
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

use crate::barrier::off_worker;
use crate::payload;

/// A subscription at the library.
#[derive(Debug)]
pub(crate) struct Declared {
    /// Taken when it ends.
    subscriber: Option<zenoh::pubsub::Subscriber<()>>,
    runtime: Handle,
}

impl Declared {
    pub(crate) async fn new(
        session: &Session,
        filter: &TopicFilter,
        capabilities: Capabilities,
        inlet: Inlet,
    ) -> Result<Self> {
        let session = session.clone();
        let key = filter.as_str().to_owned();
        let mut intake = Intake {
            inlet,
            decoder: Decoder::default(),
            topic: filter.as_name(),
            capabilities,
        };
        let subscriber = off_worker("subscribe", move || {
            session
                .declare_subscriber(key)
                .callback_mut(move |sample| intake.take(&sample))
                .wait()
        })
        .await?;
        Ok(Self {
            subscriber: Some(subscriber),
            runtime: Handle::current(),
        })
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        if let Some(subscriber) = self.subscriber.take() {
            // Undeclaring may wait for a congested connection.
            self.runtime.spawn_blocking(move || drop(subscriber));
        }
    }
}

#[async_trait]
impl Subscription for Declared {
    async fn end(mut self) -> Result<()> {
        match self.subscriber.take() {
            Some(subscriber) => {
                off_worker("unsubscribe", move || subscriber.undeclare().wait()).await
            }
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
