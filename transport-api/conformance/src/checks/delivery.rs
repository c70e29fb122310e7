//! What arrives, and how.

use transport_api::{
    ClockId, ErrorKind, MessageId, PublisherExt, Qos, Refused, Schema, Stage, Stamp, StampPoint,
    TraceContext, Why,
};

use super::check::{Check, check};
use super::need::{always, metadata};
use crate::fixture::FIRST;
use crate::scene::{
    Failure, Outcome, Scene, Source, arrive, ensure, id, listen, noise, number, receive, silent,
    subscribe, wait,
};

/// A `VelodyneScan` of 151 packets as ROS 1 bytes.
const SCAN: usize = 183_342;

/// The points of a single-return cloud: 49,016 of 22 B.
const CLOUD: usize = 1_078_352;

/// The points of a dual-return cloud.
const DUAL: usize = 2 * CLOUD;

pub(super) const CHECKS: &[Check] = &[
    check!(delivers_payload_unchanged_0, always, payload(0)),
    check!(delivers_payload_unchanged_1, always, payload(1)),
    check!(delivers_payload_unchanged_64k, always, payload(65_536)),
    check!(delivers_payload_unchanged_scan, always, payload(SCAN)),
    check!(delivers_payload_unchanged_cloud, always, payload(CLOUD)),
    check!(delivers_payload_unchanged_2_2m, always, payload(DUAL)),
    check!(delivers_payload_unchanged_64m, always),
    check!(oversize_is_refused_with_message_returned, always),
    check!(metadata_survives, metadata),
    check!(first_message_is_delivered, always),
    check!(subscriber_active_when_returned, always),
    check!(order_per_publisher, always),
    check!(two_publishers_keep_their_orders, always),
    check!(two_subscribers_both_receive, always),
    check!(own_publications_are_received, always),
    check!(topics_do_not_mix, always),
    check!(drop_unsubscribes, always),
    check!(publish_from_receive, always),
];

async fn payload(scene: &Scene, length: usize) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("payload");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    // Several, since a fault in the framing shows with the message after it.
    for round in 0..3 {
        let sent = noise(length, 7 + round);
        source.tell(sent.clone()).await?;
        let sample = receive(&mut subscriber, "the payload").await?;
        ensure!(
            sample.payload == sent,
            "round {round}: {} B sent, {} B received, and they differ",
            sent.len(),
            sample.payload.len()
        );
        ensure!(sample.topic == topic, "it arrived on {}", sample.topic);
    }
    Ok(())
}

async fn delivers_payload_unchanged_64m(scene: &Scene) -> Outcome {
    const LARGE: usize = 64 << 20;
    let first = scene.open_for(FIRST, LARGE).await?;
    let second = scene.open_for("second", LARGE).await?;
    let limit = second.capabilities().max_payload;
    ensure!(
        limit.is_none_or(|limit| limit >= LARGE),
        "opened with max_payload={LARGE}, and the limit is {limit:?}"
    );
    let topic = scene.topic("large");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let sent = noise(LARGE, 64);
    source.tell(sent.clone()).await?;
    let sample = receive(&mut subscriber, "64 MiB").await?;
    ensure!(
        sample.payload == sent,
        "{} B received, and they differ",
        sample.payload.len()
    );
    Ok(())
}

async fn oversize_is_refused_with_message_returned(scene: &Scene) -> Outcome {
    const LIMIT: usize = 100_000;
    let first = scene.open_for(FIRST, LIMIT).await?;
    let second = scene.open_for("second", LIMIT).await?;
    let limit = second.capabilities().max_payload;
    ensure!(
        limit == Some(LIMIT),
        "opened with max_payload={LIMIT}, and the limit is {limit:?}"
    );
    let topic = scene.topic("oversize");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let message = source.message(noise(LIMIT + 1, 1));
    match source.publisher.try_publish(message.clone()) {
        Err(Refused {
            message: back,
            why: Why::Fatal(error),
        }) => {
            ensure!(back == message, "another message came back");
            ensure!(error.kind() == ErrorKind::TooLarge, "{error:?}");
            ensure!(
                error.to_string().contains(&LIMIT.to_string()),
                "the limit is not in `{error}`"
            );
        }
        other => return Err(Failure(format!("{other:?}"))),
    }
    let counters = source.publisher.counters();
    ensure!(
        (counters.refused, counters.accepted) == (1, 0),
        "{counters:?}"
    );
    // The largest payload that is allowed passes, and the handle is none the worse for the refusal.
    source.tell(noise(LIMIT, 2)).await?;
    let sample = receive(&mut subscriber, "a payload as large as the limit").await?;
    ensure!(sample.payload == noise(LIMIT, 2), "it differs");
    Ok(())
}

