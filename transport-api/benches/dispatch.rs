//! What the trait objects cost: one message in and out of the in-process transport.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use transport_api::{
    Message, Publisher, PublisherExt, Qos, Sample, Schema, Subscriber, SubscriberExt, TopicFilter,
    TopicName, Transport, TransportConfig, TransportFactory, local, queue,
};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing in this process is waited for"),
    }
}

/// What the contract does not do: both calls as boxed futures.
#[async_trait]
trait Boxed: Sync {
    async fn publish(&self, message: Message);
    async fn recv(&mut self) -> Sample;
}

struct Wrapped {
    publisher: Box<dyn Publisher>,
    subscriber: std::sync::Mutex<Box<dyn Subscriber>>,
}

#[async_trait]
impl Boxed for Wrapped {
    async fn publish(&self, message: Message) {
        drop(self.publisher.publish(message).await.expect("accepted"));
    }

    async fn recv(&mut self) -> Sample {
        let subscriber = self.subscriber.get_mut().expect("not poisoned");
        subscriber.recv().await.expect("open").expect("a sample")
    }
}

fn handles() -> (Arc<dyn Transport>, Box<dyn Publisher>, Box<dyn Subscriber>) {
    let config = TransportConfig::parse("local:bench").expect("a valid URL");
    let transport = now(local::Factory::default().open(&config)).expect("opens");
    let topic = TopicName::parse("a/b").expect("a legal topic");
    let schema = Schema::opaque();
    let filter = TopicFilter::from(&topic);
    let subscriber = now(transport.subscriber(&filter, &schema, Qos::default()));
    let publisher = now(transport.publisher(&topic, &schema, Qos::default()));
    (
        transport,
        publisher.expect("granted"),
        subscriber.expect("granted"),
    )
}

fn dispatch(criterion: &mut Criterion) {
    let payload = Bytes::from(vec![0; 1_078_352]);
    let mut group = criterion.benchmark_group("dispatch");

    let depth = Qos::default().depth;
    let (producer, mut consumer) = queue::bounded(depth, Qos::default().overflow);
    group.bench_function("bare queue", |bencher| {
        bencher.iter(|| {
            let _ = black_box(producer.push(Message::new(payload.clone())));
            black_box(now(consumer.pop()))
        });
    });

    let (_transport, publisher, mut subscriber) = handles();
    group.bench_function("trait objects", |bencher| {
        bencher.iter(|| {
            let message = Message::new(payload.clone());
            drop(black_box(now(publisher.publish(message))));
            black_box(now(subscriber.recv()))
        });
    });

    let mut boxed: Box<dyn Boxed> = Box::new(Wrapped {
        publisher,
        subscriber: std::sync::Mutex::new(subscriber),
    });
    group.bench_function("boxed futures on top", |bencher| {
        bencher.iter(|| {
            now(boxed.publish(Message::new(payload.clone())));
            black_box(now(boxed.recv()))
        });
    });
    group.finish();
}

criterion_group!(benches, dispatch);
criterion_main!(benches);
