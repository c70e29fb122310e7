//! Publishes to itself within one process: `cargo run -p transport-api --example local`.

use transport_api::{
    Message, PublisherExt, Qos, Registry, Result, Schema, Sequence, SubscriberExt, TopicFilter,
    TopicName, TransportConfig, local,
};

#[tokio::main]
async fn main() -> Result<()> {
    let mut registry = Registry::default();
    registry.register(local::Factory::default())?;
    let transport = registry
        .open(&TransportConfig::parse("local:example")?)
        .await?;

    let topic = TopicName::parse("vehicle1/greeting")?;
    let filter = TopicFilter::parse("*/greeting")?;
    let schema = Schema::opaque();
    let mut subscriber = transport
        .subscriber(&filter, &schema, Qos::default())
        .await?;
    let publisher = transport.publisher(&topic, &schema, Qos::default()).await?;

    let mut sequence = Sequence::random();
    for text in ["one", "two", "three"] {
        let _token = publisher
            .publish(Message::new(text).with_id(sequence.next_id()))
            .await?;
    }
    for _ in 0..3 {
        if let Some(sample) = subscriber.recv().await.transpose()? {
            println!(
                "{} {:?} missed {}",
                sample.topic, sample.payload, sample.missed
            );
        }
    }
    println!("{:?}", subscriber.counters());
    Ok(())
}
