//! Zenoh as a transport: peer to peer, through a router, or as the router itself.
//!
//! | URL | this side |
//! |---|---|
//! | `zenoh:peer` | a peer that listens on a free port of 127.0.0.1; in a meeting, the second side connects to it |
//! | `zenoh:router` | a router on a free port of 127.0.0.1; in a meeting, both sides are its clients |
//! | `zenoh://host:7447` | a peer that connects to another peer or to a router |
//! | `zenoh://host:7447?role=listen` | a peer that listens |
//! | `zenoh://host:7447?mode=client` | a client of a router such as `zenohd` |
//! | `zenoh://host:7447?mode=router` | a router |
//!
//! Peers find each other by these addresses only; multicast scouting is off unless asked for.
//! Every message is sent with congestion control *block* from a thread of its publisher: a full
//! queue drops or refuses by the policy that was asked for, and counts it.

mod address;
mod barrier;
mod dial;
mod factory;
mod fault;
mod lane;
mod link;
mod options;
mod payload;
mod presence;
mod publisher;
mod settings;
mod subscriber;
mod transport;

pub use factory::Factory;

/// Name and version of the library below; a test compares it with the lock file.
const IMPLEMENTATION: &str = "zenoh 1.10.2";
