//! Sends a lidar scan's worth of bytes back and forth and prints the round trip times.
//!
//! `cargo run -p transport-mqtt --example mqtt_ping [URL] [BYTES] [ROUNDS]`; without a URL it starts its
//! own broker.

use std::time::{Duration, Instant};

use transport_api::{
    Message, PublisherExt, Qos, Schema, SubscriberExt, TopicName, TransportConfig, TransportFactory,
};
use transport_mqtt::Factory;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "mqtt:embedded".to_owned());
    let bytes = args.next().map_or(Ok(183_342), |text| text.parse())?;
    let rounds = args.next().map_or(Ok(1000), |text| text.parse())?;

    let meeting = Factory.meet(&TransportConfig::parse(&url)?).await?;
    let edge = Factory.open(&meeting.first).await?;
    let vehicle = Factory.open(&meeting.second).await?;
    let (ping, pong) = (TopicName::parse("ping")?, TopicName::parse("pong")?);
    let schema = Schema::opaque();
    let mut pings = edge
        .subscriber(&(&ping).into(), &schema, Qos::default())
        .await?;
    let mut pongs = vehicle
        .subscriber(&(&pong).into(), &schema, Qos::default())
        .await?;
    let answers = edge.publisher(&pong, &schema, Qos::blocking()).await?;
    let questions = vehicle.publisher(&ping, &schema, Qos::blocking()).await?;

    let echo = tokio::spawn(async move {
        while let Some(Ok(_)) = pings.recv().await {
            let answered = answers.publish(Message::new(vec![0; 4096])).await;
            if answered.is_err() {
                break;
            }
        }
    });
    let payload = bytes::Bytes::from(vec![7; bytes]);
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        drop(questions.publish(Message::new(payload.clone())).await?);
        pongs.recv().await.ok_or("the subscription has ended")??;
        times.push(start.elapsed());
    }
    times.sort();
    if let Some(median) = times.get(times.len() / 2) {
        println!(
            "{}: {bytes} B up, 4096 B down, {rounds} rounds",
            edge.info().endpoint
        );
        println!(
            "median {median:?}, fastest {:?}, slowest {:?}",
            times[0],
            times[times.len() - 1]
        );
    }

    vehicle.close(Duration::from_secs(5)).await;
    edge.close(Duration::from_secs(5)).await;
    echo.await?;
    if let Some(host) = meeting.host {
        host.stop().await;
    }
    Ok(())
}
