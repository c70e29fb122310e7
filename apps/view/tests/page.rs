//! What a browser and what strangers get from the server of the view.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use latency_timeline::{Point, Timeline};
use lidar_messages::{Detection3DArray, VelodyneScan};
use lidar_sensor::source::SourceSpec;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use vehicle::{DataType, Frame, Objects, Source};
use view::{Relay, State, Stream, Viewer};

/// Only against hanging.
const LIMIT: Duration = Duration::from_secs(120);

fn viewer() -> Viewer {
    Viewer::start("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn scan() -> VelodyneScan {
    let spec: SourceSpec = "synthetic:1?turns=1".parse().unwrap();
    let turn = spec.open().unwrap().next_scan().unwrap();
    turn.unwrap().scan
}

fn frame(seq: u64, payload: &Bytes, source: Option<Source>) -> Frame {
    let mut timeline = Timeline::default();
    for (n, point) in Point::ALL.into_iter().enumerate() {
        timeline.set(point, n as i64 * 1_000_000);
    }
    Frame {
        seq,
        start_ns: 1_000_000,
        data_type: DataType::Scan,
        payload: payload.clone(),
        objects: source.map(|source| Objects {
            source,
            list: Detection3DArray::default().encode(),
            age: Duration::from_millis(12),
        }),
        timeline,
    }
}

/// An answer, taken apart as `docs/view.md` says.
struct News {
    head: Value,
    points: Bytes,
}

impl News {
    fn read(bytes: &Bytes) -> Self {
        assert_eq!(&bytes[..4], b"RTV1");
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        Self {
            head: serde_json::from_slice(&bytes[8..8 + length]).unwrap(),
            points: bytes.slice(8 + length..),
        }
    }

    fn version(&self) -> u64 {
        self.head["version"].as_u64().unwrap()
    }

    fn counts(&self) -> &Value {
        &self.head["streams"][0]["counts"]
    }
}

async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Bytes) {
    let (status, body, _) = ask(address, "GET", path, headers).await;
    (status, body)
}

async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, Bytes, hyper::HeaderMap) {
    let exchange = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, body, head.headers)
    };
    tokio::time::timeout(LIMIT, exchange).await.unwrap()
}

async fn news(address: SocketAddr, after: u64) -> News {
    let (status, body) = get(address, &format!("/live?stream=0&after={after}"), &[]).await;
    assert_eq!(status, StatusCode::OK);
    News::read(&body)
}

/// Asks until `enough`, as a page does.
async fn until(address: SocketAddr, enough: impl Fn(&News) -> bool) -> News {
    let asking = async {
        let mut after = 0;
        loop {
            let news = news(address, after).await;
            if enough(&news) {
                return news;
            }
            after = news.version();
        }
    };
    tokio::time::timeout(LIMIT, asking).await.unwrap()
}

/// A stream and the way into it.
fn fed(viewer: &Viewer) -> (Stream, mpsc::Sender<Frame>) {
    let stream = viewer.stream("mqtt");
    let (sender, frames) = mpsc::channel(64);
    stream.feed(frames);
    stream.enter(State::Running("measuring".to_owned()));
    (stream, sender)
}

