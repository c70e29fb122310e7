//! The transport: one session of the library and what belongs to it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use transport_api::event::{EventHub, Events};
use transport_api::ledger::{Closing, Ledger};
use transport_api::outbox::Limit;
use transport_api::reception::{Subscribed, reception};
use transport_api::{
    Capabilities, CloseReport, Error, Event, Publisher, Qos, Result, Schema, Subscriber,
    TopicFilter, TopicName, Transport, TransportConfig, TransportInfo,
};
use zenoh::qos::Priority;
use zenoh::query::Queryable;
use zenoh::sample::SampleKind;
use zenoh::{Session, Wait};

use crate::address::Address;
use crate::barrier;
use crate::dial;
use crate::lane::Lane;
use crate::link::Link;
use crate::options::{Options, Patience, Role};
use crate::presence::{Announced, Presence};
use crate::publisher::Sender;
use crate::settings::{self, Schedule};
use crate::subscriber::Declared;

/// How long a transport that was dropped without being closed may go on sending.
const GRACE: Duration = Duration::from_secs(2);

/// Part of a deadline that is kept for taking the session down.
const TAKE_DOWN: u32 = 4;

/// What this transport can do.
pub(crate) fn capabilities(max_payload: usize) -> Capabilities {
    Capabilities {
        native_metadata: true,
        metadata: true,
        wildcards: true,
        priority: true,
        liveliness: true,
        schema_check: true,
        reconnects: true,
        cross_process: true,
        max_payload: Some(max_payload),
        ..Capabilities::default()
    }
}

/// An open transport.
pub(crate) struct ZenohTransport {
    info: TransportInfo,
    options: Options,
    patience: Patience,
    capabilities: Capabilities,
    limit: Limit,
    events: Arc<EventHub>,
    open: Arc<Open>,
}

/// What has to be taken down.
struct Open {
    session: Session,
    link: Arc<Link>,
    /// Of all publishers that have not ended; `None` once closing has begun.
    lanes: Mutex<Option<Vec<Weak<Lane>>>>,
    events: Arc<EventHub>,
    _answers: Queryable<()>,
    _announced: Announced,
    closed: OnceCell<CloseReport>,
}

impl fmt::Debug for ZenohTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZenohTransport")
            .field(&self.info.endpoint)
            .finish()
    }
}

impl ZenohTransport {
    pub(crate) async fn open(config: &TransportConfig) -> Result<Self> {
        let options: Options = config.backend()?;
        options.check()?;
        let address = Address::of(config, &options)?;
        let patience = options.patience(address.role, config.max_payload())?;
        let runtime = dial::runtime()?;
        let deadline = Instant::now() + options.connect_timeout;
        let address = dial::ready(address, options.connect_timeout).await?;

        let schedule = Schedule::drawn();
        let events = Arc::new(EventHub::default());
        let link = Arc::new(Link::new(
            address.role,
            address.endpoint.to_string(),
            schedule,
            Arc::clone(&events),
            runtime,
        ));
        let library =
            settings::library(&address, &options, patience, config.max_payload(), schedule)?;
        let session = dial::session(library, &address, deadline).await?;
        let presence = Arc::new(Presence::new(config.peer().clone(), Arc::clone(&events)));
        let outcome = Self::settle(&session, &link, &presence, &address, &options, deadline).await;
        let (answers, announced) = match outcome {
            Ok(settled) => settled,
            Err(error) => {
                link.close();
                // It may take long, and the error is known already.
                tokio::spawn(async move { session.close().await });
                return Err(error);
            }
        };
        link.announce();
        let info = TransportInfo {
            scheme: config.url().scheme().to_owned(),
            implementation: crate::IMPLEMENTATION.to_owned(),
            endpoint: format!("tcp/{}", address.endpoint),
            settings: settings::in_force(
                &address,
                &options,
                patience,
                config.max_payload(),
                schedule,
            ),
        };
        Ok(Self {
            info,
            capabilities: capabilities(config.max_payload()),
            limit: Limit::new(config.max_payload()),
            options,
            patience,
            events: Arc::clone(&events),
            open: Arc::new(Open {
                session,
                link,
                lanes: Mutex::new(Some(Vec::new())),
                events,
                _answers: answers,
                _announced: announced,
                closed: OnceCell::new(),
            }),
        })
    }

    /// Waits for the connection and declares what every transport declares.
    async fn settle(
        session: &Session,
        link: &Arc<Link>,
        presence: &Arc<Presence>,
        address: &Address,
        options: &Options,
        deadline: Instant,
    ) -> Result<(Queryable<()>, Announced)> {
        let (following, watched) = (Arc::clone(link), session.clone());
        barrier::off_worker("open", move || {
            watched
                .info()
                .transport_events_listener()
                .history(true)
                .callback(move |event| {
                    let other = *event.transport().zid();
                    match event.kind() {
                        SampleKind::Put => following.join(other),
                        SampleKind::Delete => following.leave(other),
                    }
                })
                .background()
                .wait()
        })
        .await?;
        if address.role == Role::Connect {
            tokio::time::timeout_at(deadline, link.connected())
                .await
                .map_err(|_| dial::silent(address))?;
        }
        let answers = barrier::answer(session).await?;
        let announced = presence.announce(session).await?;
        if !barrier::next_hop(session, options.match_timeout).await? {
            tracing::warn!(
                endpoint = %address.endpoint,
                "the other side has not answered within `match_timeout`"
            );
        }
        Ok((answers, announced))
    }
}