async fn metadata_survives(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("metadata");
    let schema = Schema::new("sensor_msgs/PointCloud2", [0xa5; 16], "uint32 height\n");
    let mut subscriber = first
        .subscriber(&(&topic).into(), &schema, Qos::default())
        .await?;
    let publisher = wait(
        "a publisher",
        second.publisher(&topic, &schema, Qos::blocking()),
    )
    .await??;
    let mut source = Source::with(publisher);
    let mut message = source.message(noise(1000, 3));
    message.meta.correlation = Some(MessageId {
        source: u64::MAX,
        seq: u64::MAX - 1,
    });
    message.meta.trace = Some(TraceContext {
        trace: u128::MAX - 5,
        span: 7,
        flags: 1,
    });
    for n in 0..transport_api::stamp::CAPACITY {
        message.meta.stamps.push(Stamp {
            point: StampPoint(n as u8),
            clock: ClockId(u32::MAX - n as u32),
            nanos: i64::MIN + n as i64,
        });
    }
    drop(source.publisher.publish(message.clone()).await?);
    let sample = receive(&mut subscriber, "a message with all metadata").await?;
    // The publisher's declaration names the schema of a message that has none of its own.
    message.meta.schema = schema.id().cloned();
    ensure!(
        sample.meta == message.meta,
        "sent {:?}, received {:?}",
        message.meta,
        sample.meta
    );
    ensure!(sample.payload == message.payload, "the payload differs");
    let plain = transport_api::Message::new("plain");
    drop(source.publisher.publish(plain).await?);
    let sample = receive(&mut subscriber, "a message without metadata").await?;
    ensure!(
        sample.meta.id.is_none() && sample.meta.stamps.as_slice().is_empty(),
        "sent none, received {:?}",
        sample.meta
    );
    Ok(())
}

async fn first_message_is_delivered(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    for round in 0..20 {
        let topic = scene.topic(&format!("first{round}"));
        let mut subscriber = listen(&first, &topic).await?;
        let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
        source.tell("the only one").await?;
        receive(&mut subscriber, &format!("the only message, round {round}")).await?;
    }
    Ok(())
}

async fn subscriber_active_when_returned(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    for round in 0..20 {
        let topic = scene.topic(&format!("active{round}"));
        let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
        source.tell("before anyone listens").await?;
        wait(
            "the message before",
            source.publisher.flush(Stage::Acknowledged),
        )
        .await??;
        let mut subscriber = listen(&first, &topic).await?;
        let sent = source.tell("after").await?;
        let what = format!("a message published after the subscriber was there, round {round}");
        while number(&mut subscriber, &what).await? != sent {}
    }
    Ok(())
}

async fn order_per_publisher(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("order");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for n in 0..1000 {
        // Mixed sizes, so that a small message could overtake a large one.
        source.tell(noise([10, 40_000, 500][n % 3], 1)).await?;
    }
    let end = arrive(&mut source, &mut subscriber, "the end of the stream").await?;
    let counters = subscriber.counters();
    ensure!(
        counters.reordered == 0 && counters.duplicates == 0,
        "0 to {end} were sent in order: {counters:?}"
    );
    Ok(())
}

async fn two_publishers_keep_their_orders(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("both");
    let mut subscriber = listen(&first, &topic).await?;
    let mut one = Source::new(&first, &topic, Qos::blocking()).await?;
    let mut two = Source::new(&second, &topic, Qos::blocking()).await?;
    for _ in 0..50 {
        let sent = [one.tell("one").await?, two.tell("two").await?];
        let mut found = [None; 2];
        for _ in 0..2 {
            let id = id(&receive(&mut subscriber, "one message of each").await?)?;
            found[usize::from(id.source == two.sequence.source())] = Some(id.seq);
        }
        ensure!(found == sent.map(Some), "sent {sent:?}, received {found:?}");
    }
    Ok(())
}

