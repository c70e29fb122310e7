//! Round trips over this transport beside round trips over a bare TCP connection: payload one way,
//! 4 KB back, both sides in one process on runtimes of their own, in turns.
//!
//! `cargo bench --bench floor`

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use transport_api::{
    Message, PublisherExt, Qos, Result, Schema, Sequence, SubscriberExt, TopicName, Transport,
    TransportConfig, TransportFactory,
};
use transport_template::Factory;

const SIZES: [usize; 3] = [4_096, 183_342, 1_078_352];
const BACK: usize = 4_096;
const ROUNDS: usize = 400;
const TURNS: usize = 7;

fn runtime() -> Runtime {
    let builder = &mut Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("threads for a runtime")
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// Blocking calls on two threads.
fn blocking(size: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a peer");
        stream.set_nodelay(true).expect("set");
        let (mut payload, back) = (vec![0; size], [1; BACK]);
        while stream.read_exact(&mut payload).is_ok() {
            stream.write_all(&back).expect("written");
        }
    });
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_nodelay(true).expect("set");
    let (payload, mut back) = (vec![1; size], [0; BACK]);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        stream.write_all(&payload).expect("written");
        stream.read_exact(&mut back).expect("read");
        times.push(start.elapsed());
    }
    drop(stream);
    other.join().expect("ended");
    median(times)
}

/// The same on tokio.
fn bare(near: &Runtime, far: &Runtime, size: usize) -> f64 {
    let listener = far.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("bound");
    far.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a peer");
        stream.set_nodelay(true).expect("set");
        let (mut payload, back) = (vec![0; size], [1; BACK]);
        while stream.read_exact(&mut payload).await.is_ok() {
            stream.write_all(&back).await.expect("written");
        }
    });
    let task = near.spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("connected");
        stream.set_nodelay(true).expect("set");
        let (payload, mut back) = (vec![1; size], [0; BACK]);
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            stream.write_all(&payload).await.expect("written");
            stream.read_exact(&mut back).await.expect("read");
            times.push(start.elapsed());
        }
        median(times)
    });
    near.block_on(task).expect("measured")
}

async fn answer(
    transport: Arc<dyn Transport>,
    ready: tokio::sync::oneshot::Sender<()>,
) -> Result<()> {
    let (there, back) = topics()?;
    let schema = Schema::opaque();
    let mut requests = transport
        .subscriber(&(&there).into(), &schema, Qos::default())
        .await?;
    let answers = transport.publisher(&back, &schema, Qos::default()).await?;
    let payload = Bytes::from(vec![1; BACK]);
    let _ = ready.send(());
    while let Some(sample) = requests.recv().await {
        let mut message = Message::new(payload.clone());
        message.meta.correlation = sample?.meta.id;
        drop(answers.publish(message).await?);
    }
    Ok(())
}

fn topics() -> Result<(TopicName, TopicName)> {
    Ok((
        TopicName::parse("vehicle/cloud")?,
        TopicName::parse("edge/objects")?,
    ))
}

/// This transport; the payload goes from the peer that connects to the one that listens, or, if
/// `reverse`, the other way.
fn transport(near: &Runtime, far: &Runtime, size: usize, reverse: bool) -> Result<f64> {
    let config = TransportConfig::parse("tcp:embedded")?;
    let meeting = far.block_on(Factory.meet(&config))?;
    let first = far.block_on(async { Factory.open(&meeting.first).await })?;
    let second = near.block_on(async { Factory.open(&meeting.second).await })?;
    let (listening, asking) = if reverse {
        (&near, &far)
    } else {
        (&far, &near)
    };
    let (answering, asker) = if reverse {
        (Arc::clone(&second), Arc::clone(&first))
    } else {
        (Arc::clone(&first), Arc::clone(&second))
    };
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let other = listening.spawn(answer(answering, ready));
    let task = asking.spawn(async move {
        is_ready.await.expect("the other side is there");
        let (there, back) = topics()?;
        let schema = Schema::opaque();
        let mut answers = asker
            .subscriber(&(&back).into(), &schema, Qos::default())
            .await?;
        let requests = asker.publisher(&there, &schema, Qos::default()).await?;
        let payload = Bytes::from(vec![1; size]);
        let mut sequence = Sequence::random();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let message = Message::new(payload.clone()).with_id(sequence.next_id());
            drop(requests.publish(message).await?);
            answers.recv().await.expect("open")?;
            times.push(start.elapsed());
        }
        Ok(median(times))
    });
    let time = near.block_on(task).expect("measured");
    near.block_on(second.close(Duration::from_secs(1)));
    far.block_on(first.close(Duration::from_secs(1)));
    near.block_on(other).expect("ended")?;
    time
}

fn main() -> Result<()> {
    if std::env::args().any(|argument| argument == "--test") {
        // `cargo test --benches` only asks whether it starts.
        return Ok(());
    }
    let (near, far) = (runtime(), runtime());
    println!("median round trip in µs, {ROUNDS} rounds each, turns of one run side by side");
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} ratio",
        "payload", "blocking", "bare", "tcp://", "reverse"
    );
    for size in SIZES {
        for _ in 0..TURNS {
            let blocking = blocking(size);
            let bare = bare(&near, &far, size);
            let ours = transport(&near, &far, size, false)?;
            let reverse = transport(&near, &far, size, true)?;
            println!(
                "{size:>9} {blocking:>9.1} {bare:>9.1} {ours:>9.1} {reverse:>9.1} {:>5.2}",
                ours / bare
            );
        }
    }
    Ok(())
}
