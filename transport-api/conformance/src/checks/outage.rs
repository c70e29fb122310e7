//! Links that fail, servers that die, and peers that stop or vanish.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use transport_api::{
    AckScope, Delivery, DeliveryToken, Event, Events, Message, Overflow, Qos, Refused, Stage,
    Subscriber, SubscriberExt, Transport, Why,
};

use super::check::{Check, check};
use super::guarantee::receiving;
use super::need;
use crate::fixture::FIRST;
use crate::remote::{Part, Remote};
use crate::scene::{
    Failure, Outcome, POLL, QUIET, Scene, Source, arrive, ensure, event, id, listen, noise, now,
    number, patience, subscribe, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(link_cut_keeps_handles, need::heals),
    check!(link_cut_is_told_by_events, need::heals),
    check!(outage_is_counted, need::heals),
    check!(at_least_once_survives_link_cut, need::heals_at_least_once),
    check!(exactly_once_survives_link_cut, need::heals_exactly_once),
    check!(link_cut_ends_transport, need::ends),
    check!(stalled_link_never_blocks_publisher, need::link),
    check!(stalled_link_fills_a_bounded_queue, need::link),
    check!(flush_waits_for_what_was_accepted_before, need::link),
    check!(silent_link_is_noticed, need::heals),
    check!(close_reports_abandoned, need::link),
    check!(server_restart_keeps_handles, need::restarts),
    check!(server_restart_is_counted, need::restarts_at_least_once),
    check!(processes_meet, need::crosses),
    check!(stopped_subscriber_never_blocks_publisher, need::crosses),
    check!(killed_subscriber_leaves_others_alone, need::crosses),
    check!(killed_publisher_can_return, need::crosses),
    check!(killed_peer_is_reported, need::mourns),
];

/// Waits until a lost connection was noticed.
async fn lost(events: &mut Events) -> Outcome {
    let what = "the loss of the connection";
    event(events, what, |event| {
        matches!(event, Event::Disconnected { .. })
    })
    .await
    .map(drop)
}

/// Waits until the connection is there (again).
async fn connected(events: &mut Events) -> Outcome {
    let what = "a connection";
    event(events, what, |event| matches!(event, Event::Connected))
        .await
        .map(drop)
}

/// Cuts the link of `second`, waits until that was noticed, heals it and waits until the connection
/// is back; `meanwhile` happens in between.
async fn cut_and_heal(
    scene: &Scene,
    events: &mut Events,
    meanwhile: impl Future<Output = Outcome>,
) -> Outcome {
    scene.link()?.cut("second").await;
    lost(events).await?;
    meanwhile.await?;
    scene.link()?.heal("second").await;
    connected(events).await
}

async fn link_cut_keeps_handles(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut events = second.events();
    connected(&mut events).await?;
    let (up, down) = (scene.topic("up"), scene.topic("down"));
    let mut above = listen(&first, &up).await?;
    let mut below = listen(&second, &down).await?;
    let mut rising = Source::new(&second, &up, Qos::blocking()).await?;
    let mut falling = Source::new(&first, &down, Qos::blocking()).await?;
    for round in 0..3 {
        arrive(
            &mut rising,
            &mut above,
            &format!("a message up, round {round}"),
        )
        .await?;
        arrive(
            &mut falling,
            &mut below,
            &format!("a message down, round {round}"),
        )
        .await?;
        cut_and_heal(scene, &mut events, async { Ok(()) }).await?;
    }
    arrive(&mut rising, &mut above, "a message up after the last cut").await?;
    arrive(
        &mut falling,
        &mut below,
        "a message down after the last cut",
    )
    .await?;
    // New handles work as well.
    let topic = scene.topic("new");
    let mut subscriber = listen(&second, &topic).await?;
    let mut source = Source::new(&first, &topic, Qos::blocking()).await?;
    arrive(&mut source, &mut subscriber, "a message on new handles").await?;
    Ok(())
}

