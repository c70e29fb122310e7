//! What a node does beyond the suite's contract.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport_api::{
    Event, Events, Host, Message, PeerId, PublisherExt, Qos, Schema, SubscriberExt, TopicFilter,
    TopicName, Transport, TransportConfig, TransportFactory,
};
use transport_rosmaster::Factory;

/// A watchdog, far above what a step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn master() -> (TransportConfig, Box<dyn Host>) {
    let config = TransportConfig::parse("rosmaster:embedded").unwrap();
    let meeting = Factory.meet(&config).await.unwrap();
    (meeting.first, meeting.host.unwrap())
}

async fn open(config: &TransportConfig, peer: &str) -> Arc<dyn Transport> {
    let config = config.clone().with_peer(PeerId::parse(peer).unwrap());
    Factory.open(&config).await.unwrap()
}

async fn event(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let finding = async {
        loop {
            let event = events.next().await.expect("the event comes before the end");
            if wanted(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, finding)
        .await
        .expect("the event comes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_advertised_name_is_told_to_subscribers() {
    let (config, host) = master().await;
    let lost = open(
        &config
            .clone()
            .with_option("hostname", "no-such-host.invalid"),
        "lost",
    )
    .await;
    let topic = TopicName::parse("points").unwrap();
    let publisher = lost
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let listener = open(&config, "listener").await;
    let mut events = listener.events();
    let filter = TopicFilter::from(&topic);
    let _subscriber = listener
        .subscriber(&filter, &Schema::opaque(), Qos::default())
        .await
        .unwrap();
    let told = event(&mut events, |event| {
        matches!(event, Event::Reconnecting { .. })
    })
    .await;
    let Event::Reconnecting { cause, .. } = told else {
        unreachable!("only such an event was waited for");
    };
    let text = cause.to_string();
    assert!(
        text.contains("no-such-host.invalid") && text.contains("/points"),
        "{text}"
    );
    drop(publisher);
    listener.close(Duration::from_secs(5)).await;
    lost.close(Duration::from_secs(5)).await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_name_is_taken_ends_and_does_not_fight() {
    let (config, host) = master().await;
    let first = open(&config, "same").await;
    let mut events = first.events();
    let second = open(&config, "same").await;
    event(&mut events, |event| matches!(event, Event::Closed)).await;
    let topic = TopicName::parse("a").unwrap();
    let publisher = second
        .publisher(&topic, &Schema::opaque(), Qos::default())
        .await;
    assert!(publisher.is_ok(), "the one that came last stays");
    second.close(Duration::from_secs(5)).await;
    host.stop().await;
}

fn stamped(seq: u32, stamp: u32) -> Bytes {
    let mut bytes = BytesMut::new();
    for number in [seq, stamp, 0, 0] {
        bytes.put_u32_le(number);
    }
    bytes.freeze()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_metadata_the_header_identifies_messages() {
    let (config, host) = master().await;
    let config = config.with_option("metadata", "off");
    let bare_type = Schema::new("test_msgs/Bare", [8; 16], "uint32 seq\n");
    let stamped_type = Schema::new("test_msgs/Stamped", [7; 16], "std_msgs/Header header\n");
    let (sender, receiver) = (
        open(&config, "sender").await,
        open(&config, "receiver").await,
    );
    assert!(!sender.capabilities().metadata);
    for (schema, identified) in [(stamped_type, true), (bare_type, false)] {
        let name = if identified { "stamped" } else { "bare" };
        let topic = TopicName::parse(name).unwrap();
        let filter = TopicFilter::from(&topic);
        let mut subscriber = receiver
            .subscriber(&filter, &schema, Qos::default())
            .await
            .unwrap();
        let publisher = sender
            .publisher(&topic, &schema, Qos::default())
            .await
            .unwrap();
        for (seq, missed) in [(5, 0), (6, 0), (9, 2)] {
            let payload = stamped(seq, seq);
            drop(
                publisher
                    .publish(Message::new(payload.clone()))
                    .await
                    .unwrap(),
            );
            let sample = tokio::time::timeout(PATIENCE, subscriber.recv())
                .await
                .unwrap();
            let sample = sample.unwrap().unwrap();
            assert_eq!(sample.payload, payload);
            assert_eq!(
                sample.meta.id.map(|id| id.seq),
                identified.then_some(u64::from(seq))
            );
            assert_eq!(sample.missed, if identified { missed } else { 0 });
        }
    }
    sender.close(Duration::from_secs(5)).await;
    receiver.close(Duration::from_secs(5)).await;
    host.stop().await;
}

/// An answer to every XML-RPC call: the data connection is at `port`.
async fn answer_calls(calls: TcpListener, port: u16) {
    let values = ["<string>TCPROS</string>", "<string>127.0.0.1</string>"];
    let data = |values: &[String]| {
        let values = values.iter().map(|value| format!("<value>{value}</value>"));
        format!("<array><data>{}</data></array>", values.collect::<String>())
    };
    let int = |number: u16| format!("<int>{number}</int>");
    let protocol = data(&[values[0].to_owned(), values[1].to_owned(), int(port)]);
    let body = data(&[int(1), "<string></string>".to_owned(), protocol]);
    let body = format!(
        "<?xml version=\"1.0\"?><methodResponse><params><param><value>{body}</value></param>\
         </params></methodResponse>"
    );
    loop {
        let (mut stream, _) = calls.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"</methodCall>") && !request.ends_with(b"</methodCall>\n") {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break;
            }
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nConnection: close";
        let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        // Who has hung up wants no answer.
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

/// The next data connection, opened.
async fn accept(data: &TcpListener) -> TcpStream {
    let (mut stream, _) = data.accept().await.unwrap();
    let length = stream.read_u32_le().await.unwrap();
    let mut hello = vec![0; length as usize];
    stream.read_exact(&mut hello).await.unwrap();
    let mut header = BytesMut::new();
    for field in [
        "callerid=/stranger",
        "type=std_msgs/String",
        "md5sum=992ce8a1687cec8c8bd883ec73ca41d1",
    ] {
        header.put_u32_le(u32::try_from(field.len()).unwrap());
        header.put_slice(field.as_bytes());
    }
    stream
        .write_u32_le(u32::try_from(header.len()).unwrap())
        .await
        .unwrap();
    stream.write_all(&header).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_data_connection_is_an_outage_until_it_is_back_or_its_publisher_is_gone() {
    let (config, host) = master().await;
    let calls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let data = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = data.local_addr().unwrap().port();
    let uri = format!("http://{}/", calls.local_addr().unwrap());
    let answering = tokio::spawn(answer_calls(calls, port));
    let params = ["/stranger", "/chatter", "std_msgs/String", &uri]
        .map(|text| format!("<param><value><string>{text}</string></value></param>"));
    let body = format!(
        "<?xml version=\"1.0\"?><methodCall><methodName>registerPublisher</methodName>\
         <params>{}</params></methodCall>",
        params.concat()
    );
    let url = config.url();
    let master = (url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(master).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: master\r\nContent-Type: text/xml\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("registered /stranger"), "{answer}");

    let listener = open(&config, "listener").await;
    let mut events = listener.events();
    let filter = TopicFilter::parse("chatter").unwrap();
    let schema = Schema::opaque();
    let subscribing = listener.subscriber(&filter, &schema, Qos::default());
    let (subscriber, connection) = tokio::join!(subscribing, accept(&data));
    let _subscriber = subscriber.unwrap();
    let connected = |event: &Event| matches!(event, Event::Connected);
    let told = |event: &Event| matches!(event, Event::Connected | Event::Disconnected { .. });
    event(&mut events, connected).await;

    drop(connection);
    let lost = event(&mut events, told).await;
    let Event::Disconnected { cause } = lost else {
        panic!("connected before anything was lost");
    };
    assert!(cause.to_string().contains(&uri), "{cause}");
    let connection = accept(&data).await;
    event(&mut events, connected).await;

    // It ends without a word to anybody.
    answering.abort();
    drop((answering.await, data, connection));
    let lost = event(&mut events, told).await;
    assert!(matches!(lost, Event::Disconnected { .. }), "{lost:?}");
    event(&mut events, connected).await;
    listener.close(Duration::from_secs(5)).await;
    host.stop().await;
}
