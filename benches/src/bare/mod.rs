//! Ends that use a library of the protocol without the contract, equally tuned.

pub mod mqtt;
pub mod native;
pub mod ros;
pub mod zenoh;

use url::Url;

use crate::failure::{Failure, Result};

/// Messages that wait between a library's thread and the app's: as many as subscribers over the
/// contract keep by default.
const DEPTH: usize = 8;

/// Host and port of a URL.
fn address(url: &str) -> Result<(String, u16)> {
    let parsed = Url::parse(url).map_err(|error| Failure::new(url, error))?;
    match (parsed.host_str(), parsed.port()) {
        (Some(host), Some(port)) => Ok((host.to_owned(), port)),
        _ => Err(Failure::new(url, "names no host and port")),
    }
}
