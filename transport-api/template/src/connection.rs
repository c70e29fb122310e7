//! One TCP connection to another peer.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use transport_api::intake::Intake;
use transport_api::ledger::Entry;
use transport_api::queue::{self, Consumer, Producer, Pushed};
use transport_api::{Error, ErrorKind, Message, Overflow, Result, TopicFilter, TopicName};

use crate::frame::{self, Frame, GREETING, HEAD, Kind, fault};
use crate::options::Options;

/// Frames besides messages that wait to be written. Each is an answer to one of the other side or
/// a call of the app here; who asks faster than it reads is disconnected.
const CONTROLS: usize = 1024;

/// Subscriptions one connection may hold.
const SUBSCRIPTIONS: usize = 4096;

/// How often the other side is asked for a sign of life within the time it may be silent.
const BEATS: u32 = 4;

/// Number of the questions that ask for nothing else.
const ALIVE: u64 = u64::MAX;

/// A message on its way into the socket.
#[allow(
    clippy::large_enum_variant,
    reason = "a box would be an allocation per message"
)]
#[derive(Debug)]
pub enum Outgoing {
    /// From a publisher here.
    Own {
        /// Where it goes.
        topic: TopicName,
        /// The message.
        message: Message,
        /// Its account; `None` where another connection keeps it.
        entry: Option<Entry>,
    },
    /// Passed on as it came.
    Passing(Frame),
}

/// A live connection, as seen by the node.
#[derive(Debug)]
pub struct Connection {
    outgoing: Producer<Outgoing>,
    controls: mpsc::Sender<Frame>,
    wanted: Mutex<Vec<(u64, TopicFilter)>>,
    /// Something came since it was last looked at.
    pub heard: AtomicBool,
}

/// The ends that a session takes from.
#[derive(Debug)]
pub struct Ends {
    outgoing: Consumer<Outgoing>,
    controls: mpsc::Receiver<Frame>,
}

impl Connection {
    /// A connection that serves nothing yet.
    pub fn new(options: &Options) -> (Arc<Self>, Ends) {
        let (producer, consumer) = queue::bounded(options.backlog, Overflow::DropOldest);
        let (sender, receiver) = mpsc::channel(CONTROLS);
        let connection = Self {
            outgoing: producer,
            controls: sender,
            wanted: Mutex::default(),
            heard: AtomicBool::new(true),
        };
        let ends = Ends {
            outgoing: consumer,
            controls: receiver,
        };
        (Arc::new(connection), ends)
    }

    fn wanted(&self) -> MutexGuard<'_, Vec<(u64, TopicFilter)>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The other side subscribes to `filter`.
    ///
    /// # Errors
    /// [`ErrorKind::Codec`] if it has too many subscriptions.
    pub fn want(&self, number: u64, filter: TopicFilter) -> Result<()> {
        let mut wanted = self.wanted();
        if wanted.len() == SUBSCRIPTIONS {
            return Err(fault("more subscriptions than are allowed"));
        }
        wanted.push((number, filter));
        Ok(())
    }

    /// The other side ends a subscription.
    pub fn unwant(&self, number: u64) {
        self.wanted().retain(|(other, _)| *other != number);
    }

    /// Whether the other side subscribes to `topic`.
    pub fn wants(&self, topic: &TopicName) -> bool {
        self.wanted()
            .iter()
            .any(|(_, filter)| filter.matches(topic))
    }

    /// Queues a message and gives up the oldest one if there is no room.
    pub fn push(&self, outgoing: Outgoing) -> Pushed<Outgoing> {
        self.outgoing.push(outgoing)
    }

    /// Queues a message as soon as there is room. Gives it back if the connection ends before.
    pub async fn push_when_room(&self, outgoing: Outgoing) -> Option<Outgoing> {
        while !self.outgoing.reserve() {
            if !poll_fn(|cx| self.outgoing.poll_room(cx)).await {
                return Some(outgoing);
            }
        }
        self.outgoing.push_reserved(outgoing);
        None
    }

