//! One connection to a broker, the same for both protocol versions.
//!
//! A connection is an event loop of the client library and the channel into it. Each connection
//! has a new event loop: the library forgets unacknowledged messages when the broker has no
//! session, so they are kept outside, and nothing of a lost connection may come back in the next.

use std::collections::BTreeSet;
use std::pin::Pin;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::{QoS as Qos5, v5 as p5};
use rumqttc::{AsyncClient, NetworkOptions, Outgoing, QoS as Qos3, Transport as Carrier, v5};
use tokio::time::{Instant, Sleep};
#[cfg(not(feature = "tls"))]
use transport_api::Error;
use transport_api::envelope::Encoder;
use transport_api::{Delivery, ErrorKind, Message, Result};

use crate::fault::Fault;
use crate::properties;
use crate::settings::{Session, Settings, Version};
use crate::status::Role;

/// Requests that wait for the event loop at once, per connection. Each connection sends far fewer
/// before it polls again, so a request never waits.
pub(crate) const REQUESTS: usize = 16;

/// Makes connections by settings.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) settings: Settings,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// What the broker said when it took the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    /// It still knows our session.
    pub(crate) resumed: bool,
    /// Unacknowledged messages it takes at once.
    pub(crate) window: u16,
    /// Largest packet it takes.
    pub(crate) max_packet: Option<u32>,
    /// It tells which subscription a message is for.
    pub(crate) identifiers: bool,
    pub(crate) max_qos: u8,
    pub(crate) retains: bool,
    pub(crate) wildcards: bool,
}

/// Something that happened on a connection.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A message was written; its packet id, 0 without acknowledgement.
    Sent(u16),
    /// The broker has taken a message over or refuses it.
    Acknowledged(u16, Result<(), Refusal>),
    /// A SUBSCRIBE was written.
    Subscribing(u16),
    /// The broker grants a subscription with a QoS, or says why not.
    Subscribed(u16, Result<u8, String>),
    /// An UNSUBSCRIBE was written.
    Unsubscribing(u16),
    /// The broker has ended a subscription.
    Unsubscribed(u16),
    /// A message arrived.
    Arrived(Incoming),
    /// The broker will not send the exactly-once message of this packet id again.
    Released(u16),
    /// The DISCONNECT was written.
    Left,
    /// Nothing of interest.
    Other,
}

/// Why the broker refuses a message.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// The client library will not free its packet id.
    pub(crate) leaks: bool,
}

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) topic: Bytes,
    pub(crate) payload: Bytes,
    /// The broker kept it for a new subscription.
    pub(crate) retained: bool,
    /// Packet id of an exactly-once message, which the broker may send again until it is released.
    pub(crate) held: Option<u16>,
    pub(crate) properties: Option<p5::PublishProperties>,
}

