//! The embedded broker.

use std::time::Duration;

use async_trait::async_trait;
use mqtt5::broker::{
    BrokerConfig, BrokerShutdownHandle, MqttBroker, StorageBackendType, StorageConfig,
};
use tokio::task::JoinHandle;
use transport_api::{Error, ErrorKind, Host, Result};

use crate::settings::{Embedded, HEADROOM};

/// A broker that listens on 127.0.0.1 for as long as this lives.
pub(crate) struct Broker {
    port: u16,
    shutdown: BrokerShutdownHandle,
    task: JoinHandle<()>,
}

impl Broker {
    /// Starts it; it accepts connections once this returns.
    pub(crate) async fn start(options: Embedded) -> Result<Self> {
        let mut broker = MqttBroker::with_config(config(options))
            .await
            .map_err(|error| {
                Error::new(
                ErrorKind::Connect,
                "start embedded broker",
                format!(
                    "127.0.0.1:{} (option `port`): {error}; choose another port, or 0 for a free \
                     one",
                    options.port
                ),
            )
            .with_source(error)
            })?;
        let port = broker.local_addr().map_or(0, |address| address.port());
        let shutdown = broker.shutdown_handle();
        let mut ready = broker.ready_receiver();
        let task = tokio::spawn(async move {
            if let Err(error) = broker.run().await {
                tracing::error!(%error, "the embedded broker ended");
            }
        });
        if port == 0 || ready.wait_for(|ready| *ready).await.is_err() {
            task.abort();
            return Err(Error::new(
                ErrorKind::Backend,
                "start embedded broker",
                "it ended before it accepted connections",
            ));
        }
        Ok(Self {
            port,
            shutdown,
            task,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Everything the broker bounds memory by; its own defaults keep 10,000 messages per subscriber
/// and write sessions to disk.
fn config(options: Embedded) -> BrokerConfig {
    let packet = options.max_payload + HEADROOM;
    let storage = StorageConfig {
        backend: StorageBackendType::Memory,
        enable_persistence: true,
        max_queued_messages_per_client: options.queue,
        max_queued_bytes_per_client: (options.queue * packet).min(QUEUED.max(4 * packet)),
        ..StorageConfig::default()
    };
    let mut config = BrokerConfig::default()
        .with_bind_address(([127, 0, 0, 1], options.port))
        .with_max_packet_size(packet)
        .with_session_expiry(SESSION)
        .with_storage(storage);
    config.client_channel_capacity = options.queue;
    config.sys_topics_enabled = false;
    config.max_retained_messages = RETAINED;
    config
}

/// Bytes kept for one subscriber that is away or lags, if messages are small against it.
const QUEUED: usize = 64 << 20;

/// Longest time a session is kept without its client.
const SESSION: Duration = Duration::from_secs(3600);

/// Topics whose last message is kept.
const RETAINED: usize = 10_000;

#[async_trait]
impl Host for Broker {
    async fn stop(mut self: Box<Self>) {
        self.shutdown.shutdown();
        // An error means that it ended by a panic, which the runtime has reported.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shutdown.shutdown();
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Broker(127.0.0.1:{})", self.port)
    }
}
