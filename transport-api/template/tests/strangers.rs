//! Connections that are not as they should be leave the others alone.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use transport_api::{
    ErrorKind, Message, PublisherExt, Qos, Schema, SubscriberExt, TopicName, Transport,
    TransportConfig, TransportFactory,
};
use transport_template::Factory;
use transport_template::connection::greet;
use transport_template::frame::{Frame, GREETING, Kind};

const CLOSE: Duration = Duration::from_secs(10);

async fn listening() -> (Arc<dyn Transport>, String) {
    let config = TransportConfig::parse("tcp://127.0.0.1:0?role=listen").unwrap();
    let transport = Factory.open(&config).await.unwrap();
    let address = transport.info().endpoint.clone();
    (transport, address)
}

/// The listening peer still serves one of ours.
async fn serves(listening: &Arc<dyn Transport>, address: &str) {
    let config = TransportConfig::parse(&format!("tcp://{address}")).unwrap();
    let peer = Factory.open(&config).await.unwrap();
    let topic = TopicName::parse("a/b").unwrap();
    let (schema, qos) = (Schema::opaque(), Qos::default());
    let subscriber = listening.subscriber(&(&topic).into(), &schema, qos).await;
    let publisher = peer.publisher(&topic, &schema, qos).await.unwrap();
    drop(publisher.publish(Message::new("hello")).await.unwrap());
    let sample = subscriber.unwrap().recv().await.unwrap().unwrap();
    assert_eq!(sample.payload, "hello");
    peer.close(CLOSE).await;
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let (head, body) = frame.parts();
    [&head[..], &body[..]].concat()
}

/// Sends `bytes` and reads until the other side hangs up.
async fn hung_up_on(address: &str, bytes: Vec<u8>) {
    let address = address.to_owned();
    let talk = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // A reset while writing is as good an answer.
        let _ = stream.write_all(&bytes);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    talk.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_ends_its_own_connection_only() {
    let (transport, address) = listening().await;
    let limit = transport.capabilities().max_payload.unwrap() as u64;
    let hello = bytes(&Frame::control(Kind::Hello, "", &[GREETING, limit]));
    let after = |rest: &[u8]| [&hello[..], rest].concat();
    for bad in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        bytes(&Frame::control(Kind::Hello, "", &[1, limit])),
        bytes(&Frame::control(Kind::Sync, "", &[1])),
        after(&[0xff; 8]),
        after(&[0xff, 0xff, 0xff, 0x7f, Kind::Publish as u8, 0, 0, 0]),
        after(&bytes(&Frame::control(Kind::Subscribe, "a//b", &[1]))),
        after(&bytes(&Frame::control(Kind::Subscribe, "a/b", &[]))),
        after(&bytes(&Frame::control(Kind::Publish, "not a topic", &[]))),
        after(&hello),
    ] {
        hung_up_on(&address, bad).await;
    }
    serves(&transport, &address).await;
    transport.close(CLOSE).await;
}

/// Address space of this process, in bytes.
fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    1024 * kib.parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn announced_lengths_take_no_memory() {
    const STRANGERS: usize = 32;
    let config = "tcp://127.0.0.1:0?role=listen&max_payload=256MiB";
    let config = TransportConfig::parse(config).unwrap();
    let transport = Factory.open(&config).await.unwrap();
    let address = transport.info().endpoint.clone();
    let limit = transport.capabilities().max_payload.unwrap() as u64;
    let mut talk = bytes(&Frame::control(Kind::Hello, "", &[GREETING, limit]));
    // A question whose answer says that all before was read; then a message that never comes.
    talk.extend(bytes(&Frame::control(Kind::Sync, "", &[7])));
    talk.extend((limit as u32).to_le_bytes());
    talk.extend([Kind::Publish as u8, 1, 0, 0, b'a']);
    let strangers = tokio::task::spawn_blocking(move || {
        let before = address_space();
        let strangers: Vec<TcpStream> = (0..STRANGERS)
            .map(|_| {
                let mut stream = TcpStream::connect(&address).unwrap();
                stream.write_all(&talk).unwrap();
                // Its greeting is 24 B long and the answer to the question 16 B.
                stream.read_exact(&mut [0; 40]).unwrap();
                stream
            })
            .collect();
        (address_space().saturating_sub(before), strangers)
    });
    let (taken, strangers) = strangers.await.unwrap();
    let announced = STRANGERS as u64 * limit;
    assert!(
        taken < announced / 8,
        "{taken} B for {announced} B announced"
    );
    drop(strangers);
    transport.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_metadata_is_counted_and_not_delivered() {
    let (transport, address) = listening().await;
    let topic = TopicName::parse("a/b").unwrap();
    let (schema, qos) = (Schema::opaque(), Qos::default());
    let mut subscriber = transport
        .subscriber(&(&topic).into(), &schema, qos)
        .await
        .unwrap();
    let limit = transport.capabilities().max_payload.unwrap() as u64;
    let mut talk = bytes(&Frame::control(Kind::Hello, "", &[GREETING, limit]));
    // A message without a metadata block, and a question whose answer says that it was read.
    talk.extend(bytes(&Frame::control(Kind::Publish, "a/b", &[7])));
    talk.extend(bytes(&Frame::control(Kind::Sync, "", &[7])));
    let stranger = tokio::task::spawn_blocking({
        let address = address.clone();
        move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&talk).unwrap();
            // Its greeting is 24 B long and the answer to the question 16 B.
            stream.read_exact(&mut [0; 40]).unwrap();
        }
    });
    stranger.await.unwrap();
    assert_eq!(subscriber.counters().undecodable, 1);
    serves(&transport, &address).await;
    let sample = subscriber.recv().await.unwrap().unwrap();
    assert_eq!(sample.payload, "hello");
    transport.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_limits_are_told_apart() {
    let (transport, address) = listening().await;
    let other = format!("tcp://{address}?max_payload=1MiB");
    let config = TransportConfig::parse(&other).unwrap();
    let error = Factory.open(&config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    let text = error.to_string();
    assert!(
        text.contains("1048576") && text.contains("16777216"),
        "{text}"
    );
    transport.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_set_nodelay() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    let greeted = tokio::join!(greet(&mut near, 1000), greet(&mut far, 1000));
    greeted.0.unwrap();
    greeted.1.unwrap();
    assert!(near.nodelay().unwrap() && far.nodelay().unwrap());
}
