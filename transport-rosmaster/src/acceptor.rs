//! Takes in the data connections of subscribers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::address::bound_silence;
use crate::header::Header;
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
                    let greeted = hello.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                    drop(permit);
                    match greeted {
                        Ok((stream, attached)) => attached.link.serve(stream).await,
                        Err(error) => tracing::warn!(%error, "a subscriber was not connected"),
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a subscriber failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Reads a subscriber's header and answers it.
async fn hello(
    node: &Arc<Node>,
    mut stream: TcpStream,
) -> io::Result<(TcpStream, Attached)> {
    stream.set_nodelay(true)?;
    bound_silence(&stream, node.silence())?;
    let header = Header::read(&mut stream).await?;
    let topic = header.get("topic").unwrap_or_default();
    let subscriber = header.get("callerid").unwrap_or("?");
    let admitted = match node.publication(topic) {
        None => Err(format!("`{topic}` is not published by {}", node.name())),
        Some(publication) => publication.kind.admits(&header).map(|()| publication),
    };
    let publication = match admitted {
        Ok(publication) => publication,
        Err(text) => {
            let answer = Header::default().with("error", &text);
            stream.write_all(&answer.encode()).await?;
            stream.shutdown().await?;
            return Err(io::Error::other(format!("{subscriber} for `{topic}`: {text}")));
        }
    };
    let answer = publication.header(node.name(), topic).encode();
    // Before the answer: who has read it misses nothing.
    let attached = Attached::new(node, publication, subscriber)?;
    stream.write_all(&answer).await?;
    Ok((stream, attached))
}

/// A subscriber of a publication, until it is dropped.
struct Attached {
    node: Arc<Node>,
    publication: Arc<Publication>,
    link: Arc<Link>,
}

impl Attached {
    fn new(node: &Arc<Node>, publication: Arc<Publication>, subscriber: &str) -> io::Result<Self> {
        let link = Link::new(subscriber);
        if !publication.attach(&link) {
            let topic = &publication.topic;
            return Err(io::Error::other(format!("`{topic}` is no longer published")));
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
