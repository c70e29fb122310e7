//! Full queues and slow subscribers.

use std::sync::Arc;

use bytes::Bytes;
use transport_api::{
    AckScope, Delivery, ErrorKind, Event, Overflow, PublisherExt, Qos, Refused, Schema, Stage,
    Subscriber, SubscriberExt, Transport, Why,
};

use super::check::{Check, check};
use super::guarantee::{receiving, unsupported};
use super::need;
use crate::scene::{
    CLOSE, Failure, Outcome, Scene, Source, ensure, event, id, listen, noise, number, receive,
    subscribe, until, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(full_queue_refuses_and_returns_message, need::always),
    check!(block_waits, need::always),
    check!(drop_oldest_keeps_newest, need::always),
    check!(drop_newest_keeps_oldest, need::always),
    check!(publisher_drop_oldest_never_refuses, need::always),
    check!(publisher_drop_newest_never_refuses, need::always),
    check!(counters_add_up, need::always),
    check!(slow_subscriber_does_not_stall_peer, need::always),
    check!(blocking_subscriber_loses_nothing, need::blocks),
    check!(refuses_block_on_receive, need::no_blocks),
    check!(close_wakes_waiting_publisher, need::always),
];

/// More than a queue of depth 1 and the buffers behind it hold when filled without a pause.
const FLOOD: usize = 2000;

const LARGE: usize = 1 << 20;

/// A subscriber that does not make room by itself, where the transport offers that.
async fn obstacle(
    scene: &Scene,
    transport: &Arc<dyn Transport>,
    name: &str,
) -> Outcome<Box<dyn Subscriber>> {
    let topic = scene.topic(name);
    let qos = match transport.capabilities().block_on_receive {
        true => Qos::blocking().with_depth(1),
        false => Qos::default(),
    };
    subscribe(transport, &(&topic).into(), qos).await
}

/// Publishes without a pause until the queue is full; returns how many were accepted.
fn fill(source: &mut Source, payload: &Bytes) -> Outcome<usize> {
    for accepted in 0..FLOOD {
        let message = source.message(payload.clone());
        match source.publisher.try_publish(message.clone()) {
            Ok(token) => drop(token),
            Err(Refused {
                message: back,
                why: Why::Full,
            }) => {
                ensure!(
                    back == message && back.payload.as_ptr() == payload.as_ptr(),
                    "another message came back, or a copy"
                );
                return Ok(accepted);
            }
            Err(refused) => return Err(Failure(format!("{refused:?}"))),
        }
    }
    Err(Failure(format!(
        "{FLOOD} messages of 1 MiB went into a queue of depth 1 without a pause"
    )))
}

async fn full_queue_refuses_and_returns_message(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut subscriber = obstacle(scene, &first, "full").await?;
    let qos = Qos::blocking().with_depth(1);
    // The publisher's schema is not in the messages: it may be filled in, but not in what comes back.
    let schema = Schema::new("conformance/Full", [3; 16], "");
    let topic = scene.topic("full");
    let what = "a publisher with a schema";
    let publisher = wait(what, second.publisher(&topic, &schema, qos)).await??;
    let mut source = Source::with(publisher);
    let accepted = fill(&mut source, &noise(LARGE, 9))?;
    let counters = source.publisher.counters();
    ensure!(
        (counters.accepted, counters.refused, counters.dropped) == (accepted as u64, 1, 0),
        "{accepted} were accepted: {counters:?}"
    );
    // Room comes back as the other side takes out what is under way.
    let reading = tokio::spawn(async move { while subscriber.recv().await.is_some() {} });
    wait("room in the queue", source.publisher.ready()).await??;
    source.tell("fits").await?;
    reading.abort();
    Ok(())
}

async fn block_waits(scene: &Scene) -> Outcome {
    const COUNT: u64 = 40;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("waits");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking().with_depth(1)).await?;
    let payload = noise(LARGE, 4);
    let publishing = tokio::spawn(async move {
        for _ in 0..COUNT {
            source.tell(payload.clone()).await?;
        }
        Ok::<_, Failure>(source.publisher.counters())
    });
    for seq in 0..COUNT {
        let found = number(&mut subscriber, &format!("message {seq} of {COUNT}")).await?;
        ensure!(found == seq, "received {found} where {seq} was expected");
    }
    let counters = publishing.await.map_err(|e| Failure(e.to_string()))??;
    ensure!(
        (counters.accepted, counters.dropped, counters.lost) == (COUNT, 0, 0),
        "{counters:?}"
    );
    Ok(())
}

