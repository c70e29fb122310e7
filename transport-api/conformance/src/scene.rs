//! What one check works with: a running fixture, fresh names, and waiting with words.

use std::collections::hash_map::RandomState;
use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use transport_api::{
    Capabilities, DeliveryToken, Error, Event, Events, Message, MessageId, PeerId, Publisher,
    PublisherExt, Qos, Sample, Schema, Sequence, Subscriber, SubscriberExt, TopicFilter, TopicName,
    Transport, TransportConfig, TransportFactory,
};

use crate::fixture::Fixture;
use crate::link::LinkControl;
use crate::server::ServerControl;
use crate::unavailable::Unavailable;

/// How long one step may take: a watchdog, far above what it takes on a loaded machine. Whoever
/// hunts a fault may set `CONFORMANCE_PATIENCE` to fewer seconds.
pub(crate) fn patience() -> Duration {
    static PATIENCE: OnceLock<Duration> = OnceLock::new();
    *PATIENCE.get_or_init(|| {
        let seconds = std::env::var("CONFORMANCE_PATIENCE").ok();
        Duration::from_secs(seconds.and_then(|s| s.parse().ok()).unwrap_or(30))
    })
}

/// How long a check watches for what must not happen. Too short a time lets a fault pass on a
/// loaded machine; it never makes a check fail.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// How often a state that has no event is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Deadline of a close that has nothing to wait for.
pub(crate) const CLOSE: Duration = Duration::from_secs(10);

/// Why a check failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(full(&error))
    }
}