async fn link_cut_is_told_by_events(scene: &Scene) -> Outcome {
    let (_first, second) = scene.pair().await?;
    let mut events = second.events();
    connected(&mut events).await?;
    scene.link()?.cut("second").await;
    // The loss first, then attempts that count up, then the connection.
    let what = "the second attempt to reconnect";
    let (mut told, mut last) = (false, 0);
    while last < 2 {
        match wait(what, events.next()).await? {
            Some(Event::Disconnected { .. }) => told = true,
            Some(Event::Reconnecting { attempt, .. }) => {
                ensure!(told, "attempt {attempt} comes before `Disconnected`");
                ensure!(
                    attempt > last,
                    "attempt {attempt} comes after attempt {last}"
                );
                last = attempt;
            }
            Some(Event::Connected) => {
                return Err(Failure("connected over a link that is cut".to_owned()));
            }
            Some(_) => {}
            None => return Err(Failure("the events have ended".to_owned())),
        }
    }
    // A reader that comes during the outage is told of it first.
    match wait("the first event", second.events().next()).await? {
        Some(Event::Disconnected { .. }) => {}
        other => {
            return Err(Failure(format!(
                "during an outage the first event is {other:?}"
            )));
        }
    }
    scene.link()?.heal("second").await;
    connected(&mut events).await
}

async fn outage_is_counted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut events = second.events();
    connected(&mut events).await?;
    let topic = scene.topic("outage");
    let mut subscriber = listen(&second, &topic).await?;
    let mut source = Source::new(&first, &topic, Qos::default()).await?;
    let sent = source.tell("before").await?;
    let found = number(&mut subscriber, "a message before the cut").await?;
    ensure!(found == sent, "received {found} where {sent} was sent");
    cut_and_heal(scene, &mut events, async {
        for _ in 0..20 {
            source.tell("meanwhile").await?;
        }
        Ok(())
    })
    .await?;
    let last = arrive(&mut source, &mut subscriber, "a message after the cut").await?;
    let counters = subscriber.counters();
    ensure!(
        counters.received - counters.duplicates + counters.missed == last + 1,
        "0 to {last} were sent: {counters:?}"
    );
    Ok(())
}

/// Publishes 200 messages and interrupts after 50; returns the numbers whose token promises
/// delivery and those whose token does not.
async fn interrupted(
    source: &mut Source,
    interrupt: impl Future<Output = Outcome>,
) -> Outcome<(BTreeSet<u64>, BTreeSet<u64>)> {
    let mut tokens: Vec<(u64, DeliveryToken)> = Vec::new();
    for n in 0..50 {
        tokens.push(source.send(noise(3000, n)).await?);
    }
    // Publishing goes on while the path is gone, as far as the queue lets it.
    let rest = async {
        for n in 50..200 {
            tokens.push(source.send(noise(3000, n)).await?);
        }
        Ok::<_, Failure>(())
    };
    let (rest, interrupt) = tokio::join!(rest, interrupt);
    rest.and(interrupt)?;
    let (mut promised, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
    for (seq, token) in tokens {
        match wait(&format!("the token of message {seq}"), token).await? {
            Ok(Stage::Acknowledged) => promised.insert(seq),
            Ok(stage) => return Err(Failure(format!("the token of {seq} says {stage:?}"))),
            Err(_) => doubtful.insert(seq),
        };
    }
    let counters = source.publisher.counters();
    ensure!(
        counters.acknowledged == promised.len() as u64
            && counters.dropped + counters.lost == doubtful.len() as u64,
        "{} tokens promise delivery, {} do not: {counters:?}",
        promised.len(),
        doubtful.len()
    );
    Ok((promised, doubtful))
}

/// Receives until all of `promised` are there; nothing unknown may come, and nothing twice where
/// that is promised.
async fn collect(
    subscriber: &mut Box<dyn Subscriber>,
    promised: &BTreeSet<u64>,
    once: bool,
) -> Outcome {
    let mut seen = BTreeSet::new();
    while !promised.is_subset(&seen) {
        let missing = promised.difference(&seen).count();
        let what = format!("{missing} more acknowledged messages");
        let seq = number(subscriber, &what).await?;
        ensure!(seen.insert(seq) || !once, "message {seq} came twice");
    }
    while let Ok(sample) = tokio::time::timeout(QUIET, subscriber.recv()).await {
        let sample = sample.ok_or_else(|| Failure("the subscription has ended".to_owned()))??;
        let seq = id(&sample)?.seq;
        ensure!(seen.insert(seq) || !once, "message {seq} came twice");
    }
    Ok(())
}

async fn across_link_cut(scene: &Scene, qos: Qos) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut events = second.events();
    connected(&mut events).await?;
    let topic = scene.topic("across");
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let outage = cut_and_heal(scene, &mut events, async { Ok(()) });
    let (promised, _) = interrupted(&mut source, outage).await?;
    let once = qos.delivery == Delivery::ExactlyOnce;
    collect(&mut subscriber, &promised, once).await
}

