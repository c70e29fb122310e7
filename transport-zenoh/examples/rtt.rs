//! Round trips between two processes: this transport against the bare library, equally tuned.
//!
//! `cargo run --release -p transport-zenoh --example rtt [-- raw|transport [ROUNDS]]`
//!
//! A payload goes one way and 4 KB come back. Prints the median and the 99th percentile per size.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use transport_api::{
    Message, PublisherExt, Qos, Schema, SubscriberExt, TopicFilter, TopicName, Transport,
    TransportConfig, TransportFactory,
};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::{CongestionControl, Priority};

const SIZES: [usize; 3] = [4096, 183_342, 1_078_352];
const ANSWER: usize = 4096;
const WARM: usize = 50;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["echo", way, url] => echo(way, url).await,
        [] => {
            measure("raw", 500).await?;
            measure("transport", 500).await
        }
        [way] => measure(way, 500).await,
        [way, rounds, ..] => measure(way, rounds.parse()?).await,
    }
}

async fn measure(way: &str, rounds: usize) -> Outcome {
    let extra = std::env::var("RTT_OPTIONS").unwrap_or_default();
    let config = TransportConfig::parse(&format!("zenoh:peer?{extra}"))?;
    let meeting = transport_zenoh::Factory.meet(&config).await?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["echo", way, &meeting.first.expose()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    BufReader::new(output).read_line(&mut String::new())?;
    match way {
        "raw" => ask_raw(&meeting.second, rounds).await?,
        _ => ask(&meeting.second, rounds).await?,
    }
    // The end of its input is the sign to go.
    drop(child.stdin.take());
    child.wait()?;
    Ok(())
}

/// Answers until standard input ends.
async fn echo(way: &str, url: &str) -> Outcome {
    let config = TransportConfig::parse(url)?;
    let answer = Bytes::from(vec![1; ANSWER]);
    let session;
    let transport;
    if way == "raw" {
        session = raw_session(&config).await?;
        let pongs = raw_publisher(&session, "pong")?;
        let (found, mut pings) = tokio::sync::mpsc::channel(16);
        session
            .declare_subscriber("ping")
            .callback(move |sample| {
                let _ = found.try_send(sample);
            })
            .background()
            .wait()?;
        tokio::spawn(async move {
            while let Some(sample) = pings.recv().await {
                let _whole = flat(sample.payload());
                let _ = pongs.put(answer.clone()).wait();
            }
        });
    } else {
        transport = transport_zenoh::Factory.open(&config).await?;
        let (mut pings, pongs) = ends(&transport, "ping", "pong").await?;
        tokio::spawn(async move {
            while let Some(Ok(_)) = pings.recv().await {
                drop(pongs.publish(Message::new(answer.clone())).await);
            }
        });
    }
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    // Taking the library down is not what is measured.
    std::process::exit(0)
}

async fn ask(config: &TransportConfig, rounds: usize) -> Outcome {
    let transport = transport_zenoh::Factory.open(config).await?;
    let (mut pongs, pings) = ends(&transport, "pong", "ping").await?;
    for size in SIZES {
        let payload = Bytes::from(vec![2; size]);
        let mut times = Vec::with_capacity(rounds);
        for round in 0..WARM + rounds {
            let sent = Instant::now();
            drop(pings.publish(Message::new(payload.clone())).await?);
            pongs.recv().await.ok_or("closed")??;
            if round >= WARM {
                times.push(sent.elapsed());
            }
        }
        tell("transport", size, times);
    }
    transport.close(Duration::from_secs(2)).await;
    Ok(())
}

async fn ask_raw(config: &TransportConfig, rounds: usize) -> Outcome {
    let session = raw_session(config).await?;
    let pings = raw_publisher(&session, "ping")?;
    let (found, mut pongs) = tokio::sync::mpsc::channel(16);
    session
        .declare_subscriber("pong")
        .callback(move |sample| {
            let _ = found.try_send(sample);
        })
        .background()
        .wait()?;
    while !pings.matching_status().wait()?.matching() {
        tokio::task::yield_now().await;
    }
    for size in SIZES {
        let payload = Bytes::from(vec![2; size]);
        let mut times = Vec::with_capacity(rounds);
        for round in 0..WARM + rounds {
            let sent = Instant::now();
            pings.put(payload.clone()).wait()?;
            pongs.recv().await.ok_or("closed")?;
            if round >= WARM {
                times.push(sent.elapsed());
            }
        }
        tell("raw", size, times);
    }
    session.close().await?;
    Ok(())
}

async fn ends(
    transport: &Arc<dyn Transport>,
    from: &str,
    to: &str,
) -> Outcome<(
    Box<dyn transport_api::Subscriber>,
    Box<dyn transport_api::Publisher>,
)> {
    let schema = Schema::opaque();
    let filter = TopicFilter::parse(from)?;
    let qos = Qos::default();
    Ok((
        transport.subscriber(&filter, &schema, qos).await?,
        transport
            .publisher(&TopicName::parse(to)?, &schema, qos)
            .await?,
    ))
}

/// The payload in one piece, as the contract hands it to the app.
fn flat(payload: &ZBytes) -> Bytes {
    let mut whole = Vec::with_capacity(payload.len());
    for slice in payload.slices() {
        whole.extend_from_slice(slice);
    }
    whole.into()
}

async fn raw_session(config: &TransportConfig) -> Outcome<zenoh::Session> {
    let url = config.url();
    let endpoint = format!(
        "[\"tcp/{}:{}\"]",
        url.host_str().unwrap_or_default(),
        url.port().unwrap_or_default()
    );
    let listens = config
        .options()
        .get("role")
        .is_some_and(|role| role == "listen");
    let mut settings = zenoh::Config::default();
    let (mode, key) = if listens {
        ("\"peer\"", "listen/endpoints")
    } else {
        ("\"client\"", "connect/endpoints")
    };
    for (key, value) in [
        ("mode", mode),
        (key, &endpoint),
        ("scouting/multicast/enabled", "false"),
        ("transport/shared_memory/enabled", "false"),
        ("transport/link/tx/queue/size/data_high", "16"),
        ("transport/link/rx/buffer_size", "4194304"),
    ] {
        settings.insert_json5(key, value)?;
    }
    tokio::task::spawn_blocking(|| zenoh::open(settings).wait()).await?
}

fn raw_publisher(
    session: &zenoh::Session,
    key: &'static str,
) -> Outcome<zenoh::pubsub::Publisher<'static>> {
    session
        .declare_publisher(key)
        .congestion_control(CongestionControl::Block)
        .priority(Priority::DataHigh)
        .wait()
}

fn tell(way: &str, size: usize, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
    println!(
        "{way:9} {size:>9} B: median {:>6} us, p99 {:>6} us",
        at(50),
        at(99)
    );
}
