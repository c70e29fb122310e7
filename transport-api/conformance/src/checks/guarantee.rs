//! Delivery guarantees, tokens and what is granted.

use std::collections::BTreeSet;

use transport_api::{
    AckScope, Delivery, Error, ErrorKind, Granted, PublisherExt, Qos, Schema, Stage, Transport,
    Unmet,
};

use super::check::{Check, check};
use super::need;
use crate::fixture::FIRST;
use crate::scene::{
    Failure, Outcome, Scene, Source, deep, ensure, full, id, noise, now, number, receive, silent,
    subscribe, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(at_most_once_token_is_immediate, need::always),
    check!(token_resolves_after_ack, need::at_least_once),
    check!(exactly_once_token_resolves_after_ack, need::exactly_once),
    check!(token_drop_keeps_message, need::always),
    check!(flush_waits_for_every_message, need::always),
    check!(at_least_once_delivers_all, need::at_least_once),
    check!(exactly_once_delivers_each_once, need::exactly_once),
    check!(exactly_once_holds_repeats_back, need::exactly_once),
    check!(refuses_at_least_once, need::no_at_least_once),
    check!(refuses_exactly_once, need::no_exactly_once),
];

async fn at_most_once_token_is_immediate(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let mut source = Source::new(&first, &scene.topic("token"), Qos::default()).await?;
    let granted = source.publisher.granted();
    ensure!(
        (granted.delivery, granted.scope) == (Delivery::AtMostOnce, AckScope::Nothing),
        "{granted:?}"
    );
    let (_, token) = source.send("no answer expected").await?;
    match now(token) {
        Some(Ok(Stage::Queued)) => Ok(()),
        other => Err(Failure(format!("the token says {other:?}"))),
    }
}

async fn token_resolves_after_ack(scene: &Scene) -> Outcome {
    acknowledged(scene, Qos::at_least_once(), |c| c.at_least_once).await
}

async fn exactly_once_token_resolves_after_ack(scene: &Scene) -> Outcome {
    acknowledged(scene, Qos::exactly_once(), |c| c.exactly_once).await
}

async fn acknowledged(
    scene: &Scene,
    qos: Qos,
    scope: fn(&transport_api::Capabilities) -> Option<AckScope>,
) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("acknowledged");
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let granted = source.publisher.granted();
    ensure!(
        granted.delivery == qos.delivery && Some(granted.scope) == scope(&second.capabilities()),
        "{granted:?} where the capabilities say {:?}",
        second.capabilities()
    );
    for n in 0..10 {
        let (seq, token) = source.send(noise(20_000, n)).await?;
        let what = format!("the acknowledgement of message {seq}");
        let stage = wait(&what, token).await??;
        ensure!(stage == Stage::Acknowledged, "the token says {stage:?}");
        let found = number(&mut subscriber, &format!("message {seq}")).await?;
        ensure!(found == seq, "received {found} where {seq} was sent");
    }
    let counters = source.publisher.counters();
    ensure!(
        (counters.accepted, counters.written, counters.acknowledged) == (10, 10, 10),
        "{counters:?}"
    );
    Ok(())
}

/// A subscriber with the delivery of `qos` that never has to drop what a check sends.
pub(super) fn receiving(qos: Qos) -> Qos {
    Qos {
        delivery: qos.delivery,
        ..deep()
    }
}

async fn token_drop_keeps_message(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("forgotten");
    let qos = match second.capabilities().at_least_once {
        Some(_) => Qos::at_least_once(),
        None => Qos::blocking(),
    };
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    for _ in 0..20 {
        let seq = source.tell("nobody waits for it").await?;
        number(&mut subscriber, &format!("message {seq}")).await?;
    }
    Ok(())
}

async fn flush_waits_for_every_message(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("flushed");
    let qos = match second.capabilities().at_least_once {
        Some(_) => Qos::at_least_once(),
        None => Qos::blocking(),
    };
    let _subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    for n in 0..20 {
        source.tell(noise(100_000, n)).await?;
    }
    wait("a flush", source.publisher.flush(Stage::Written)).await??;
    let counters = source.publisher.counters();
    ensure!(
        counters.accepted == 20 && counters.written == 20,
        "after a flush of what is written: {counters:?}"
    );
    wait("a flush", source.publisher.flush(Stage::Acknowledged)).await??;
    let counters = source.publisher.counters();
    let expected = match source.publisher.granted().scope {
        AckScope::Nothing => 0,
        _ => 20,
    };
    ensure!(
        counters.acknowledged == expected && counters.lost == 0,
        "after a flush of what is acknowledged: {counters:?}"
    );
    Ok(())
}

