//! XML-RPC over HTTP/1.1, both ends, bounded in size, number and time.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dxr::Value;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use transport_api::throttle::Throttle;

use crate::address::Endpoint;
use crate::xmlrpc::{self, Reply};

/// Largest document, in bytes, in both directions; a graph of some thousand topics fits.
const MAX_BODY: usize = 4 << 20;

/// Connections served at once; more wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 512;

/// How long a connection may take to bring the head of its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a failed accept (no descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What answers calls.
pub(crate) trait Responder: Send + Sync + 'static {
    /// Answers one call; `None` if there is no such method.
    fn respond(
        &self,
        method: &str,
        params: Vec<Value>,
    ) -> impl Future<Output = Option<Reply>> + Send;
}

/// A running server. Dropping it stops it without waiting.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves `responder` on `listener`.
    pub(crate) fn start(listener: TcpListener, responder: impl Responder) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let responder = Arc::new(responder);
        Ok(Self {
            address,
            task: tokio::spawn(serve(listener, responder)),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it; the port is free when this returns.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        // Aborting ends in a cancellation, which is what was wanted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<R: Responder>(listener: TcpListener, responder: Arc<R>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let failures = Throttle::default();
    // Dropped with this future, which aborts the connections.
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                let responder = Arc::clone(&responder);
                connections.spawn(async move {
                    let _permit = permit;
                    connection(stream, responder).await;
                });
            }
            Err(error) => {
                if let Some(left_out) = failures.admit() {
                    tracing::warn!(%error, left_out, "accepting an XML-RPC connection failed");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<R: Responder>(stream: TcpStream, responder: Arc<R>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on an XML-RPC connection");
    }
    let service = service_fn(move |request| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(answer(&*responder, request).await) }
    });
    let served = server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "an XML-RPC connection ended");
    }
}

async fn answer<R: Responder>(responder: &R, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match Limited::new(request.into_body(), MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let text = format!("request not read: {error}; at most {MAX_BODY} B are accepted");
            return response(StatusCode::PAYLOAD_TOO_LARGE, text);
        }
    };
    let text = match xmlrpc::decode_call(&body) {
        Ok(call) => match responder.respond(&call.method, call.params).await {
            Some(reply) => {
                xmlrpc::encode_reply(reply).unwrap_or_else(|error| xmlrpc::encode_fault(&error))
            }
            None => xmlrpc::encode_fault(&format!("method {} is not supported", call.method)),
        },
        Err(error) => xmlrpc::encode_fault(&error),
    };
    response(StatusCode::OK, text)
}

/// A whole body has a known length, so it is sent with `Content-Length` and never chunked.
fn response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!(
        "<?xml version=\"1.0\"?>\n{text}"
    ))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("text/xml"),
    );
    response
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The other side could not be reached, or the connection broke.
    Unreachable(io::Error),
    /// The other side did not answer in time.
    Timeout(Duration),
    /// The other side answered, and it was not what was asked for.
    Answer(String),
}

impl CallError {
    /// Whether the other side says that nobody listens there.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable(error)
            if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "{error}"),
            Self::Timeout(limit) => write!(f, "no answer within {limit:?}"),
            Self::Answer(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CallError {}

type Sender = client::SendRequest<Full<Bytes>>;
type Connection = client::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// Calls one server and keeps one connection to it between calls.
#[derive(Debug)]
pub(crate) struct Caller {
    endpoint: Endpoint,
    timeout: Duration,
    idle: Mutex<Option<(Sender, Connection)>>,
}

impl Caller {
    pub(crate) fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self {
            endpoint,
            timeout,
            idle: Mutex::new(None),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method. Cancel-safe for us; the other side may have carried it out.
    pub(crate) async fn call(&self, method: &str, params: Vec<Value>) -> Result<Value, CallError> {
        let body = xmlrpc::encode_call(method, params).map_err(CallError::Answer)?;
        let body = Bytes::from(format!("<?xml version=\"1.0\"?>\n{body}"));
        let answer = tokio::time::timeout(self.timeout, self.exchange(body))
            .await
            .map_err(|_| CallError::Timeout(self.timeout))??;
        xmlrpc::decode_reply(&answer).map_err(CallError::Answer)
    }

    async fn exchange(&self, body: Bytes) -> Result<Bytes, CallError> {
        let kept = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(connection) = kept {
            // The server may have closed it since. Every ROS call can be repeated.
            if let Ok(answer) = self.exchange_over(connection, body.clone()).await {
                return Ok(answer);
            }
        }
        let stream = self
            .endpoint
            .connect()
            .await
            .map_err(CallError::Unreachable)?;
        let connection = client::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| CallError::Unreachable(io::Error::other(error)))?;
        self.exchange_over(connection, body).await
    }

    async fn exchange_over(
        &self,
        (mut sender, mut connection): (Sender, Connection),
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        let broken = |error: hyper::Error| CallError::Unreachable(io::Error::other(error));
        let request = Request::post("/")
            .header(HOST, self.endpoint.to_string())
            .header(CONTENT_TYPE, "text/xml")
            .body(Full::new(body))
            .map_err(|error| CallError::Answer(error.to_string()))?;
        let (answer, open) = {
            let mut answer = pin!(async {
                let response = sender.send_request(request).await.map_err(broken)?;
                let status = response.status();
                let body = Limited::new(response.into_body(), MAX_BODY)
                    .collect()
                    .await
                    .map_err(|error| CallError::Unreachable(io::Error::other(error)))?
                    .to_bytes();
                if status != StatusCode::OK {
                    return Err(CallError::Answer(format!("HTTP status {status}")));
                }
                Ok(body)
            });
            // The connection is driven by whoever uses it: no task outlives the call.
            tokio::select! {
                biased;
                answer = &mut answer => (answer?, true),
                _ = &mut connection => (answer.await?, false),
            }
        };
        if open {
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some((sender, connection));
        }
        Ok(answer)
    }
}
