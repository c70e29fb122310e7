//! The task of the subscribing connection.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use transport_api::event::EventHub;
use transport_api::reception::{Arrived, Inlet};
use transport_api::{Delivery, Error, ErrorKind, MessageId, Metadata, Result, envelope};

use crate::early::Early;
use crate::fault::Fault;
use crate::phase::Phase;
use crate::presence::Peers;
use crate::properties;
use crate::settings::{Session, Version};
use crate::status::{Role, Status};
use crate::topic::{Names, selects};
use crate::wire::{Dialer, Greeting, Happening, Incoming, Requests, Wire, level};

/// Subscriptions asked for and not written yet, at once.
const ASKING: usize = crate::wire::REQUESTS / 2;

/// Messages among which copies for overlapping filters are recognised; those of several publishers
/// interleave.
const RECENT: usize = 64;

/// Ended filters for which a copy may still be under way.
const DEPARTED: usize = 16;

/// First bytes of a metadata block and its version; see [`envelope`]. A payload that does not
/// begin so under MQTT 3.1.1 is of a foreign client.
const BLOCK: &[u8] = b"RT\x01";

/// What the transport and its subscribers ask of the task.
#[derive(Debug)]
pub(crate) enum Command {
    /// Begin to deliver; the answer comes when the broker has granted it.
    Subscribe(Entry, oneshot::Sender<Result<()>>),
    /// End what [`Entry::gone`] belongs to; the answer comes when the broker has ended it.
    Unsubscribe(Arc<AtomicBool>, oneshot::Sender<()>),
}

/// One subscriber.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Filter in MQTT's notation.
    pub(crate) filter: String,
    pub(crate) delivery: Delivery,
    pub(crate) inlet: Inlet,
    /// Set when the subscriber is dropped.
    pub(crate) gone: Arc<AtomicBool>,
}

/// One subscriber within its subscription.
#[derive(Debug)]
struct Route {
    inlet: Inlet,
    gone: Arc<AtomicBool>,
    /// The SUBSCRIBE it waits for or came with.
    round: u64,
    reply: Option<oneshot::Sender<Result<()>>>,
    /// Identities of the last messages, to recognise their copies for overlapping filters.
    recent: VecDeque<MessageId>,
}

impl Route {
    /// Whether a message has not come before, among the last [`RECENT`].
    fn is_new(&mut self, id: MessageId) -> bool {
        if self.recent.contains(&id) {
            return false;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
        true
    }
}

/// One filter at the broker, with everyone who asked for it.
#[derive(Debug)]
struct Subscription {
    /// Subscription identifier of MQTT 5, from 1.
    id: usize,
    filter: String,
    qos: u8,
    routes: Vec<Route>,
    /// Counts the SUBSCRIBEs of this filter.
    round: u64,
    /// The broker has granted it, on this connection or in the session that goes on.
    granted: bool,
    /// Announcements of peers go to [`Peers`].
    presence: bool,
}

/// A request to the broker.
#[derive(Debug)]
enum Ask {
    Subscribe {
        id: usize,
        round: u64,
        kept: bool,
    },
    Unsubscribe {
        filter: String,
        reply: Option<oneshot::Sender<()>>,
    },
}

/// Subscribing: everything that outlives a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    dialer: Arc<Dialer>,
    status: Arc<Status>,
    commands: mpsc::Receiver<Command>,
    /// Rung when a subscriber was dropped.
    dropped: Arc<Notify>,
    phase: watch::Receiver<Phase>,
    table: Table,
    /// Exactly-once messages that arrived and were not released.
    held: BTreeSet<u16>,
}

/// All subscriptions, and where arrivals go.
#[derive(Debug)]
struct Table {
    subscriptions: Vec<Subscription>,
    next_id: usize,
    /// Filters that ended last.
    departed: VecDeque<String>,
    asks: VecDeque<Ask>,
    peers: Option<Peers>,
    names: Names,
    properties: properties::Decoder,
    envelope: envelope::Decoder,
    metadata: bool,
    native: bool,
    max_payload: usize,
    /// Arrivals of a session taken up again whose subscribers are not back yet.
    early: Early,
}

enum End {
    Left,
    Lost(Fault),
}