async fn at_least_once_delivers_all(scene: &Scene) -> Outcome {
    delivers_all(scene, Qos::at_least_once()).await
}

async fn exactly_once_delivers_each_once(scene: &Scene) -> Outcome {
    delivers_all(scene, Qos::exactly_once()).await
}

async fn delivers_all(scene: &Scene, qos: Qos) -> Outcome {
    const COUNT: u64 = 500;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("all");
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let mut tokens = Vec::new();
    for n in 0..COUNT {
        tokens.push(source.send(noise(2000, n)).await?);
    }
    for (seq, token) in tokens {
        let what = format!("the acknowledgement of message {seq}");
        wait(&what, token).await??;
    }
    let mut seen = BTreeSet::new();
    while (seen.len() as u64) < COUNT {
        let what = format!("message {} of {COUNT}", seen.len() + 1);
        let seq = number(&mut subscriber, &what).await?;
        ensure!(
            seen.insert(seq) || qos.delivery == Delivery::AtLeastOnce,
            "message {seq} came twice"
        );
    }
    if qos.delivery == Delivery::ExactlyOnce {
        ensure!(silent(&mut subscriber).await, "a message came twice");
    }
    Ok(())
}

async fn exactly_once_holds_repeats_back(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("repeats");
    let qos = Qos::exactly_once();
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let message = source.message("the same identity, three times");
    for _ in 0..3 {
        let token = source.publisher.publish(message.clone()).await?;
        wait("an acknowledgement", token).await??;
    }
    let last = source.tell("the next").await?;
    let found = [
        number(&mut subscriber, "the message").await?,
        number(&mut subscriber, "the next message").await?,
    ];
    ensure!(found == [0, last], "received {found:?}");
    let counters = subscriber.counters();
    ensure!(counters.duplicates == 2, "{counters:?}");
    Ok(())
}

async fn refuses_at_least_once(scene: &Scene) -> Outcome {
    refuses(scene, Qos::at_least_once(), "at-least-once").await
}

async fn refuses_exactly_once(scene: &Scene) -> Outcome {
    refuses(scene, Qos::exactly_once(), "exactly-once").await
}

async fn refuses(scene: &Scene, qos: Qos, wish: &str) -> Outcome {
    let first = scene.open(FIRST).await?;
    let granted = refused(scene, &*first, qos, wish).await?;
    for granted in granted {
        ensure!(granted.delivery < qos.delivery, "granted {granted:?}");
    }
    Ok(())
}

/// Asks for what is not offered: it is refused, or degraded to what is returned.
pub(super) async fn refused(
    scene: &Scene,
    transport: &dyn Transport,
    qos: Qos,
    wish: &str,
) -> Outcome<[Granted; 2]> {
    let topic = scene.topic("refused");
    let filter = (&topic).into();
    let schema = Schema::opaque();
    let strict = Qos {
        unmet: Unmet::Fail,
        ..qos
    };
    let publisher = transport.publisher(&topic, &schema, strict).await;
    unsupported(publisher.err(), wish)?;
    let subscriber = transport.subscriber(&filter, &schema, strict).await;
    unsupported(subscriber.err(), wish)?;
    let lenient = Qos {
        unmet: Unmet::Degrade,
        ..qos
    };
    let publisher = transport.publisher(&topic, &schema, lenient).await?;
    let mut subscriber = transport.subscriber(&filter, &schema, lenient).await?;
    // What was granted works.
    let granted = [publisher.granted(), subscriber.granted()];
    let mut source = Source::with(publisher);
    let seq = source.tell("degraded").await?;
    let found = id(&receive(&mut subscriber, "a message with a degraded guarantee").await?)?;
    ensure!(found.seq == seq, "received {found}");
    Ok(granted)
}

/// The error is there, of the right kind, and names the wish.
pub(super) fn unsupported(error: Option<Error>, wish: &str) -> Outcome {
    let error = error.ok_or_else(|| Failure(format!("{wish} was granted, and is not offered")))?;
    ensure!(
        error.kind() == ErrorKind::Unsupported && error.to_string().contains(wish),
        "expected an `Unsupported` error naming {wish}, got: {}",
        full(&error)
    );
    Ok(())
}
