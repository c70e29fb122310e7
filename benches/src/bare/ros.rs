//! `rosrust`, with a message type that is copied once in each direction, and with TCP_NODELAY,
//! which the library does not set.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use rosrust::api::Ros;
use rosrust::{Message, Publisher, RosMsg, Subscriber};

use super::DEPTH;
use crate::end::{Asker, Ready};
use crate::failure::{Failure, Result};
use crate::nodelay;
use crate::path::Use;
use crate::payload::{PROBE, answer};

/// Bytes as a ROS message.
#[derive(Clone, Debug, Default, PartialEq)]
struct Blob(Bytes);

impl Message for Blob {
    fn msg_definition() -> String {
        "uint8[] bytes".to_owned()
    }

    fn md5sum() -> String {
        "*".to_owned()
    }

    fn msg_type() -> String {
        "*".to_owned()
    }
}

impl RosMsg for Blob {
    fn encode<W: io::Write>(&self, mut out: W) -> io::Result<()> {
        out.write_all(&self.0)
    }

    fn decode<R: io::Read>(mut from: R) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        Ok(Self(bytes.into()))
    }

    // The two below are what the library calls; their defaults grow by doubling.

    fn encode_vec(&self) -> io::Result<Vec<u8>> {
        let mut frame = Vec::with_capacity(4 + self.0.len());
        frame.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        frame.extend_from_slice(&self.0);
        Ok(frame)
    }

    fn decode_slice(frame: &[u8]) -> io::Result<Self> {
        let bytes = frame.get(4..).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }
}

fn lost(error: impl fmt::Display) -> Failure {
    Failure::new("rosrust", error)
}

/// A node of the master in `ROS_MASTER_URI`.
fn node() -> Result<Ros> {
    Ros::new(&format!("bare_{}", std::process::id())).map_err(lost)
}

/// Hands messages over to the thread that owns the receiver.
fn hand_over(node: &Ros, topic: &str) -> Result<(Subscriber, Receiver<Bytes>)> {
    let (arrived, arrivals) = sync_channel(DEPTH);
    let subscriber = node
        .subscribe(topic, DEPTH, move |Blob(bytes)| {
            // The other end of the channel is gone only when the process ends.
            let _ = arrived.send(bytes);
        })
        .map_err(lost)?;
    Ok((subscriber, arrivals))
}

/// The asking end. Answers are handed over by the callback in either use.
pub struct Node {
    publisher: Publisher<Blob>,
    answers: Receiver<Bytes>,
    _subscriber: Subscriber,
    _node: Ros,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Node {
    /// Joins the master in `ROS_MASTER_URI`.
    ///
    /// # Errors
    /// What the library answers.
    pub fn open(requests: &str, answers: &str) -> Result<Self> {
        let node = node()?;
        let (subscriber, answers) = hand_over(&node, answers)?;
        Ok(Self {
            publisher: node.publish(requests, DEPTH).map_err(lost)?,
            answers,
            _subscriber: subscriber,
            _node: node,
        })
    }
}

impl Asker for Node {
    fn send(&mut self, payload: &Bytes) -> Result<()> {
        if payload.len() == PROBE {
            nodelay::force()?;
        }
        self.publisher.send(Blob(payload.clone())).map_err(lost)
    }

    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<usize>> {
        let answer = match patience {
            None => self.answers.recv().map(Some).map_err(lost),
            Some(patience) => match self.answers.recv_timeout(patience) {
                Ok(answer) => Ok(Some(answer)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(error) => Err(lost(error)),
            },
        };
        Ok(answer?.map(|answer| answer.len()))
    }

    fn settings(&self) -> String {
        format!("rosrust: nodelay=forced, queue={DEPTH}, one copy in each direction")
    }
}

/// Answers one request.
fn respond(publisher: &Publisher<Blob>, request: &Bytes) -> Result<()> {
    if request.len() == PROBE {
        nodelay::force()?;
    }
    publisher.send(Blob(answer(request.len()))).map_err(lost)
}

/// The answering end.
///
/// # Errors
/// What the library answers.
pub fn echo(at: &str, requests: &str, answers: &str, style: Use, ready: Ready<'_>) -> Result<()> {
    let node = node()?;
    let publisher = node.publish(answers, DEPTH).map_err(lost)?;
    match style {
        Use::Bare => {
            let _subscriber = node
                .subscribe(requests, DEPTH, move |Blob(request)| {
                    if let Err(error) = respond(&publisher, &request) {
                        eprintln!("{error}");
                    }
                })
                .map_err(lost)?;
            ready(at);
            loop {
                std::thread::park();
            }
        }
        Use::HandedOver => {
            let (_subscriber, arrivals) = hand_over(&node, requests)?;
            ready(at);
            loop {
                let request = arrivals.recv().map_err(lost)?;
                respond(&publisher, &request)?;
            }
        }
    }
}