#[async_trait]
impl Transport for ZenohTransport {
    fn info(&self) -> &TransportInfo {
        &self.info
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publisher(
        &self,
        topic: &TopicName,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let granted = self.capabilities.grant_publisher(&qos)?;
        self.open.check("publish")?;
        let events = Arc::clone(&self.events);
        let sender = Sender {
            ledger: Ledger::new(topic.clone(), granted.scope, Arc::clone(&events)),
            granted,
            limit: self.limit.clone(),
            link: Arc::clone(&self.open.link),
            express: self.options.express,
            block_timeout: self.patience.block,
            match_timeout: self.options.match_timeout,
        };
        let session = &self.open.session;
        let (publisher, lane) = sender.start(session, events, schema).await?;
        self.open.keep(lane)?;
        // From its answer on the library knows the subscribers that are there; before it, the first
        // messages might find nobody.
        if !barrier::next_hop(session, self.options.match_timeout).await? {
            tracing::warn!(%topic, "subscribers not known within `match_timeout`");
        }
        Ok(Box::new(publisher))
    }

    async fn subscriber(
        &self,
        filter: &TopicFilter,
        schema: &Schema,
        qos: Qos,
    ) -> Result<Box<dyn Subscriber>> {
        let granted = self.capabilities.grant_subscriber(&qos)?;
        self.open.check("subscribe")?;
        let session = &self.open.session;
        let (inlet, reception) = reception(granted, schema);
        let declared = Declared::new(session, filter, self.capabilities, inlet).await?;
        let subscriber = Subscribed::new(reception, declared);
        let limit = self.options.match_timeout;
        let near = barrier::next_hop(session, limit).await?;
        let far = barrier::pass(session, Priority::InteractiveHigh, limit).await?;
        if !(near && far) {
            tracing::warn!(%filter, "subscription not known everywhere within `match_timeout`");
        }
        Ok(Box::new(subscriber))
    }

    fn events(&self) -> Events {
        self.events.subscribe()
    }

    async fn close(&self, deadline: Duration) -> CloseReport {
        self.open.take_down(deadline).await
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for ZenohTransport {
    fn drop(&mut self) {
        if self.open.closed.initialized() {
            return;
        }
        let open = Arc::clone(&self.open);
        // Taking down waits, also for the library, and the runtime may be on its way out.
        let take_down = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_time()
                .build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(open.take_down(GRACE));
                }
                Err(error) => tracing::warn!(%error, "transport not closed in order"),
            }
        };
        let thread = std::thread::Builder::new().name("zenoh-close".to_owned());
        if let Err(error) = thread.spawn(take_down) {
            tracing::warn!(%error, "transport not closed in order");
        }
    }
}

impl Open {
    fn lanes(&self) -> MutexGuard<'_, Option<Vec<Weak<Lane>>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        match *self.lanes() {
            Some(_) => Ok(()),
            None => Err(Error::closed(operation)),
        }
    }

    fn keep(&self, lane: Arc<Lane>) -> Result<()> {
        match &mut *self.lanes() {
            Some(lanes) => {
                lanes.retain(|kept| kept.strong_count() > 0);
                lanes.push(Arc::downgrade(&lane));
                Ok(())
            }
            None => Err(Error::closed("publish")),
        }
    }

    async fn take_down(self: &Arc<Self>, limit: Duration) -> CloseReport {
        *self.closed.get_or_init(|| self.finish(limit)).await
    }

    async fn finish(&self, limit: Duration) -> CloseReport {
        let deadline = Instant::now() + limit;
        let flushed_by = deadline - limit / TAKE_DOWN;
        let lanes = self.lanes().take().unwrap_or_default();
        let lanes: Vec<Arc<Lane>> = lanes.iter().filter_map(Weak::upgrade).collect();
        lanes.iter().for_each(|lane| lane.close());
        let closing = Closing::begin(lanes.iter().map(|lane| Arc::clone(lane.ledger())));
        self.link.nudge();
        let sent = tokio::time::timeout_at(flushed_by, all_ended(&lanes)).await;
        lanes.iter().for_each(|lane| lane.abandon());
        self.link.nudge();
        if sent.is_ok() {
            // What was written may still be on its way through the library, whose own closing does
            // not wait for it.
            let left = flushed_by.saturating_duration_since(Instant::now());
            if let Err(error) = barrier::pass(&self.session, Priority::Background, left).await {
                tracing::debug!(%error, "closing without an answer");
            }
        }
        self.link.close();
        let session = self.session.clone();
        let taken_down = tokio::spawn(async move { session.close().await });
        if tokio::time::timeout_at(deadline, taken_down).await.is_err() {
            tracing::warn!("zenoh is still closing; it goes on in the background");
        }
        // A sender that was caught in the library comes back when the session is closed.
        let _ = tokio::time::timeout_at(deadline, all_ended(&lanes)).await;
        let report = closing.report();
        self.events.emit(Event::Closed);
        report
    }
}

async fn all_ended(lanes: &[Arc<Lane>]) {
    for lane in lanes {
        lane.ended().await;
    }
}