async fn at_least_once_survives_link_cut(scene: &Scene) -> Outcome {
    across_link_cut(scene, Qos::at_least_once()).await
}

async fn exactly_once_survives_link_cut(scene: &Scene) -> Outcome {
    across_link_cut(scene, Qos::exactly_once()).await
}

async fn link_cut_ends_transport(scene: &Scene) -> Outcome {
    let (_first, second) = scene.pair().await?;
    let mut events = second.events();
    let topic = scene.topic("ended");
    let mut subscriber = listen(&second, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::default()).await?;
    scene.link()?.cut("second").await;
    lost(&mut events).await?;
    let ended = wait("the end of the subscription", subscriber.recv()).await?;
    ensure!(!matches!(ended, Some(Ok(_))), "received {ended:?}");
    let message = source.message("nobody is there");
    match source.publisher.try_publish(message) {
        Err(Refused {
            why: Why::Fatal(_), ..
        }) => Ok(()),
        other => Err(Failure(format!("{other:?}"))),
    }
}

async fn stalled_link_never_blocks_publisher(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("stalled");
    let mut subscriber = listen(&first, &topic).await?;
    let qos = Qos {
        overflow: Overflow::DropOldest,
        ..Qos::default().with_depth(4)
    };
    let mut source = Source::new(&second, &topic, qos).await?;
    arrive(&mut source, &mut subscriber, "a message before the stall").await?;
    scene.link()?.stall("second").await;
    let payload = noise(64 << 10, 3);
    for _ in 0..1000 {
        let message = source.message(payload.clone());
        match source.publisher.try_publish(message) {
            Ok(token) => drop(token),
            Err(refused) => return Err(Failure(format!("{refused:?}"))),
        }
        tokio::task::yield_now().await;
    }
    scene.link()?.heal("second").await;
    arrive(&mut source, &mut subscriber, "a message after the stall").await?;
    wait("a flush", source.publisher.flush(Stage::Written)).await??;
    let counters = source.publisher.counters();
    ensure!(
        counters.refused == 0
            && counters.accepted == counters.written + counters.dropped + counters.lost,
        "{counters:?}"
    );
    Ok(())
}

/// Stalls the link of `second` and publishes until there is no room any more.
async fn stuck(scene: &Scene, second: &Arc<dyn Transport>) -> Outcome<Source> {
    // More than the buffers of a well-behaved transport and of two TCP connections.
    const BOUND: u64 = 256 << 20;
    let qos = Qos::blocking().with_depth(4);
    let mut source = Source::new(second, &scene.topic("stuck"), qos).await?;
    let payload = noise(256 << 10, 3);
    scene.link()?.stall("second").await;
    loop {
        let message = source.message(payload.clone());
        match source.publisher.try_publish(message) {
            Ok(token) => drop(token),
            Err(Refused { why: Why::Full, .. }) => {
                let room = tokio::time::timeout(QUIET, source.publisher.ready()).await;
                if room.is_err() {
                    return Ok(source);
                }
            }
            Err(refused) => return Err(Failure(format!("{refused:?}"))),
        }
        let counters = source.publisher.counters();
        ensure!(
            counters.accepted * (payload.len() as u64) < BOUND,
            "{BOUND} B were accepted for a link that passes nothing: {counters:?}"
        );
    }
}

