//! From an address to a session, with errors that name host, port and cause.
//!
//! The library names neither: it says that it could not connect to any of its endpoints, and logs
//! the rest. So the address is tried before the library is.

use std::net::TcpListener;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use transport_api::{Error, ErrorKind, Result};
use zenoh::{Config, Session, Wait};

use crate::address::{Address, Endpoint};
use crate::fault::cause;
use crate::options::Role;

/// The runtime this is called on, which has to be one of several threads: on another the library
/// panics.
pub(crate) fn runtime() -> Result<Handle> {
    let runtime = Handle::try_current().map_err(|error| {
        Error::config("zenoh needs a tokio runtime; open the transport on a multi-thread one")
            .with_source(error)
    })?;
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return Err(Error::config(
            "zenoh needs a multi-thread tokio runtime and this is a current-thread one; use \
             `#[tokio::main(flavor = \"multi_thread\")]`",
        ));
    }
    Ok(runtime)
}

/// The address once it can be listened on or is answered; port 0 is replaced by a free one.
pub(crate) async fn ready(mut address: Address, limit: Duration) -> Result<Address> {
    match address.role {
        Role::Listen => address.endpoint.port = free_port(&address).await?,
        Role::Connect => reach(&address.endpoint, limit).await?,
    }
    Ok(address)
}

/// The port of an address to listen on, checked to be free.
pub(crate) async fn free_port(address: &Address) -> Result<u16> {
    let Endpoint { host, port } = address.endpoint.clone();
    let listened = tokio::task::spawn_blocking(move || {
        TcpListener::bind((host.as_str(), port)).and_then(|listener| listener.local_addr())
    });
    let found = listened
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)));
    found.map(|local| local.port()).map_err(|error| {
        let advice = if address.embedded {
            "choose another with option `port`, or 0 for a free one"
        } else {
            "choose another port in the URL"
        };
        Error::new(
            ErrorKind::Connect,
            "listen",
            format!("{}: {error}; {advice}", address.endpoint),
        )
        .with_source(error)
    })
}

async fn reach(endpoint: &Endpoint, limit: Duration) -> Result<()> {
    let attempt = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
    match tokio::time::timeout(limit, attempt).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::new(
            ErrorKind::Connect,
            "connect",
            format!("{endpoint}: {error}; check host and port, and that the other side runs"),
        )
        .with_source(error)),
        Err(_) => Err(Error::new(
            ErrorKind::Connect,
            "connect",
            format!("{endpoint}: no answer within {limit:?} (`connect_timeout`)"),
        )),
    }
}

/// The error of a connection that was opened and then said nothing of use.
pub(crate) fn silent(address: &Address) -> Error {
    Error::new(
        ErrorKind::Connect,
        "connect",
        format!(
            "{} accepts connections but does not answer as zenoh within `connect_timeout`",
            address.endpoint
        ),
    )
}

/// Opens a session.
pub(crate) async fn session(
    library: Config,
    address: &Address,
    deadline: Instant,
) -> Result<Session> {
    // It blocks, although it can be awaited.
    let opening = tokio::task::spawn_blocking(move || zenoh::open(library).wait());
    match tokio::time::timeout_at(deadline + Duration::from_millis(500), opening).await {
        Ok(Ok(Ok(session))) => Ok(session),
        Ok(Ok(Err(error))) => Err(match address.role {
            Role::Connect => silent(address),
            Role::Listen => Error::new(
                ErrorKind::Connect,
                "listen",
                format!("{}: zenoh cannot listen", address.endpoint),
            ),
        }
        .with_source(cause(error))),
        Ok(Err(error)) => Err(Error::new(
            ErrorKind::Backend,
            "open",
            "zenoh ended abnormally while opening",
        )
        .with_source(error)),
        // The session, should it still come, is closed by the thread that opens it.
        Err(_) => Err(silent(address)),
    }
}
