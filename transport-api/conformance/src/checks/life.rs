//! Opening, events, closing and what is left behind.

use std::fs;
use std::sync::Arc;

use transport_api::{
    ErrorKind, Event, Events, PublisherExt, Qos, Refused, Schema, SubscriberExt, Transport,
    TransportConfig, Why,
};

use super::check::{Check, check};
use super::need;
use crate::fixture::FIRST;
use crate::scene::{
    CLOSE, Failure, Outcome, POLL, Scene, Source, ensure, event, id, listen, noise, number,
    receive, until, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(events_order_connected_first, need::always),
    check!(events_end_after_closed, need::always),
    check!(close_flushes_within_deadline, need::always),
    check!(close_is_idempotent, need::always),
    check!(publish_after_close_is_closed_error, need::always),
    check!(recv_after_close_is_none, need::always),
    check!(other_peers_survive_a_close, need::always),
    check!(several_instances_per_process, need::always),
    check!(peer_can_open_again, need::always),
    check!(open_close_leaves_no_threads_or_fds, need::always),
    check!(drop_without_close_leaves_no_threads_or_fds, need::always),
    check!(default_url_serves_two_sides, need::always),
];

async fn next(events: &mut Events, what: &str) -> Outcome<Option<Event>> {
    wait(what, events.next()).await
}

async fn events_order_connected_first(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let second = scene.open("second").await?;
    for transport in [&first, &second] {
        let event = next(&mut transport.events(), "the first event").await?;
        ensure!(
            matches!(event, Some(Event::Connected)),
            "the first event is {event:?}"
        );
    }
    Ok(())
}

async fn events_end_after_closed(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let mut events = first.events();
    wait("a close", first.close(CLOSE)).await?;
    event(&mut events, "the end", |event| {
        matches!(event, Event::Closed)
    })
    .await?;
    let further = next(&mut events, "the end of the events").await?;
    ensure!(further.is_none(), "after `Closed` comes {further:?}");
    // Who asks later is told the same.
    let mut late = first.events();
    let event = next(&mut late, "an event after the close").await?;
    ensure!(
        matches!(event, Some(Event::Closed)),
        "after the close the first event is {event:?}"
    );
    let further = next(&mut late, "the end of the events").await?;
    ensure!(further.is_none(), "after `Closed` comes {further:?}");
    Ok(())
}

async fn close_flushes_within_deadline(scene: &Scene) -> Outcome {
    const COUNT: u64 = 50;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("flushed");
    let mut subscriber = listen(&first, &topic).await?;
    let qos = Qos::blocking().with_depth(COUNT as usize);
    let mut source = Source::new(&second, &topic, qos).await?;
    for n in 0..COUNT {
        let message = source.message(noise(20_000, n));
        match source.publisher.try_publish(message) {
            Ok(token) => drop(token),
            Err(refused) => return Err(Failure(format!("{refused:?}"))),
        }
    }
    let report = wait("a close", second.close(crate::scene::patience())).await?;
    ensure!(
        report.abandoned == 0 && report.flushed <= COUNT,
        "{COUNT} were accepted: {report:?}"
    );
    for seq in 0..COUNT {
        let what = format!("message {seq}, accepted before the close");
        let found = number(&mut subscriber, &what).await?;
        ensure!(found == seq, "received {found} where {seq} was expected");
    }
    Ok(())
}

async fn close_is_idempotent(scene: &Scene) -> Outcome {
    let (_first, second) = scene.pair().await?;
    let mut source = Source::new(&second, &scene.topic("closed"), Qos::blocking()).await?;
    source.tell("before").await?;
    let (one, two) = wait("two closes at once", async {
        tokio::join!(second.close(CLOSE), second.close(CLOSE))
    })
    .await?;
    let three = wait("a third close", second.close(CLOSE)).await?;
    ensure!(
        one == two && two == three,
        "the reports differ: {one:?}, {two:?}, {three:?}"
    );
    Ok(())
}

