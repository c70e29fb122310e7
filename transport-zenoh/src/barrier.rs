//! Round trips by which one side knows that the other has processed what was sent before.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use transport_api::{Error, ErrorKind, Result};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::{ConsolidationMode, QueryTarget, Queryable};
use zenoh::{Session, Wait};

use crate::fault::cause;

/// A leading `@` keeps these keys out of every subscription of an app.
const PREFIX: &str = "@roundtrip/barrier";

/// Runs a call of the library that may block where it cannot hold up a worker of the runtime.
pub(crate) async fn off_worker<T: Send + 'static>(
    operation: &'static str,
    call: impl FnOnce() -> zenoh::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(outcome) => outcome.map_err(|error| {
            Error::new(ErrorKind::Backend, operation, "zenoh refused").with_source(cause(error))
        }),
        Err(error) => Err(Error::new(
            ErrorKind::Backend,
            operation,
            "the runtime is shutting down",
        )
        .with_source(error)),
    }
}

/// Answers the barriers of other transports; lives as long as the returned handle.
pub(crate) async fn answer(session: &Session) -> Result<Queryable<()>> {
    let session = session.clone();
    let key = format!("{PREFIX}/{}", session.zid());
    off_worker("open", move || {
        let reply_key = key.clone();
        session
            .declare_queryable(key)
            .callback(move |query| {
                if let Err(error) = query.reply(&reply_key, "").wait() {
                    tracing::debug!(error = %cause(error), "barrier not answered");
                }
            })
            .wait()
    })
    .await
}

/// Waits until every transport in reach has processed what was sent before with `priority` or a
/// higher one; `false` if one has not answered within `limit`.
///
/// It travels the same connections as messages and declarations and is not faster than they are.
/// Participants that are not transports of this crate do not answer and are not waited for.
pub(crate) async fn pass(session: &Session, priority: Priority, limit: Duration) -> Result<bool> {
    let session = session.clone();
    let (finished, end) = oneshot::channel::<()>();
    // The library drops the callback when the last answer is in.
    let finished = Arc::new(finished);
    off_worker("wait for the other side", move || {
        session
            .get(format!("{PREFIX}/*"))
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Drop)
            .priority(priority)
            .timeout(limit)
            .callback(move |_| {
                let _ = &finished;
            })
            .wait()
    })
    .await?;
    Ok(ended(end, limit).await)
}

/// Waits until the next hop has processed what was declared before and told what it knows;
/// `false` if it has not within `limit`.
pub(crate) async fn next_hop(session: &Session, limit: Duration) -> Result<bool> {
    let session = session.clone();
    let (finished, end) = oneshot::channel::<()>();
    let finished = Arc::new(finished);
    off_worker("wait for the next hop", move || {
        session
            .liveliness()
            .get(format!("{PREFIX}/next-hop"))
            .timeout(limit)
            .callback(move |_| {
                let _ = &finished;
            })
            .wait()
    })
    .await?;
    Ok(ended(end, limit).await)
}

async fn ended(end: oneshot::Receiver<()>, limit: Duration) -> bool {
    let began = tokio::time::Instant::now();
    // Nothing is ever sent: the end of the sender is the message.
    let _ = tokio::time::timeout(limit, end).await;
    began.elapsed() < limit
}
