//! Promises that need a broker of someone else.

#[path = "side/mosquitto.rs"]
mod mosquitto;
mod side;
#[path = "side/sockets.rs"]
mod sockets;

use std::time::Duration;

use side::{config, listen, opaque, open, topic, until, within};
use transport_api::{
    Delivery, ErrorKind, Event, Message, PublisherExt, Qos, Refused, Sequence, Stage,
    SubscriberExt, TransportFactory, Why,
};
use transport_conformance::ServerControl;
use transport_mqtt::Factory;

const CLOUD: usize = 1_078_352;

const CLOSE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_number_accepted_across_a_broker_crash_arrives_or_is_counted() {
    let Some(broker) = mosquitto::start("allow_anonymous true").await else {
        return;
    };
    for (version, qos) in [
        ("5", Qos::at_least_once()),
        ("3.1.1", Qos::at_least_once()),
        ("5", Qos::exactly_once()),
    ] {
        let qos = qos.with_depth(256);
        let url = config(&format!("mqtt://{}?version={version}", broker.address()));
        let (edge, vehicle) = (open(&url).await, open(&url).await);
        let mut events = edge.events();
        until(&mut events, |event| matches!(event, Event::Connected)).await;
        let mut subscriber = listen(&edge, &topic("a"), qos.delivery).await;
        let publisher = vehicle
            .publisher(&topic("a"), &opaque(), qos)
            .await
            .unwrap();
        let mut ids = Sequence::random();
        let mut tokens = Vec::new();
        // What comes before the first arrival would not be counted.
        let first = Message::new("first").with_id(ids.next_id());
        drop(publisher.publish(first).await.unwrap());
        within(subscriber.recv()).await.unwrap().unwrap();
        for n in 0..200 {
            if n == 100 {
                broker.kill().await;
            }
            if n == 105 {
                broker.restart().await;
            }
            let message = Message::new(vec![n as u8; 1000]).with_id(ids.next_id());
            tokens.push(within(publisher.publish(message)).await.unwrap());
        }
        let mut acknowledged = 0;
        for token in tokens {
            acknowledged += u64::from(within(token).await.is_ok());
        }
        let counters = publisher.counters();
        assert_eq!(counters.acknowledged, acknowledged + 1);
        assert_eq!(
            counters.accepted,
            counters.written + counters.dropped + counters.lost
        );
        assert_eq!(counters.written, counters.acknowledged);
        until(&mut events, |event| matches!(event, Event::Connected)).await;
        // One more, which no gap hides.
        let last = ids.next_id();
        let token = publisher
            .publish(Message::new("last").with_id(last))
            .await
            .unwrap();
        within(token).await.unwrap();
        loop {
            let sample = within(subscriber.recv()).await.unwrap().unwrap();
            if sample.meta.id == Some(last) {
                break;
            }
        }
        let seen = subscriber.counters();
        // Under exactly-once a repeated message is counted and not received.
        let repeated = match qos.delivery {
            Delivery::ExactlyOnce => 0,
            _ => seen.duplicates,
        };
        assert_eq!(
            seen.received - repeated + seen.missed,
            ids.count(),
            "{seen:?}"
        );
        for side in [vehicle, edge] {
            within(side.close(CLOSE)).await;
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_go_on_as_soon_as_everybody_is_back() {
    // With waits of 1.5 to 3 s, messages would be held for 12 s if nobody were known to be back.
    const WAITS: &str = "reconnect_min=3s&reconnect_max=60s";
    const HELD: Duration = Duration::from_secs(10);
    let Some(broker) = mosquitto::start("allow_anonymous true").await else {
        return;
    };
    for version in ["5", "3.1.1"] {
        let at = broker.address();
        // Each side is a peer of its own name.
        let url = |peer: &str| {
            let url = format!("mqtt://{at}?version={version}&{WAITS}&peer={peer}");
            config(&url)
        };
        let (edge, vehicle) = (open(&url("edge")).await, open(&url("vehicle")).await);
        let (mut near, mut far) = (vehicle.events(), edge.events());
        let known = |event: &Event| matches!(event, Event::PeerAlive(_));
        until(&mut near, known).await;
        until(&mut far, known).await;
        let mut subscriber = listen(&edge, &topic("a"), Delivery::AtLeastOnce).await;
        let qos = Qos::at_least_once().with_depth(64);
        let publisher = vehicle.publisher(&topic("a"), &opaque(), qos).await;
        let publisher = publisher.unwrap();
        broker.kill().await;
        let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
        until(&mut near, lost).await;
        until(&mut far, lost).await;
        let mut ids = Sequence::random();
        let mut tokens = Vec::new();
        for _ in 0..50 {
            let message = Message::new("meanwhile").with_id(ids.next_id());
            tokens.push(within(publisher.publish(message)).await.unwrap());
        }
        broker.restart().await;
        let back = |event: &Event| matches!(event, Event::Connected);
        until(&mut near, back).await;
        until(&mut far, back).await;
        let arrive = async {
            for _ in 0..50 {
                subscriber.recv().await.unwrap().unwrap();
            }
        };
        let arrived = tokio::time::timeout(HELD, arrive).await;
        assert!(arrived.is_ok(), "version {version}: held back");
        for token in tokens {
            assert_eq!(within(token).await.unwrap(), Stage::Acknowledged);
        }
        assert_eq!(subscriber.counters().missed, 0);
        for side in [vehicle, edge] {
            within(side.close(CLOSE)).await;
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_will_not_carry_is_refused_or_counted() {
    // Announced with MQTT 5: refused before it is sent.
    let lines = "allow_anonymous true\nmax_packet_size 600000";
    let Some(broker) = mosquitto::start(lines).await else {
        return;
    };
    let url = config(&format!("mqtt://{}", broker.address()));
    let vehicle = open(&url).await;
    let publisher = vehicle
        .publisher(&topic("a"), &opaque(), Qos::at_least_once())
        .await
        .unwrap();
    match publisher.try_publish(Message::new(vec![0; CLOUD])) {
        Err(Refused {
            why: Why::Fatal(error),
            ..
        }) => {
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(error.to_string().contains("600000"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    // Near the limit the rest of the packet counts.
    let token = publisher
        .publish(Message::new(vec![0; 599_999]))
        .await
        .unwrap();
    assert_eq!(within(token).await.unwrap_err().kind(), ErrorKind::TooLarge);
    let token = publisher
        .publish(Message::new(vec![0; 599_000]))
        .await
        .unwrap();
    assert_eq!(within(token).await.unwrap(), Stage::Acknowledged);
    let counters = publisher.counters();
    assert_eq!(
        (counters.accepted, counters.refused, counters.lost),
        (2, 1, 1)
    );
    within(vehicle.close(CLOSE)).await;
    broker.stop().await;

    // Not announced: the broker reads it, acknowledges it and throws it away.
    let lines = "allow_anonymous true\nmessage_size_limit 524288";
    let Some(broker) = mosquitto::start(lines).await else {
        return;
    };
    for version in ["5", "3.1.1"] {
        let url = config(&format!("mqtt://{}?version={version}", broker.address()));
        let (edge, vehicle) = (open(&url).await, open(&url).await);
        let mut subscriber = listen(&edge, &topic("a"), Delivery::AtLeastOnce).await;
        let publisher = vehicle
            .publisher(&topic("a"), &opaque(), Qos::at_least_once())
            .await
            .unwrap();
        let mut ids = Sequence::random();
        let mut refused = 0;
        for size in [10, CLOUD, CLOUD, 183_342] {
            let message = Message::new(vec![0; size]).with_id(ids.next_id());
            let token = within(publisher.publish(message)).await.unwrap();
            refused += u64::from(within(token).await.is_err());
        }
        let mut missed = 0;
        for size in [10, 183_342] {
            let sample = within(subscriber.recv()).await.unwrap().unwrap();
            assert_eq!(sample.payload.len(), size);
            missed += sample.missed;
        }
        assert_eq!(
            missed, 2,
            "version {version}: the two clouds are counted as missing"
        );
        assert_eq!(publisher.counters().lost, refused);
        for side in [vehicle, edge] {
            within(side.close(CLOSE)).await;
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_an_auth_error_without_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    let made = std::process::Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&file)
        .args(["me", "right"])
        .output();
    if made.is_err() {
        println!("left out: mosquitto_passwd not found");
        return;
    }
    let lines = format!("allow_anonymous false\npassword_file {}", file.display());
    let Some(broker) = mosquitto::start(lines).await else {
        return;
    };
    let at = broker.address();
    for version in ["5", "3.1.1"] {
        for login in ["me:hunter2@", ""] {
            let url = config(&format!("mqtt://{login}{at}?version={version}"));
            let error = within(Factory.open(&url)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
            assert!(error.to_string().contains(&at.to_string()), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let transport = open(&config(&format!("mqtt://me:right@{at}?version={version}"))).await;
        assert!(!format!("{:?}", transport.info()).contains("right"));
        within(transport.close(CLOSE)).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_to_a_broker_elsewhere_sends_without_delay() {
    if !sockets::alone("every_socket_to_a_broker_elsewhere_sends_without_delay").await {
        return;
    }
    let Some(broker) = mosquitto::start("allow_anonymous true").await else {
        return;
    };
    for version in ["5", "3.1.1"] {
        let url = config(&format!("mqtt://{}?version={version}", broker.address()));
        let (edge, vehicle) = (open(&url).await, open(&url).await);
        let mut subscriber = listen(&edge, &topic("a"), Delivery::AtMostOnce).await;
        let (name, schema) = (topic("a"), opaque());
        let publisher = vehicle.publisher(&name, &schema, Qos::blocking());
        let publisher = publisher.await.unwrap();
        drop(publisher.publish(Message::new("hello")).await.unwrap());
        within(subscriber.recv()).await.unwrap().unwrap();
        // Two connections of each side.
        assert_eq!(sockets::connected(), (4, 0), "version {version}");
        for side in [vehicle, edge] {
            within(side.close(CLOSE)).await;
        }
    }
    broker.stop().await;
}
