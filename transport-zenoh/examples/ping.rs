//! Two transports that meet as peers, and ten round trips between them.
//!
//! `cargo run --release -p transport-zenoh --example zenoh_ping [-- URL]`

use std::time::{Duration, Instant};

use transport_api::{
    Message, PublisherExt, Qos, Registry, Result, Schema, SubscriberExt, TopicFilter, TopicName,
    TransportConfig,
};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1);
    let config = TransportConfig::parse(url.as_deref().unwrap_or("zenoh:peer"))?;
    let mut registry = Registry::default();
    registry.register(transport_zenoh::Factory)?;
    let meeting = registry.meet(&config).await?;
    let edge = registry.open(&meeting.first).await?;
    let vehicle = registry.open(&meeting.second).await?;
    println!("{} at {}", edge.info().implementation, edge.info().endpoint);

    let (ping, pong) = (TopicName::parse("ping")?, TopicName::parse("pong")?);
    let schema = Schema::opaque();
    let mut pings = edge
        .subscriber(&TopicFilter::from(&ping), &schema, Qos::default())
        .await?;
    let mut pongs = vehicle
        .subscriber(&TopicFilter::from(&pong), &schema, Qos::default())
        .await?;
    let to_edge = vehicle.publisher(&ping, &schema, Qos::default()).await?;
    let to_vehicle = edge.publisher(&pong, &schema, Qos::default()).await?;

    let echo = tokio::spawn(async move {
        while let Some(sample) = pings.recv().await {
            drop(to_vehicle.publish(Message::new(sample?.payload)).await?);
        }
        Ok::<(), transport_api::Error>(())
    });
    for _ in 0..10 {
        let sent = Instant::now();
        drop(to_edge.publish(Message::new(vec![0; 183_342])).await?);
        if let Some(sample) = pongs.recv().await {
            println!("{} B in {:?}", sample?.payload.len(), sent.elapsed());
        }
    }

    let limit = Duration::from_secs(5);
    vehicle.close(limit).await;
    edge.close(limit).await;
    if let Ok(outcome) = echo.await {
        outcome?;
    }
    if let Some(host) = meeting.host {
        host.stop().await;
    }
    Ok(())
}