async fn publish_after_close_is_closed_error(scene: &Scene) -> Outcome {
    let (_first, second) = scene.pair().await?;
    let topic = scene.topic("closed");
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    source.tell("before").await?;
    wait("a close", second.close(CLOSE)).await?;
    let message = source.message("after");
    match source.publisher.try_publish(message.clone()) {
        Err(Refused {
            message: back,
            why: Why::Fatal(error),
        }) if error.kind() == ErrorKind::Closed => {
            ensure!(back == message, "another message came back");
        }
        other => return Err(Failure(format!("{other:?}"))),
    }
    let closed = |what: &str, error: Option<transport_api::Error>| match error {
        Some(error) if error.kind() == ErrorKind::Closed => Ok(()),
        other => Err(Failure(format!("{what} after the close: {other:?}"))),
    };
    let publisher = &source.publisher;
    closed("publish", publisher.publish(message).await.err())?;
    closed("ready", wait("ready", publisher.ready()).await?.err())?;
    let schema = Schema::opaque();
    let publisher = second.publisher(&topic, &schema, Qos::default());
    closed("publisher", wait("publisher", publisher).await?.err())?;
    let filter = (&topic).into();
    let subscriber = second.subscriber(&filter, &schema, Qos::default());
    closed("subscriber", wait("subscriber", subscriber).await?.err())
}

async fn recv_after_close_is_none(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("drained");
    let mut subscriber = listen(&second, &topic).await?;
    let mut witness = listen(&second, &topic).await?;
    let mut source = Source::new(&first, &topic, Qos::blocking()).await?;
    for _ in 0..3 {
        source.tell("queued").await?;
        number(&mut witness, "a message at the witness").await?;
    }
    // A waiting reader is woken by the end.
    let waiting = tokio::spawn(async move { witness.recv().await.is_none() });
    wait("a close", second.close(CLOSE)).await?;
    let ended = wait("a waiting reader to be woken", waiting).await?;
    ensure!(
        ended.is_ok_and(|ended| ended),
        "a waiting reader received something after the close"
    );
    // What had arrived is drained, then it ends, and stays so.
    let mut drained = 0;
    while let Some(sample) = wait("what had arrived", subscriber.recv()).await? {
        drained += 1;
        ensure!(drained <= 3, "received {sample:?}");
    }
    let again = wait("the end", subscriber.recv()).await?;
    ensure!(again.is_none(), "received {again:?} after the end");
    Ok(())
}

