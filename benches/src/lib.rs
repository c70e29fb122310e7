//! How fast every transport is: against its library used bare, and against hand-written floors.
//!
//! One measurement is a round trip: a payload one way, 4 KB back. Both ends, brokers, routers,
//! masters and relays are processes of their own, all of them the program `bench-peer` or started
//! by it, with the same allocator settings. The bench `round_trip` holds the [`stand::Stand`] that
//! starts them, lets criterion time each path alone, and then compares paths by taking turns
//! ([`comparison`]). What the figures mean is written in `docs/benchmarking.md`.
//!
//! | module | what is in it |
//! |---|---|
//! | [`path`] | the paths, what each is compared with, and the goals |
//! | [`end`] | an end that makes round trips; implemented by [`tcp`], [`contract`] and [`bare`] |
//! | [`part`] | what a `bench-peer` process does |
//! | [`server`] | what runs between the ends |
//! | [`cores`], [`nodelay`], [`allocator`] | equal terms |
//! | [`child`], [`stand`] | the processes, seen from the bench |
//! | [`comparison`], [`table`], [`environment`] | figures and how they are shown |

pub mod allocator;
pub mod bare;
pub mod child;
pub mod comparison;
pub mod contract;
pub mod cores;
pub mod end;
pub mod environment;
pub mod failure;
pub mod nodelay;
pub mod part;
pub mod path;
pub mod payload;
pub mod server;
pub mod stand;
pub mod table;
pub mod tcp;

pub use failure::{Failure, Result};