async fn two_subscribers_both_receive(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let third = scene.open("third").await?;
    let topic = scene.topic("shared");
    let mut here = listen(&first, &topic).await?;
    let mut there = listen(&third, &topic).await?;
    let mut beside = listen(&third, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for _ in 0..50 {
        let sent = source.tell(noise(5000, 5)).await?;
        for (subscriber, place) in [
            (&mut here, "first"),
            (&mut there, "third"),
            (&mut beside, "third again"),
        ] {
            let found = number(subscriber, &format!("message {sent} at {place}")).await?;
            ensure!(
                found == sent,
                "{place} received {found} where {sent} was sent"
            );
        }
    }
    Ok(())
}

async fn own_publications_are_received(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let topic = scene.topic("own");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&first, &topic, Qos::blocking()).await?;
    for _ in 0..10 {
        let sent = source.tell("to myself").await?;
        let found = number(&mut subscriber, "an own publication").await?;
        ensure!(found == sent, "received {found} where {sent} was sent");
    }
    Ok(())
}

async fn topics_do_not_mix(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let names = ["scan", "scan2", "scan/raw", "Scan"];
    let mut pairs = Vec::new();
    for name in names {
        let topic = scene.topic(name);
        let subscriber = listen(&first, &topic).await?;
        pairs.push((
            Source::new(&second, &topic, Qos::blocking()).await?,
            subscriber,
        ));
    }
    for (source, _) in &mut pairs {
        source.tell("for one topic").await?;
    }
    for (source, subscriber) in &mut pairs {
        let found = id(&receive(subscriber, "the message of its topic").await?)?;
        ensure!(
            found.source == source.sequence.source(),
            "a message of another topic arrived"
        );
    }
    for (_, subscriber) in &mut pairs {
        ensure!(
            silent(subscriber).await,
            "a message of another topic arrived"
        );
    }
    Ok(())
}

async fn drop_unsubscribes(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("again");
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for round in 0..10 {
        let mut subscriber = subscribe(&first, &(&topic).into(), Qos::default()).await?;
        let sent = source.tell("once").await?;
        while number(&mut subscriber, &format!("message {sent}, round {round}")).await? != sent {}
        drop(subscriber);
    }
    // A subscription that was left behind would bring each message again.
    let mut subscriber = listen(&first, &topic).await?;
    let sent = source.tell("once").await?;
    while number(&mut subscriber, "the last message").await? != sent {}
    ensure!(silent(&mut subscriber).await, "the last message came twice");
    // Closing does the same and says when it is done.
    wait("a subscriber to close", subscriber.close()).await??;
    let mut subscriber = listen(&first, &topic).await?;
    let sent = source.tell("once more").await?;
    while number(&mut subscriber, "a message after closing").await? != sent {}
    Ok(())
}

async fn publish_from_receive(scene: &Scene) -> Outcome {
    const WINDOW: u64 = 16;
    const COUNT: u64 = 2000;
    let (first, second) = scene.pair().await?;
    let (ask, answer) = (scene.topic("ask"), scene.topic("answer"));
    let mut asked = listen(&first, &ask).await?;
    let mut answers = listen(&second, &answer).await?;
    let mut answering = Source::new(&first, &answer, Qos::blocking()).await?;
    let mut asking = Source::new(&second, &ask, Qos::blocking()).await?;
    let echo = tokio::spawn(async move {
        for _ in 0..COUNT {
            let sample = receive(&mut asked, "a question").await?;
            answering.tell(sample.payload).await?;
        }
        Ok::<_, Failure>(())
    });
    for n in 0..COUNT {
        asking.tell(noise(1000, n)).await?;
        if n >= WINDOW {
            number(&mut answers, &format!("answer {}", n - WINDOW)).await?;
        }
    }
    for n in COUNT - WINDOW..COUNT {
        number(&mut answers, &format!("answer {n}")).await?;
    }
    echo.await.map_err(|error| Failure(error.to_string()))?
}
