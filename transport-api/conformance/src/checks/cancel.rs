//! Futures that are dropped before they are through.

use std::collections::BTreeSet;

use transport_api::{PublisherExt, Qos, Stage, SubscriberExt};

use super::check::{Check, check};
use super::need;
use crate::scene::{
    Failure, Outcome, Scene, Source, ensure, id, listen, noise, now, number, receive, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(recv_is_cancel_safe, need::always),
    check!(publish_is_cancel_safe, need::always),
    check!(ready_and_flush_are_cancel_safe, need::always),
];

async fn recv_is_cancel_safe(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("cancelled");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for _ in 0..200 {
        let sent = source.tell("not to be lost").await?;
        let found = wait(&format!("message {sent}"), async {
            loop {
                // Each of these futures is dropped after one look.
                if let Some(sample) = now(subscriber.recv()) {
                    return sample;
                }
                tokio::task::yield_now().await;
            }
        })
        .await?;
        let sample = found.ok_or_else(|| Failure("the subscription has ended".to_owned()))??;
        let found = id(&sample)?.seq;
        ensure!(found == sent, "received {found} where {sent} was sent");
    }
    Ok(())
}

async fn publish_is_cancel_safe(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("dropped");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking().with_depth(1)).await?;
    let payload = noise(1 << 20, 3);
    let mut accepted = BTreeSet::new();
    for _ in 0..200 {
        let message = source.message(payload.clone());
        let seq = source.sequence.count() - 1;
        // Dropped after one look: either it was accepted then, or it never is.
        if let Some(outcome) = now(source.publisher.publish(message)) {
            drop(outcome?);
            accepted.insert(seq);
        }
        tokio::task::yield_now().await;
    }
    accepted.insert(source.tell("the last").await?);
    wait("a flush", source.publisher.flush(Stage::Written)).await??;
    let counters = source.publisher.counters();
    ensure!(
        counters.accepted == accepted.len() as u64,
        "{} publishes were through: {counters:?}",
        accepted.len()
    );
    for seq in accepted {
        let found = number(&mut subscriber, &format!("message {seq}")).await?;
        ensure!(
            found == seq,
            "received {found} where {seq} is the next that was accepted"
        );
    }
    Ok(())
}

async fn ready_and_flush_are_cancel_safe(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("given_up");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking().with_depth(1)).await?;
    let payload = noise(1 << 20, 3);
    for _ in 0..50 {
        let sent = source.tell(payload.clone()).await?;
        // The outcome of one look does not matter; that nothing breaks does.
        let _ = now(source.publisher.ready());
        let _ = now(source.publisher.flush(Stage::Written));
        let sample = receive(&mut subscriber, &format!("message {sent}")).await?;
        let found = id(&sample)?.seq;
        ensure!(found == sent, "received {found} where {sent} was sent");
    }
    wait("room", source.publisher.ready()).await??;
    wait("a flush", source.publisher.flush(Stage::Acknowledged)).await??;
    Ok(())
}
