//! What a node does beyond the suite's contract.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use transport_api::{
    Event, Events, Host, Message, PeerId, PublisherExt, Qos, Schema, SubscriberExt, TopicFilter,
    TopicName, Transport, TransportConfig, TransportFactory,
};
use transport_rosmaster::Factory;

/// A watchdog, far above what a step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn master() -> (TransportConfig, Box<dyn Host>) {
    let config = TransportConfig::parse("rosmaster:embedded").unwrap();
    let meeting = Factory.meet(&config).await.unwrap();
    (meeting.first, meeting.host.unwrap())
}

async fn open(config: &TransportConfig, peer: &str) -> Arc<dyn Transport> {
    let config = config.clone().with_peer(PeerId::parse(peer).unwrap());
    Factory.open(&config).await.unwrap()
}

async fn event(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let finding = async {
        loop {
            let event = events.next().await.expect("the event comes before the end");
            if wanted(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, finding)
        .await
        .expect("the event comes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_advertised_name_is_told_to_subscribers() {
    let (config, host) = master().await;
    let lost = open(
        &config
            .clone()
            .with_option("hostname", "no-such-host.invalid"),
        "lost",
    )
    .await;
    let topic = TopicName::parse("points").unwrap();
    let publisher = lost
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let listener = open(&config, "listener").await;
    let mut events = listener.events();
    let filter = TopicFilter::from(&topic);
    let _subscriber = listener
        .subscriber(&filter, &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let told = event(&mut events, |event| {
        matches!(event, Event::Reconnecting { .. })
    })
    .await;
    let Event::Reconnecting { cause, .. } = told else {
        unreachable!("only such an event was waited for");
    };
    let text = cause.to_string();
    assert!(
        text.contains("no-such-host.invalid") && text.contains("/points"),
        "{text}"
    );
    drop(publisher);
    listener.close(Duration::from_secs(5)).await;
    lost.close(Duration::from_secs(5)).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_name_is_taken_ends_and_does_not_fight() {
    let (config, host) = master().await;
    let first = open(&config, "same").await;
    let mut events = first.events();
    let second = open(&config, "same").await;
    event(&mut events, |event| matches!(event, Event::Closed)).await;
    let topic = TopicName::parse("a").unwrap();
    let publisher = second
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await;
    assert!(publisher.is_ok(), "the one that came last stays");
    second.close(Duration::from_secs(5)).await;
    host.stop().await;
}

fn stamped(seq: u32, stamp: u32) -> Bytes {
    let mut bytes = BytesMut::new();
    for number in [seq, stamp, 0, 0] {
        bytes.put_u32_le(number);
    }
    bytes.freeze()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_metadata_the_header_identifies_messages() {
    let (config, host) = master().await;
    let config = config.with_option("metadata", "off");
    let bare_type = Schema::new("test_msgs/Bare", [8; 16], "uint32 seq\n");
    let stamped_type = Schema::new("test_msgs/Stamped", [7; 16], "std_msgs/Header header\n");
    let (sender, receiver) = (
        open(&config, "sender").await,
        open(&config, "receiver").await,
    );
    assert!(!sender.capabilities().metadata);
    for (schema, identified) in [(stamped_type, true), (bare_type, false)] {
        let name = if identified { "stamped" } else { "bare" };
        let topic = TopicName::parse(name).unwrap();
        let filter = TopicFilter::from(&topic);
        let mut subscriber = receiver
            .subscriber(&filter, &schema, Qos::default())
            .await
            .unwrap();
        let publisher = sender
            .publisher(&topic, &schema, Qos::default())
            .await
            .unwrap();
        for (seq, missed) in [(5, 0), (6, 0), (9, 2)] {
            let payload = stamped(seq, seq);
            drop(
                publisher
                    .publish(Message::new(payload.clone()))
                    .await
                    .unwrap(),
            );
            let sample = tokio::time::timeout(PATIENCE, subscriber.recv())
                .await
                .unwrap();
            let sample = sample.unwrap().unwrap();
            assert_eq!(sample.payload, payload);
            assert_eq!(
                sample.meta.id.map(|id| id.seq),
                identified.then_some(u64::from(seq))
            );
            assert_eq!(sample.missed, if identified { missed } else { 0 });
        }
    }
    sender.close(Duration::from_secs(5)).await;
    receiver.close(Duration::from_secs(5)).await;
    host.stop().await;
}
