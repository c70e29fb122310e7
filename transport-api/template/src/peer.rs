//! Finding the other side: listening for it or dialling it, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use transport_api::backoff::Backoff;
use transport_api::{Error, ErrorKind, Event, Result};

use crate::connection::greet;
use crate::node::Node;
use crate::options::{Address, Options};
use crate::session::serve;

/// Shortest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts to accept peers at `address`; returns where.
///
/// # Errors
/// [`ErrorKind::Connect`] if the address cannot be listened at.
pub async fn listen(node: &Arc<Node>, address: &Address) -> Result<SocketAddr> {
    let failed = |error: std::io::Error| {
        let text = format!("cannot listen at {address}: {error}");
        Error::new(ErrorKind::Connect, "listen", text).with_source(error)
    };
    let listener = TcpListener::bind((address.host.as_str(), address.port)).await;
    let listener = listener.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    node.events.emit(Event::Connected);
    let accepting = accept(Arc::clone(node), listener);
    node.tasks().spawn(accepting);
    Ok(bound)
}

async fn accept(node: Arc<Node>, listener: TcpListener) {
    while !node.is_closed() {
        let (mut stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // One connection failed, or descriptors ran out; that passes.
                tracing::warn!(%error, "a peer could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let serving = Arc::clone(&node);
        let attend = async move {
            let patience = serving.options.connect_timeout;
            let greeting = greet(&mut stream, serving.limit);
            let error = match tokio::time::timeout(patience, greeting).await {
                Ok(Ok(())) => {
                    let cause = serve(&serving, stream, || ()).await;
                    tracing::debug!(%from, %cause, "a peer left");
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => Error::new(ErrorKind::Timeout, "greet", "it said nothing"),
            };
            if let Some(left_out) = serving.strangers.admit() {
                tracing::warn!(%from, %error, left_out, "a peer was turned away");
            }
        };
        let mut tasks = node.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(attend);
    }
}

/// Connects to the peer at `address` and stays connected until the transport is closed.
///
/// # Errors
/// [`ErrorKind::Connect`] naming the address and the cause, if the first attempt fails.
pub async fn dial(node: &Arc<Node>, address: Address) -> Result<()> {
    let stream = connect(&node.options, node.limit, &address).await?;
    node.events.emit(Event::Connected);
    let staying = stay(Arc::clone(node), address, stream);
    node.tasks().spawn(staying);
    Ok(())
}

async fn connect(options: &Options, limit: usize, address: &Address) -> Result<TcpStream> {
    let failed = |what: &str| {
        Error::new(
            ErrorKind::Connect,
            "connect",
            format!("no connection to {address}: {what}"),
        )
    };
    let connecting = async {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let mut stream = stream.map_err(|error| failed(&error.to_string()).with_source(error))?;
        let greeted = greet(&mut stream, limit).await;
        greeted.map_err(|error| failed(error.message()).with_source(error))?;
        Ok(stream)
    };
    match tokio::time::timeout(options.connect_timeout, connecting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(failed(&format!(
            "no answer in {:?}",
            options.connect_timeout
        ))),
    }
}

async fn stay(node: Arc<Node>, address: Address, mut stream: TcpStream) {
    // The first connection was announced when the transport was opened.
    let mut again = false;
    let mut backoff = Backoff::new(PAUSE, node.options.reconnect_pause);
    loop {
        let announce = || {
            if again {
                node.events.emit(Event::Connected);
            }
        };
        let since = Instant::now();
        let cause = serve(&node, stream, announce).await;
        backoff.ended(since.elapsed(), false);
        again = true;
        if node.is_closed() {
            return;
        }
        let mut cause = Arc::new(cause);
        node.events.emit(Event::Disconnected {
            cause: Arc::clone(&cause),
        });
        stream = loop {
            let pause = backoff.pause();
            node.events.emit(Event::Reconnecting {
                attempt: backoff.attempts(),
                cause,
            });
            tokio::time::sleep(pause).await;
            match connect(&node.options, node.limit, &address).await {
                Ok(stream) => break stream,
                Err(error) => cause = Arc::new(error),
            }
        };
    }
}