impl Dialer {
    /// Reads the certificates, if there are any to read.
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        #[cfg(feature = "tls")]
        let tls = match &settings.tls {
            Some(files) => {
                crate::tls::check_name(&settings.host)?;
                Some(crate::tls::config(files)?)
            }
            None => None,
        };
        #[cfg(not(feature = "tls"))]
        if settings.tls.is_some() {
            return Err(Error::config(
                "`mqtts` is not built in; build transport-mqtt with feature `tls`",
            ));
        }
        Ok(Self {
            settings,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Connects. `clean` makes the broker forget the session; `held` are the packet ids of
    /// exactly-once messages that arrived and were not released on the connection before.
    pub(crate) async fn dial(
        &self,
        role: Role,
        clean: bool,
        held: &BTreeSet<u16>,
    ) -> Result<(Requests, Wire, Greeting), Fault> {
        let settings = &self.settings;
        let (requests, events) = match settings.version {
            Version::V5 => {
                let (client, events) = v5::AsyncClient::new(self.options5(role, clean), REQUESTS);
                (Requests::V5(client), EventLoop::V5(Box::new(events)))
            }
            Version::V3 => {
                let (client, mut events) = AsyncClient::new(self.options3(role, clean), REQUESTS);
                events.set_network_options(self.network());
                (Requests::V3(client), EventLoop::V3(Box::new(events)))
            }
        };
        let mut wire = Wire::new(events, settings);
        wire.hold(held);
        let greeting = tokio::time::timeout(settings.connect_timeout, wire.greet(settings));
        match greeting.await {
            Ok(greeting) => greeting.map(|greeting| (requests, wire, greeting)),
            Err(_) => Err(Fault::new(
                ErrorKind::Connect,
                settings,
                format!("no answer within {:?}", settings.connect_timeout),
            )),
        }
    }

    fn client_id(&self, role: Role) -> String {
        match role {
            Role::Publish => self.settings.client_id.clone(),
            Role::Subscribe => format!("{}-sub", self.settings.client_id),
        }
    }

    /// Topic, payload, QoS and retain flag of the last will. The publishing connection announces
    /// the peer, so its will withdraws that; the subscribing one has the will of the user.
    fn will(&self, role: Role) -> Option<(String, String, u8, bool)> {
        match role {
            Role::Publish => {
                let presence = self.settings.presence.as_ref()?;
                let topic = format!("{presence}/{}", self.settings.peer);
                Some((topic, String::new(), 1, true))
            }
            Role::Subscribe => {
                let will = self.settings.will.as_ref()?;
                Some((
                    will.topic.clone(),
                    will.payload.clone(),
                    will.qos,
                    will.retain,
                ))
            }
        }
    }

    fn network(&self) -> NetworkOptions {
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        // Also the longest time for one write; `dial` has the time-out for connecting.
        network.set_connection_timeout(self.settings.write_timeout.as_secs().max(1));
        network
    }

    fn carrier(&self) -> Carrier {
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            let config = rumqttc::TlsConfiguration::Rustls(Arc::clone(config));
            return Carrier::tls_with_config(config);
        }
        Carrier::tcp()
    }

    fn options5(&self, role: Role, clean: bool) -> v5::MqttOptions {
        let settings = &self.settings;
        let mut options =
            v5::MqttOptions::new(self.client_id(role), settings.host.clone(), settings.port);
        options
            .set_transport(self.carrier())
            .set_network_options(self.network())
            .set_keep_alive(settings.keep_alive)
            .set_connection_timeout(u64::from(u16::MAX))
            .set_clean_start(clean)
            .set_receive_maximum(Some(settings.inflight))
            .set_max_packet_size(Some(settings.max_packet() as u32))
            .set_outgoing_inflight_upper_limit(settings.inflight);
        if keeps_session(role, settings) {
            let expiry = u32::try_from(settings.session_expiry.as_secs()).unwrap_or(u32::MAX);
            options.set_session_expiry_interval(Some(expiry));
        }
        if let Some((user, password)) = &settings.login {
            options.set_credentials(user, password);
        }
        if let Some((topic, payload, qos, retain)) = self.will(role) {
            options.set_last_will(p5::LastWill::new(topic, payload, qos5(qos), retain, None));
        }
        options
    }

    fn options3(&self, role: Role, clean: bool) -> rumqttc::MqttOptions {
        let settings = &self.settings;
        let mut options =
            rumqttc::MqttOptions::new(self.client_id(role), settings.host.clone(), settings.port);
        options
            .set_transport(self.carrier())
            .set_keep_alive(settings.keep_alive)
            .set_clean_session(clean || !keeps_session(role, settings))
            .set_max_packet_size(settings.max_packet(), settings.max_packet())
            .set_inflight(settings.inflight);
        if let Some((user, password)) = &settings.login {
            options.set_credentials(user, password);
        }
        if let Some((topic, payload, qos, retain)) = self.will(role) {
            options.set_last_will(rumqttc::LastWill::new(topic, payload, qos3(qos), retain));
        }
        options
    }
}

/// Whether the broker is to keep the session. Unacknowledged messages are kept and sent again by
/// us, so only the subscribing connection needs one.
fn keeps_session(role: Role, settings: &Settings) -> bool {
    role == Role::Subscribe && settings.session != Session::Clean
}

/// The channel into the event loop.
#[derive(Debug)]
pub(crate) enum Requests {
    V5(v5::AsyncClient),
    V3(AsyncClient),
}

impl Requests {
    /// Sends a message; at once, since there is room for as many requests as are made.
    pub(crate) async fn publish(
        &self,
        topic: &str,
        qos: u8,
        retain: bool,
        message: &Message,
        metadata: bool,
    ) {
        let payload = message.payload.clone();
        match self {
            Self::V5(client) => {
                let properties = metadata
                    .then(|| properties::encode(&message.meta))
                    .flatten();
                let sent = match properties {
                    Some(properties) => {
                        client
                            .publish_with_properties(topic, qos5(qos), retain, payload, properties)
                            .await
                    }
                    None => client.publish(topic, qos5(qos), retain, payload).await,
                };
                checked(sent);
            }
            Self::V3(client) => {
                let payload = if metadata { enclosed(message) } else { payload };
                checked(
                    client
                        .publish_bytes(topic, qos3(qos), retain, payload)
                        .await,
                );
            }
        }
    }

