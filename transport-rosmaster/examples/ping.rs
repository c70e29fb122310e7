//! Sends messages to and fro between two nodes and prints how long that takes.
//!
//! `cargo run -p transport-rosmaster --example rosmaster_ping [URL [BYTES [COUNT]]]`, by default with a
//! master of its own. To run the two sides in two processes, start a master and give its URL with
//! `echo` as a fourth argument to one of them.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use transport_api::{
    Message, PublisherExt, Qos, Schema, Stage, Subscriber, SubscriberExt, TopicFilter, TopicName,
    Transport, TransportConfig, TransportFactory,
};
use transport_rosmaster::Factory;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let url = args
        .next()
        .unwrap_or_else(|| Factory.about().default_url.to_owned());
    let size: usize = args.next().map_or(Ok(183_342), |text| text.parse())?;
    let count: u32 = args.next().map_or(Ok(200), |text| text.parse())?;
    let role = args.next();

    let meeting = Factory.meet(&TransportConfig::parse(&url)?).await?;
    let echo = match role.as_deref() {
        Some("ping") => None,
        _ => {
            let transport = Factory.open(&meeting.first).await?;
            let ping = subscribe(&*transport, "ping").await?;
            Some((transport, ping))
        }
    };
    match (role.as_deref(), echo) {
        (Some("echo"), Some((transport, mut ping))) => {
            println!("echoing at {}; stop with ctrl-c", transport.info().endpoint);
            answer(&*transport, &mut *ping).await?;
        }
        (_, echo) => {
            let answering = echo.map(|(transport, mut ping)| {
                tokio::spawn(async move { answer(&*transport, &mut *ping).await })
            });
            let transport = Factory.open(&meeting.second).await?;
            for (key, value) in &transport.info().settings {
                println!("{key} = {value}");
            }
            measure(&*transport, size, count).await?;
            transport.close(Duration::from_secs(2)).await;
            if let Some(answering) = answering {
                answering.abort();
            }
        }
    }
    if let Some(host) = meeting.host {
        host.stop().await;
    }
    Ok(())
}

async fn subscribe(transport: &dyn Transport, topic: &str) -> Outcome<Box<dyn Subscriber>> {
    let filter = TopicFilter::from(&TopicName::parse(topic)?);
    Ok(transport
        .subscriber(&filter, &Schema::opaque(), Qos::default())
        .await?)
}

/// Answers every `ping` with a short `pong`.
async fn answer(transport: &dyn Transport, ping: &mut dyn Subscriber) -> Outcome {
    let topic = TopicName::parse("pong")?;
    let publisher = transport
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await?;
    let short = Bytes::from(vec![0; 4096]);
    while let Some(sample) = ping.recv().await {
        drop(sample?);
        drop(publisher.publish(Message::new(short.clone())).await?);
    }
    Ok(())
}

async fn measure(transport: &dyn Transport, size: usize, count: u32) -> Outcome {
    let mut pong = subscribe(transport, "pong").await?;
    let topic = TopicName::parse("ping")?;
    let publisher = transport
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await?;
    let payload = Bytes::from(vec![0; size]);
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        drop(publisher.publish(Message::new(payload.clone())).await?);
        match tokio::time::timeout(Duration::from_secs(5), pong.recv()).await {
            Ok(Some(sample)) => drop(sample?),
            _ => return Err("no answer within 5 s".into()),
        }
        times.push(start.elapsed());
    }
    publisher.flush(Stage::Written).await?;
    times.sort();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
    println!(
        "{count} round trips of {size} B and back 4096 B: median {:?}, p99 {:?}",
        at(0.5).unwrap_or_default(),
        at(0.99).unwrap_or_default()
    );
    Ok(())
}