impl Receiver {
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        status: Arc<Status>,
        commands: mpsc::Receiver<Command>,
        dropped: Arc<Notify>,
        phase: watch::Receiver<Phase>,
        withdrawn: Arc<Notify>,
        hub: &Arc<EventHub>,
    ) -> Self {
        let settings = &dialer.settings;
        let peers = settings.presence.as_ref().map(|topic| {
            let (own, hub) = (settings.peer.clone(), Arc::clone(hub));
            Peers::new(topic, own, withdrawn, hub, Arc::clone(&status))
        });
        let mut table = Table {
            subscriptions: Vec::new(),
            next_id: 1,
            departed: VecDeque::new(),
            asks: VecDeque::new(),
            peers: None,
            names: Names::default(),
            properties: properties::Decoder::default(),
            envelope: envelope::Decoder::default(),
            metadata: settings.metadata,
            native: settings.version == Version::V5,
            max_payload: settings.max_payload,
            early: Early::new(
                match settings.session {
                    Session::Persistent => usize::from(settings.inflight),
                    _ => 0,
                },
                settings.max_payload + envelope::MAX_BLOCK,
            ),
        };
        if let Some(peers) = peers {
            table.add(peers.filter(), 1).presence = true;
            table.peers = Some(peers);
        }
        Self {
            dialer,
            status,
            commands,
            dropped,
            phase,
            table,
            held: BTreeSet::new(),
        }
    }

    /// Runs until the transport is closed; `ready` learns how the first attempt to connect went,
    /// and if it failed, nothing else happens.
    pub(crate) async fn run(mut self, ready: oneshot::Sender<Result<()>>) {
        let abandoned = Phase::abandoned(self.phase.clone());
        tokio::select! {
            () = self.serve(ready) => {}
            () = abandoned => {}
        }
        for subscription in &self.table.subscriptions {
            subscription
                .routes
                .iter()
                .for_each(|route| route.inlet.close());
        }
    }

    async fn serve(&mut self, ready: oneshot::Sender<Result<()>>) {
        let mut ready = Some(ready);
        let dialer = Arc::clone(&self.dialer);
        let settings = &dialer.settings;
        let mut backoff = settings.backoff();
        // The first connection takes up no old session unless it is asked to.
        let mut clean = settings.session != Session::Persistent;
        loop {
            let fault = match dialer.dial(Role::Subscribe, clean, &self.held).await {
                Ok((requests, mut wire, greeting)) => {
                    let since = Instant::now();
                    clean = settings.session == Session::Clean;
                    if !greeting.resumed {
                        self.held.clear();
                    }
                    self.table.restore(greeting.resumed);
                    let mut talk = Talk::new(requests, greeting);
                    let end = self.attend(&mut wire, &mut talk, &mut ready).await;
                    drop(wire);
                    match end {
                        End::Left => return self.forget().await,
                        End::Lost(fault) => {
                            self.table.unask(talk.undone());
                            backoff.ended(since.elapsed(), fault.contested);
                            if backoff.is_restless() && !fault.contested {
                                fault.perhaps_contested(settings, backoff.brief())
                            } else {
                                fault
                            }
                        }
                    }
                }
                Err(fault) => fault,
            };
            if let Some(ready) = ready.take() {
                let _ = ready.send(Err(fault.error));
                return;
            }
            // The broker would send the same packet again.
            clean |= fault.oversize;
            let cause = Arc::new(fault.error);
            self.status.down(Role::Subscribe, &cause);
            let pause = backoff.pause();
            self.status.retry(backoff.attempts(), &cause);
            if self.idle(pause).await {
                return;
            }
        }
    }

    /// Makes the broker forget the session. MQTT 5 sessions expire, those of 3.1.1 do not.
    async fn forget(&self) {
        let settings = &self.dialer.settings;
        if settings.version == Version::V5 || settings.session != Session::Resume {
            return;
        }
        let none = BTreeSet::new();
        if let Ok((requests, mut wire, _)) = self.dialer.dial(Role::Subscribe, true, &none).await {
            requests.leave().await;
            while !matches!(wire.next(settings).await, Ok(Happening::Left) | Err(_)) {}
        }
    }

    /// Waits before the next attempt; `true` if the transport is leaving.
    async fn idle(&mut self, wait: Duration) -> bool {
        let wait = tokio::time::sleep(wait);
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return false,
                Some(command) = self.commands.recv() => self.table.obey(command),
                () = self.dropped.notified() => self.table.sweep(),
                () = Phase::leaving(&mut self.phase) => return true,
            }
        }
    }
}

/// What is said to the broker in one connection.
struct Talk {
    requests: Requests,
    greeting: Greeting,
    /// Given to the client library and not written yet, in order.
    asked: VecDeque<Ask>,
    /// Written and not answered yet, by packet id.
    unanswered: HashMap<u16, Ask>,
    /// Nothing is wanted any more.
    ending: bool,
    /// The last word is said.
    leaving: bool,
}

