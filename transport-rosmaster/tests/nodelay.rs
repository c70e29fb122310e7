//! TCP_NODELAY, read from the sockets themselves; alone in its process, so that all are ours.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::os::fd::BorrowedFd;
use std::time::Duration;

use socket2::{SockRef, Type};
use transport_api::{
    Message, PublisherExt, Qos, Schema, SubscriberExt, TopicFilter, TopicName, TransportConfig,
    TransportFactory,
};
use transport_rosmaster::Factory;

/// TCP_NODELAY of each connected TCP socket of this process.
fn nodelays() -> Vec<bool> {
    let folder = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found = Vec::new();
    for number in numbers.collect::<Vec<i32>>() {
        // SAFETY: the descriptor is only asked for options; one that was closed meanwhile answers
        // with an error.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let socket = SockRef::from(&descriptor);
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        if peer.is_some() && socket.r#type().ok() == Some(Type::STREAM) {
            found.push(socket.tcp_nodelay().unwrap());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_has_nodelay() {
    let embedded = TransportConfig::parse("rosmaster:embedded").unwrap();
    let meeting = Factory.meet(&embedded).await.unwrap();
    let first = Factory.open(&meeting.first).await.unwrap();
    let second = Factory.open(&meeting.second).await.unwrap();
    let topic = TopicName::parse("a/b").unwrap();
    let (filter, schema) = (TopicFilter::from(&topic), Schema::opaque());
    let mut subscriber = first
        .subscriber(&filter, &schema, Qos::default())
        .await
        .unwrap();
    let publisher = second
        .publisher(&topic, &schema, Qos::default())
        .await
        .unwrap();
    drop(publisher.publish(Message::new("hello")).await.unwrap());
    subscriber.recv().await.unwrap().unwrap();
    // Both ends of the data connection and of the calls to the master, at least.
    let found = nodelays();
    assert!(found.len() >= 6, "{found:?}");
    assert!(found.iter().all(|nodelay| *nodelay), "{found:?}");
    second.close(Duration::from_secs(5)).await;
    first.close(Duration::from_secs(5)).await;
    meeting.host.unwrap().stop().await;
}