    /// Asks for a subscription. `kept`: messages the broker keeps are wanted too.
    pub(crate) async fn subscribe(&self, filter: &str, qos: u8, id: Option<usize>, kept: bool) {
        match self {
            Self::V5(client) => {
                let mut asked = p5::Filter::new(filter, qos5(qos));
                if !kept {
                    asked.retain_forward_rule = p5::RetainForwardRule::OnNewSubscribe;
                }
                let sent = match id {
                    Some(id) => {
                        let properties = p5::SubscribeProperties {
                            id: Some(id),
                            user_properties: Vec::new(),
                        };
                        client
                            .subscribe_many_with_properties([asked], properties)
                            .await
                    }
                    None => client.subscribe_many([asked]).await,
                };
                checked(sent);
            }
            Self::V3(client) => checked(client.subscribe(filter, qos3(qos)).await),
        }
    }

    /// Asks to end a subscription.
    pub(crate) async fn unsubscribe(&self, filter: &str) {
        match self {
            Self::V5(client) => checked(client.unsubscribe(filter).await),
            Self::V3(client) => checked(client.unsubscribe(filter).await),
        }
    }

    /// Ends the connection in good order.
    pub(crate) async fn leave(&self) {
        match self {
            Self::V5(client) => checked(client.disconnect().await),
            Self::V3(client) => checked(client.disconnect().await),
        }
    }
}

/// A request only fails if its event loop is gone, and then nothing is left to be told.
fn checked<E: std::fmt::Display>(sent: Result<(), E>) {
    if let Err(error) = sent {
        tracing::error!(%error, "request not taken by the client library");
    }
}

/// Metadata and payload in one piece of memory.
fn enclosed(message: &Message) -> Bytes {
    let block = Encoder::new(&message.meta);
    let mut frame = BytesMut::with_capacity(block.prefix_len() + message.payload.len());
    block.prefix(&mut frame);
    frame.extend_from_slice(&message.payload);
    frame.freeze()
}

enum EventLoop {
    V5(Box<v5::EventLoop>),
    V3(Box<rumqttc::EventLoop>),
}

/// The event loop of one connection, watched.
pub(crate) struct Wire {
    events: EventLoop,
    /// Longest time without any progress.
    patience: Duration,
    /// One timer for all steps: set anew when it fires and something has happened since.
    watchdog: Pin<Box<Sleep>>,
}

impl Wire {
    /// The library pings, so something happens at least once per keep-alive; if not, it is stuck
    /// in a write, in which it neither reads nor pings.
    fn new(events: EventLoop, settings: &Settings) -> Self {
        let patience = settings.keep_alive + settings.write_timeout.max(Duration::from_secs(1));
        Self {
            events,
            patience,
            watchdog: Box::pin(tokio::time::sleep(patience)),
        }
    }

