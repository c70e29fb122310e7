//! The library's configuration: nothing that decides about loss or latency is left to its defaults.

use std::time::Duration;

use transport_api::backoff::spread;
use transport_api::config::LARGEST_MAX_PAYLOAD;
use transport_api::{Error, Result};
use zenoh::Config;

use crate::address::Address;
use crate::fault::cause;
use crate::options::{Mode, Options, Patience, Role};

/// Room beside the payload in the largest message taken: metadata, key and headers.
const HEADROOM: usize = 64 << 10;

/// The eight queues of the library, one per priority.
const QUEUES: [&str; 8] = [
    "control",
    "real_time",
    "interactive_high",
    "interactive_low",
    "data_high",
    "data",
    "data_low",
    "background",
];

/// The waits of the library between attempts to connect: doubling from `first` to `longest`.
///
/// The library has no jitter of its own, so each transport draws its schedule: two sides that lost
/// their connection at the same moment then drift apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) first: Duration,
    longest: Duration,
}

impl Schedule {
    pub(crate) fn drawn() -> Self {
        Self {
            first: spread(Duration::from_millis(150)),
            longest: spread(Duration::from_secs(2)),
        }
    }

    /// The wait after one of `wait`.
    pub(crate) fn after(&self, wait: Duration) -> Duration {
        (wait * 2).min(self.longest)
    }
}

/// What the library is told.
pub(crate) fn library(
    address: &Address,
    options: &Options,
    patience: Patience,
    max_payload: usize,
    schedule: Schedule,
) -> Result<Config> {
    let mut settings = Settings(Config::default());
    let millis = |duration: Duration| duration.as_millis().to_string();
    settings.text("mode", library_mode(address))?;

    let endpoints = format!("[\"tcp/{}\"]", address.endpoint);
    let (listen, connect) = match address.role {
        Role::Listen => (endpoints.as_str(), "[]"),
        Role::Connect => ("[]", endpoints.as_str()),
    };
    settings.set("listen/endpoints", listen)?;
    settings.set("listen/exit_on_failure", "true")?;
    settings.set("connect/endpoints", connect)?;
    settings.set("connect/exit_on_failure", "true")?;
    settings.set("connect/timeout_ms", &millis(options.connect_timeout))?;
    settings.set(
        "connect/retry",
        &format!(
            "{{ period_init_ms: {}, period_max_ms: {}, period_increase_factor: 2 }}",
            schedule.first.as_millis(),
            schedule.longest.as_millis(),
        ),
    )?;
    settings.set("scouting/multicast/enabled", &options.scouting.to_string())?;
    if address.mode == Mode::Router {
        // A router waits for this long unconditionally before it is open.
        settings.set("scouting/delay", "1")?;
        // It would stamp every message that passes with a wall clock nobody reads.
        settings.set("timestamping/enabled", "false")?;
    }

    settings.set(
        "transport/unicast/open_timeout",
        &millis(options.connect_timeout),
    )?;
    settings.set(
        "transport/unicast/accept_timeout",
        &millis(options.connect_timeout),
    )?;
    // It silently loses messages from 60 kB on.
    settings.set("transport/unicast/lowlatency", "false")?;
    settings.set("transport/unicast/qos/enabled", "true")?;
    settings.set("transport/link/tx/lease", &millis(patience.lease))?;
    settings.set("transport/link/tx/keep_alive", "4")?;
    for queue in QUEUES {
        settings.set(
            &format!("transport/link/tx/queue/size/{queue}"),
            &options.tx_queue.to_string(),
        )?;
    }
    settings.set(
        "transport/link/tx/queue/congestion_control/block/wait_before_close",
        &patience.block.as_micros().to_string(),
    )?;
    settings.set(
        "transport/link/rx/buffer_size",
        &options.rx_buffer.0.to_string(),
    )?;
    // Larger messages vanish in the library without a word. So it takes all that a transport may be
    // configured for: a router or listening peer passes on what is too large for itself, and a
    // subscriber counts what is too large for it.
    settings.set(
        "transport/link/rx/max_message_size",
        &(LARGEST_MAX_PAYLOAD + HEADROOM).to_string(),
    )?;
    // Compiled in, it is on by default, and figures about the network would be about memory.
    settings.set(
        "transport/shared_memory/enabled",
        &options.shared_memory.to_string(),
    )?;
    if options.shared_memory {
        settings.text("transport/shared_memory/mode", "init")?;
        settings.set(
            "transport/shared_memory/transport_optimization",
            &format!(
                "{{ enabled: true, pool_size: {}, message_size_threshold: 16384, messages: [\"put\"] }}",
                max_payload.saturating_mul(4)
            ),
        )?;
    }
    Ok(settings.0)
}

/// What the library calls this side.
///
/// A peer that connects is a client of the one that listens. The bytes take the same direct way, and
/// the listening peer passes on what its clients have for each other; two peers that do not know
/// each other's address would stay strangers.
fn library_mode(address: &Address) -> &'static str {
    match (address.mode, address.role) {
        (Mode::Peer, Role::Listen) => "peer",
        (Mode::Peer, Role::Connect) | (Mode::Client, _) => "client",
        (Mode::Router, _) => "router",
    }
}

struct Settings(Config);

impl Settings {
    fn text(&mut self, key: &str, value: &str) -> Result<()> {
        self.set(key, &format!("\"{value}\""))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.0.insert_json5(key, value).map_err(|error| {
            Error::config(format!("zenoh refuses setting `{key}` = `{value}`"))
                .with_source(cause(error))
        })
    }
}

/// The settings that decide about latency and loss, for display.
pub(crate) fn in_force(
    address: &Address,
    options: &Options,
    patience: Patience,
    max_payload: usize,
    schedule: Schedule,
) -> Vec<(String, String)> {
    [
        ("mode", address.mode.name().to_owned()),
        ("zenoh mode", library_mode(address).to_owned()),
        ("link", "tcp".to_owned()),
        ("nodelay", "true".to_owned()),
        ("congestion", "block, then close".to_owned()),
        ("block_timeout", format!("{:?}", patience.block)),
        ("express", format!("{:?}", options.express).to_lowercase()),
        ("tx_queue", options.tx_queue.to_string()),
        ("rx_buffer", options.rx_buffer.0.to_string()),
        ("max_payload", max_payload.to_string()),
        ("lease", format!("{:?}", patience.lease)),
        ("shared_memory", options.shared_memory.to_string()),
        ("scouting", options.scouting.to_string()),
        (
            "reconnect",
            format!("{:?} doubled up to {:?}", schedule.first, schedule.longest),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec()
}
