//! Loss that is counted, and messages that do not belong.

use transport_api::{ErrorKind, Message, PublisherExt, Qos, Schema, SubscriberExt};

use super::check::{Check, check};
use super::need;
use crate::scene::{
    Failure, Outcome, Scene, Source, ensure, full, id, listen, number, receive, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(missed_counts_every_gap, need::metadata),
    check!(tail_loss_is_counted, need::metadata),
    check!(repeats_are_counted, need::metadata),
    check!(messages_without_id_are_not_counted, need::metadata),
    check!(metadata_is_absent, need::no_metadata),
    check!(schema_mismatch_is_reported_once, need::schema_check),
    check!(schema_mismatch_is_not_reported, need::no_schema_check),
    check!(opaque_subscriber_takes_every_schema, need::metadata),
];

async fn missed_counts_every_gap(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("gaps");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for skipped in [0, 0, 3, 0, 1, 70, 0] {
        for _ in 0..skipped {
            source.sequence.next_id();
        }
        let sent = source.tell("after a gap").await?;
        let sample = receive(&mut subscriber, &format!("message {sent}")).await?;
        ensure!(
            sample.missed == skipped,
            "{skipped} are missing before message {sent}, and it says {}",
            sample.missed
        );
    }
    let counters = subscriber.counters();
    ensure!(counters.missed == 74, "74 are missing: {counters:?}");
    Ok(())
}

async fn tail_loss_is_counted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("tail");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    source.tell("arrives").await?;
    receive(&mut subscriber, "the message before the loss").await?;
    // The last five of a stream are lost; only the mark of its end can tell.
    for _ in 0..5 {
        source.sequence.next_id();
    }
    source.tell("the end").await?;
    let sample = receive(&mut subscriber, "the end of the stream").await?;
    ensure!(
        (sample.missed, subscriber.counters().missed) == (5, 5),
        "5 are missing before the end, and it says {}",
        sample.missed
    );
    Ok(())
}

async fn repeats_are_counted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("repeated");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let message = source.message("twice");
    for _ in 0..2 {
        drop(source.publisher.publish(message.clone()).await?);
        number(&mut subscriber, "a message that is sent twice").await?;
    }
    let counters = subscriber.counters();
    ensure!(
        (counters.received, counters.duplicates, counters.missed) == (2, 1, 0),
        "{counters:?}"
    );
    Ok(())
}

async fn messages_without_id_are_not_counted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("foreign");
    let mut subscriber = listen(&first, &topic).await?;
    let source = Source::new(&second, &topic, Qos::blocking()).await?;
    for _ in 0..3 {
        drop(source.publisher.publish(Message::new("no id")).await?);
        let sample = receive(&mut subscriber, "a message without id").await?;
        ensure!(sample.meta.id.is_none() && sample.missed == 0, "{sample:?}");
    }
    let counters = subscriber.counters();
    ensure!(
        (counters.received, counters.missed, counters.duplicates) == (3, 0, 0),
        "{counters:?}"
    );
    Ok(())
}

async fn metadata_is_absent(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("bare");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for skipped in [0, 3] {
        for _ in 0..skipped {
            source.sequence.next_id();
        }
        let mut message = source.message("bare");
        message.meta.correlation = message.meta.id;
        drop(wait("room", source.publisher.publish(message)).await??);
        let sample = receive(&mut subscriber, "a bare message").await?;
        let meta = &sample.meta;
        ensure!(
            meta.id.is_none() && meta.correlation.is_none() && sample.missed == 0,
            "metadata is not offered, and there is {meta:?}, {} missing",
            sample.missed
        );
    }
    Ok(())
}

async fn schema_mismatch_is_not_reported(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("unchecked");
    let expected = Schema::new("conformance/Expected", [1; 16], "uint8 a\n");
    let found = Schema::new("conformance/Found", [2; 16], "uint16 a\n");
    let filter = (&topic).into();
    let subscriber = first.subscriber(&filter, &expected, Qos::default());
    let mut subscriber = wait("a subscriber", subscriber).await??;
    let publisher = second.publisher(&topic, &found, Qos::blocking());
    let mut source = Source::with(wait("a publisher", publisher).await??);
    source.tell("of another type").await?;
    let sample = receive(&mut subscriber, "a message whose type is not compared").await?;
    ensure!(sample.payload == "of another type", "received {sample:?}");
    Ok(())
}

async fn schema_mismatch_is_reported_once(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("mismatch");
    let expected = Schema::new("conformance/Expected", [1; 16], "uint8 a\n");
    let found = Schema::new("conformance/Found", [2; 16], "uint16 a\n");
    let reported = |error: transport_api::Error| -> Outcome {
        let text = error.to_string();
        ensure!(
            error.kind() == ErrorKind::Schema
                && text.contains("conformance/Expected")
                && text.contains("conformance/Found"),
            "expected a schema error that names both, got: {}",
            full(&error)
        );
        Ok(())
    };
    let filter = (&topic).into();
    let subscriber = first.subscriber(&filter, &expected, Qos::default());
    let mut subscriber = wait("a subscriber", subscriber).await??;
    let publisher = second.publisher(&topic, &found, Qos::blocking());
    let mut source = match wait("a publisher", publisher).await? {
        Ok(publisher) => Source::with(publisher),
        // A transport that compares declarations may say so here already.
        Err(error) => return reported(error),
    };
    source.tell("of another type").await?;
    match wait("the report of the mismatch", subscriber.recv()).await? {
        Some(Err(error)) => reported(error)?,
        other => return Err(Failure(format!("received {other:?}"))),
    }
    source.tell("of another type again").await?;
    // One of the right type comes through, and the other mismatch was not reported again.
    let publisher = second.publisher(&topic, &expected, Qos::blocking());
    let mut right = Source::with(wait("a publisher of the right type", publisher).await??);
    right.tell("of the right type").await?;
    let sample = receive(&mut subscriber, "a message of the right type").await?;
    ensure!(
        id(&sample)?.source == right.sequence.source(),
        "a message of another type was delivered"
    );
    ensure!(
        subscriber.counters().mismatched >= 1,
        "{:?}",
        subscriber.counters()
    );
    Ok(())
}

async fn opaque_subscriber_takes_every_schema(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("opaque");
    let mut subscriber = listen(&first, &topic).await?;
    let schema = Schema::new("conformance/Any", [3; 16], "uint8 a\n");
    let publisher = second.publisher(&topic, &schema, Qos::blocking());
    let mut source = Source::with(wait("a publisher", publisher).await??);
    source.tell("of some type").await?;
    let sample = receive(&mut subscriber, "a message of some type").await?;
    ensure!(
        sample.meta.schema.as_ref() == schema.id(),
        "it says {:?}",
        sample.meta.schema
    );
    Ok(())
}
