//! Serves the page and what is new, bounded in connections and time.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use lidar_sensor::{Convention, Converter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::board::Board;
use crate::{guard, live, page};

/// Connections served at once; more wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 64;

/// How long a connection may take to bring the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// After this a connection ends with the answer in hand; a browser opens another one by itself.
const LIFETIME: Duration = Duration::from_secs(60);

/// How long that answer may take, so that a reader that has stopped gives its place back.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// How long a page waits for something new before it is told that there is nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pause after a failed accept (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long pages that are looking may take to hear that it is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// A page that has asked within this time is looking.
const LOOKING: Duration = Duration::from_secs(3);

/// Nothing but the page's own files may be loaded, run or connected to, and nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Sent with every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (hyper::header::CONTENT_SECURITY_POLICY, POLICY),
    (hyper::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (hyper::header::X_FRAME_OPTIONS, "DENY"),
    (hyper::header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) board: Arc<Board>,
    pub(crate) run: String,
    converter: Converter,
}

impl Shared {
    pub(crate) fn new(board: Arc<Board>, run: String) -> Self {
        Self {
            board,
            run,
            converter: Converter::new(Convention::RosCompat),
        }
    }
}

/// Serves until `stop` resolves; pages that are looking hear of the end.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: oneshot::Receiver<()>,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Dropped with this future, which aborts the connections.
    let mut connections = JoinSet::new();
    let farewell = async {
        // A dropped sender is a stop too.
        let _ = (&mut stop).await;
        shared.board.end();
        if shared.board.asked_within(LOOKING) {
            tokio::time::sleep(FAREWELL).await;
        }
    };
    tokio::pin!(farewell);
    loop {
        let accepted = tokio::select! {
            () = &mut farewell => return,
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, permit)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    connection(stream, shared).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection of the view failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Without it the end of an answer may wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&request, &shared).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // How a browser ends a connection is its own affair.
    tokio::select! {
        _ = &mut connection => return,
        () = tokio::time::sleep(LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST_ANSWER, connection).await;
}

async fn respond(request: &Request<Incoming>, shared: &Shared) -> Response<Parts> {
    if let Err((status, reason)) = guard::check(request.method(), request.headers()) {
        return text(status, reason);
    }
    let path = request.uri().path();
    if path == "/live" {
        return match Question::parse(request.uri().query().unwrap_or_default()) {
            Some(question) => {
                let Question { stream, after } = question;
                let look = shared.board.look(stream, after, PATIENCE).await;
                let parts = live::answer(&shared.run, &look, &shared.converter);
                response(StatusCode::OK, "application/octet-stream", parts)
            }
            None => text(
                StatusCode::BAD_REQUEST,
                "ask for /live?stream=NUMBER&after=VERSION",
            ),
        };
    }
    match page::find(path) {
        Some(file) => {
            let content = Bytes::from_static(file.content);
            response(StatusCode::OK, file.kind, [content, Bytes::new()])
        }
        None => text(StatusCode::NOT_FOUND, "there is no such file"),
    }
}

/// What a page asks: what is new since a version, and the frames of which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    stream: usize,
    after: u64,
}

impl Question {
    fn parse(query: &str) -> Option<Self> {
        let (mut stream, mut after) = (None, None);
        for pair in query.split('&') {
            match pair.split_once('=')? {
                ("stream", value) if stream.is_none() => stream = Some(value.parse().ok()?),
                ("after", value) if after.is_none() => after = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(Self {
            stream: stream?,
            after: after?,
        })
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Parts> {
    let parts = [Bytes::from_static(text.as_bytes()), Bytes::new()];
    response(status, "text/plain; charset=utf-8", parts)
}

fn response(status: StatusCode, kind: &'static str, parts: [Bytes; 2]) -> Response<Parts> {
    let mut response = Response::new(Parts(parts));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, hyper::header::HeaderValue::from_static(value));
    }
    response
}

/// A body of two parts that are not copied together.
#[derive(Debug)]
struct Parts([Bytes; 2]);

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(next.map(|part| Ok(Frame::data(std::mem::take(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_questions_are_understood() {
        let question = Question {
            stream: 2,
            after: 7,
        };
        assert_eq!(Question::parse("stream=2&after=7"), Some(question));
        for query in [
            "",
            "stream=2",
            "after=7",
            "stream=2&after=-7",
            "stream=2&after=7&after=8",
            "stream=2&after=7&more=1",
            "stream=x&after=7",
        ] {
            assert_eq!(Question::parse(query), None, "{query}");
        }
    }
}
