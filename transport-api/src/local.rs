//! The in-process transport, scheme `local`: the baseline of every comparison.
//!
//! `local:NAME` joins everyone who opens the same name through the same [`Factory`]. A payload goes
//! from `try_publish` straight into the subscribers' queues by reference count; it is never copied,
//! there is no queue in between and no task. Steady publishing and receiving allocates nothing.

use std::any::Any;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use crate::capability::Capabilities;
use crate::config::{PeerId, TransportConfig};
use crate::counters::PublisherCounters;
use crate::error::{Error, Result};
use crate::event::{Event, EventHub, Events};
use crate::ledger::Ledger;
use crate::meeting::{Meeting, Placement};
use crate::message::Message;
use crate::publisher::{Publisher, Refused, Why};
use crate::qos::{AckScope, Granted, Overflow, Qos};
use crate::reception::{Arrived, Inlet, Subscribed, Subscription, reception};
use crate::registry::{About, TransportFactory};
use crate::schema::Schema;
use crate::subscriber::Subscriber;
use crate::token::{DeliveryToken, Stage};
use crate::topic::{TopicFilter, TopicName};
use crate::transport::{CloseReport, Transport, TransportInfo};

const IMPLEMENTATION: &str = concat!("transport-api ", env!("CARGO_PKG_VERSION"));

/// Opens in-process transports; clones share their spaces.
#[derive(Clone, Debug, Default)]
pub struct Factory {
    spaces: Arc<Mutex<HashMap<String, Weak<Space>>>>,
}

/// There are no options besides the common ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {}