    /// Lets the library accept the release of messages that arrived on the connection before.
    fn hold(&mut self, held: &BTreeSet<u16>) {
        for &id in held {
            // Both only fail for packets that are none of these.
            match &mut self.events {
                EventLoop::V5(events) => {
                    let mut publish = p5::Publish::new("", Qos5::ExactlyOnce, Bytes::new(), None);
                    publish.pkid = id;
                    let _ = events
                        .state
                        .handle_incoming_packet(p5::Packet::Publish(publish));
                    events.state.events.clear();
                }
                EventLoop::V3(events) => {
                    let mut publish = rumqttc::Publish::new("", Qos3::ExactlyOnce, Vec::new());
                    publish.pkid = id;
                    let packet = rumqttc::Packet::Publish(publish);
                    let _ = events.state.handle_incoming_packet(packet);
                    events.state.events.clear();
                }
            }
        }
    }

    /// Makes the library forget what it takes for unacknowledged; nothing may be.
    pub(crate) fn start_over(&mut self, window: u16) {
        match &mut self.events {
            EventLoop::V5(events) => events.state = v5::MqttState::new(window, false),
            EventLoop::V3(events) => events.state = rumqttc::MqttState::new(window, false),
        }
    }

    async fn greet(&mut self, settings: &Settings) -> Result<Greeting, Fault> {
        let mut greeting = Greeting {
            resumed: false,
            window: settings.inflight,
            max_packet: None,
            identifiers: false,
            max_qos: 2,
            retains: true,
            wildcards: true,
        };
        match &mut self.events {
            EventLoop::V5(events) => loop {
                let event = events.poll().await;
                let event = event.map_err(|error| Fault::of_v5(error, settings))?;
                if let v5::Event::Incoming(p5::Packet::ConnAck(ack)) = event {
                    greeting.resumed = ack.session_present;
                    greeting.identifiers = true;
                    if let Some(said) = ack.properties {
                        let window = said.receive_max.unwrap_or(u16::MAX);
                        greeting.window = greeting.window.min(window);
                        greeting.max_packet = said.max_packet_size;
                        greeting.identifiers = said.subscription_identifiers_available != Some(0);
                        greeting.max_qos = said.max_qos.unwrap_or(2);
                        greeting.retains = said.retain_available != Some(0);
                        greeting.wildcards = said.wildcard_subscription_available != Some(0);
                    }
                    return Ok(greeting);
                }
            },
            EventLoop::V3(events) => loop {
                let event = events.poll().await;
                let event = event.map_err(|error| Fault::of_v3(error, settings))?;
                if let rumqttc::Event::Incoming(rumqttc::Packet::ConnAck(ack)) = event {
                    greeting.resumed = ack.session_present;
                    return Ok(greeting);
                }
            },
        }
    }