async fn stalled_link_fills_a_bounded_queue(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut subscriber = listen(&first, &scene.topic("stuck")).await?;
    let mut source = stuck(scene, &second).await?;
    scene.link()?.heal("second").await;
    wait("room after the stall", source.publisher.ready()).await??;
    arrive(&mut source, &mut subscriber, "a message after the stall").await?;
    Ok(())
}

async fn flush_waits_for_what_was_accepted_before(scene: &Scene) -> Outcome {
    const ROUND: usize = 20;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("flushed");
    let mut subscriber = listen(&first, &topic).await?;
    let qos = Qos {
        overflow: Overflow::DropOldest,
        ..Qos::default().with_depth(2)
    };
    let mut source = Source::new(&second, &topic, qos).await?;
    arrive(&mut source, &mut subscriber, "a message before the stall").await?;
    scene.link()?.stall("second").await;
    // Large, since each relay on the way has buffers to be filled.
    let payload = noise(1 << 20, 3);
    let mut written = None;
    let what = "a link that passes nothing to hold a message up";
    let held_up = wait(what, async {
        loop {
            for _ in 0..ROUND {
                source.tell(payload.clone()).await?;
                tokio::time::sleep(POLL).await;
            }
            let counters = source.publisher.counters();
            if counters.dropped > 0 && written == Some(counters.written) {
                return Ok::<_, Failure>(());
            }
            written = Some(counters.written);
        }
    });
    let held_up = held_up.await;
    held_up
        .map_err(|Failure(text)| Failure(format!("{text}: {:?}", source.publisher.counters())))??;
    // One message is in the transport's hand and cannot be written. Those in the queue give way to
    // later ones, more than were accepted and not written by now: no progress of the one in hand.
    let publisher = &source.publisher;
    let mut flush = publisher.flush(Stage::Written);
    ensure!(
        now(flush.as_mut()).is_none(),
        "flushed over a link that passes nothing: {:?}",
        publisher.counters()
    );
    for _ in 0..2 * ROUND {
        let message = Message::new(payload.clone());
        match publisher.try_publish(message) {
            Ok(token) => drop(token),
            Err(refused) => return Err(Failure(format!("{refused:?}"))),
        }
        tokio::task::yield_now().await;
    }
    let early = tokio::time::timeout(QUIET, flush.as_mut()).await;
    ensure!(
        early.is_err(),
        "the flush ended with {early:?} before the link passed anything: {:?}",
        publisher.counters()
    );
    scene.link()?.heal("second").await;
    wait("the flush after the stall", flush).await??;
    Ok(())
}

async fn silent_link_is_noticed(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let mut events = second.events();
    connected(&mut events).await?;
    let (up, down) = (scene.topic("up"), scene.topic("down"));
    let mut above = listen(&first, &up).await?;
    let mut below = listen(&second, &down).await?;
    let mut rising = Source::new(&second, &up, Qos::default()).await?;
    let mut falling = Source::new(&first, &down, Qos::default()).await?;
    arrive(&mut rising, &mut above, "a message up").await?;
    arrive(&mut falling, &mut below, "a message down").await?;
    scene.link()?.stall("second").await;
    // The documented time, and a watchdog on top.
    let noticed = async {
        while let Some(event) = events.next().await {
            if matches!(event, Event::Disconnected { .. }) {
                return;
            }
        }
    };
    let limit = scene.silence() + patience();
    let noticed = tokio::time::timeout(limit, noticed).await;
    ensure!(
        noticed.is_ok(),
        "a link that passes nothing was not noticed; {:?} are documented",
        scene.silence()
    );
    scene.link()?.heal("second").await;
    connected(&mut events).await?;
    arrive(&mut rising, &mut above, "a message up after the silence").await?;
    arrive(&mut falling, &mut below, "a message down after the silence").await?;
    Ok(())
}