fn capabilities(max_payload: usize) -> Capabilities {
    Capabilities {
        at_least_once: Some(AckScope::EndToEnd),
        exactly_once: Some(AckScope::EndToEnd),
        native_metadata: true,
        metadata: true,
        wildcards: true,
        priority: false,
        retained: true,
        liveliness: true,
        block_on_receive: true,
        schema_check: true,
        reconnects: true,
        cross_process: false,
        max_payload: Some(max_payload),
    }
}

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &["local"]
    }

    fn about(&self) -> About {
        About {
            name: "local",
            implementation: IMPLEMENTATION.to_owned(),
            summary: "within one process, by reference count; the in-vehicle baseline",
            default_url: "local:roundtrip",
            examples: &["local:anything"],
            capabilities: capabilities(crate::config::DEFAULT_MAX_PAYLOAD),
            options: &[],
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        let Options {} = config.backend()?;
        if config.url().path().is_empty() || config.url().has_host() {
            return Err(Error::config(format!(
                "`{config}` has no name; write `local:NAME`"
            )));
        }
        Ok(())
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        self.check(config)?;
        let name = config.url().path().to_owned();
        let space = {
            let mut spaces = lock(&self.spaces);
            spaces.retain(|_, space| space.strong_count() > 0);
            match spaces.get(&name).and_then(Weak::upgrade) {
                Some(space) => space,
                None => {
                    let space = Arc::new(Space::default());
                    spaces.insert(name.clone(), Arc::downgrade(&space));
                    space
                }
            }
        };
        let member = Arc::new(Member {
            peer: config.peer().clone(),
            hub: Arc::default(),
            closed: AtomicBool::new(false),
            waiting: Mutex::default(),
            accepted: AtomicU64::new(0),
            report: Mutex::new(None),
        });
        member.hub.emit(Event::Connected);
        space.join(&member);
        Ok(Arc::new(Local {
            space,
            member,
            capabilities: capabilities(config.max_payload()),
            info: TransportInfo {
                scheme: "local".to_owned(),
                implementation: IMPLEMENTATION.to_owned(),
                endpoint: config.to_string(),
                settings: vec![("max_payload".to_owned(), config.max_payload().to_string())],
            },
        }))
    }

    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        Ok(Meeting {
            placement: Placement::OneProcess,
            ..Meeting::external(config)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one name stands for.
#[derive(Debug, Default)]
struct Space {
    state: Mutex<SpaceState>,
}

#[derive(Debug, Default)]
struct SpaceState {
    members: Vec<Arc<Member>>,
    channels: HashMap<TopicName, Arc<Channel>>,
    subscriptions: Vec<Selection>,
    next: u64,
}

#[derive(Debug)]
struct Selection {
    number: u64,
    filter: TopicFilter,
    inlet: Inlet,
    member: Arc<Member>,
}

/// One topic: where its messages go.
#[derive(Debug)]
struct Channel {
    topic: TopicName,
    outlets: RwLock<Vec<(u64, Inlet)>>,
    retained: Mutex<Option<Arrived>>,
    /// Transports with a publisher here, told about matches.
    publishers: Mutex<Vec<Weak<Member>>>,
}

/// One open transport.
#[derive(Debug)]
struct Member {
    peer: PeerId,
    hub: Arc<EventHub>,
    closed: AtomicBool,
    /// Publishers that wait for room.
    waiting: Mutex<Vec<Waker>>,
    accepted: AtomicU64,
    report: Mutex<Option<CloseReport>>,
}

impl Member {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn wake_at_close(&self, cx: &Context<'_>) {
        let mut waiting = lock(&self.waiting);
        crate::queue::enlist(&mut waiting, cx);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *lock(&self.waiting))
            .into_iter()
            .for_each(Waker::wake);
    }
}

impl Channel {
    fn outlets(&self) -> std::sync::RwLockReadGuard<'_, Vec<(u64, Inlet)>> {
        self.outlets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, Inlet)>)) {
        let subscribers = {
            let mut outlets = self.outlets.write().unwrap_or_else(PoisonError::into_inner);
            let before = outlets.len();
            change(&mut outlets);
            if outlets.len() == before {
                return;
            }
            outlets.len()
        };
        for member in lock(&self.publishers).iter().filter_map(Weak::upgrade) {
            member.hub.emit(Event::Matched {
                topic: self.topic.clone(),
                subscribers,
            });
        }
    }

    /// Delivers to every subscriber, or, if one of them blocks and is full, to none.
    fn deliver(&self, arrived: Arrived, retain: bool) -> Result<(), Arrived> {
        // Held to the end: who subscribes meanwhile finds the message either here or retained.
        let outlets = self.outlets();
        let blocking = |inlet: &Inlet| inlet.overflow() == Overflow::Block;
        for (n, (_, inlet)) in outlets.iter().enumerate() {
            if blocking(inlet) && !inlet.reserve() {
                for (_, inlet) in outlets[..n].iter().filter(|(_, inlet)| blocking(inlet)) {
                    inlet.release();
                }
                return Err(arrived);
            }
        }
        if retain {
            *lock(&self.retained) = Some(arrived.clone());
        }
        let hand = |inlet: &Inlet, arrived: Arrived| {
            if blocking(inlet) {
                inlet.offer_reserved(arrived);
            } else {
                // Evictions and closed ends are counted by the subscriber's queue.
                drop(inlet.offer(arrived));
            }
        };
        if let Some(((_, last), others)) = outlets.split_last() {
            for (_, inlet) in others {
                hand(inlet, arrived.clone());
            }
            hand(last, arrived);
        }
        Ok(())
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        for (_, inlet) in self.outlets().iter() {
            if inlet.overflow() == Overflow::Block && inlet.poll_room(cx).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl Space {
    fn join(&self, member: &Arc<Member>) {
        let mut state = lock(&self.state);
        for other in &state.members {
            other.hub.emit(Event::PeerAlive(member.peer.clone()));
            member.hub.emit(Event::PeerAlive(other.peer.clone()));
        }
        state.members.push(Arc::clone(member));
    }

    fn leave(&self, member: &Arc<Member>) {
        let mut state = lock(&self.state);
        let before = state.members.len();
        state.members.retain(|other| !Arc::ptr_eq(other, member));
        if state.members.len() == before {
            return;
        }
        for other in &state.members {
            other.hub.emit(Event::PeerLost(member.peer.clone()));
        }
        let (gone, kept) = std::mem::take(&mut state.subscriptions)
            .into_iter()
            .partition::<Vec<_>, _>(|subscription| Arc::ptr_eq(&subscription.member, member));
        state.subscriptions = kept;
        for channel in state.channels.values() {
            channel.change(|outlets| {
                outlets.retain(|(number, _)| gone.iter().all(|s| s.number != *number));
            });
        }
        gone.iter()
            .for_each(|subscription| subscription.inlet.close());
    }

    fn channel(&self, topic: &TopicName) -> Arc<Channel> {
        let mut state = lock(&self.state);
        if let Some(channel) = state.channels.get(topic) {
            return Arc::clone(channel);
        }
        let outlets = state
            .subscriptions
            .iter()
            .filter(|s| s.filter.matches(topic));
        let channel = Arc::new(Channel {
            topic: topic.clone(),
            outlets: RwLock::new(outlets.map(|s| (s.number, s.inlet.clone())).collect()),
            retained: Mutex::default(),
            publishers: Mutex::default(),
        });
        state.channels.insert(topic.clone(), Arc::clone(&channel));
        channel
    }

    /// A publisher of `channel` ends; the channel goes with the last one unless it keeps a message.
    fn release(&self, channel: &Arc<Channel>) {
        let mut state = lock(&self.state);
        // Ours and the table's: under the lock nobody gets another.
        if Arc::strong_count(channel) == 2 && lock(&channel.retained).is_none() {
            state.channels.remove(&channel.topic);
        }
    }

    fn subscribe(&self, filter: &TopicFilter, inlet: &Inlet, member: &Arc<Member>) -> u64 {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        for channel in state.channels.values().filter(|c| filter.matches(&c.topic)) {
            channel.change(|outlets| {
                if let Some(retained) = lock(&channel.retained).clone() {
                    drop(inlet.offer(retained));
                }
                outlets.push((number, inlet.clone()));
            });
        }
        state.subscriptions.push(Selection {
            number,
            filter: filter.clone(),
            inlet: inlet.clone(),
            member: Arc::clone(member),
        });
        number
    }

    fn unsubscribe(&self, number: u64) {
        let mut state = lock(&self.state);
        state
            .subscriptions
            .retain(|subscription| subscription.number != number);
        for channel in state.channels.values() {
            channel.change(|outlets| outlets.retain(|(other, _)| *other != number));
        }
    }
}

#[derive(Debug)]
struct Local {
    space: Arc<Space>,
    member: Arc<Member>,
    capabilities: Capabilities,
    info: TransportInfo,
}

#[async_trait]
impl Transport for Local {
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
        if self.member.is_closed() {
            return Err(Error::closed("declare publisher"));
        }
        let mut granted = self.capabilities.grant_publisher(&qos)?;
        if granted.overflow == Overflow::DropOldest {
            // There is no queue to make room in: what is full is a subscriber that blocks, and
            // loses nothing.
            granted.overflow = Overflow::DropNewest;
        }
        let channel = self.space.channel(topic);
        {
            let mut publishers = lock(&channel.publishers);
            publishers.retain(|member| member.strong_count() > 0);
            if !publishers
                .iter()
                .any(|m| std::ptr::eq(m.as_ptr(), Arc::as_ptr(&self.member)))
            {
                publishers.push(Arc::downgrade(&self.member));
                let subscribers = channel.outlets().len();
                self.member.hub.emit(Event::Matched {
                    topic: topic.clone(),
                    subscribers,
                });
            }
        }
        Ok(Box::new(LocalPublisher {
            ledger: Ledger::new(topic.clone(), granted.scope, Arc::clone(&self.member.hub)),
            space: Arc::clone(&self.space),
            channel,
            member: Arc::clone(&self.member),
            capabilities: self.capabilities,
            granted,
            schema: schema.clone(),
        }))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        if self.member.is_closed() {
            return Err(Error::closed("declare subscriber"));
        }
        let granted = self.capabilities.grant_subscriber(&qos)?;
        let (inlet, reception) = reception(granted, schema);
        let number = self.space.subscribe(filter, &inlet, &self.member);
        let membership = Membership {
            space: Arc::clone(&self.space),
            number,
        };
        Ok(Box::new(Subscribed::new(reception, membership)))
    }

    fn events(&self) -> Events {
        self.member.hub.subscribe()
    }

    async fn close(&self, _deadline: Duration) -> CloseReport {
        // Nothing is ever under way: an accepted message is in its subscribers' queues.
        let mut report = lock(&self.member.report);
        *report.get_or_insert_with(|| {
            self.member.close();
            self.space.leave(&self.member);
            self.member.hub.emit(Event::Closed);
            let flushed = self.member.accepted.load(Ordering::Relaxed);
            CloseReport {
                flushed,
                abandoned: 0,
            }
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.space.leave(&self.member);
    }
}

#[derive(Debug)]
struct LocalPublisher {
    space: Arc<Space>,
    channel: Arc<Channel>,
    member: Arc<Member>,
    capabilities: Capabilities,
    granted: Granted,
    schema: Schema,
    ledger: Arc<Ledger>,
}

#[async_trait]
impl Publisher for LocalPublisher {
    fn granted(&self) -> Granted {
        self.granted
    }

    fn try_publish(&self, message: Message) -> Result<DeliveryToken, Refused> {
        let refuse = |message, why| {
            self.ledger.refuse();
            Err(Refused { message, why })
        };
        if self.member.is_closed() {
            return refuse(message, Why::Fatal(Error::closed("publish")));
        }
        let bytes = message.payload.len();
        if let Err(error) = self.capabilities.check_size(bytes) {
            return refuse(message, Why::Fatal(error));
        }
        let Message { payload, mut meta } = message;
        let filled = meta.schema.is_none();
        if filled {
            meta.schema = self.schema.id().cloned();
        }
        let arrived = Arrived {
            topic: self.channel.topic.clone(),
            payload,
            meta,
        };
        match self.channel.deliver(arrived, self.granted.retain) {
            Ok(()) => {
                self.ledger.delivered(bytes);
                self.member.accepted.fetch_add(1, Ordering::Relaxed);
                Ok(match self.granted.scope {
                    AckScope::Nothing => DeliveryToken::queued(),
                    _ => DeliveryToken::settled(Ok(Stage::Acknowledged)),
                })
            }
            Err(Arrived {
                payload, mut meta, ..
            }) if self.granted.overflow == Overflow::Block => {
                if filled {
                    meta.schema = None;
                }
                refuse(Message { payload, meta }, Why::Full)
            }
            Err(_) => {
                self.ledger.accept().give_up();
                Ok(DeliveryToken::settled(Err(self.ledger.full())))
            }
        }
    }

    async fn ready(&self) -> Result<()> {
        poll_fn(|cx| {
            // Registered before looking, so that a close in between is not missed.
            self.member.wake_at_close(cx);
            if self.member.is_closed() {
                return Poll::Ready(Err(Error::closed("publish")));
            }
            self.channel.poll_room(cx).map(Ok)
        })
        .await
    }

    async fn flush(&self, until: Stage) -> Result<()> {
        if self.member.is_closed() {
            return Err(Error::closed("flush"));
        }
        self.ledger.flush(until).await;
        Ok(())
    }

    fn counters(&self) -> PublisherCounters {
        self.ledger.counters()
    }
}

impl Drop for LocalPublisher {
    fn drop(&mut self) {
        self.space.release(&self.channel);
    }
}

/// A subscription in a space.
#[derive(Debug)]
struct Membership {
    space: Arc<Space>,
    number: u64,
}

impl Subscription for Membership {}

impl Drop for Membership {
    fn drop(&mut self) {
        self.space.unsubscribe(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::Qos;
    use crate::subscriber::SubscriberExt;

    fn now<T>(future: impl Future<Output = T>) -> T {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing in this process should be waited for"),
        }
    }

    #[test]
    fn a_blocking_subscriber_that_is_full_costs_what_was_granted() {
        let config = TransportConfig::parse("local:full").unwrap();
        let transport = now(Factory::default().open(&config)).unwrap();
        let topic = TopicName::parse("a").unwrap();
        let (filter, schema) = (TopicFilter::from(&topic), Schema::opaque());
        for (overflow, granted) in [
            (Overflow::Block, Overflow::Block),
            (Overflow::DropOldest, Overflow::DropNewest),
            (Overflow::DropNewest, Overflow::DropNewest),
        ] {
            let blocking = Qos::blocking().with_depth(1);
            let subscriber = transport.subscriber(&filter, &schema, blocking);
            let mut subscriber = now(subscriber).unwrap();
            let qos = Qos {
                overflow,
                ..Qos::default()
            };
            let publisher = now(transport.publisher(&topic, &schema, qos)).unwrap();
            assert_eq!(publisher.granted().overflow, granted);
            drop(publisher.try_publish(Message::new("first")).unwrap());
            let second = publisher.try_publish(Message::new("second"));
            assert_eq!(second.is_err(), granted == Overflow::Block);
            let counters = publisher.counters();
            assert_eq!(counters.dropped + counters.refused, 1);
            drop(second);
            assert_eq!(now(subscriber.recv()).unwrap().unwrap().payload, "first");
        }
    }

    #[test]
    fn a_channel_lives_as_long_as_its_publishers_and_what_is_retained() {
        let factory = Factory::default();
        let config = TransportConfig::parse("local:channels").unwrap();
        let transport = now(factory.open(&config)).unwrap();
        let space = lock(&factory.spaces)["channels"].upgrade().unwrap();
        let channels = || lock(&space.state).channels.len();
        let publish = |topic: &str, retain| {
            let topic = TopicName::parse(topic).unwrap();
            let qos = Qos {
                retain,
                ..Qos::default()
            };
            let publisher = now(transport.publisher(&topic, &Schema::opaque(), qos)).unwrap();
            drop(publisher.try_publish(Message::new("x")).unwrap());
            publisher
        };
        let (one, other) = (publish("a", false), publish("a", false));
        for n in 0..100 {
            drop(publish(&format!("passing/n{n}"), false));
        }
        drop(one);
        assert_eq!(channels(), 1);
        drop(other);
        assert_eq!(channels(), 0);
        drop(publish("kept", true));
        assert_eq!(channels(), 1);
    }
}
