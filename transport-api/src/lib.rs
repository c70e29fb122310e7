//! The contract between apps and interchangeable publish/subscribe transports.
//!
//! Two audiences read this crate. *Users* open a [`Transport`] by URL from a [`Registry`] and hold
//! [`Publisher`] and [`Subscriber`] handles; the everyday methods are on [`PublisherExt`] and
//! [`SubscriberExt`]. *Authors* of a transport implement [`TransportFactory`], [`Transport`],
//! [`Publisher`] and [`Subscriber`]; they find the shared parts here, so that two transports never
//! differ by accident: the sending end with its bounded [`queue`] ([`outbox`]), what becomes of
//! each message ([`ledger`]), the receiving end with loss accounting ([`reception`]), memory for
//! incoming frames ([`intake`]), the in-band metadata codec ([`envelope`]), delivery tokens ([`token`]), events ([`event`]), pauses before
//! reconnecting ([`backoff`]), bounded warnings ([`throttle`]) and typed configuration
//! ([`config`]). The crate `transport-conformance` checks them.
//!
//! Payloads are [`bytes::Bytes`] in both directions and travel by reference count; what belongs to
//! a message but not into its payload is [`Metadata`]. Nothing here depends on an async runtime.
//!
//! # Examples
//!
//! ```
//! use transport_api::{local, Message, PublisherExt, Qos, Registry, Schema, SubscriberExt};
//! use transport_api::{TopicFilter, TopicName, TransportConfig};
//!
//! # fn block_on<F: std::future::Future>(f: F) -> F::Output {
//! #     let mut f = std::pin::pin!(f);
//! #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop { if let std::task::Poll::Ready(v) = f.as_mut().poll(&mut cx) { return v } }
//! # }
//! # block_on(async {
//! let mut registry = Registry::default();
//! registry.register(local::Factory::default())?;
//! let transport = registry.open(&TransportConfig::parse("local:example")?).await?;
//!
//! let topic = TopicName::parse("vehicle1/scan")?;
//! let schema = Schema::opaque();
//! let filter = TopicFilter::from(&topic);
//! let mut subscriber = transport.subscriber(&filter, &schema, Qos::default()).await?;
//! let publisher = transport.publisher(&topic, &schema, Qos::default()).await?;
//!
//! publisher.publish(Message::new("hello")).await?;
//! let sample = subscriber.recv().await.expect("open")?;
//! assert_eq!(sample.payload, "hello");
//! # Ok::<(), transport_api::Error>(()) }).unwrap();
//! ```

pub mod backoff;
pub mod capability;
pub mod config;
pub mod counters;
pub mod envelope;
pub mod error;
pub mod event;
pub mod gap;
pub mod intake;
pub mod ledger;
pub mod local;
pub mod meeting;
pub mod message;
pub mod outbox;
pub mod publisher;
pub mod qos;
pub mod queue;
pub mod reception;
pub mod registry;
pub mod schema;
pub mod stamp;
pub mod subscriber;
pub mod throttle;
pub mod token;
pub mod topic;
pub mod transport;

pub use capability::Capabilities;
pub use config::{OptionHelp, PeerId, TransportConfig};
pub use counters::{PublisherCounters, SubscriberCounters};
pub use error::{Error, ErrorKind, Result, Retry};
pub use event::{Event, Events};
pub use meeting::{Host, Meeting, Placement};
pub use message::{Message, MessageId, Metadata, Sample, Sequence, TraceContext};
pub use publisher::{Publisher, PublisherExt, Refused, Why};
pub use qos::{AckScope, Delivery, Granted, Overflow, Qos, Unmet};
pub use registry::{About, Registry, TransportFactory};
pub use schema::{Schema, SchemaId};
pub use stamp::{ClockId, Stamp, StampPoint, Stamps};
pub use subscriber::{Subscriber, SubscriberExt};
pub use token::{Acknowledger, DeliveryToken, Stage};
pub use topic::{TopicFilter, TopicName};
pub use transport::{CloseReport, Transport, TransportInfo};