async fn close_reports_abandoned(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let _subscriber = listen(&first, &scene.topic("stuck")).await?;
    let source = stuck(scene, &second).await?;
    let accepted = source.publisher.counters().accepted;
    let close = second.close(Duration::from_millis(200));
    let report = wait("a close over a stalled link", close).await?;
    ensure!(
        report.abandoned > 0 && report.abandoned <= accepted,
        "{accepted} were accepted, at least the queue was not written: {report:?}"
    );
    let counters = source.publisher.counters();
    ensure!(
        counters.accepted == counters.written + counters.dropped + counters.lost,
        "after the close: {counters:?}"
    );
    Ok(())
}

async fn kill_and_restart(scene: &Scene, events: [&mut Events; 2]) -> Outcome {
    let [one, two] = events;
    let server = scene.server()?;
    server.kill().await;
    lost(one).await?;
    lost(two).await?;
    wait("the server to start again", server.restart()).await?;
    connected(one).await?;
    connected(two).await
}

async fn server_restart_keeps_handles(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let (mut one, mut two) = (first.events(), second.events());
    connected(&mut one).await?;
    connected(&mut two).await?;
    let topic = scene.topic("restart");
    let mut subscriber = listen(&first, &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    for round in 0..2 {
        arrive(
            &mut source,
            &mut subscriber,
            &format!("a message, round {round}"),
        )
        .await?;
        kill_and_restart(scene, [&mut one, &mut two]).await?;
    }
    arrive(
        &mut source,
        &mut subscriber,
        "a message after the last restart",
    )
    .await?;
    // Each subscription was restored once.
    let sent = source.tell("once").await?;
    while number(&mut subscriber, "a further message").await? != sent {}
    ensure!(
        subscriber.counters().duplicates == 0,
        "{:?}",
        subscriber.counters()
    );
    Ok(())
}

async fn server_restart_is_counted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let (mut one, mut two) = (first.events(), second.events());
    connected(&mut one).await?;
    connected(&mut two).await?;
    let topic = scene.topic("reborn");
    let qos = Qos::at_least_once();
    let mut subscriber = subscribe(&first, &(&topic).into(), receiving(qos)).await?;
    let mut source = Source::new(&second, &topic, qos).await?;
    let outage = kill_and_restart(scene, [&mut one, &mut two]);
    let (promised, _) = interrupted(&mut source, outage).await?;
    if source.publisher.granted().scope == AckScope::EndToEnd {
        return collect(&mut subscriber, &promised, false).await;
    }
    // A server may have taken acknowledged messages with it; then the subscriber counts them.
    let last = arrive(&mut source, &mut subscriber, "a message after the restart").await?;
    let counters = subscriber.counters();
    ensure!(
        counters.received - counters.duplicates + counters.missed == last + 1,
        "0 to {last} were sent: {counters:?}"
    );
    Ok(())
}

async fn processes_meet(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let (there, back) = (scene.topic("there"), scene.topic("back"));
    let mut receiver = Remote::start(scene, Part::Subscribe, "receiver", &there).await?;
    let mut source = Source::new(&first, &there, Qos::blocking()).await?;
    for n in 0..20 {
        let sent = source.tell(noise(50_000, n)).await?;
        let found = receiver.sample("a message in another process").await?;
        ensure!(
            found == (sent, 0),
            "received {found:?} where {sent} was sent"
        );
    }
    let mut subscriber = listen(&first, &back).await?;
    let _sender = Remote::start(scene, Part::Publish, "sender", &back).await?;
    for _ in 0..5 {
        number(&mut subscriber, "a message from another process").await?;
    }
    Ok(())
}

/// Memory of this process, in bytes.
fn resident() -> Outcome<usize> {
    const PAGE: usize = 4096;
    let file = "/proc/self/statm";
    let text = std::fs::read_to_string(file).map_err(|e| Failure(format!("{file}: {e}")))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages
        .map(|pages: usize| pages * PAGE)
        .ok_or_else(|| Failure(format!("{file}: {text}")))
}

