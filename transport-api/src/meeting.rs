//! How two processes come to meet over a transport.

use std::fmt;

use async_trait::async_trait;

use crate::config::TransportConfig;

/// Where the two sides may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Both sides must share a process.
    OneProcess,
    /// Each side is a process of its own, also on different hosts.
    Anywhere,
}

/// What runs so that two sides can meet, such as an embedded broker or master.
#[async_trait]
pub trait Host: Send + fmt::Debug {
    /// Stops it and waits until its port is free again. Dropping it stops it without waiting.
    async fn stop(self: Box<Self>);
}

/// Addresses for the two sides of a round trip, and what keeps them valid.
#[derive(Debug)]
pub struct Meeting {
    /// For the side that must be ready first (the edge): it may listen.
    pub first: TransportConfig,
    /// For the side that joins (the vehicle).
    pub second: TransportConfig,
    /// Where the sides may run.
    pub placement: Placement,
    /// What runs in this process for as long as the meeting lasts; `None` where nothing is needed
    /// or it runs elsewhere.
    pub host: Option<Box<dyn Host>>,
}

impl Meeting {
    /// Both sides use the same address, and nothing has to run here.
    pub fn external(config: &TransportConfig) -> Self {
        Self {
            first: config.clone(),
            second: config.clone(),
            placement: Placement::Anywhere,
            host: None,
        }
    }
}