/// Publishes 0 (received by both), then 1 to 20 paced by a witness, while a subscriber of depth 4
/// does not read. What its queue gave up is known when its counter says so.
async fn overflowed(
    scene: &Scene,
    overflow: Overflow,
) -> Outcome<(Source, Box<dyn Subscriber>, [Arc<dyn Transport>; 2])> {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("overflow");
    let qos = Qos {
        overflow,
        ..Qos::default().with_depth(4)
    };
    let mut subscriber = subscribe(&first, &(&topic).into(), qos).await?;
    let mut witness = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    source.tell("0").await?;
    number(&mut subscriber, "message 0").await?;
    number(&mut witness, "message 0").await?;
    for seq in 1..=20 {
        source.tell(seq.to_string()).await?;
        number(&mut witness, &format!("message {seq} at the witness")).await?;
    }
    // By unique reference, since a subscriber is not `Sync`.
    let full = &mut subscriber;
    until(
        "16 messages to be dropped by a queue of depth 4",
        move || full.counters().dropped >= 16,
    )
    .await?;
    let counters = subscriber.counters();
    ensure!(
        counters.dropped == 16,
        "20 messages in a queue of depth 4: {counters:?}"
    );
    Ok((source, subscriber, [first, second]))
}

async fn drop_oldest_keeps_newest(scene: &Scene) -> Outcome {
    let (_source, mut subscriber, _transports) = overflowed(scene, Overflow::DropOldest).await?;
    let oldest = receive(&mut subscriber, "the oldest that was kept").await?;
    let found = id(&oldest)?.seq;
    ensure!(
        (found, oldest.missed) == (17, 16),
        "message {found} says that {} are missing before it",
        oldest.missed
    );
    for seq in 18..=20 {
        let found = number(&mut subscriber, &format!("message {seq}")).await?;
        ensure!(found == seq, "received {found} where {seq} was expected");
    }
    let counters = subscriber.counters();
    ensure!(
        (counters.received, counters.missed) == (5, 16),
        "{counters:?}"
    );
    Ok(())
}

async fn drop_newest_keeps_oldest(scene: &Scene) -> Outcome {
    let (mut source, mut subscriber, _transports) = overflowed(scene, Overflow::DropNewest).await?;
    for seq in 1..=4 {
        let found = number(&mut subscriber, &format!("message {seq}")).await?;
        ensure!(found == seq, "received {found} where {seq} was expected");
    }
    // The next message shows what is missing at the end.
    let last = source.tell("21").await?;
    let sample = receive(&mut subscriber, "the message after the gap").await?;
    let found = id(&sample)?.seq;
    ensure!(
        (found, sample.missed) == (last, 16),
        "message {found} says that {} are missing before it",
        sample.missed
    );
    Ok(())
}

async fn publisher_drop_oldest_never_refuses(scene: &Scene) -> Outcome {
    outrun(scene, Overflow::DropOldest).await
}

async fn publisher_drop_newest_never_refuses(scene: &Scene) -> Outcome {
    outrun(scene, Overflow::DropNewest).await
}

async fn outrun(scene: &Scene, overflow: Overflow) -> Outcome {
    const COUNT: u64 = 300;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("outrun");
    let best = match second.capabilities().at_least_once {
        Some(_) => Delivery::AtLeastOnce,
        None => Delivery::AtMostOnce,
    };
    let qos = Qos {
        delivery: best,
        overflow,
        ..Qos::default().with_depth(2)
    };
    let mut events = second.events();
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let payload = noise(LARGE, 6);
    let mut tokens = Vec::new();
    for _ in 0..COUNT {
        let message = source.message(payload.clone());
        match source.publisher.try_publish(message) {
            Ok(token) => tokens.push(token),
            Err(refused) => return Err(Failure(format!("{overflow:?}: {refused:?}"))),
        }
    }
    wait("a flush", source.publisher.flush(Stage::Acknowledged)).await??;
    let counters = source.publisher.counters();
    ensure!(
        counters.accepted == COUNT
            && counters.refused == 0
            && counters.accepted == counters.written + counters.dropped + counters.lost,
        "{counters:?}"
    );
    let mut told = 0;
    for token in tokens {
        match wait("a token", token).await? {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Dropped => told += 1,
            Err(error) => return Err(error.into()),
        }
    }
    // What was granted is what must happen.
    let overflow = source.publisher.granted().overflow;
    let tells =
        overflow == Overflow::DropNewest || source.publisher.granted().scope != AckScope::Nothing;
    ensure!(
        !tells || told == counters.dropped,
        "{told} tokens say that their message was dropped: {counters:?}"
    );
    let mut announced = 0;
    while announced < counters.dropped {
        let dropped = event(&mut events, "the drops as events", |event| {
            matches!(event, Event::Dropped { .. })
        });
        if let Event::Dropped { count, .. } = dropped.await? {
            announced += count;
        }
        // The stream is bounded too; what it lost is counted there.
        if events.lagged() > 0 {
            break;
        }
    }
    // The oldest of all or the newest of all, by policy; and what is written arrives.
    let mut received = Vec::new();
    for _ in 0..counters.written {
        received.push(number(&mut subscriber, "a message that was written").await?);
    }
    let kept = match overflow {
        Overflow::DropOldest => (received.last(), COUNT - 1),
        _ => (received.first(), 0),
    };
    ensure!(
        kept.0 == Some(&kept.1),
        "message {} is not among the kept {received:?}",
        kept.1
    );
    Ok(())
}