async fn other_peers_survive_a_close(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let third = scene.open("third").await?;
    let topic = scene.topic("others");
    let mut here = listen(&first, &topic).await?;
    let mut leaving = listen(&third, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    source.tell("to both").await?;
    number(&mut here, "a message at the first").await?;
    number(&mut leaving, "a message at the third").await?;
    wait("a close", third.close(CLOSE)).await?;
    for _ in 0..20 {
        let sent = source.tell("to one").await?;
        let found = number(&mut here, &format!("message {sent} at the first")).await?;
        ensure!(found == sent, "received {found} where {sent} was sent");
    }
    Ok(())
}

async fn several_instances_per_process(scene: &Scene) -> Outcome {
    let mut peers = Vec::new();
    for name in [FIRST, "second", "third", "fourth"] {
        let transport = scene.open(name).await?;
        let subscriber = listen(&transport, &scene.topic(name)).await?;
        peers.push((name, transport, subscriber));
    }
    for to in 0..peers.len() {
        for from in 0..peers.len() {
            let (name, ..) = peers[to];
            let topic = scene.topic(name);
            let mut source = Source::new(&peers[from].1, &topic, Qos::blocking()).await?;
            source.tell("hello").await?;
            let what = format!("a message from {} to {name}", peers[from].0);
            let found = id(&receive(&mut peers[to].2, &what).await?)?;
            ensure!(
                found.source == source.sequence.source(),
                "{what}: received {found}"
            );
        }
    }
    Ok(())
}

async fn peer_can_open_again(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let topic = scene.topic("again");
    let mut subscriber = listen(&first, &topic).await?;
    for round in 0..5 {
        let second = scene.open("second").await?;
        let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
        source.tell("from another life").await?;
        let found = id(&receive(&mut subscriber, &format!("a message of life {round}")).await?)?;
        ensure!(
            found.source == source.sequence.source(),
            "life {round}: received {found}"
        );
        wait("a close", second.close(CLOSE)).await?;
    }
    Ok(())
}

/// Threads and descriptors of this process.
fn footprint() -> Outcome<(usize, usize)> {
    let count = |folder: &str| {
        let entries = fs::read_dir(folder).map_err(|e| Failure(format!("{folder}: {e}")))?;
        Ok::<_, Failure>(entries.count())
    };
    Ok((count("/proc/self/task")?, count("/proc/self/fd")?))
}

async fn exchange(
    scene: &Scene,
    first: &Arc<dyn Transport>,
    second: &Arc<dyn Transport>,
) -> Outcome {
    let topic = scene.topic("exchange");
    let mut subscriber = listen(first, &topic).await?;
    let mut source = Source::new(second, &topic, Qos::blocking()).await?;
    source.tell("hello").await?;
    number(&mut subscriber, "a message").await?;
    Ok(())
}

/// Opens the first peer. One that was dropped may take a moment to give back what only one can have.
async fn reopen(scene: &Scene) -> Outcome<Arc<dyn Transport>> {
    let mut last = Failure("never tried".to_owned());
    let opened = wait("the first peer to open again", async {
        loop {
            match scene.open(FIRST).await {
                Ok(first) => return first,
                Err(failure) => last = failure,
            }
            tokio::time::sleep(POLL).await;
        }
    });
    let opened = opened.await;
    opened.map_err(|Failure(text)| Failure(format!("{text}: {last}")))
}

async fn leaves_nothing(scene: &Scene, close: bool) -> Outcome {
    // Rounds that start what a library starts once per process.
    const WARM: usize = 2;
    // What a library keeps for reuse does not grow with the rounds; what is left behind does.
    const ROUNDS: usize = 8;
    let mut before = (0, 0);
    for round in 0..WARM + ROUNDS {
        if round == WARM {
            // What the first rounds still had open is gone when the count stands still.
            let mut last = (0, 0);
            until("threads and descriptors to settle", || {
                let now = footprint().unwrap_or_default();
                std::mem::replace(&mut last, now) == now
            })
            .await?;
            before = footprint()?;
        }
        let first = reopen(scene).await?;
        let second = scene.open("second").await?;
        exchange(scene, &first, &second).await?;
        if close {
            wait("a close", second.close(CLOSE)).await?;
            wait("a close", first.close(CLOSE)).await?;
        }
    }
    let mut now = (0, 0);
    let few = ROUNDS / 2;
    let settled = until("what was open to be gone", || {
        now = footprint().unwrap_or((usize::MAX, usize::MAX));
        now.0 < before.0 + few && now.1 < before.1 + few
    });
    let settled = settled.await;
    settled.map_err(|Failure(text)| {
        Failure(format!(
            "{text}: (threads, descriptors) were {before:?} and after {ROUNDS} more rounds {now:?}"
        ))
    })
}

async fn open_close_leaves_no_threads_or_fds(scene: &Scene) -> Outcome {
    leaves_nothing(scene, true).await
}

async fn drop_without_close_leaves_no_threads_or_fds(scene: &Scene) -> Outcome {
    leaves_nothing(scene, false).await
}

async fn default_url_serves_two_sides(scene: &Scene) -> Outcome {
    let config = TransportConfig::parse(scene.factory.about().default_url)?;
    for _ in 0..3 {
        let meeting = wait("a meeting", scene.factory.meet(&config)).await??;
        let first = scene.open_with(&meeting.first).await?;
        let second = scene.open_with(&meeting.second).await?;
        exchange(scene, &first, &second).await?;
        exchange(scene, &second, &first).await?;
        wait("a close", second.close(CLOSE)).await?;
        wait("a close", first.close(CLOSE)).await?;
        if let Some(host) = meeting.host {
            wait("the host to stop", host.stop()).await?;
        }
    }
    Ok(())
}