impl Talk {
    fn new(requests: Requests, greeting: Greeting) -> Self {
        Self {
            requests,
            greeting,
            asked: VecDeque::new(),
            unanswered: HashMap::new(),
            ending: false,
            leaving: false,
        }
    }

    /// Whether everything was asked and answered.
    fn is_quiet(&self, table: &Table) -> bool {
        table.asks.is_empty() && self.asked.is_empty() && self.unanswered.is_empty()
    }

    /// Asks what waits to be asked, as much as the client library may have at once, and says
    /// goodbye when that was all.
    async fn advance(&mut self, table: &mut Table) {
        while self.asked.len() < ASKING
            && let Some(ask) = table.asks.pop_front()
        {
            match &ask {
                Ask::Subscribe { id, kept, .. } => {
                    let Some(wanted) = table.subscriptions.iter().find(|it| it.id == *id) else {
                        // It has ended before it was asked for.
                        continue;
                    };
                    // A persistent session may still send the identifiers of a former process.
                    let known = self.greeting.identifiers && !table.early.is_used();
                    let id = known.then_some(wanted.id);
                    self.requests
                        .subscribe(&wanted.filter, wanted.qos, id, *kept)
                        .await;
                }
                Ask::Unsubscribe { filter, .. } => self.requests.unsubscribe(filter).await,
            }
            self.asked.push_back(ask);
        }
        if self.ending && !self.leaving && self.is_quiet(table) {
            self.leaving = true;
            self.requests.leave().await;
        }
    }

    /// Takes what the broker answers to where it is waited for.
    fn answered(&mut self, id: u16, outcome: Result<u8, String>, table: &mut Table) {
        match self.unanswered.remove(&id) {
            Some(Ask::Subscribe { id, round, .. }) => table.answered(id, round, outcome),
            Some(Ask::Unsubscribe {
                reply: Some(reply), ..
            }) => {
                // Nobody may be waiting any more.
                let _ = reply.send(());
            }
            _ => {}
        }
    }

    /// What was asked and not answered.
    fn undone(self) -> impl Iterator<Item = Ask> {
        self.unanswered.into_values().chain(self.asked)
    }
}

impl Receiver {
    /// Runs one connection to its end.
    async fn attend(
        &mut self,
        wire: &mut Wire,
        talk: &mut Talk,
        ready: &mut Option<oneshot::Sender<Result<()>>>,
    ) -> End {
        let dialer = Arc::clone(&self.dialer);
        let settings = &dialer.settings;
        let mut restored = false;
        loop {
            talk.advance(&mut self.table).await;
            if !restored && talk.is_quiet(&self.table) {
                restored = true;
                self.status.restored(talk.greeting.resumed);
                if let Some(ready) = ready.take() {
                    let _ = ready.send(Ok(()));
                }
            }
            let happening = {
                let mut next = std::pin::pin!(wire.next(settings));
                loop {
                    tokio::select! {
                        biased;
                        happening = &mut next => break happening,
                        Some(command) = self.commands.recv() => self.table.obey(command),
                        () = self.dropped.notified() => self.table.sweep(),
                        () = Phase::leaving(&mut self.phase), if !talk.ending => {
                            talk.ending = true;
                            self.commands.close();
                            // A persistent session goes on without us, the others end.
                            if settings.session != Session::Persistent {
                                self.table.end();
                            }
                        }
                        () = overdue(self.table.peers.as_mut()) => {}
                    }
                    // From here too: the library takes requests while it is polled.
                    talk.advance(&mut self.table).await;
                }
            };
            match happening {
                Ok(Happening::Arrived(incoming)) => {
                    self.held.extend(incoming.held);
                    self.table.deliver(incoming);
                }
                Ok(Happening::Released(id)) => {
                    self.held.remove(&id);
                }
                Ok(Happening::Subscribing(id) | Happening::Unsubscribing(id)) => {
                    let asked = talk.asked.pop_front();
                    talk.unanswered.extend(asked.map(|ask| (id, ask)));
                }
                Ok(Happening::Subscribed(id, outcome)) => {
                    talk.answered(id, outcome, &mut self.table);
                }
                Ok(Happening::Unsubscribed(id)) => talk.answered(id, Ok(0), &mut self.table),
                Ok(Happening::Left) => return End::Left,
                Ok(Happening::Sent(_) | Happening::Acknowledged(..) | Happening::Other) => {}
                Err(fault) => return End::Lost(fault),
            }
        }
    }
}

