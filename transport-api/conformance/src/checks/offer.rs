//! Capabilities: what is claimed works, what is not claimed is refused.

use transport_api::{
    ErrorKind, Event, MessageId, Placement, Qos, Schema, TopicName, TransportConfig,
};

use super::check::{Check, check};
use super::guarantee::{refused, unsupported};
use super::need;
use crate::fixture::FIRST;
use crate::scene::{
    CLOSE, Failure, Outcome, QUIET, Scene, Source, arrive, deep, ensure, event, id, listen, noise,
    number, receive, silent, subscribe, wait,
};

pub(super) const CHECKS: &[Check] = &[
    check!(wildcards_select, need::wildcards),
    check!(refuses_wildcards, need::no_wildcards),
    check!(retained_reaches_late_subscriber, need::retained),
    check!(refuses_retained, need::no_retained),
    check!(priority_is_granted, need::priority),
    check!(higher_priority_goes_first, need::ranks),
    check!(priority_is_not_granted, need::no_priority),
    check!(priority_out_of_range_is_config_error, need::always),
    check!(peers_are_reported, need::liveliness),
    check!(peers_are_not_reported, need::no_liveliness),
    check!(refuses_separate_processes, need::no_crosses),
];

async fn wildcards_select(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let names = ["a", "a/b", "a/b/c", "x/b"];
    let cases: [(&str, &[&str]); 5] = [
        ("*", &["a"]),
        ("a/*", &["a/b"]),
        ("a/**", &["a", "a/b", "a/b/c"]),
        ("*/b", &["a/b", "x/b"]),
        ("a/*/c", &["a/b/c"]),
    ];
    for (filter, selected) in cases {
        let mut subscriber = subscribe(&first, &scene.filter(filter), deep()).await?;
        let mut expected: Vec<TopicName> = selected.iter().map(|name| scene.topic(name)).collect();
        expected.sort();
        for name in names {
            let mut source = Source::new(&second, &scene.topic(name), Qos::blocking()).await?;
            source.tell(name).await?;
        }
        let mut found = Vec::new();
        for _ in &expected {
            let what = format!("{filter} to select {selected:?}, so far {found:?}");
            found.push(receive(&mut subscriber, &what).await?.topic);
        }
        found.sort();
        ensure!(
            found == expected && silent(&mut subscriber).await,
            "{filter} selects {found:?} and more, where {expected:?} is right"
        );
    }
    Ok(())
}

async fn refuses_wildcards(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    for filter in ["*", "a/**"] {
        let filter = scene.filter(filter);
        let schema = Schema::opaque();
        let subscriber = first.subscriber(&filter, &schema, Qos::default()).await;
        unsupported(subscriber.err(), filter.as_str())?;
    }
    Ok(())
}

async fn retained_reaches_late_subscriber(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("kept");
    let retain = Qos {
        retain: true,
        ..Qos::blocking()
    };
    let mut source = Source::new(&second, &topic, retain).await?;
    ensure!(
        source.publisher.granted().retain,
        "granted {:?}",
        source.publisher.granted()
    );
    // A subscriber shows that both have arrived.
    let mut witness = listen(&first, &topic).await?;
    for _ in 0..2 {
        source.tell("kept").await?;
        number(&mut witness, "a message at the early subscriber").await?;
    }
    let late = Qos {
        retain: true,
        ..deep()
    };
    let mut late = subscribe(&first, &(&topic).into(), late).await?;
    let found = number(&mut late, "the last message at a late subscriber").await?;
    ensure!(found == 1, "message {found} was kept, and 1 was the last");
    ensure!(silent(&mut late).await, "more than the last was kept");
    // What is published without the wish is not kept.
    let topic = scene.topic("fleeting");
    let mut source = Source::new(&second, &topic, Qos::blocking()).await?;
    let mut witness = listen(&first, &topic).await?;
    source.tell("gone").await?;
    number(&mut witness, "a message at the early subscriber").await?;
    let mut late = listen(&first, &topic).await?;
    ensure!(silent(&mut late).await, "a fleeting message was kept");
    Ok(())
}

async fn refuses_retained(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let qos = Qos {
        retain: true,
        ..Qos::default()
    };
    for granted in refused(scene, &*first, qos, "keeping the last message").await? {
        ensure!(!granted.retain, "granted {granted:?}");
    }
    Ok(())
}

