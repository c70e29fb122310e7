//! What a message costs in allocations, here and in the client library.

// Helpers of tests may unwrap as tests do.
#![allow(clippy::unwrap_used)]

#[path = "../../transport-api/tests/counting/mod.rs"]
mod counting;
#[path = "side/mosquitto.rs"]
mod mosquitto;
mod side;

use counting::{Counting, allocations};
use side::{config, listen, open, topic, within};
use transport_api::{
    ClockId, Delivery, Message, PublisherExt, Qos, Schema, Sequence, Stamp, StampPoint,
    SubscriberExt,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// With an identity, a schema and as many stamps as an answer has. Both sides run on one thread, which
/// is the one that is counted.
#[test]
fn a_message_costs_few_allocations() {
    const COUNT: u64 = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let Some(broker) = runtime.block_on(mosquitto::start("allow_anonymous true")) else {
        return;
    };
    let url = config(&format!("mqtt://{}", broker.address()));
    let (edge, vehicle) = runtime.block_on(async { (open(&url).await, open(&url).await) });
    let (mut subscriber, publisher) = runtime.block_on(async {
        let subscriber = listen(&edge, &topic("a"), Delivery::AtMostOnce).await;
        let (name, schema) = (topic("a"), Schema::new("a/B", [7; 16], ""));
        let publisher = vehicle.publisher(&name, &schema, Qos::blocking());
        (subscriber, publisher.await.unwrap())
    });
    let mut ids = Sequence::random();
    let payload = bytes::Bytes::from(vec![7; 1000]);
    let mut exchange = |count| {
        runtime.block_on(async {
            for _ in 0..count {
                let mut message = Message::new(payload.clone()).with_id(ids.next_id());
                for point in 0..8 {
                    message.meta.stamps.push(Stamp {
                        point: StampPoint(point),
                        clock: ClockId(1),
                        nanos: 1,
                    });
                }
                drop(publisher.publish(message).await.unwrap());
                within(subscriber.recv()).await.unwrap().unwrap();
            }
        });
    };
    exchange(100);
    let (calls, bytes) = allocations(|| exchange(COUNT));
    let (calls, bytes) = (calls as f64 / COUNT as f64, bytes / COUNT);
    println!("{calls} allocations of {bytes} B per message");
    assert!(calls <= 40.0, "{calls}");
    runtime.block_on(async {
        for side in [vehicle, edge] {
            within(side.close(std::time::Duration::from_secs(10))).await;
        }
        broker.stop().await;
    });
}
