//! Peers in processes of their own, that can be stopped and killed.
//!
//! The test program runs itself again; the environment says which part the child plays. It reads
//! nothing from its standard input but the end of it, so that it never outlives its parent.

use std::env;
use std::io::Read;
use std::process::{ExitCode, Stdio};
use std::thread;

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use transport_api::{
    Message, PeerId, PublisherExt, Qos, Schema, Sequence, SubscriberExt, TopicFilter, TopicName,
    TransportConfig, TransportFactory,
};

use crate::runtime::runtime;
use crate::scene::{CLOSE, Failure, Outcome, POLL, Scene, deep, wait};

const PART: &str = "TRANSPORT_CONFORMANCE_PART";
const URL: &str = "TRANSPORT_CONFORMANCE_URL";

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Tells the number of each sample and how many are missing before it.
    Subscribe,
    /// Publishes numbered messages for as long as it lives and tells each number.
    Publish,
}

/// What a parent tells its child.
#[derive(Debug)]
pub(crate) struct Orders {
    fixture: String,
    part: Part,
    peer: PeerId,
    topic: TopicName,
    url: String,
}

impl Orders {
    /// `None` in a process that no check started.
    pub(crate) fn from_env() -> Option<Self> {
        let text = env::var(PART).ok()?;
        let mut words = text.split(' ');
        let mut word = || words.next().expect("a parent sets four words");
        Some(Self {
            fixture: word().to_owned(),
            part: match word() {
                "publish" => Part::Publish,
                _ => Part::Subscribe,
            },
            peer: PeerId::parse(word()).expect("a parent sets a legal peer"),
            topic: TopicName::parse(word()).expect("a parent sets a legal topic"),
            url: env::var(URL).expect("a parent sets the URL"),
        })
    }

    pub(crate) fn fixture(&self) -> &str {
        &self.fixture
    }
}

/// Plays the child's part until standard input ends.
pub(crate) fn serve(factory: impl TransportFactory, orders: &Orders) -> ExitCode {
    thread::spawn(|| {
        // Nothing is ever written to it: it ends with the parent.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    match runtime().block_on(play(&factory, orders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            println!("failed: {text}");
            ExitCode::FAILURE
        }
    }
}

async fn play(factory: &impl TransportFactory, orders: &Orders) -> Outcome {
    let config = TransportConfig::parse(&orders.url)?.with_peer(orders.peer.clone());
    let transport = factory.open(&config).await?;
    let schema = Schema::opaque();
    match orders.part {
        Part::Subscribe => {
            let filter = TopicFilter::from(&orders.topic);
            let mut subscriber = transport.subscriber(&filter, &schema, deep()).await?;
            println!("ready");
            while let Some(sample) = subscriber.recv().await {
                let sample = sample?;
                let number = sample.meta.id.map_or(u64::MAX, |id| id.seq);
                println!("{number} {}", sample.missed);
            }
        }
        Part::Publish => {
            let qos = Qos::default();
            let publisher = transport.publisher(&orders.topic, &schema, qos).await?;
            let mut sequence = Sequence::random();
            println!("ready");
            loop {
                let message = Message::new(Bytes::from_static(b"remote"));
                let id = sequence.next_id();
                drop(publisher.publish(message.with_id(id)).await?);
                println!("{}", id.seq);
                tokio::time::sleep(POLL).await;
            }
        }
    }
    transport.close(CLOSE).await;
    Ok(())
}

/// A peer in a process of its own. Killed when dropped.
pub(crate) struct Remote {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Remote {
    /// Starts a peer and waits until it is ready.
    pub(crate) async fn start(
        scene: &Scene,
        part: Part,
        peer: &str,
        topic: &TopicName,
    ) -> Outcome<Self> {
        let word = match part {
            Part::Subscribe => "subscribe",
            Part::Publish => "publish",
        };
        let program = env::current_exe().map_err(|error| Failure(error.to_string()))?;
        let mut child = Command::new(program)
            .env(PART, format!("{} {word} {peer} {topic}", scene.fixture))
            .env(URL, scene.config(peer).expose())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure(format!("start a peer process: {error}")))?;
        let stdout = child.stdout.take().expect("it was piped above");
        let mut remote = Self {
            child,
            lines: BufReader::new(stdout).lines(),
        };
        let line = remote.line("a peer process to be ready").await?;
        if line == "ready" {
            Ok(remote)
        } else {
            Err(Failure(format!("peer process: {line}")))
        }
    }

    async fn line(&mut self, what: &str) -> Outcome<String> {
        match wait(what, self.lines.next_line()).await? {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Failure(format!("{what}: it ended"))),
            Err(error) => Err(Failure(format!("{what}: {error}"))),
        }
    }

    /// The next sample that a subscriber tells of: its number, and how many are missing before it.
    pub(crate) async fn sample(&mut self, what: &str) -> Outcome<(u64, u64)> {
        let line = self.line(what).await?;
        line.split_once(' ')
            .and_then(|(number, missed)| Some((number.parse().ok()?, missed.parse().ok()?)))
            .ok_or_else(|| Failure(format!("{what}: peer process: {line}")))
    }

    /// Stops it where it is.
    pub(crate) fn stop(&self) -> Outcome {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a stopped one go on.
    pub(crate) fn resume(&self) -> Outcome {
        self.signal(Signal::SIGCONT)
    }

    /// Kills it and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Outcome {
        let killed = wait("a killed process to end", self.child.kill()).await?;
        killed.map_err(|error| Failure(format!("kill a peer process: {error}")))
    }

    fn signal(&self, signal: Signal) -> Outcome {
        let pid = self.child.id().expect("it was not waited for");
        // Process ids of Linux fit.
        kill(Pid::from_raw(pid as i32), signal)
            .map_err(|error| Failure(format!("signal a peer process: {error}")))
    }
}
