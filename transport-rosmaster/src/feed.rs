//! The connection to one publisher of a topic that we subscribe to, for as long as it is
//! registered.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use dxr::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use transport_api::envelope::{Decoder, MAX_TRAILER};
use transport_api::reception::Arrived;
use transport_api::{Error, ErrorKind, Event, Metadata, Result, SchemaId};

use crate::address::{Endpoint, bound_silence};
use crate::header::{ANY, Header, Type, starts_with_header};
use crate::http::{CallError, Caller};
use crate::intake::{Intake, Taken};
use crate::name;
use crate::node::Node;
use crate::sequence::HeaderSequence;
use crate::subscription::{Stage, Subscription};
use crate::xmlrpc::items;

/// Read buffer, in bytes: small messages arrive several at a time, large ones pass it by.
const BUFFER: usize = 8 << 10;

/// What came of an attempt.
enum Dialled {
    Open(Box<Connection>),
    /// The publisher sends another type than the expected one.
    Mismatch(SchemaId),
}

/// An open connection.
struct Connection {
    stream: BufReader<TcpStream>,
    schema: Option<SchemaId>,
    numbered: bool,
}

/// Connects to the publisher at `uri`, again and again while `wanted`, and delivers what it sends.
pub(crate) async fn run(
    subscription: &Subscription,
    node: &Arc<Node>,
    uri: &str,
    mut wanted: watch::Receiver<bool>,
) {
    let topic = name::topic(&subscription.topic);
    let mut feed = Feed {
        intake: Intake::new(node.max_payload() + MAX_TRAILER),
        decoder: Decoder::default(),
        headers: HeaderSequence::new(&topic, uri),
        refused: None,
    };
    let mut backoff = node.backoff();
    // Whether a connection was lost since it was told last, and that it was.
    let mut lost = false;
    let mut outage = None;
    loop {
        wanted.mark_unchanged();
        let expected = subscription.expected();
        let dialling = dial(node, &topic, uri, expected.as_ref());
        let dialled = tokio::select! {
            dialled = tokio::time::timeout(node.timeout(), dialling) => dialled,
            () = unwanted(&mut wanted) => {
                if subscription.end(uri) { return }
                continue;
            }
        };
        let cause = match dialled.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                "connect to publisher",
                format!(
                    "{uri} of `{topic}` did not answer within {:?}",
                    node.timeout()
                ),
            ))
        }) {
            Ok(Dialled::Mismatch(found)) => {
                lost = false;
                drop(outage.take());
                feed.refuse(subscription, uri, &found)
            }
            Ok(Dialled::Open(connection)) => {
                drop(outage.take());
                let since = Instant::now();
                let cause = match feed.read(subscription, uri, connection).await {
                    Ok(()) => Error::new(
                        ErrorKind::Disconnected,
                        "receive",
                        format!("publisher {uri} of `{topic}` closed the connection"),
                    ),
                    Err(error) => error,
                };
                lost = cause.kind() != ErrorKind::Schema;
                if lost {
                    backoff.ended(since.elapsed(), false);
                }
                cause
            }
            Err(error) => {
                // Nobody is cut off from a publisher that has ended.
                if is_refused(&error) {
                    lost = false;
                    drop(outage.take());
                }
                error
            }
        };
        if !*wanted.borrow() && subscription.end(uri) {
            return;
        }
        subscription.reach(uri, Stage::Failed);
        let pause = backoff.pause();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // The master has news about this publisher, such as that it is gone.
            Ok(()) = wanted.changed() => {
                if !*wanted.borrow() && subscription.end(uri) {
                    return;
                }
                continue;
            }
        }
        // Only now: a publisher that was closed on purpose has been unregistered in the meantime.
        let attempt = backoff.attempts();
        if attempt.is_power_of_two() {
            tracing::warn!(error = %cause, source = ?std::error::Error::source(&cause), attempt,
                "publisher not connected");
        }
        if cause.kind() != ErrorKind::Schema {
            let cause = Arc::new(cause);
            if std::mem::take(&mut lost) {
                outage = Some(node.lose(&cause));
            }
            node.emit(Event::Reconnecting { attempt, cause });
        }
        node.refresh(&topic);
    }
}

/// Waits until the publisher is no longer registered.
async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    // The sender is gone when the subscription is; then nothing is wanted either.
    let _ = wanted.wait_for(|wanted| !wanted).await;
}

/// Whether the publisher's host says that the publisher is not there any more.
fn is_refused(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref())
        .is_some_and(CallError::is_refused)
}

