//! An end over the contract, used as the apps use it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use transport_api::{
    Message, MessageId, Metadata, Publisher, PublisherExt, Qos, Registry, Schema, Sequence,
    Subscriber, SubscriberExt, TopicFilter, TopicName, Transport, TransportConfig,
};

use crate::end::{Asker, Ready};
use crate::failure::{Failure, Result};
use crate::payload::answer;

/// The transports of this workspace and the template.
///
/// # Errors
/// Two transports share a scheme.
pub fn registry() -> Result<Registry> {
    let mut registry = backends::builtin();
    registry.register(transport_template::Factory)?;
    Ok(registry)
}

/// A runtime like that of the program.
///
/// # Errors
/// The system gives no threads.
pub fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new("start the async runtime", error))
}

/// An open transport with a publisher and an active subscriber.
struct Handles {
    transport: Arc<dyn Transport>,
    publisher: Box<dyn Publisher>,
    subscriber: Box<dyn Subscriber>,
}

impl Handles {
    async fn open(url: &str, publish: &str, subscribe: &str) -> Result<Self> {
        let transport = registry()?.open(&TransportConfig::parse(url)?).await?;
        // Opaque bytes under a name, as the apps have names; ROS nodes of any type would match.
        let schema = Schema::new("benches/Bytes", [0x42; 16], "uint8[] bytes");
        let filter = TopicFilter::parse(subscribe)?;
        let subscriber = transport
            .subscriber(&filter, &schema, Qos::default())
            .await?;
        let publisher = transport
            .publisher(&TopicName::parse(publish)?, &schema, Qos::default())
            .await?;
        Ok(Self {
            transport,
            publisher,
            subscriber,
        })
    }
}

/// The asking end.
pub struct Over {
    runtime: Runtime,
    handles: Handles,
    ids: Sequence,
    asked: Option<MessageId>,
}

impl std::fmt::Debug for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Over")
            .field(&self.handles.transport)
            .finish()
    }
}

impl Over {
    /// Opens the transport of `url`.
    ///
    /// # Errors
    /// What the transport answers.
    pub fn open(url: &str, requests: &str, answers: &str) -> Result<Self> {
        let runtime = runtime()?;
        let handles = runtime.block_on(Handles::open(url, requests, answers))?;
        Ok(Self {
            runtime,
            handles,
            ids: Sequence::random(),
            asked: None,
        })
    }
}

impl Asker for Over {
    fn send(&mut self, payload: &Bytes) -> Result<()> {
        let id = self.ids.next_id();
        self.asked = Some(id);
        let message = Message::new(payload.clone()).with_id(id);
        match self.handles.publisher.try_publish(message) {
            // Whether it arrived is seen by the answer.
            Ok(_token) => Ok(()),
            Err(refused) => Err(Failure::Broken(format!("not taken: {:?}", refused.why))),
        }
    }

    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<usize>> {
        let asked = self.asked;
        let subscriber = &mut self.handles.subscriber;
        let answered = async {
            loop {
                let sample = subscriber
                    .recv()
                    .await
                    .ok_or_else(|| Failure::Broken("the subscriber ended".to_owned()))??;
                // Others answer a probe that was repeated.
                if sample.meta.correlation == asked {
                    return Ok(sample.payload.len());
                }
            }
        };
        match patience {
            None => self.runtime.block_on(answered).map(Some),
            Some(patience) => self
                .runtime
                .block_on(async { tokio::time::timeout(patience, answered).await })
                .ok()
                .transpose(),
        }
    }

    fn settings(&self) -> String {
        let info = self.handles.transport.info();
        let settings: Vec<_> = info
            .settings
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{}: {}", info.implementation, settings.join(", "))
    }
}

/// The answering end.
///
/// # Errors
/// What the transport answers.
pub fn echo(url: &str, requests: &str, answers: &str, ready: Ready<'_>) -> Result<()> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut handles = Handles::open(url, answers, requests).await?;
        let mut ids = Sequence::random();
        ready(url);
        while let Some(sample) = handles.subscriber.recv().await {
            let sample = sample?;
            let meta = Metadata {
                id: Some(ids.next_id()),
                correlation: sample.meta.id,
                ..Metadata::default()
            };
            let payload = answer(sample.payload.len());
            // Whether it arrived is seen by the asking end.
            drop(handles.publisher.publish(Message { payload, meta }).await?);
        }
        Err(Failure::Broken("the subscriber ended".to_owned()))
    })
}