async fn stopped_subscriber_never_blocks_publisher(scene: &Scene) -> Outcome {
    const SIZE: usize = 64 << 10;
    const COUNT: u64 = 1500;
    // A fraction of what is sent; more than the queues of a server in this process hold.
    const GROWTH: usize = 32 << 20;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("stopped");
    let mut healthy = listen(&first, &topic).await?;
    let mut remote = Remote::start(scene, Part::Subscribe, "remote", &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::default()).await?;
    let pass = async |source: &mut Source, healthy: &mut Box<dyn Subscriber>, n| {
        let sent = source.tell(noise(SIZE, n)).await?;
        let found = number(healthy, "a message at the healthy one").await?;
        ensure!(
            found == sent,
            "the healthy one received {found} where {sent} was sent"
        );
        Ok(())
    };
    let what = "a message at the other one";
    let mut told = 0;
    for n in 0..50 {
        pass(&mut source, &mut healthy, n).await?;
        let (number, missed) = remote.sample(what).await?;
        ensure!(
            (number, missed) == (n, 0),
            "{what}: {number}, {missed} missing"
        );
        told += 1;
    }
    let before = resident()?;
    remote.stop()?;
    for n in 50..COUNT {
        pass(&mut source, &mut healthy, n).await?;
    }
    let grown = resident()?.saturating_sub(before);
    ensure!(
        grown <= GROWTH,
        "memory grew by {grown} B while {COUNT} messages of {SIZE} B passed a stopped subscriber"
    );
    remote.resume()?;
    let from = source.sequence.count();
    let what = "a new message at the one that was stopped";
    let newest = wait(what, async {
        loop {
            source.tell("again").await?;
            while let Ok(sample) = tokio::time::timeout(4 * POLL, remote.sample(what)).await {
                let (number, missed) = sample?;
                told += 1 + missed;
                if number >= from {
                    return Ok::<_, Failure>(number);
                }
            }
        }
    })
    .await??;
    ensure!(
        told == newest + 1,
        "0 to {newest} were sent, and the one that was stopped accounts for {told}"
    );
    Ok(())
}

async fn killed_subscriber_leaves_others_alone(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("killed");
    let mut healthy = listen(&first, &topic).await?;
    let mut remote = Remote::start(scene, Part::Subscribe, "remote", &topic).await?;
    let mut source = Source::new(&second, &topic, Qos::default()).await?;
    let payload = noise(64 << 10, 3);
    source.tell(payload.clone()).await?;
    remote.sample("a message before the kill").await?;
    remote.kill().await?;
    for _ in 0..100 {
        source.tell(payload.clone()).await?;
    }
    arrive(&mut source, &mut healthy, "a message at the other one").await?;
    // The killed one returns under its old name.
    let mut remote = Remote::start(scene, Part::Subscribe, "remote", &topic).await?;
    let what = "a message at the one that returned";
    wait(what, async {
        loop {
            source.tell("again").await?;
            if let Ok(found) = tokio::time::timeout(4 * POLL, remote.sample(what)).await {
                return found.map(drop);
            }
        }
    })
    .await?
}

async fn killed_publisher_can_return(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let topic = scene.topic("returning");
    let mut subscriber = listen(&first, &topic).await?;
    let mut last = None;
    for round in 0..3 {
        let remote = Remote::start(scene, Part::Publish, "remote", &topic).await?;
        let what = format!("a message of life {round}");
        wait(&what, async {
            loop {
                let source = id(&crate::scene::receive(&mut subscriber, &what).await?)?.source;
                if last != Some(source) {
                    last = Some(source);
                    return Ok::<_, Failure>(());
                }
            }
        })
        .await??;
        remote.kill().await?;
    }
    Ok(())
}

async fn killed_peer_is_reported(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let mut events = first.events();
    let remote = Remote::start(scene, Part::Subscribe, "remote", &scene.topic("mortal")).await?;
    event(
        &mut events,
        "the peer to be announced",
        |event| matches!(event, Event::PeerAlive(peer) if peer.as_str() == "remote"),
    )
    .await?;
    remote.kill().await?;
    event(
        &mut events,
        "the killed peer to be reported",
        |event| matches!(event, Event::PeerLost(peer) if peer.as_str() == "remote"),
    )
    .await?;
    Ok(())
}