async fn priority_is_granted(scene: &Scene) -> Outcome {
    let (first, second) = scene.pair().await?;
    for priority in 0..=7 {
        let topic = scene.topic(&format!("priority{priority}"));
        let mut subscriber = listen(&first, &topic).await?;
        let qos = Qos {
            priority,
            ..Qos::blocking()
        };
        let mut source = Source::new(&second, &topic, qos).await?;
        let granted = source.publisher.granted();
        ensure!(
            granted.priority == Some(priority),
            "asked for {priority}, granted {granted:?}"
        );
        source.tell("important").await?;
        number(
            &mut subscriber,
            &format!("a message of priority {priority}"),
        )
        .await?;
    }
    Ok(())
}

async fn higher_priority_goes_first(scene: &Scene) -> Outcome {
    const COUNT: usize = 64;
    let (first, second) = scene.pair().await?;
    let topic = scene.topic("ranks");
    let mut subscriber = listen(&first, &topic).await?;
    let mut sources = Vec::new();
    for priority in [1, 6] {
        let qos = Qos {
            priority,
            ..Qos::blocking().with_depth(COUNT)
        };
        let mut source = Source::new(&second, &topic, qos).await?;
        arrive(&mut source, &mut subscriber, "a message before the stall").await?;
        sources.push(source);
    }
    scene.link()?.stall("second").await;
    // The low ones first, until as many as the queue takes wait behind a path that is full.
    let payload = noise(256 << 10, 3);
    let mut low = 0;
    while let Ok(room) = tokio::time::timeout(QUIET, sources[0].publisher.ready()).await {
        room?;
        low = sources[0].tell(payload.clone()).await?;
    }
    let mut high = 0;
    for _ in 0..COUNT {
        high = sources[1].tell(payload.clone()).await?;
    }
    scene.link()?.heal("second").await;
    let last = [(&sources[0], low), (&sources[1], high)];
    let [low, high] = last.map(|(source, seq)| MessageId {
        source: source.sequence.source(),
        seq,
    });
    loop {
        let found = id(&receive(&mut subscriber, "the last important message").await?)?;
        ensure!(
            found != low,
            "all messages of priority 1 came before the last of priority 6"
        );
        if found == high {
            return Ok(());
        }
    }
}

async fn priority_is_not_granted(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let qos = Qos {
        priority: 7,
        ..Qos::default()
    };
    let source = Source::new(&first, &scene.topic("priority"), qos).await?;
    let granted = source.publisher.granted();
    ensure!(granted.priority.is_none(), "granted {granted:?}");
    Ok(())
}

async fn priority_out_of_range_is_config_error(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let qos = Qos {
        priority: 8,
        ..Qos::default()
    };
    let topic = scene.topic("priority");
    let publisher = first.publisher(&topic, &Schema::opaque(), qos).await;
    match publisher.err() {
        Some(error) if error.kind() == ErrorKind::Config && error.to_string().contains('8') => {
            Ok(())
        }
        other => Err(Failure(format!("{other:?}"))),
    }
}

async fn peers_are_reported(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let mut here = first.events();
    let second = scene.open("second").await?;
    let mut there = second.events();
    let alive = |name: &'static str| move |event: &Event| matches!(event, Event::PeerAlive(peer) if peer.as_str() == name);
    event(&mut here, "the new peer to be announced", alive("second")).await?;
    event(&mut there, "the old peer to be announced", alive(FIRST)).await?;
    wait("a close", second.close(CLOSE)).await?;
    event(
        &mut here,
        "the closed peer to be reported",
        |event| matches!(event, Event::PeerLost(peer) if peer.as_str() == "second"),
    )
    .await?;
    // It comes back, and nobody was told of itself.
    let _second = scene.open("second").await?;
    event(&mut here, "the peer to be announced again", |event| {
        matches!(event, Event::PeerAlive(_))
    })
    .await
    .and_then(|event| match event {
        Event::PeerAlive(peer) if peer.as_str() == "second" => Ok(()),
        other => Err(Failure(format!("`{FIRST}` was told {other:?}"))),
    })
}

async fn peers_are_not_reported(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let mut events = first.events();
    let second = scene.open("second").await?;
    wait("a close", second.close(CLOSE)).await?;
    while let Ok(Some(event)) = tokio::time::timeout(QUIET, events.next()).await {
        ensure!(
            !matches!(event, Event::PeerAlive(_) | Event::PeerLost(_)),
            "liveliness is not offered, and there is {event:?}"
        );
    }
    Ok(())
}

async fn refuses_separate_processes(scene: &Scene) -> Outcome {
    let config = TransportConfig::parse(scene.factory.about().default_url)?;
    let meeting = wait("a meeting", scene.factory.meet(&config)).await??;
    ensure!(
        meeting.placement == Placement::OneProcess,
        "separate processes are not offered, and a meeting says {:?}",
        meeting.placement
    );
    Ok(())
}
