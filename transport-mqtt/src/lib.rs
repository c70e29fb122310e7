//! MQTT for `transport-api`.
//!
//! A [`Factory`] opens `mqtt://host:1883`, `mqtts://host:8883` (TLS) and `mqtt:embedded` (a broker
//! in this process). Protocol version 5 is the default, 3.1.1 an option. What is guaranteed and
//! what is not is written in `docs/transports/mqtt.md`.
//!
//! One transport has two connections to its broker, each with one task: the sender takes messages
//! out of the publishers' queues, the receiver gives arrivals to the subscribers'. Both connect
//! again for as long as the transport is open; handles outlive that.
//!
//! # Examples
//!
//! ```no_run
//! use transport_api::{Registry, TransportConfig};
//!
//! # async fn example() -> transport_api::Result<()> {
//! let mut registry = Registry::default();
//! registry.register(transport_mqtt::Factory)?;
//! let meeting = registry.meet(&TransportConfig::parse("mqtt:embedded")?).await?;
//! let edge = registry.open(&meeting.first).await?;
//! let vehicle = registry.open(&meeting.second).await?;
//! # Ok(()) }
//! ```

#[cfg(feature = "embedded-broker")]
mod broker;
mod capability;
mod early;
mod factory;
mod fault;
mod membership;
mod phase;
mod presence;
mod properties;
mod receiver;
mod sender;
mod settings;
mod status;
#[cfg(feature = "tls")]
mod tls;
mod topic;
mod transport;
mod window;
mod wire;

pub use factory::Factory;
pub use transport::Mqtt;
