//! Handles can be boxed, sent to other tasks and used from several of them.

use transport_api::{
    DeliveryToken, Error, Event, Events, Host, Message, Publisher, PublisherExt, Registry, Sample,
    Subscriber, SubscriberExt, Transport, TransportConfig, TransportFactory,
};

fn sendable<T: Send + 'static + ?Sized>() {}
fn shareable<T: Send + Sync + 'static + ?Sized>() {}
fn send<T: Send>(value: T) -> T {
    value
}

#[test]
fn trait_objects_and_values_cross_threads() {
    shareable::<dyn Transport>();
    shareable::<dyn Publisher>();
    shareable::<dyn TransportFactory>();
    sendable::<dyn Subscriber>();
    sendable::<dyn Host>();
    sendable::<Events>();
    shareable::<Registry>();
    shareable::<TransportConfig>();
    shareable::<Message>();
    shareable::<Sample>();
    shareable::<Event>();
    shareable::<Error>();
    sendable::<DeliveryToken>();
}

/// Only has to compile: the futures of the everyday methods can be spawned.
#[allow(dead_code)]
async fn everyday_futures_can_be_spawned(
    publisher: &dyn Publisher,
    subscriber: &mut dyn Subscriber,
    events: &mut Events,
) {
    let _ = send(publisher.publish(Message::new("x"))).await;
    let _ = send(subscriber.recv()).await;
    let _ = send(events.next()).await;
}

#[test]
fn errors_are_standard_errors() {
    fn standard<T: std::error::Error + Send + Sync + 'static>() {}
    standard::<Error>();
}
