//! The live view: one local web page with the cloud, the objects in it and where the time goes.
//!
//! A [`Viewer`] serves the page from a thread of its own. It shows [`Stream`]s: the scans of one
//! vehicle over one transport. Their frames come from this process ([`Stream::feed`]), or from a
//! vehicle in another one, through a socket ([`Stream::listen`] here and [`Relay`] there).
//!
//! The page asks for each frame when it has drawn the one before, so a slow browser skips frames and
//! nothing queues up. Scans are converted to points when a page asks for them, and not otherwise.
//! What goes over the wire is described in `docs/view.md`.

mod board;
mod cloud;
mod guard;
mod live;
mod page;
mod relay;
mod samples;
mod server;
mod viewer;

pub use board::State;
pub use relay::Relay;
pub use viewer::{Stream, Viewer};