    /// Queues a frame that is no message. `false` if the connection is gone or overrun.
    pub fn control(&self, frame: Frame) -> bool {
        self.controls.try_send(frame).is_ok()
    }

    /// Asks for signs of life, and returns when there was none for `silence`: a path that fell
    /// silent says nothing by itself.
    pub async fn watch(&self, silence: Duration) -> Error {
        let mut silent = 0;
        while silent < BEATS {
            tokio::time::sleep(silence / BEATS).await;
            silent = match self.heard.swap(false, Ordering::Relaxed) {
                true => 0,
                false => silent + 1,
            };
            // No answer will come to a question that is not taken, which is what is looked for.
            self.control(Frame::control(Kind::Sync, "", &[ALIVE]));
        }
        let text = format!("nothing came from the other side for {silence:?}");
        Error::new(ErrorKind::Disconnected, "read frame", text)
    }

    /// Lets the connection end once what is queued was written.
    pub fn finish(&self) {
        self.outgoing.close();
    }
}

/// Exchanges greetings; whoever is no peer of ours, or has another limit, is told apart here.
///
/// # Errors
/// [`ErrorKind::Connect`] naming what the other side said.
pub async fn greet(stream: &mut TcpStream, limit: usize) -> Result<()> {
    let failed = |what: String| Error::new(ErrorKind::Connect, "greet", what);
    let tuned = stream.set_nodelay(true);
    tuned.map_err(|error| failed(format!("socket options: {error}")))?;
    let hello = Frame::control(Kind::Hello, "", &[GREETING, limit as u64]);
    write(stream, &hello)
        .await
        .map_err(|error| failed(format!("the other side hung up: {error}")))?;
    // The greeting is all that a stranger is given memory for.
    let answer = frame::read(stream, &mut Intake::default(), 16).await;
    let numbers = match answer {
        Ok(Some(frame)) if frame.kind == Kind::Hello => frame.numbers(),
        Ok(Some(_)) => Err(fault("no greeting")),
        Ok(None) => return Err(failed("the other side hung up".to_owned())),
        Err(error) => Err(error),
    };
    match numbers {
        Ok([GREETING, theirs]) if theirs == limit as u64 => Ok(()),
        Ok([GREETING, theirs]) => Err(failed(format!(
            "`max_payload` is {limit} here and {theirs} there; set the same on both sides"
        ))),
        Ok(_) => Err(failed(
            "the other side is not a peer of this version".to_owned(),
        )),
        Err(error) => {
            Err(failed("the other side is not one of ours".to_owned()).with_source(error))
        }
    }
}

impl Ends {
    /// Writes what is queued until [`Connection::finish`] and nothing is left.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn write(mut self, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut memory = BytesMut::new();
        loop {
            let outgoing = tokio::select! {
                biased;
                Some(control) = self.controls.recv() => {
                    write(&mut output, &control).await?;
                    continue;
                }
                outgoing = self.outgoing.pop() => outgoing,
            };
            match outgoing {
                Some(Outgoing::Own {
                    topic,
                    message,
                    entry,
                }) => {
                    let bytes = message.payload.len();
                    memory.clear();
                    frame::prefix(topic.as_str(), &message.meta, bytes, &mut memory);
                    // Both parts go out by one vectored write; the payload is not copied.
                    output
                        .write_all_buf(&mut (&memory[..]).chain(message.payload))
                        .await?;
                    if let Some(mut entry) = entry {
                        entry.written(bytes);
                    }
                }
                Some(Outgoing::Passing(frame)) => write(&mut output, &frame).await?,
                None => return output.shutdown().await,
            }
        }
    }
}

async fn write(output: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    let (head, body): ([u8; HEAD], Bytes) = frame.parts();
    output.write_all_buf(&mut (&head[..]).chain(body)).await
}
