//! Takes in the data connections of subscribers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::address::bound_silence;
use crate::header::{ANY, Header};
use crate::link::Link;
use crate::node::Node;
use crate::publication::Publication;

/// Connections that may be saying hello at once; more wait in the listener's backlog.
const HELLOS: usize = 128;

/// Pause after a failed accept (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the node is closed.
pub(crate) async fn run(node: Arc<Node>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(HELLOS));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = Arc::clone(&node);
                node.serve(async move {
                    let hello = tokio::time::timeout(serving.timeout(), hello(&serving, stream));
                    let greeted = hello
                        .await
                        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                    drop(permit);
                    match greeted {
                        Ok((stream, attached)) => attached.link.serve(stream).await,
                        Err(error) => {
                            if let Some(left_out) = serving.strangers().admit() {
                                tracing::warn!(%error, left_out, "a subscriber was not connected");
                            }
                        }
                    }
                });
            }
            Err(error) => {
                if let Some(left_out) = node.strangers().admit() {
                    tracing::warn!(%error, left_out, "accepting a subscriber failed");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Reads a subscriber's header and answers it.
async fn hello(node: &Arc<Node>, mut stream: TcpStream) -> io::Result<(TcpStream, Attached)> {
    stream.set_nodelay(true)?;
    bound_silence(&stream, node.silence())?;
    let header = Header::read(&mut stream).await?;
    let topic = header.get("topic").unwrap_or_default();
    let subscriber = header.get("callerid").unwrap_or("?");
    let Some(publication) = node.publication(topic) else {
        let text = format!("`{topic}` is not published by {}", node.name());
        return refuse(stream, Header::default().with("error", &text), text).await;
    };
    let kind = match publication.admit(&header) {
        Ok(kind) => kind,
        // With the type, so that a subscriber of ours can name both.
        Err(text) => {
            let answer = publication
                .kind
                .write(Header::default().with("error", &text));
            return refuse(
                stream,
                answer,
                format!("{subscriber} for `{topic}`: {text}"),
            )
            .await;
        }
    };
    let answer = Header::default()
        .with("callerid", node.name())
        .with("topic", topic)
        .with("message_definition", &kind.definition)
        .with("latching", "0");
    let answer = kind.write(answer);
    let any = header.get("md5sum") == Some(ANY);
    // Before the answer: who has read it misses nothing.
    let link = Link::new(subscriber, (!any).then_some(kind));
    let attached = Attached::new(node, publication, link)?;
    stream.write_all(&answer.encode()).await?;
    Ok((stream, attached))
}

async fn refuse<T>(mut stream: TcpStream, answer: Header, text: String) -> io::Result<T> {
    stream.write_all(&answer.encode()).await?;
    stream.shutdown().await?;
    Err(io::Error::other(text))
}

/// A subscriber of a publication, until it is dropped.
struct Attached {
    node: Arc<Node>,
    publication: Arc<Publication>,
    link: Arc<Link>,
}

impl Attached {
    fn new(node: &Arc<Node>, publication: Arc<Publication>, link: Arc<Link>) -> io::Result<Self> {
        if !publication.attach(&link) {
            let topic = &publication.topic;
            return Err(io::Error::other(format!(
                "`{topic}` is no longer published"
            )));
        }
        node.matched(&publication);
        Ok(Self {
            node: Arc::clone(node),
            publication,
            link,
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.publication.detach(&self.link);
        self.node.matched(&self.publication);
    }
}
