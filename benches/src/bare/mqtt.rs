//! `rumqttc`, protocol version 5, QoS 0, one connection for publishing and one for receiving: with
//! one for both, `rumqttc` and a broker that each wait for the other to read stand still.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rumqttc::NetworkOptions;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::{DEPTH, address};
use crate::contract;
use crate::end::{Asker, Ready};
use crate::failure::{Failure, Result};
use crate::path::Use;
use crate::payload::answer;

/// Requests that wait for the event loop, as in `transport-mqtt`.
const REQUESTS: usize = 16;

/// Largest packet, as in `transport-mqtt`: 16 MiB of payload and what is around it.
const PACKET: u32 = (16 << 20) + (64 << 10);

/// Longer than any run: an event loop that is polled by whoever waits for an answer is not polled
/// while other paths have their turn, and would be taken for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(3600);

fn lost(error: impl fmt::Display) -> Failure {
    Failure::new("rumqttc", error)
}

/// Connects under an id that ends in `role`.
fn connect(url: &str, role: &str) -> Result<(AsyncClient, EventLoop)> {
    let (host, port) = address(url)?;
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    let id = format!("bare-{}-{role}", std::process::id());
    let mut options = MqttOptions::new(id, host, port);
    options
        .set_network_options(network)
        .set_keep_alive(KEEP_ALIVE)
        .set_max_packet_size(Some(PACKET));
    Ok(AsyncClient::new(options, REQUESTS))
}

/// Connects twice and subscribes to `topic`.
async fn open(url: &str, topic: &str) -> Result<(AsyncClient, Loops)> {
    let (publisher, publishing) = connect(url, "pub")?;
    let (subscriber, mut receiving) = connect(url, "sub")?;
    let subscribed = subscriber.subscribe(topic, QoS::AtMostOnce).await;
    subscribed.map_err(lost)?;
    loop {
        let event = receiving.poll().await.map_err(lost)?;
        if matches!(event, Event::Incoming(Packet::SubAck(_))) {
            let loops = Loops {
                publishing,
                receiving,
                subscriber,
            };
            return Ok((publisher, loops));
        }
    }
}

/// Both event loops.
struct Loops {
    publishing: EventLoop,
    receiving: EventLoop,
    /// Without it the loop ends.
    subscriber: AsyncClient,
}

/// Polls until a message arrives.
async fn arrival(events: &mut EventLoop) -> Result<Bytes> {
    loop {
        let event = events.poll().await.map_err(lost)?;
        if let Event::Incoming(Packet::Publish(publish)) = event {
            return Ok(publish.payload);
        }
    }
}

/// Polls until the connection is lost.
async fn drive(events: &mut EventLoop) -> Failure {
    loop {
        if let Err(error) = events.poll().await {
            return lost(error);
        }
    }
}

/// Polls on tasks of their own and hands messages over.
fn hand_over(runtime: &Runtime, mut loops: Loops) -> mpsc::Receiver<Result<Bytes>> {
    let (arrived, arrivals) = mpsc::channel(DEPTH);
    let failed = arrived.clone();
    runtime.spawn(async move {
        let failure = drive(&mut loops.publishing).await;
        // Nobody waits for it at the end.
        let _ = failed.send(Err(failure)).await;
    });
    runtime.spawn(async move {
        let _subscriber = loops.subscriber;
        loop {
            let payload = arrival(&mut loops.receiving).await;
            let ended = payload.is_err();
            if arrived.send(payload).await.is_err() || ended {
                return;
            }
        }
    });
    arrivals
}

/// Where answers come from.
enum Answers {
    Polled(Box<Loops>),
    HandedOver(mpsc::Receiver<Result<Bytes>>),
}

impl Answers {
    async fn next(&mut self) -> Result<Bytes> {
        match self {
            Self::Polled(loops) => tokio::select! {
                payload = arrival(&mut loops.receiving) => payload,
                failure = drive(&mut loops.publishing) => Err(failure),
            },
            Self::HandedOver(arrivals) => arrivals
                .recv()
                .await
                .unwrap_or_else(|| Err(lost("the event loop ended"))),
        }
    }
}

fn runtime(style: Use) -> Result<Runtime> {
    match style {
        Use::HandedOver => contract::runtime(),
        Use::Bare => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(lost),
    }
}

fn answers(style: Use, runtime: &Runtime, loops: Loops) -> Answers {
    match style {
        Use::Bare => Answers::Polled(Box::new(loops)),
        Use::HandedOver => Answers::HandedOver(hand_over(runtime, loops)),
    }
}

/// The asking end.
pub struct Mqtt {
    runtime: Runtime,
    client: AsyncClient,
    answers: Answers,
    requests: String,
}

impl fmt::Debug for Mqtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mqtt").field(&self.requests).finish()
    }
}

impl Mqtt {
    /// Connects to the broker at `url`.
    ///
    /// # Errors
    /// What the library answers.
    pub fn open(url: &str, requests: &str, answers_topic: &str, style: Use) -> Result<Self> {
        let runtime = runtime(style)?;
        let (client, loops) = runtime.block_on(open(url, answers_topic))?;
        let answers = answers(style, &runtime, loops);
        Ok(Self {
            runtime,
            client,
            answers,
            requests: requests.to_owned(),
        })
    }
}

impl Asker for Mqtt {
    fn send(&mut self, payload: &Bytes) -> Result<()> {
        self.client
            .try_publish(&self.requests, QoS::AtMostOnce, false, payload.clone())
            .map_err(lost)
    }

    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<usize>> {
        let next = self.answers.next();
        match patience {
            None => self.runtime.block_on(next).map(|it| Some(it.len())),
            Some(patience) => self
                .runtime
                .block_on(async { tokio::time::timeout(patience, next).await })
                .ok()
                .transpose()
                .map(|it| it.map(|it| it.len())),
        }
    }

    fn settings(&self) -> String {
        format!(
            "rumqttc v5: nodelay=true, connections=2, qos=0, max_packet={PACKET} B, \
             requests={REQUESTS}"
        )
    }
}

/// The answering end.
///
/// # Errors
/// The connection is lost.
pub fn echo(
    url: &str,
    requests: &str,
    answers_topic: &str,
    style: Use,
    ready: Ready<'_>,
) -> Result<()> {
    let runtime = runtime(style)?;
    let (client, loops) = runtime.block_on(open(url, requests))?;
    let mut arrivals = answers(style, &runtime, loops);
    ready(url);
    runtime.block_on(async {
        loop {
            let length = arrivals.next().await?.len();
            client
                .try_publish(answers_topic, QoS::AtMostOnce, false, answer(length))
                .map_err(lost)?;
        }
    })
}