async fn overdue(peers: Option<&mut Peers>) {
    match peers {
        Some(peers) => peers.settle().await,
        None => std::future::pending().await,
    }
}

impl Table {
    fn add(&mut self, filter: String, qos: u8) -> &mut Subscription {
        let id = self.next_id;
        self.next_id += 1;
        self.subscriptions.push(Subscription {
            id,
            filter,
            qos,
            routes: Vec::new(),
            round: 0,
            granted: false,
            presence: false,
        });
        let at = self.subscriptions.len() - 1;
        &mut self.subscriptions[at]
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Subscribe(entry, reply) => self.subscribe(entry, reply),
            Command::Unsubscribe(gone, reply) => {
                gone.store(true, Ordering::Release);
                self.remove_gone(Some(reply));
            }
        }
    }

    fn subscribe(&mut self, entry: Entry, reply: oneshot::Sender<Result<()>>) {
        let qos = level(entry.delivery);
        let found = self
            .subscriptions
            .iter()
            .position(|it| it.filter == entry.filter && !it.presence);
        let subscription = match found {
            Some(at) => &mut self.subscriptions[at],
            None => self.add(entry.filter, qos),
        };
        // Also for a filter that is active already: the broker then sends what it keeps.
        subscription.qos = subscription.qos.max(qos);
        subscription.round += 1;
        subscription.routes.push(Route {
            inlet: entry.inlet,
            gone: entry.gone,
            round: subscription.round,
            reply: Some(reply),
            recent: VecDeque::new(),
        });
        let ask = Ask::Subscribe {
            id: subscription.id,
            round: subscription.round,
            kept: true,
        };
        self.asks.push_back(ask);
        for incoming in self.early.take() {
            self.deliver(incoming);
        }
    }

    /// Ends the subscriptions of dropped subscribers.
    fn sweep(&mut self) {
        self.remove_gone(None);
    }

    fn remove_gone(&mut self, mut reply: Option<oneshot::Sender<()>>) {
        let (asks, departed) = (&mut self.asks, &mut self.departed);
        self.subscriptions.retain_mut(|subscription| {
            let before = subscription.routes.len();
            subscription.routes.retain(|route| {
                let gone = route.gone.load(Ordering::Acquire);
                if gone {
                    route.inlet.close();
                }
                !gone
            });
            let ends = subscription.routes.is_empty() && before > 0;
            if ends {
                if departed.len() == DEPARTED {
                    departed.pop_front();
                }
                departed.push_back(subscription.filter.clone());
                asks.push_back(Ask::Unsubscribe {
                    filter: std::mem::take(&mut subscription.filter),
                    reply: reply.take(),
                });
            }
            !ends
        });
        if let Some(reply) = reply {
            // Others still want the filter: nothing to wait for.
            let _ = reply.send(());
        }
    }

    /// Ends everything.
    fn end(&mut self) {
        for mut subscription in self.subscriptions.drain(..) {
            for route in &mut subscription.routes {
                route.inlet.close();
                if let Some(reply) = route.reply.take() {
                    let _ = reply.send(Err(Error::closed("subscribe")));
                }
            }
            self.asks.push_back(Ask::Unsubscribe {
                filter: subscription.filter,
                reply: None,
            });
        }
    }

    /// Asks for everything that a new connection does not have.
    fn restore(&mut self, resumed: bool) {
        self.asks
            .retain(|ask| matches!(ask, Ask::Unsubscribe { .. }));
        if !resumed && let Some(peers) = &mut self.peers {
            peers.doubt();
        }
        for subscription in &mut self.subscriptions {
            if resumed && subscription.granted {
                continue;
            }
            subscription.granted = false;
            subscription.round += 1;
            for route in &mut subscription.routes {
                route.round = subscription.round;
            }
            self.asks.push_back(Ask::Subscribe {
                id: subscription.id,
                round: subscription.round,
                kept: true,
            });
        }
    }

    /// Puts back what a lost connection left undone.
    fn unask(&mut self, undone: impl Iterator<Item = Ask>) {
        for ask in undone {
            match ask {
                Ask::Unsubscribe { .. } => self.asks.push_front(ask),
                Ask::Subscribe { id, .. } => {
                    let found = self.subscriptions.iter_mut().find(|it| it.id == id);
                    if let Some(subscription) = found {
                        subscription.granted = false;
                    }
                }
            }
        }
    }

    fn answered(&mut self, id: usize, round: u64, outcome: Result<u8, String>) {
        let Some(subscription) = self.subscriptions.iter_mut().find(|it| it.id == id) else {
            return;
        };
        let fault = match outcome {
            Ok(granted) if granted >= subscription.qos => None,
            Ok(granted) => Some((
                ErrorKind::Unsupported,
                format!("the broker grants QoS {granted} only"),
            )),
            Err(reason) => Some((
                ErrorKind::Backend,
                format!("the broker refuses it: {reason}"),
            )),
        };
        let Some((kind, why)) = fault else {
            subscription.granted = true;
            for route in &mut subscription.routes {
                if route.round <= round
                    && let Some(reply) = route.reply.take()
                {
                    // A subscriber that is not waited for any more is swept when it is dropped.
                    let _ = reply.send(Ok(()));
                }
            }
            return;
        };
        let filter = &subscription.filter;
        tracing::error!(%filter, %why, "subscription refused");
        for route in &mut subscription.routes {
            if let Some(reply) = route.reply.take() {
                let error = Error::new(kind, "subscribe", format!("filter `{filter}`: {why}"));
                let _ = reply.send(Err(error));
            }
            route.inlet.close();
        }
        let presence = subscription.presence;
        self.subscriptions.retain(|it| it.id != id);
        if presence {
            self.peers = None;
        }
    }

    /// Whether there is a subscriber for a topic.
    fn is_awaited(&self, topic: &[u8]) -> bool {
        let text = String::from_utf8_lossy(topic);
        self.subscriptions
            .iter()
            .any(|it| selects(&it.filter, &text))
    }

    /// Gives an arrival to everyone it is for.
    fn deliver(&mut self, incoming: Incoming) {
        let Incoming {
            topic,
            payload,
            retained,
            held,
            properties,
        } = incoming;
        if let Some(peers) = &mut self.peers
            && peers.observe(&topic, &payload)
        {
            return;
        }
        if self.early.is_used() && !self.is_awaited(&topic) {
            self.early.keep(Incoming {
                topic,
                payload,
                retained,
                held,
                properties,
            });
            return;
        }
        let named = self.names.get(&topic);
        let text = String::from_utf8_lossy(&topic);
        let ids = properties
            .as_ref()
            .map_or(&[][..], |it| &it.subscription_identifiers);
        let persistent = self.early.is_used();
        let selected = |it: &Subscription| match ids {
            ids if !ids.is_empty() && !persistent => ids.contains(&it.id),
            _ => selects(&it.filter, &text),
        };
        let read = match &named {
            _ if payload.len() > self.max_payload + envelope::MAX_BLOCK => Err(Error::new(
                ErrorKind::TooLarge,
                "receive",
                format!(
                    "payload of {} B exceeds the limit of {} B; raise `max_payload`",
                    payload.len(),
                    self.max_payload
                ),
            )),
            None => Err(Error::new(
                ErrorKind::Topic,
                "receive",
                "the topic is not one that all transports can carry",
            )),
            Some(_) if !self.metadata => Ok((Metadata::default(), payload)),
            Some(_) if self.native => match &properties {
                Some(properties) => self.properties.decode(properties).map(|it| (it, payload)),
                None => Ok((Metadata::default(), payload)),
            },
            Some(_) if payload.starts_with(BLOCK) => self.envelope.prefix(payload),
            Some(_) => Ok((Metadata::default(), payload)),
        };
        // Without identifiers, a broker may send one copy for each filter that selects it.
        let copies = || {
            let standing = self.subscriptions.iter().filter(|it| selected(it)).count();
            let departed = self.departed.iter().filter(|it| selects(it, &text)).count();
            standing + departed
        };
        let several = ids.is_empty() && copies() > 1;
        let mut stale = false;
        for subscription in self.subscriptions.iter_mut().filter(|it| selected(it)) {
            for route in &mut subscription.routes {
                let (meta, payload) = match &read {
                    Ok(read) => read,
                    Err(error) => {
                        route.inlet.reject(&text, error);
                        continue;
                    }
                };
                // What the broker keeps is sent again for each SUBSCRIBE; it is for the last one.
                if retained && route.round < subscription.round {
                    continue;
                }
                if several
                    && let Some(id) = meta.id
                    && !route.is_new(id)
                {
                    continue;
                }
                let Some(topic) = &named else {
                    continue;
                };
                let arrived = Arrived {
                    topic: topic.clone(),
                    payload: payload.clone(),
                    meta: meta.clone(),
                };
                if let transport_api::queue::Pushed::Closed(_) = route.inlet.offer(arrived) {
                    route.gone.store(true, Ordering::Release);
                    stale = true;
                }
            }
        }
        if stale {
            self.sweep();
        }
    }
}
