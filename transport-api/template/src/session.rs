//! What goes on over a connection from its greeting to its end.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, BufReader, ReadBuf};
use tokio::net::TcpStream;
use transport_api::envelope::Decoder;
use transport_api::intake::Intake;
use transport_api::{Error, ErrorKind, Result, TopicFilter, TopicName};

use crate::connection::{Connection, Ends};
use crate::frame::{self, Frame, Kind, OVERHEAD, fault};
use crate::node::Node;
use crate::options::Role;

/// Bytes of several small frames that are read at once; larger ones go straight to their place.
const READ_AHEAD: usize = 4 << 10;

/// Topics whose names are kept, so that a steady stream parses and allocates none.
const TOPICS: usize = 32;

/// Serves a greeted stream until it ends and returns why it did. `ready` is called when the other
/// side knows the subscriptions.
pub async fn serve(node: &Node, stream: TcpStream, ready: impl FnOnce()) -> Error {
    let (connection, ends) = Connection::new(&node.options);
    let _entry = node.enter(&connection);
    let mut exchange = std::pin::pin!(exchange(node, stream, &connection, ends));
    if node.options.role == Role::Connect {
        let restored = node.restore(&connection);
        tokio::select! {
            biased;
            error = &mut exchange => return error,
            Ok(()) = restored => ready(),
        }
    }
    exchange.await
}

/// Moves messages until the connection ends; returns why it did.
async fn exchange(node: &Node, stream: TcpStream, connection: &Connection, ends: Ends) -> Error {
    let (input, output) = stream.into_split();
    let writing = async {
        match ends.write(output).await {
            // All is said; the other side may still have something to say.
            Ok(()) => pending().await,
            Err(error) => Error::new(
                ErrorKind::Disconnected,
                "write",
                format!("the connection broke: {error}"),
            ),
        }
    };
    tokio::select! {
        error = read(Heard(input, &connection.heard), connection, node) => error,
        error = writing => error,
        error = connection.watch(node.options.silence) => error,
    }
}

/// A stream that takes note when something comes.
struct Heard<'a, R>(R, &'a AtomicBool);

impl<R: AsyncRead + Unpin> AsyncRead for Heard<'_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, buffer);
        if read.is_ready() {
            self.1.store(true, Ordering::Relaxed);
        }
        read
    }
}

/// What is remembered from frame to frame, so that a steady stream allocates nothing.
#[derive(Default)]
struct Memory {
    topics: Vec<TopicName>,
    decoder: Decoder,
}

async fn read(input: impl AsyncRead + Unpin, connection: &Connection, node: &Node) -> Error {
    let mut input = BufReader::with_capacity(READ_AHEAD, input);
    let mut intake = Intake::default();
    let mut known = Memory::default();
    let limit = node.limit + OVERHEAD;
    loop {
        let frame = match frame::read(&mut input, &mut intake, limit).await {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                let text = "the other side closed the connection";
                return Error::new(ErrorKind::Disconnected, "read frame", text);
            }
            Err(error) => return error,
        };
        if let Err(error) = known.take(frame, connection, node) {
            return error;
        }
    }
}

impl Memory {
    fn topic(&mut self, name: &str) -> Result<TopicName> {
        if let Some(topic) = self.topics.iter().find(|topic| topic.as_str() == name) {
            return Ok(topic.clone());
        }
        let topic = TopicName::parse(name)?;
        self.topics.truncate(TOPICS - 1);
        self.topics.insert(0, topic.clone());
        Ok(topic)
    }

    fn take(&mut self, frame: Frame, connection: &Connection, node: &Node) -> Result<()> {
        match frame.kind {
            Kind::Publish => {
                let topic = self.topic(frame.topic()?)?;
                node.arrived(topic, frame, &mut self.decoder);
            }
            Kind::Subscribe => {
                let [number] = frame.numbers()?;
                let filter = TopicFilter::parse(frame.topic()?)?;
                connection.want(number, filter)?;
            }
            Kind::Unsubscribe => {
                let [number] = frame.numbers()?;
                connection.unwant(number);
            }
            Kind::Sync => {
                let [number] = frame.numbers()?;
                if !connection.control(Frame::control(Kind::Synced, "", &[number])) {
                    return Err(fault("more questions than answers are read"));
                }
            }
            Kind::Synced => node.synced(frame.numbers::<1>()?[0]),
            Kind::Hello => return Err(fault("a second greeting")),
        }
        Ok(())
    }
}