/// An error with its causes.
pub(crate) fn full(error: &Error) -> String {
    let mut text = format!("{error} ({:?})", error.kind());
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Fails the check with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::scene::Failure(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// A fixture of any type.
#[async_trait]
trait Stage: Send + Sync {
    fn config(&self, peer: &str) -> TransportConfig;
    fn link(&self) -> Option<&dyn LinkControl>;
    fn server(&self) -> Option<&dyn ServerControl>;
    fn silence(&self) -> Duration;
    async fn stop(self: Box<Self>);
}

#[async_trait]
impl<F: Fixture> Stage for F {
    fn config(&self, peer: &str) -> TransportConfig {
        Fixture::config(self, peer)
    }
    fn link(&self) -> Option<&dyn LinkControl> {
        Fixture::link(self)
    }
    fn server(&self) -> Option<&dyn ServerControl> {
        Fixture::server(self)
    }
    fn silence(&self) -> Duration {
        F::SILENCE
    }
    async fn stop(self: Box<Self>) {
        Fixture::stop(*self).await;
    }
}

/// A running fixture and its factory.
pub(crate) struct Scene {
    pub(crate) fixture: &'static str,
    pub(crate) factory: Arc<dyn TransportFactory>,
    stage: Box<dyn Stage>,
    prefix: String,
}

impl Scene {
    pub(crate) async fn start<F: Fixture>() -> Result<Self, Unavailable> {
        let stage = F::start().await?;
        Ok(Self {
            fixture: F::NAME,
            factory: Arc::new(F::factory()),
            stage: Box::new(stage),
            prefix: format!("conformance/t{:016x}", RandomState::new().hash_one(0)),
        })
    }

    pub(crate) async fn stop(self) {
        self.stage.stop().await;
    }

    pub(crate) fn has_link(&self) -> bool {
        self.stage.link().is_some()
    }

    pub(crate) fn has_server(&self) -> bool {
        self.stage.server().is_some()
    }

    /// The link; checks that use it need it.
    pub(crate) fn link(&self) -> Outcome<&dyn LinkControl> {
        let missing = || Failure("the fixture has no link".to_owned());
        self.stage.link().ok_or_else(missing)
    }

    /// Within this time a link that passes nothing is noticed.
    pub(crate) fn silence(&self) -> Duration {
        self.stage.silence()
    }

    /// The server; checks that use it need it.
    pub(crate) fn server(&self) -> Outcome<&dyn ServerControl> {
        let missing = || Failure("the fixture has no server".to_owned());
        self.stage.server().ok_or_else(missing)
    }

    pub(crate) fn config(&self, peer: &str) -> TransportConfig {
        let name = PeerId::parse(peer).expect("peer names of checks are legal");
        self.stage.config(peer).with_peer(name)
    }

    pub(crate) async fn open(&self, peer: &str) -> Outcome<Arc<dyn Transport>> {
        self.open_with(&self.config(peer)).await
    }

    pub(crate) async fn open_with(&self, config: &TransportConfig) -> Outcome<Arc<dyn Transport>> {
        let what = format!("`{}` to open {config}", config.peer());
        Ok(wait(&what, self.factory.open(config)).await??)
    }

    /// Opens a peer that takes payloads of up to `limit` bytes.
    pub(crate) async fn open_for(&self, peer: &str, limit: usize) -> Outcome<Arc<dyn Transport>> {
        let config = self.config(peer);
        let url = config.expose();
        let (address, options) = url.split_once('?').unwrap_or((&url, ""));
        let options = options
            .split('&')
            .filter(|option| !option.is_empty() && !option.starts_with("max_payload="));
        let mut limited = format!("{address}?max_payload={limit}");
        options.for_each(|option| limited = format!("{limited}&{option}"));
        let limited = TransportConfig::parse(&limited)?.with_peer(config.peer().clone());
        self.open_with(&limited).await
    }

    /// The peer [`crate::FIRST`] and another one.
    pub(crate) async fn pair(&self) -> Outcome<(Arc<dyn Transport>, Arc<dyn Transport>)> {
        Ok((self.open(crate::FIRST).await?, self.open("second").await?))
    }

    pub(crate) fn topic(&self, name: &str) -> TopicName {
        TopicName::parse(&format!("{}/{name}", self.prefix)).expect("topics of checks are legal")
    }

    pub(crate) fn filter(&self, name: &str) -> TopicFilter {
        TopicFilter::parse(&format!("{}/{name}", self.prefix)).expect("filters of checks are legal")
    }
}

/// A publisher that numbers its messages.
pub(crate) struct Source {
    pub(crate) publisher: Box<dyn Publisher>,
    pub(crate) sequence: Sequence,
}

impl Source {
    pub(crate) async fn new(
        transport: &Arc<dyn Transport>,
        topic: &TopicName,
        qos: Qos,
    ) -> Outcome<Self> {
        let schema = Schema::opaque();
        let what = format!("a publisher of {topic}");
        let publisher = wait(&what, transport.publisher(topic, &schema, qos)).await??;
        Ok(Self::with(publisher))
    }

    pub(crate) fn with(publisher: Box<dyn Publisher>) -> Self {
        Self {
            publisher,
            sequence: Sequence::random(),
        }
    }

    /// The next message.
    pub(crate) fn message(&mut self, payload: impl Into<Bytes>) -> Message {
        Message::new(payload).with_id(self.sequence.next_id())
    }

    /// Publishes the next message and returns its number and token.
    pub(crate) async fn send(
        &mut self,
        payload: impl Into<Bytes>,
    ) -> Outcome<(u64, DeliveryToken)> {
        let message = self.message(payload);
        let seq = self.sequence.count() - 1;
        let token = wait(
            &format!("message {seq} to be accepted"),
            self.publisher.publish(message),
        )
        .await??;
        Ok((seq, token))
    }

    /// Publishes the next message where its delivery is of no interest.
    pub(crate) async fn tell(&mut self, payload: impl Into<Bytes>) -> Outcome<u64> {
        let (seq, token) = self.send(payload).await?;
        drop(token);
        Ok(seq)
    }
}

/// A subscriber of opaque bytes.
pub(crate) async fn subscribe(
    transport: &Arc<dyn Transport>,
    filter: &TopicFilter,
    qos: Qos,
) -> Outcome<Box<dyn Subscriber>> {
    let schema = Schema::opaque();
    Ok(wait(
        &format!("a subscriber of {filter}"),
        transport.subscriber(filter, &schema, qos),
    )
    .await??)
}

/// A subscriber of one topic that never has to drop what a check sends.
pub(crate) async fn listen(
    transport: &Arc<dyn Transport>,
    topic: &TopicName,
) -> Outcome<Box<dyn Subscriber>> {
    subscribe(transport, &topic.into(), deep()).await
}

/// A receiving queue that never has to drop what a check sends.
pub(crate) fn deep() -> Qos {
    Qos::default().with_depth(4096)
}

/// Waits with a watchdog.
pub(crate) async fn wait<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(patience(), future)
        .await
        .map_err(|_| Failure(format!("waited {} s for {what}", patience().as_secs())))
}

/// Looks once and drops the future.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Waits until a state is reached that no event tells of.
pub(crate) async fn until(what: &str, mut reached: impl FnMut() -> bool) -> Outcome {
    wait(what, async {
        while !reached() {
            tokio::time::sleep(POLL).await;
        }
    })
    .await
}

/// The next sample.
pub(crate) async fn receive(subscriber: &mut Box<dyn Subscriber>, what: &str) -> Outcome<Sample> {
    match wait(what, subscriber.recv()).await? {
        Some(Ok(sample)) => Ok(sample),
        Some(Err(error)) => Err(Failure(format!("{what}: {}", full(&error)))),
        None => Err(Failure(format!("{what}: the subscription has ended"))),
    }
}

/// The number of the next sample.
pub(crate) async fn number(subscriber: &mut Box<dyn Subscriber>, what: &str) -> Outcome<u64> {
    Ok(id(&receive(subscriber, what).await?)?.seq)
}

/// The identity of a sample.
pub(crate) fn id(sample: &Sample) -> Outcome<MessageId> {
    let missing = || Failure(format!("a sample on {} has no id", sample.topic));
    sample.meta.id.ok_or_else(missing)
}

/// Whether nothing arrives for a while.
pub(crate) async fn silent(subscriber: &mut Box<dyn Subscriber>) -> bool {
    tokio::time::timeout(QUIET, subscriber.recv())
        .await
        .is_err()
}

/// Reads events up to one that is wanted and returns it.
pub(crate) async fn event(
    events: &mut Events,
    what: &str,
    wanted: impl Fn(&Event) -> bool,
) -> Outcome<Event> {
    wait(what, async {
        while let Some(event) = events.next().await {
            if wanted(&event) {
                return Ok(event);
            }
        }
        Err(Failure(format!("{what}: the events have ended")))
    })
    .await?
}

/// Publishes anew, paced, until a message arrives; returns its number. For messages that may be
/// lost, such as those around a reconnect.
pub(crate) async fn arrive(
    source: &mut Source,
    subscriber: &mut Box<dyn Subscriber>,
    what: &str,
) -> Outcome<u64> {
    let from = source.sequence.count();
    wait(what, async {
        loop {
            source.tell("again").await?;
            while let Ok(sample) = tokio::time::timeout(4 * POLL, subscriber.recv()).await {
                let sample = sample
                    .ok_or_else(|| Failure(format!("{what}: the subscription has ended")))??;
                let seq = id(&sample)?.seq;
                if seq >= from {
                    return Ok(seq);
                }
            }
        }
    })
    .await?
}

/// Bytes without a pattern that a codec could hit, the same for the same seed.
pub(crate) fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // Xorshift: cheap enough for 64 MiB, no dependency.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

/// Control over a part of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Given,
    /// There is no such part, and why.
    Pointless(&'static str),
    Missing,
}

impl Control {
    pub(crate) fn of(given: bool, pointless: Option<&'static str>) -> Self {
        match (given, pointless) {
            (true, _) => Self::Given,
            (false, Some(why)) => Self::Pointless(why),
            (false, None) => Self::Missing,
        }
    }
}

/// What decides whether a check applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) capabilities: Capabilities,
    pub(crate) link: Control,
    pub(crate) server: Control,
    /// The URL has a host, so there is an address that can be wrong.
    pub(crate) address: bool,
}