#[tokio::test]
async fn the_page_and_all_that_it_names_are_served_and_nothing_else_may_be_loaded() {
    let viewer = viewer();
    let address = viewer.address();
    let mut open = vec!["/".to_owned()];
    let mut seen: Vec<String> = Vec::new();
    while let Some(path) = open.pop() {
        if seen.contains(&path) {
            continue;
        }
        let (status, body, headers) = ask(address, "GET", &path, &[]).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["cache-control"], "no-store");
        let text = String::from_utf8(body.to_vec()).unwrap();
        for foreign in ["https://", "//cdn", "innerHTML", "eval("] {
            assert!(!text.contains(foreign), "{path} has {foreign}");
        }
        // Quoted paths in the page and in its scripts.
        let in_path = |letter: char| letter.is_ascii_alphanumeric() || "/.".contains(letter);
        let named = text.split('"').filter(|quoted| {
            let path = quoted.strip_prefix('.').unwrap_or(quoted);
            path.starts_with('/') && path.len() > 1 && path.chars().all(in_path)
        });
        open.extend(named.map(|path| path.trim_start_matches('.').to_owned()));
        seen.push(path);
    }
    assert!(seen.iter().any(|path| path == "/scene.js"), "{seen:?}");
    assert!(seen.iter().any(|path| path == "/view.css"), "{seen:?}");
    assert_eq!(
        get(address, "/etc/passwd", &[]).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(get(address, "/live", &[]).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn foreign_names_pages_and_methods_are_refused_over_the_network() {
    let viewer = viewer();
    let address = viewer.address();
    for (headers, status) in [
        (("host", "evil.example:80"), StatusCode::MISDIRECTED_REQUEST),
        (("origin", "http://evil.example"), StatusCode::FORBIDDEN),
        (("sec-fetch-site", "cross-site"), StatusCode::FORBIDDEN),
    ] {
        for path in ["/", "/live?stream=0&after=0"] {
            assert_eq!(
                get(address, path, &[headers]).await.0,
                status,
                "{headers:?}"
            );
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
        let (status, ..) = ask(address, method, "/", &[]).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    // What is no request, and one that is too long, end the connection and nothing else.
    for bytes in [&b"\x16\x03\x01\x02\x00\x01"[..], &[b'a'; 1 << 20]] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // It may be cut while we still write.
        let _ = stream.write_all(bytes).await;
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest))
            .await
            .unwrap();
    }
    assert_eq!(get(address, "/", &[]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn frames_arrive_with_points_objects_counts_and_stages() {
    let viewer = viewer();
    let (stream, sender) = fed(&viewer);
    let payload = scan().encode();
    for (seq, source) in [
        (7, Some(Source::Edge)),
        (8, None),
        (11, Some(Source::Local)),
    ] {
        sender.send(frame(seq, &payload, source)).await.unwrap();
    }
    let address = viewer.address();
    let news = until(address, |news| news.counts()["scans"] == 3).await;
    assert_eq!(news.head["streams"][0]["label"], "mqtt");
    assert_eq!(news.head["streams"][0]["state"]["detail"], "measuring");
    for (count, expected) in [
        ("edge", 1),
        ("local", 1),
        ("unanswered", 1),
        // 9 and 10 were never told of.
        ("skipped", 2),
    ] {
        assert_eq!(news.counts()[count], expected, "{count}");
    }
    let all = self::news(address, 0).await;
    assert_eq!(all.head["frame"]["sequence"], 11);
    assert_eq!(all.head["frame"]["source"], "local");
    assert_eq!(all.head["frame"]["rings"], 32);
    assert!(all.points.len() > 8 * 10_000 && all.points.len().is_multiple_of(8));
    let samples = all.head["streams"][0]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    // Version, number, source, age, total, then the stages, which add up to it.
    let edge = samples[0].as_array().unwrap();
    assert_eq!(edge[1..5], [7, 1, 12_000, 12_000].map(Value::from));
    let stages: i64 = edge[5..].iter().map(|stage| stage.as_i64().unwrap()).sum();
    assert_eq!(stages, 12_000);
    assert_eq!(samples[1][2], 0);
    assert_eq!(samples[1][4], Value::Null);
    assert_eq!(samples[2][2], 2);
    assert_eq!(
        samples[2][4],
        Value::Null,
        "a local list made no round trip"
    );
    // What was told is not told again.
    let nothing = self::news(address, all.version()).await;
    assert_eq!(nothing.head["frame"], Value::Null);
    assert!(nothing.points.is_empty());
    assert_eq!(nothing.head["streams"][0]["samples"], Value::Array(vec![]));
    stream.enter(State::Failed("no broker".to_owned()));
    let failed = self::news(address, nothing.version()).await;
    assert_eq!(failed.head["streams"][0]["state"]["detail"], "no broker");
}

#[tokio::test]
async fn a_slow_page_gets_the_newest_frame_and_everybody_the_same() {
    let viewer = viewer();
    let (_stream, sender) = fed(&viewer);
    let payload = scan().encode();
    let address = viewer.address();
    // A page that asks and does not read what it gets.
    let mut stuck = TcpStream::connect(address).await.unwrap();
    let question = format!("GET /live?stream=0&after=0 HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stuck
        .write_all(question.repeat(50).as_bytes())
        .await
        .unwrap();
    for seq in 0..700 {
        let frame = frame(seq, &payload, Some(Source::Edge));
        tokio::time::timeout(LIMIT, sender.send(frame))
            .await
            .unwrap()
            .unwrap();
    }
    until(address, |news| news.counts()["scans"] == 700).await;
    let pages = (0..20).map(|_| tokio::spawn(news(address, 0)));
    for page in pages.collect::<Vec<_>>() {
        let news = page.await.unwrap();
        assert_eq!(news.head["frame"]["sequence"], 699);
        // The samples are a window, not a history without end.
        let samples = news.head["streams"][0]["samples"].as_array().unwrap();
        assert_eq!((samples.len(), &samples[0][1]), (600, &Value::from(100)));
    }
}

#[tokio::test]
async fn a_scan_without_points_and_one_that_cannot_be_read_are_told() {
    let viewer = viewer();
    let (_stream, sender) = fed(&viewer);
    let address = viewer.address();
    let empty = VelodyneScan::default().encode();
    sender.send(frame(0, &empty, None)).await.unwrap();
    let news = until(address, |news| news.counts()["scans"] == 1).await;
    assert_eq!(news.head["frame"]["unreadable"], Value::Null);
    assert!(news.points.is_empty());
    let nonsense = Bytes::from_static(b"nonsense");
    sender.send(frame(1, &nonsense, None)).await.unwrap();
    let news = until(address, |news| news.counts()["scans"] == 2).await;
    assert!(news.head["frame"]["unreadable"].is_string());
}

#[tokio::test]
async fn payloads_cross_from_another_process_only_while_a_page_asks() {
    let viewer = viewer();
    let stream = viewer.stream("zenoh");
    let (sender, frames) = mpsc::channel(64);
    let relay = Relay::start(stream.listen().unwrap(), frames).unwrap();
    let payload = scan().encode();
    let address = viewer.address();
    let frame = |seq| frame(seq, &payload, Some(Source::Edge));
    sender.send(frame(0)).await.unwrap();
    let news = until(address, |news| news.counts()["scans"] == 1).await;
    assert_eq!(news.head["frame"], Value::Null, "nobody had asked");
    // That question was the wish for one; it may take a moment to get there.
    let mut seq = 0;
    let shown = tokio::time::timeout(LIMIT, async {
        loop {
            seq += 1;
            sender.send(frame(seq)).await.unwrap();
            let news = self::news(address, 0).await;
            if news.head["frame"] != Value::Null {
                return news;
            }
        }
    });
    let shown = shown.await.unwrap();
    assert!(shown.points.len() > 8 * 10_000);
    // When the view goes, the vehicle goes on.
    viewer.close().await;
    for seq in 1000..1100 {
        tokio::time::timeout(LIMIT, sender.send(frame(seq)))
            .await
            .unwrap()
            .unwrap();
    }
    drop(sender);
    tokio::time::timeout(LIMIT, relay.finish()).await.unwrap();
}

#[tokio::test]
async fn a_page_that_looks_hears_of_the_end() {
    let viewer = viewer();
    let (stream, _sender) = fed(&viewer);
    let address = viewer.address();
    let before = news(address, 0).await;
    let waiting = tokio::spawn(news(address, before.version()));
    stream.enter(State::Ended);
    waiting.await.unwrap();
    let (news, ()) = tokio::join!(
        until(address, |news| news.head["ended"] == true),
        viewer.close()
    );
    assert_eq!(news.head["streams"][0]["state"]["is"], "ended");
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let first = viewer();
    let second = Viewer::start(first.address());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