    /// The next happening. Not cancel-safe: give up the connection if it is dropped.
    pub(crate) async fn next(&mut self, settings: &Settings) -> Result<Happening, Fault> {
        let Self {
            events,
            patience,
            watchdog,
        } = self;
        let overdue = async {
            let deadline = Instant::now() + *patience;
            while Instant::now() < deadline {
                if watchdog.is_elapsed() {
                    watchdog.as_mut().reset(deadline);
                }
                watchdog.as_mut().await;
            }
        };
        let happening = async {
            match events {
                EventLoop::V5(events) => match events.poll().await {
                    Ok(event) => Ok(read5(event)),
                    Err(error) => Err(Fault::of_v5(error, settings)),
                },
                EventLoop::V3(events) => match events.poll().await {
                    Ok(event) => Ok(read3(event)),
                    Err(error) => Err(Fault::of_v3(error, settings)),
                },
            }
        };
        tokio::select! {
            biased;
            happening = happening => happening,
            () = overdue => Err(Fault::new(
                ErrorKind::Timeout,
                settings,
                format!("no progress for {patience:?}; raise `write_timeout` on a slow link"),
            )),
        }
    }
}

fn read5(event: v5::Event) -> Happening {
    let refused = |reason: String, leaks| Err(Refusal { reason, leaks });
    match event {
        v5::Event::Outgoing(outgoing) => read_outgoing(outgoing),
        v5::Event::Incoming(packet) => match packet {
            p5::Packet::Publish(publish) => Happening::Arrived(Incoming {
                topic: publish.topic,
                payload: publish.payload,
                retained: publish.retain,
                held: (publish.qos == Qos5::ExactlyOnce).then_some(publish.pkid),
                properties: publish.properties,
            }),
            p5::Packet::PubAck(ack) => Happening::Acknowledged(
                ack.pkid,
                match ack.reason {
                    p5::PubAckReason::Success | p5::PubAckReason::NoMatchingSubscribers => Ok(()),
                    reason => refused(format!("{reason:?}"), false),
                },
            ),
            p5::Packet::PubRec(ack) => match ack.reason {
                p5::PubRecReason::Success | p5::PubRecReason::NoMatchingSubscribers => {
                    Happening::Other
                }
                reason => Happening::Acknowledged(ack.pkid, refused(format!("{reason:?}"), true)),
            },
            p5::Packet::PubComp(ack) => Happening::Acknowledged(
                ack.pkid,
                match ack.reason {
                    p5::PubCompReason::Success => Ok(()),
                    reason => refused(format!("{reason:?}"), true),
                },
            ),
            p5::Packet::SubAck(ack) => Happening::Subscribed(
                ack.pkid,
                match ack.return_codes.first() {
                    Some(p5::SubscribeReasonCode::Success(qos)) => Ok(*qos as u8),
                    other => Err(format!("{other:?}")),
                },
            ),
            p5::Packet::PubRel(release) => Happening::Released(release.pkid),
            p5::Packet::UnsubAck(ack) => Happening::Unsubscribed(ack.pkid),
            _ => Happening::Other,
        },
    }
}

fn read3(event: rumqttc::Event) -> Happening {
    use rumqttc::Packet;
    match event {
        rumqttc::Event::Outgoing(outgoing) => read_outgoing(outgoing),
        rumqttc::Event::Incoming(packet) => match packet {
            Packet::Publish(publish) => Happening::Arrived(Incoming {
                topic: Bytes::from(publish.topic),
                payload: publish.payload,
                retained: publish.retain,
                held: (publish.qos == Qos3::ExactlyOnce).then_some(publish.pkid),
                properties: None,
            }),
            Packet::PubAck(ack) => Happening::Acknowledged(ack.pkid, Ok(())),
            Packet::PubComp(ack) => Happening::Acknowledged(ack.pkid, Ok(())),
            Packet::SubAck(ack) => Happening::Subscribed(
                ack.pkid,
                match ack.return_codes.first() {
                    Some(rumqttc::SubscribeReasonCode::Success(qos)) => Ok(*qos as u8),
                    _ => Err("refused".to_owned()),
                },
            ),
            Packet::PubRel(release) => Happening::Released(release.pkid),
            Packet::UnsubAck(ack) => Happening::Unsubscribed(ack.pkid),
            _ => Happening::Other,
        },
    }
}

fn read_outgoing(outgoing: Outgoing) -> Happening {
    match outgoing {
        Outgoing::Publish(id) => Happening::Sent(id),
        Outgoing::Subscribe(id) => Happening::Subscribing(id),
        Outgoing::Unsubscribe(id) => Happening::Unsubscribing(id),
        Outgoing::Disconnect => Happening::Left,
        _ => Happening::Other,
    }
}

/// The QoS of a delivery guarantee.
pub(crate) fn level(delivery: Delivery) -> u8 {
    match delivery {
        Delivery::AtMostOnce => 0,
        Delivery::AtLeastOnce => 1,
        Delivery::ExactlyOnce => 2,
    }
}

fn qos5(level: u8) -> Qos5 {
    match level {
        0 => Qos5::AtMostOnce,
        1 => Qos5::AtLeastOnce,
        _ => Qos5::ExactlyOnce,
    }
}

fn qos3(level: u8) -> Qos3 {
    match level {
        0 => Qos3::AtMostOnce,
        1 => Qos3::AtLeastOnce,
        _ => Qos3::ExactlyOnce,
    }
}