async fn dial(node: &Node, topic: &str, uri: &str, expected: Option<&SchemaId>) -> Result<Dialled> {
    let fault = |text: String| Error::new(ErrorKind::Connect, "connect to publisher", text);
    let api = Endpoint::of_uri(uri)
        .ok_or_else(|| fault(format!("`{uri}` of `{topic}` is not an http address")))?;
    let protocols = Value::Array(vec![Value::Array(vec![Value::String("TCPROS".to_owned())])]);
    let params = vec![
        Value::String(node.name().to_owned()),
        Value::String(topic.to_owned()),
        protocols,
    ];
    let answer = Caller::new(api, node.timeout())
        .call("requestTopic", params)
        .await
        .map_err(|error| {
            fault(format!(
                "publisher of `{topic}` advertises {uri}, no answer from there: {error}"
            ))
            .with_source(error)
        })?;
    let endpoint = match items(&answer) {
        [
            Value::String(protocol),
            Value::String(host),
            Value::Integer(port),
            ..,
        ] if protocol == "TCPROS" => {
            let port = u16::try_from(*port)
                .map_err(|_| fault(format!("publisher {uri} of `{topic}` names port {port}")))?;
            Endpoint::new(host, port)
        }
        _ => {
            return Err(fault(format!(
                "publisher {uri} of `{topic}` offers no TCPROS"
            )));
        }
    };
    let unreachable = |error: io::Error| {
        fault(format!(
            "publisher {uri} of `{topic}` advertises {endpoint}, cannot connect: {error}"
        ))
        .with_source(error)
    };
    let mut asked = expected;
    loop {
        let mut stream = endpoint.connect().await.map_err(unreachable)?;
        bound_silence(&stream, node.silence()).map_err(unreachable)?;
        let hello = Header::default()
            .with("callerid", node.name())
            .with("topic", topic)
            .with("type", asked.map_or(ANY, |schema| schema.name()))
            .with(
                "md5sum",
                asked
                    .map(SchemaId::fingerprint_hex)
                    .as_deref()
                    .unwrap_or(ANY),
            )
            .with("tcp_nodelay", "1");
        stream
            .write_all(&hello.encode())
            .await
            .map_err(unreachable)?;
        let mut stream = BufReader::with_capacity(BUFFER, stream);
        let header = Header::read(&mut stream).await;
        match (header, asked) {
            (Ok(header), _) if header.get("error").is_none() => {
                return Ok(Dialled::Open(Box::new(Connection {
                    stream,
                    schema: Type::schema(&header).map_err(unreachable)?,
                    numbered: header
                        .get("message_definition")
                        .is_some_and(starts_with_header),
                })));
            }
            // A refusal of ours names the publisher's type. Others say so in words or just hang up;
            // then asking for any type shows which one it is.
            (Ok(header), Some(_)) if header.get("md5sum").is_some() => {
                if let Some(found) = Type::schema(&header).map_err(unreachable)? {
                    return Ok(Dialled::Mismatch(found));
                }
                asked = None;
            }
            (_, Some(_)) => asked = None,
            (Ok(header), None) => {
                let error = header.get("error").unwrap_or_default();
                return Err(fault(format!(
                    "publisher {uri} of `{topic}` refuses: {error}"
                )));
            }
            (Err(error), None) => return Err(unreachable(error)),
        }
    }
}

/// What outlives a connection.
struct Feed {
    intake: Intake,
    decoder: Decoder,
    headers: HeaderSequence,
    /// The schema that nobody here wanted last time, and who was here then.
    refused: Option<(SchemaId, u64)>,
}

impl Feed {
    /// Delivers messages until the publisher closes the connection.
    async fn read(
        &mut self,
        subscription: &Subscription,
        uri: &str,
        mut connection: Box<Connection>,
    ) -> Result<()> {
        if let Some(found) = &connection.schema
            && subscription.refusing(found).is_some()
        {
            return Err(self.refuse(subscription, uri, found));
        }
        self.refused = None;
        subscription.reach(uri, Stage::Connected);
        loop {
            let taken = self
                .intake
                .next(&mut connection.stream)
                .await
                .map_err(|error| {
                    Error::new(
                        ErrorKind::Disconnected,
                        "receive",
                        format!(
                            "connection to publisher {uri} of `{}` broke: {error}",
                            subscription.topic
                        ),
                    )
                    .with_source(error)
                })?;
            match taken {
                None => return Ok(()),
                Some(Taken::Message(frame)) => match self.decode(frame, &connection) {
                    Ok((meta, payload)) => subscription.deliver(Arrived {
                        topic: subscription.topic.clone(),
                        payload,
                        meta,
                    }),
                    Err(error) => subscription.reject(&error),
                },
                Some(Taken::Oversize(length)) => subscription.reject(&Error::new(
                    ErrorKind::TooLarge,
                    "receive",
                    format!("message of {length} B from {uri}; raise `max_payload`"),
                )),
            }
        }
    }

    fn decode(&mut self, frame: Bytes, connection: &Connection) -> Result<(Metadata, Bytes)> {
        let (meta, payload) = self.decoder.trailer(frame)?;
        let mut meta = meta.unwrap_or_else(|| Metadata {
            id: match connection.numbered {
                true => self.headers.identify(&payload),
                false => None,
            },
            ..Metadata::default()
        });
        if meta.schema.is_none() {
            meta.schema.clone_from(&connection.schema);
        }
        Ok((meta, payload))
    }

    /// Nobody here wants messages of this schema: each subscriber is told so once, with both types,
    /// and no message is read.
    fn refuse(&mut self, subscription: &Subscription, uri: &str, found: &SchemaId) -> Error {
        let expected = subscription.refusing(found).unwrap_or_default();
        let text = format!(
            "type mismatch on `{}`: expected {}, publisher {uri} sends {found}",
            subscription.topic,
            expected
                .iter()
                .map(SchemaId::to_string)
                .collect::<Vec<_>>()
                .join(" and "),
        );
        let refused = Some((found.clone(), subscription.joined()));
        if self.refused != refused {
            tracing::error!("{text}");
            self.refused = refused;
            // An arrival of the wrong schema is what makes a subscriber say so.
            subscription.deliver(Arrived {
                topic: subscription.topic.clone(),
                payload: Bytes::new(),
                meta: Metadata {
                    schema: Some(found.clone()),
                    ..Metadata::default()
                },
            });
        }
        Error::new(ErrorKind::Schema, "connect to publisher", text)
    }
}
