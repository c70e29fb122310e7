//! Promises of the embedded broker and of transports that meet there.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod side;
#[path = "side/sockets.rs"]
mod sockets;

use std::time::Duration;

use bytes::Bytes;
use side::{config, listen, opaque, open, pair, topic, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport_api::{
    Delivery, ErrorKind, Event, Message, PublisherExt, Qos, Refused, Sequence, Stage,
    SubscriberExt, TransportFactory, Why,
};
use transport_mqtt::Factory;

const SCAN: usize = 183_342;
const CLOUD: usize = 1_078_352;
const DUAL_CLOUD: usize = 2_156_704;

fn bytes(size: usize) -> Bytes {
    (0..size)
        .map(|n| (n % 251) as u8)
        .collect::<Vec<u8>>()
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_settings_carry_scans_and_clouds_unchanged() {
    for version in ["5", "3.1.1"] {
        let meeting = pair(&format!("mqtt:embedded?version={version}")).await;
        for qos in [Qos::blocking(), Qos::at_least_once(), Qos::exactly_once()] {
            let name = topic("vehicle/scan");
            let mut subscriber = listen(&meeting.edge, &name, qos.delivery).await;
            let publisher = meeting
                .vehicle
                .publisher(&name, &opaque(), qos)
                .await
                .unwrap();
            let sizes = [0, 1, 10_239, 10_240, 10_241, SCAN, CLOUD, DUAL_CLOUD];
            for size in sizes {
                let payload = bytes(size);
                let token = publisher
                    .publish(Message::new(payload.clone()))
                    .await
                    .unwrap();
                let sample = within(subscriber.recv()).await.unwrap().unwrap();
                assert!(
                    sample.payload == payload,
                    "{size} B, {qos:?}, version {version}"
                );
                let acknowledged = within(token).await.unwrap() == Stage::Acknowledged;
                assert_eq!(acknowledged, qos.delivery != Delivery::AtMostOnce);
            }
            // A message can arrive before the sending side has noticed that it is written.
            within(publisher.flush(Stage::Written)).await.unwrap();
            let counters = publisher.counters();
            assert_eq!(
                (counters.accepted, counters.written, counters.lost),
                (8, 8, 0)
            );
            within(subscriber.close()).await.unwrap();
        }
        meeting.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_client_and_embedded_broker_are_one_setting() {
    let meeting = pair("mqtt:embedded").await;
    let shown = &meeting.edge.info().settings;
    let limit = shown.iter().find(|(key, _)| key == "max_payload");
    assert_eq!(limit.map(|(_, value)| value.as_str()), Some("16777216"));

    let name = topic("vehicle/cloud");
    let mut subscriber = listen(&meeting.edge, &name, Delivery::AtLeastOnce).await;
    let publisher = meeting
        .vehicle
        .publisher(&name, &opaque(), Qos::at_least_once())
        .await
        .unwrap();
    let payload = bytes(CLOUD);
    for _ in 0..100 {
        drop(
            within(publisher.publish(Message::new(payload.clone())))
                .await
                .unwrap(),
        );
        assert!(within(subscriber.recv()).await.unwrap().unwrap().payload == payload);
    }
    let largest = bytes(16 << 20);
    drop(
        within(publisher.publish(Message::new(largest.clone())))
            .await
            .unwrap(),
    );
    assert!(within(subscriber.recv()).await.unwrap().unwrap().payload == largest);
    match publisher.try_publish(Message::new(bytes((16 << 20) + 1))) {
        Err(Refused {
            why: Why::Fatal(error),
            message,
        }) => {
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(error.to_string().contains("16777216 B"), "{error}");
            assert_eq!(message.payload.len(), (16 << 20) + 1);
        }
        other => panic!("{other:?}"),
    }
    meeting.end().await;
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_broker_does_not_keep_what_was_delivered() {
    let meeting = pair("mqtt:embedded").await;
    let name = topic("vehicle/cloud");
    let mut subscriber = listen(&meeting.edge, &name, Delivery::AtMostOnce).await;
    let publisher = meeting
        .vehicle
        .publisher(&name, &opaque(), Qos::blocking())
        .await
        .unwrap();
    let payload = bytes(CLOUD);
    let mut warm = 0;
    for round in 0..400 {
        drop(
            within(publisher.publish(Message::new(payload.clone())))
                .await
                .unwrap(),
        );
        within(subscriber.recv()).await.unwrap().unwrap();
        if round == 100 {
            warm = resident();
        }
    }
    // 300 clouds are 324 MB.
    let grown = resident().saturating_sub(warm);
    assert!(grown < 64 << 20, "grew by {grown} B from {warm} B");
    meeting.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_once_replays_reach_a_subscriber_once() {
    let meeting = pair("mqtt:embedded").await;
    let mut subscriber = listen(&meeting.edge, &topic("a"), Delivery::AtMostOnce).await;
    let address = meeting.edge.info().endpoint.replace("mqtt://", "");
    let mut raw = TcpStream::connect(address).await.unwrap();
    // CONNECT, protocol level 4, clean session, keep-alive 60 s, client id `x`.
    raw.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x")
        .await
        .unwrap();
    let mut answer = [0; 4];
    within(raw.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    // PUBLISH of QoS 2 with packet id 5, the second and third time with the dup flag.
    for first in [0x34, 0x3c, 0x3c] {
        raw.write_all(&[first, 6, 0, 1, b'a', 0, 5, b'!'])
            .await
            .unwrap();
        within(raw.read_exact(&mut answer)).await.unwrap();
        assert_eq!(answer, [0x50, 2, 0, 5], "PUBREC");
    }
    raw.write_all(&[0x62, 2, 0, 5]).await.unwrap();
    within(raw.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, [0x70, 2, 0, 5], "PUBCOMP");
    // The message behind it shows that there is only one.
    raw.write_all(&[0x30, 4, 0, 1, b'a', b'?']).await.unwrap();
    for expected in ["!", "?"] {
        assert_eq!(
            within(subscriber.recv()).await.unwrap().unwrap().payload,
            expected
        );
    }
    meeting.end().await;
}

/// Sockets belong to the process: this runs alone in a child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_sends_without_delay() {
    if !sockets::alone("every_socket_sends_without_delay").await {
        return;
    }
    let meeting = pair("mqtt:embedded").await;
    let mut subscriber = listen(&meeting.edge, &topic("a"), Delivery::AtMostOnce).await;
    let publisher = meeting
        .vehicle
        .publisher(&topic("a"), &opaque(), Qos::blocking())
        .await
        .unwrap();
    drop(publisher.publish(Message::new("hello")).await.unwrap());
    within(subscriber.recv()).await.unwrap().unwrap();
    // Two connections of each side, with both of their ends in this process.
    assert_eq!(sockets::connected(), (8, 0));
    meeting.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_message_does_not_wait_for_the_next_ping() {
    // The watchdog is shorter than the interval of the pings.
    let meeting = pair("mqtt:embedded?keep_alive=600s").await;
    let publisher = meeting
        .vehicle
        .publisher(&topic("a"), &opaque(), Qos::at_least_once())
        .await
        .unwrap();
    for power in 7..=19 {
        for size in [(1 << power) - 1, 1 << power, (1 << power) + 1] {
            let token = publisher.publish(Message::new(bytes(size))).await.unwrap();
            assert_eq!(
                within(token).await.unwrap(),
                Stage::Acknowledged,
                "{size} B"
            );
        }
    }
    meeting.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_named_with_its_option() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let url = config(&format!("mqtt:embedded?port={port}"));
    let error = within(Factory.meet(&url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    let text = error.to_string();
    assert!(
        text.contains(&port.to_string()) && text.contains("`port`"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_broker_starts_and_stops_twenty_times_on_one_port() {
    let first = within(Factory.meet(&config("mqtt:embedded")))
        .await
        .unwrap();
    let port = first.first.url().port().unwrap();
    within(first.host.unwrap().stop()).await;
    for _ in 0..20 {
        let meeting = pair(&format!("mqtt:embedded?port={port}")).await;
        let mut subscriber = listen(&meeting.edge, &topic("a"), Delivery::AtMostOnce).await;
        let publisher = meeting
            .vehicle
            .publisher(&topic("a"), &opaque(), Qos::blocking())
            .await
            .unwrap();
        drop(publisher.publish(Message::new("hello")).await.unwrap());
        within(subscriber.recv()).await.unwrap().unwrap();
        meeting.end().await;
        // The port is free at once.
        drop(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transport_can_have_a_broker_of_its_own() {
    let transport = open(&config("mqtt:embedded")).await;
    let mut subscriber = listen(&transport, &topic("a"), Delivery::AtMostOnce).await;
    let publisher = transport
        .publisher(&topic("a"), &opaque(), Qos::blocking())
        .await
        .unwrap();
    drop(publisher.publish(Message::new("to myself")).await.unwrap());
    assert_eq!(
        within(subscriber.recv()).await.unwrap().unwrap().payload,
        "to myself"
    );
    let endpoint = transport.info().endpoint.clone();
    within(transport.close(Duration::from_secs(10))).await;
    let error = within(Factory.open(&config(&endpoint))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_return_with_the_broker_and_nothing_is_lost_silently() {
    for session in ["resume", "clean"] {
        let host = within(Factory.meet(&config("mqtt:embedded")))
            .await
            .unwrap();
        let port = host.first.url().port().unwrap();
        let url = config(&format!("mqtt://127.0.0.1:{port}?session={session}"));
        let (edge, vehicle) = (open(&url).await, open(&url).await);
        let mut ups = [edge.events(), vehicle.events()];
        let mut subscriber = listen(&edge, &topic("a"), Delivery::AtLeastOnce).await;
        let publisher = vehicle
            .publisher(&topic("a"), &opaque(), Qos::at_least_once())
            .await
            .unwrap();
        let mut ids = Sequence::random();
        let mut broker = host.host;
        for _ in 0..3 {
            for events in &mut ups {
                until(events, |event| matches!(event, Event::Connected)).await;
            }
            let token = publisher.publish(Message::new("up").with_id(ids.next_id()));
            within(token.await.unwrap()).await.unwrap();
            within(subscriber.recv()).await.unwrap().unwrap();
            within(broker.take().unwrap().stop()).await;
            for events in &mut ups {
                until(events, |event| matches!(event, Event::Disconnected { .. })).await;
            }
            // Accepted while there is no broker; sent when there is one.
            let token = publisher
                .publish(Message::new("down").with_id(ids.next_id()))
                .await
                .unwrap();
            let again = config(&format!("mqtt:embedded?port={port}"));
            broker = within(Factory.meet(&again)).await.unwrap().host;
            assert_eq!(within(token).await.unwrap(), Stage::Acknowledged);
        }
        for events in &mut ups {
            until(events, |event| matches!(event, Event::Connected)).await;
        }
        let token = publisher
            .publish(Message::new("last").with_id(ids.next_id()))
            .await
            .unwrap();
        within(token).await.unwrap();
        loop {
            let sample = within(subscriber.recv()).await.unwrap().unwrap();
            if sample.payload == "last" {
                break;
            }
        }
        // What the broker took before the subscriber was back is counted there.
        let counters = subscriber.counters();
        let seen = counters.received - counters.duplicates + counters.missed;
        assert_eq!(seen, ids.count(), "{counters:?}");
        assert_eq!(publisher.counters().acknowledged, ids.count());
        for side in [vehicle, edge] {
            within(side.close(Duration::from_secs(10))).await;
        }
        within(broker.unwrap().stop()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_without_a_broker_never_blocks_and_counts_what_it_drops() {
    let host = within(Factory.meet(&config("mqtt:embedded")))
        .await
        .unwrap();
    let port = host.first.url().port().unwrap();
    let vehicle = open(&host.first).await;
    let mut events = vehicle.events();
    let publisher = vehicle
        .publisher(&topic("a"), &opaque(), Qos::default())
        .await
        .unwrap();
    within(host.host.unwrap().stop()).await;
    until(&mut events, |event| {
        matches!(event, Event::Disconnected { .. })
    })
    .await;
    for n in 0..300 {
        let token = publisher
            .try_publish(Message::new(format!("frame {n}")))
            .unwrap();
        assert_eq!(within(token).await.unwrap(), Stage::Queued);
    }
    let counters = publisher.counters();
    assert_eq!(
        (counters.accepted, counters.dropped, counters.lost),
        (300, 292, 0)
    );

    let again = config(&format!("mqtt:embedded?port={port}"));
    let broker = within(Factory.meet(&again)).await.unwrap();
    until(&mut events, |event| matches!(event, Event::Connected)).await;
    within(publisher.flush(Stage::Written)).await.unwrap();
    assert_eq!(publisher.counters().written, 8);
    within(vehicle.close(Duration::from_secs(10))).await;
    within(broker.host.unwrap().stop()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_id_in_use_elsewhere_is_said_and_retried_slowly() {
    let host = within(Factory.meet(&config("mqtt:embedded")))
        .await
        .unwrap();
    let contested = host.first.clone().with_option("client_id", "same");
    let one = open(&contested).await;
    let mut events = one.events();
    let two = open(&contested).await;
    // This broker closes without a reason; several short connections in a row tell.
    until(&mut events, |event| match event {
        Event::Reconnecting { cause, .. } => {
            let cause = cause.to_string();
            cause.contains("client id `same`") && cause.contains("in use elsewhere")
        }
        _ => false,
    })
    .await;
    for side in [one, two] {
        within(side.close(Duration::from_secs(10))).await;
    }
    within(host.host.unwrap().stop()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_will_is_sent_for_who_vanishes_and_not_for_who_leaves() {
    let host = within(Factory.meet(&config("mqtt:embedded")))
        .await
        .unwrap();
    let mortal = host.first.clone().with_option("will_topic", "veh/state");
    let mortal = mortal.with_option("will_payload", "offline");
    let edge = open(&host.first).await;
    let mut states = listen(&edge, &topic("veh/state"), Delivery::AtLeastOnce).await;

    let vehicle = open(&mortal).await;
    within(vehicle.close(Duration::from_secs(10))).await;
    let vehicle = open(&mortal).await;
    let publisher = vehicle
        .publisher(&topic("veh/state"), &opaque(), Qos::at_least_once())
        .await
        .unwrap();
    within(publisher.publish(Message::new("online")).await.unwrap())
        .await
        .unwrap();
    // The one that was closed has left no will.
    assert_eq!(
        within(states.recv()).await.unwrap().unwrap().payload,
        "online"
    );
    // Not closed: its connections end without a word.
    drop((vehicle, publisher));
    assert_eq!(
        within(states.recv()).await.unwrap().unwrap().payload,
        "offline"
    );
    // Who comes late is told too.
    let late = open(&host.second).await;
    let mut states = listen(&late, &topic("veh/state"), Delivery::AtLeastOnce).await;
    assert_eq!(
        within(states.recv()).await.unwrap().unwrap().payload,
        "offline"
    );
    for side in [late, edge] {
        within(side.close(Duration::from_secs(10))).await;
    }
    within(host.host.unwrap().stop()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_session_delivers_what_came_while_the_subscriber_was_away() {
    for version in ["5", "3.1.1"] {
        let url = format!("mqtt:embedded?version={version}");
        let host = within(Factory.meet(&config(&url))).await.unwrap();
        let lasting = host.first.clone().with_option("client_id", "edge");
        let lasting = lasting.with_option("session", "persistent");
        let vehicle = open(&host.second).await;
        let publisher = vehicle
            .publisher(&topic("a"), &opaque(), Qos::at_least_once())
            .await
            .unwrap();

        let edge = open(&lasting).await;
        let subscriber = listen(&edge, &topic("a"), Delivery::AtLeastOnce).await;
        within(edge.close(Duration::from_secs(10))).await;
        drop((edge, subscriber));
        for n in 0..5 {
            let token = publisher
                .publish(Message::new(n.to_string()))
                .await
                .unwrap();
            within(token).await.unwrap();
        }
        let edge = open(&lasting).await;
        let mut subscriber = listen(&edge, &topic("a"), Delivery::AtLeastOnce).await;
        for n in 0..5 {
            let sample = within(subscriber.recv()).await.unwrap().unwrap();
            assert_eq!(sample.payload, n.to_string(), "version {version}");
        }
        for side in [vehicle, edge] {
            within(side.close(Duration::from_secs(10))).await;
        }
        within(host.host.unwrap().stop()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_filters_each_receive_a_message_once() {
    for version in ["5", "3.1.1"] {
        let meeting = pair(&format!("mqtt:embedded?version={version}")).await;
        let mut subscribers = Vec::new();
        for filter in ["a/**", "a/*", "a/b"] {
            let filter = transport_api::TopicFilter::parse(filter).unwrap();
            let schema = opaque();
            let subscriber = meeting.edge.subscriber(&filter, &schema, Qos::default());
            subscribers.push(within(subscriber).await.unwrap());
        }
        let publisher = meeting
            .vehicle
            .publisher(&topic("a/b"), &opaque(), Qos::blocking())
            .await
            .unwrap();
        let mut ids = Sequence::random();
        for n in 0..5 {
            let message = Message::new(n.to_string()).with_id(ids.next_id());
            drop(publisher.publish(message).await.unwrap());
        }
        for subscriber in &mut subscribers {
            for n in 0..5 {
                let sample = within(subscriber.recv()).await.unwrap().unwrap();
                assert_eq!(sample.payload, n.to_string(), "version {version}");
            }
        }
        meeting.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_foreign_clients_arrive_with_empty_metadata() {
    for version in ["5", "3.1.1"] {
        let meeting = pair(&format!("mqtt:embedded?version={version}")).await;
        let mut subscriber = listen(&meeting.edge, &topic("a"), Delivery::AtMostOnce).await;
        let foreign = Factory
            .open(&config(&format!(
                "{}?version={version}&metadata=off&presence=off",
                meeting.edge.info().endpoint
            )))
            .await
            .unwrap();
        assert!(!foreign.capabilities().metadata);
        let publisher = foreign
            .publisher(&topic("a"), &opaque(), Qos::blocking())
            .await
            .unwrap();
        let mut ids = Sequence::random();
        // The id stays here, and so does what only looks like metadata under 3.1.1.
        let damaged: &[u8] = b"RT\x01\xff";
        for payload in [&b"plain text"[..], damaged, b"", b"R"] {
            let message = Message::new(payload.to_vec()).with_id(ids.next_id());
            drop(publisher.publish(message).await.unwrap());
        }
        for expected in [&b"plain text"[..], damaged, b"", b"R"] {
            if version == "3.1.1" && expected == damaged {
                continue;
            }
            let sample = within(subscriber.recv()).await.unwrap().unwrap();
            assert_eq!(sample.payload, expected);
            assert_eq!(sample.meta, transport_api::Metadata::default());
        }
        let undecodable = subscriber.counters().undecodable;
        assert_eq!(undecodable, u64::from(version == "3.1.1"));
        within(foreign.close(Duration::from_secs(10))).await;
        meeting.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_cannot_be_reached_are_named_with_the_cause() {
    // Accepts and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = mute.local_addr().unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    for (url, expected) in [
        (
            format!("mqtt://{closed}"),
            ["refused".to_owned(), closed.to_string()],
        ),
        (
            format!("mqtt://{mute}?connect_timeout=100ms"),
            ["no answer within 100ms".to_owned(), mute.to_string()],
        ),
        (
            "mqtt://no-such-host.invalid".to_owned(),
            ["no-such-host.invalid:1883".to_owned(), "lookup".to_owned()],
        ),
    ] {
        let error = within(Factory.open(&config(&url))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
        for part in expected {
            assert!(error.to_string().contains(&part), "{error} lacks {part}");
        }
    }
}
