//! The embedded master, as its clients see it on the wire.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport_api::{Host, TransportConfig, TransportFactory};
use transport_rosmaster::Factory;

/// A watchdog, far above what a step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn start(url: &str) -> transport_api::Result<(String, Box<dyn Host>)> {
    let meeting = Factory.meet(&TransportConfig::parse(url)?).await?;
    let url = meeting.first.url();
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    Ok((address, meeting.host.unwrap()))
}

fn request(version: &str, method: &str, params: &[&str]) -> String {
    let params: String = params
        .iter()
        .map(|value| format!("<param><value>{value}</value></param>"))
        .collect();
    // As roscpp writes it: texts have no type tag.
    let body = format!(
        "<?xml version=\"1.0\"?>\r\n<methodCall><methodName>{method}</methodName>\r\n\
         <params>{params}</params></methodCall>\r\n"
    );
    format!(
        "POST / HTTP/{version}\r\nUser-Agent: test\r\nHost: localhost\r\n\
         Content-Type: text/xml\r\nContent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// One answer: head and body.
async fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    let reading = async {
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|l| l.strip_prefix("Content-Length: "));
                let length: usize = length.expect("a length").parse().unwrap();
                if body.len() >= length {
                    return (head.to_owned(), body.to_owned());
                }
            }
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{text}");
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("an answer")
}

async fn call(address: &str, method: &str, params: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(request("1.1", method, params).as_bytes())
        .await
        .unwrap();
    answer(&mut stream).await.1
}

#[tokio::test]
async fn answers_suit_parsers_that_match_text() {
    let (address, host) = start("rosmaster:embedded").await.unwrap();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    // One connection for all: it is kept alive.
    for (method, params, expected) in [
        (
            "registerSubscriber",
            &["/s", "/t", "a/B", "http://127.0.0.1:1/"][..],
            "<array><data></data></array>",
        ),
        (
            "getPublishedTopics",
            &["/s", ""],
            "<array><data></data></array>",
        ),
        (
            "setParam",
            &["/s", "/empty", "<string></string>"],
            "<i4>1</i4>",
        ),
        ("getParam", &["/s", "/empty"], "<string></string>"),
        (
            "setParam",
            &["/s", "/list", "<array><data/></array>"],
            "<i4>1</i4>",
        ),
        ("getParam", &["/s", "/list"], "<array><data></data></array>"),
        (
            "setParam",
            &["/s", "/tree", "<struct></struct>"],
            "<i4>1</i4>",
        ),
        ("getParam", &["/s", "/tree"], "<struct></struct>"),
        ("getParam", &["/s", "/absent"], "<i4>-1</i4>"),
        ("noSuchMethod", &["/s"], "<fault>"),
    ] {
        stream
            .write_all(request("1.1", method, params).as_bytes())
            .await
            .unwrap();
        let (head, body) = answer(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("Content-Type: text/xml"), "{head}");
        assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
        assert!(body.contains("<methodResponse>"), "{body}");
        assert!(body.contains(expected), "{method}: {body}");
        assert!(!body.contains("/>"), "{body}");
    }
    // HTTP/1.0 closes after its answer.
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream
        .write_all(request("1.0", "getPid", &["/s"]).as_bytes())
        .await
        .unwrap();
    let (_, body) = answer(&mut stream).await;
    assert!(
        body.contains(&format!("<i4>{}</i4>", std::process::id())),
        "{body}"
    );
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    host.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_port_and_option() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = start(&format!("rosmaster:embedded?port={port}"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&port.to_string()) && text.contains("`port`"),
        "{text}"
    );
}

#[tokio::test]
async fn stopping_frees_the_port_at_once_twenty_times() {
    let (address, host) = start("rosmaster:embedded").await.unwrap();
    host.stop().await;
    let port = address.rsplit_once(':').unwrap().1;
    for _ in 0..20 {
        let (again, host) = start(&format!("rosmaster:embedded?port={port}"))
            .await
            .unwrap();
        assert_eq!(again, address);
        call(&address, "getPid", &["/s"]).await;
        host.stop().await;
    }
}

#[tokio::test]
async fn a_node_that_was_killed_is_removed() {
    let (address, host) = start("rosmaster:embedded").await.unwrap();
    let port = {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        gone.local_addr().unwrap().port()
    };
    let api = format!("http://127.0.0.1:{port}/");
    call(
        &address,
        "registerPublisher",
        &["/killed", "/t", "a/B", &api],
    )
    .await;
    let removed = async {
        while call(&address, "getSystemState", &["/s"])
            .await
            .contains("/killed")
        {
            // There is no event for what the master forgets.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, removed)
        .await
        .expect("it is removed");
    host.stop().await;
}

/// A subscriber that accepts and never answers delays nobody; odd answers do no harm.
#[tokio::test]
async fn nodes_that_do_not_answer_delay_nobody() {
    let (address, host) = start("rosmaster:embedded").await.unwrap();
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let odd = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (name, listener) in [("/hung", &hung), ("/odd", &odd)] {
        let api = format!("http://{}/", listener.local_addr().unwrap());
        call(&address, "registerSubscriber", &[name, "/t", "a/B", &api]).await;
    }
    for n in 0..3 {
        let api = format!("http://127.0.0.1:{}/", 40_000 + n);
        let topic = ["/p", "/t", "a/B", &api];
        call(&address, "registerPublisher", &topic).await;
        // Told in the meantime, again and again, whatever it answers.
        let told = async {
            loop {
                let (mut stream, _) = odd.accept().await.unwrap();
                let mut seen = Vec::new();
                while !String::from_utf8_lossy(&seen).contains("</methodCall>") {
                    if stream.read_buf(&mut seen).await.unwrap() == 0 {
                        break;
                    }
                }
                let reply = "HTTP/1.0 200 OK\r\n\r\n<methodResponse><params><param><value>\
                             <array><data><value>0</value></data></array></value></param></params>\
                             </methodResponse>";
                stream.write_all(reply.as_bytes()).await.unwrap();
                if String::from_utf8_lossy(&seen).contains(&api) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, told)
            .await
            .expect("it is told");
    }
    host.stop().await;
}
