//! Steady publishing and receiving through the trait objects allocates nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

mod counting;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use transport_api::ledger::Ledger;
use transport_api::outbox::{Limit, Outbox, Outgoing};
use transport_api::{
    AckScope, Capabilities, DeliveryToken, Message, Overflow, Publisher, PublisherExt, Qos,
    Registry, Schema, Sequence, Stage, Stamp, Subscriber, SubscriberExt, TopicFilter, TopicName,
    Transport, TransportConfig, local,
};

use counting::allocations;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Nothing here ever waits, so one look is enough.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in this process should be waited for"),
    }
}

fn open() -> Arc<dyn Transport> {
    let mut registry = Registry::default();
    registry.register(local::Factory::default()).unwrap();
    now(registry.open(&TransportConfig::parse("local:zero").unwrap())).unwrap()
}

type Handles = (Box<dyn Publisher>, Vec<Box<dyn Subscriber>>);

fn handles(transport: &Arc<dyn Transport>, qos: Qos, subscribers: usize) -> Handles {
    let topic = TopicName::parse("vehicle1/scan").unwrap();
    let schema = Schema::new("velodyne_msgs/VelodyneScan", [7; 16], "Header header\n");
    let filter = TopicFilter::from(&topic);
    let subscribers = (0..subscribers)
        .map(|_| now(transport.subscriber(&filter, &schema, qos)).unwrap())
        .collect();
    let publisher = now(transport.publisher(&topic, &schema, qos)).unwrap();
    (publisher, subscribers)
}

fn steady(qos: Qos, subscribers: usize) -> u64 {
    let transport = open();
    let (publisher, mut subscribers) = handles(&transport, qos, subscribers);
    let payload = Bytes::from(vec![1; 183_342]);
    let mut sequence = Sequence::random();
    let mut round = || {
        let mut message = Message::new(payload.clone()).with_id(sequence.next_id());
        message.meta.stamps.push(Stamp::default());
        let stage = now(now(publisher.publish(message)).unwrap()).unwrap();
        assert!(stage == Stage::Queued || qos != Qos::default());
        for subscriber in &mut subscribers {
            let sample = now(subscriber.recv()).unwrap().unwrap();
            assert_eq!((sample.payload.len(), sample.missed), (183_342, 0));
        }
    };
    // The first rounds fill the tables that follow a source.
    (0..10).for_each(|_| round());
    let (calls, _) = allocations(|| (0..10_000).for_each(|_| round()));
    calls
}

#[test]
fn publish_and_receive_allocate_nothing() {
    assert_eq!(steady(Qos::default(), 1), 0);
    assert_eq!(steady(Qos::blocking(), 3), 0);
}

#[test]
fn acknowledged_publishing_allocates_nothing_in_process() {
    assert_eq!(steady(Qos::exactly_once(), 1), 0);
}

/// Publishes into a queue of depth 8 and takes one message out for every `every` put in.
fn queued(scope: AckScope, every: u64) -> u64 {
    let granted = Capabilities {
        at_least_once: Some(scope).filter(|scope| *scope != AckScope::Nothing),
        ..Capabilities::default()
    };
    let want = match scope {
        AckScope::Nothing => Qos::default(),
        _ => Qos {
            overflow: Overflow::DropOldest,
            ..Qos::at_least_once()
        },
    };
    let granted = granted.grant_publisher(&want).unwrap();
    let topic = TopicName::parse("vehicle1/scan").unwrap();
    let ledger = Ledger::new(topic, granted.scope, Arc::default());
    let schema = Schema::new("velodyne_msgs/VelodyneScan", [7; 16], "Header header\n");
    let (outbox, mut queue) = Outbox::new(granted, ledger, &schema, Limit::new(1 << 20), ());
    let payload = Bytes::from(vec![1; 183_342]);
    let mut round = |n: u64| {
        drop(outbox.try_publish(Message::new(payload.clone())).unwrap());
        if n.is_multiple_of(every) {
            let Outgoing { message, mut entry } = now(queue.pop()).unwrap();
            entry.written(message.payload.len());
            entry.acknowledged();
        }
    };
    (0..100).for_each(&mut round);
    allocations(|| (0..10_000).for_each(round)).0
}

#[test]
fn a_queue_per_publisher_allocates_nothing() {
    assert_eq!(queued(AckScope::Nothing, 1), 0);
    // Evictions neither.
    assert_eq!(queued(AckScope::Nothing, 2), 0);
    // The pending token is the one allocation.
    assert_eq!(queued(AckScope::NextHop, 1), 10_000);
}

#[test]
fn a_pending_token_is_one_allocation() {
    let (calls, _) = allocations(|| {
        let (acknowledger, token) = DeliveryToken::pending();
        acknowledger.settle(Ok(Stage::Acknowledged));
        assert_eq!(now(token).unwrap(), Stage::Acknowledged);
    });
    assert_eq!(calls, 1);
}

#[test]
fn overflow_allocates_nothing() {
    let transport = open();
    let (publisher, _unread) = handles(&transport, Qos::default(), 2);
    let payload = Bytes::from_static(b"evicts the oldest");
    let publish = || {
        drop(
            publisher
                .try_publish(Message::new(payload.clone()))
                .unwrap(),
        )
    };
    (0..100).for_each(|_| publish());
    let (calls, _) = allocations(|| (0..10_000).for_each(|_| publish()));
    assert_eq!(calls, 0);
}