async fn counters_add_up(scene: &Scene) -> Outcome {
    const COUNT: u64 = 50;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("counted");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let mut bytes = 0;
    for n in 0..COUNT {
        let payload = noise(n as usize * 100, n);
        bytes += payload.len() as u64;
        source.tell(payload).await?;
        receive(&mut subscriber, &format!("message {n}")).await?;
    }
    wait("a flush", source.publisher.flush(Stage::Written)).await??;
    let sent = source.publisher.counters();
    ensure!(
        sent.accepted == COUNT
            && sent.written == COUNT
            && (sent.refused, sent.dropped, sent.lost, sent.acknowledged) == (0, 0, 0, 0)
            && sent.bytes == bytes,
        "{COUNT} messages of {bytes} B in sum were sent: {sent:?}"
    );
    let got = subscriber.counters();
    ensure!(
        got.received == COUNT
            && got.bytes == bytes
            && (got.missed, got.duplicates, got.reordered) == (0, 0, 0)
            && (got.dropped, got.undecodable, got.mismatched) == (0, 0, 0),
        "{COUNT} messages of {bytes} B in sum were received: {got:?}"
    );
    Ok(())
}

async fn slow_subscriber_does_not_stall_peer(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let third = scene.open("third").await?;
    let topic = scene.topic("slow");
    let mut fast = listen(&first, &topic).await?;
    let slow = Qos::default().with_depth(1);
    let mut slow = subscribe(&third, &(&topic).into(), slow).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let payload = noise(64 << 10, 8);
    for _ in 0..300 {
        let sent = source.tell(payload.clone()).await?;
        let found = number(&mut fast, &format!("message {sent} at the fast one")).await?;
        ensure!(found == sent, "received {found} where {sent} was sent");
    }
    // It reads again, and has the newest.
    let newest = source.sequence.count() - 1;
    while number(&mut slow, "the newest message at the slow one").await? != newest {}
    Ok(())
}

async fn blocking_subscriber_loses_nothing(scene: &Scene) -> Outcome {
    const COUNT: u64 = 100;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("blocking");
    let qos = Qos::blocking().with_depth(2);
    let mut subscriber = subscribe(&first, &(&topic).into(), qos).await?;
    ensure!(
        subscriber.granted().overflow == Overflow::Block,
        "granted {:?}",
        subscriber.granted()
    );
    let mut source = Source::new(&second, &topic, Qos::blocking().with_depth(2)).await?;
    fill(&mut source, &noise(LARGE, 5))?;
    // The numbers of refused messages are spent, so the rest is a sequence of its own.
    source.sequence = transport_api::Sequence::random();
    let own = source.sequence.source();
    let publishing = tokio::spawn(async move {
        for _ in 0..COUNT {
            source.tell("waits for its turn").await?;
        }
        Ok::<_, Failure>(source)
    });
    let mut next = 0;
    while next < COUNT {
        let sample = receive(&mut subscriber, &format!("message {next} of {COUNT}")).await?;
        let found = id(&sample)?;
        if found.source == own {
            ensure!(found.seq == next, "received {found} where {next} was due");
            next += 1;
        }
    }
    publishing.await.map_err(|e| Failure(e.to_string()))??;
    let counters = subscriber.counters();
    ensure!(
        (counters.missed, counters.dropped) == (0, 0),
        "{counters:?}"
    );
    Ok(())
}

async fn refuses_block_on_receive(scene: &Scene) -> Outcome {
    let (first, _second) = scene.pair().await?;
    let schema = transport_api::Schema::opaque();
    let filter = (&scene.topic("block")).into();
    let strict = first.subscriber(&filter, &schema, Qos::blocking()).await;
    unsupported(strict.err(), "a subscriber that blocks")?;
    let lenient = Qos {
        unmet: transport_api::Unmet::Degrade,
        ..Qos::blocking()
    };
    let granted = subscribe(&first, &filter, lenient).await?.granted();
    ensure!(
        granted.overflow == Overflow::DropOldest,
        "granted {granted:?}"
    );
    Ok(())
}

async fn close_wakes_waiting_publisher(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let _subscriber = obstacle(scene, &first, "woken").await?;
    let qos = Qos::blocking().with_depth(1);
    let mut source = Source::new(&second, &scene.topic("woken"), qos).await?;
    fill(&mut source, &noise(LARGE, 2))?;
    let waiting = tokio::spawn(async move {
        // There may be room before the end; then the end is what the next message meets.
        loop {
            let message = source.message("waits");
            if let Err(error) = source.publisher.publish(message).await {
                return error;
            }
        }
    });
    wait("a close", second.close(CLOSE / 10)).await?;
    let error = wait("a waiting publisher to be woken", waiting).await?;
    let error = error.map_err(|error| Failure(error.to_string()))?;
    ensure!(error.kind() == ErrorKind::Closed, "{error:?}");
    Ok(())
}
