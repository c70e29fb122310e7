//! The task of the publishing connection.
//!
//! It takes messages out of the publishers' queues one at a time, hands each to the client library
//! and keeps the unacknowledged ones, so that the next connection sends them again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use transport_api::ledger::Entry;
use transport_api::outbox::{Limit, Outgoing};
use transport_api::queue::Consumer;
use transport_api::{
    CloseReport, Delivery, Error, ErrorKind, Granted, Message, Result, Sequence, TopicName,
};

use crate::capability::limit;
use crate::fault::Fault;
use crate::phase::Phase;
use crate::properties;
use crate::settings::{HEADROOM, Settings};
use crate::status::{Role, Status};
use crate::window::Window;
use crate::wire::{Dialer, Greeting, Happening, Requests, Wire, level};

/// How the messages of a publisher are sent.
#[derive(Debug)]
struct Line {
    topic: TopicName,
    delivery: Delivery,
    retain: bool,
}

/// The receiving end of a publisher's queue.
#[derive(Debug)]
pub(crate) struct Outlet {
    consumer: Consumer<Outgoing>,
    line: Arc<Line>,
    /// Ids for exactly-once messages that came without one.
    ids: Sequence,
}

impl Outlet {
    pub(crate) fn new(consumer: Consumer<Outgoing>, topic: TopicName, granted: Granted) -> Self {
        Self {
            consumer,
            line: Arc::new(Line {
                topic,
                delivery: granted.delivery,
                retain: granted.retain,
            }),
            ids: Sequence::random(),
        }
    }
}

/// A message on its way.
#[derive(Debug)]
struct Parcel {
    message: Message,
    entry: Entry,
    line: Arc<Line>,
    /// Connections that ended while it was the oldest unacknowledged message.
    failures: u8,
}

/// After as many failures a message is taken for the cause of them.
const FAILURES: u8 = 10;

impl Parcel {
    fn lose(self, kind: ErrorKind, why: &str) {
        let error = Error::new(
            kind,
            "deliver",
            format!("message on `{}` is lost or may be: {why}", self.line.topic),
        );
        self.entry.lose(error);
    }
}

/// Publishing: everything that outlives a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    dialer: Arc<Dialer>,
    status: Arc<Status>,
    outlets: mpsc::Receiver<Outlet>,
    phase: watch::Receiver<Phase>,
    limit: Limit,
    /// Rung when this peer must be announced again.
    withdrawn: Arc<Notify>,
    backlog: Backlog,
    flight: Flight,
}

/// What is on its way in the connection that stands.
#[derive(Debug)]
struct Flight {
    /// Given to the client library and not written yet, in order. One at a time: more would be
    /// out of reach of the overflow policy. `None` is the announcement of this peer.
    handed: VecDeque<Option<Parcel>>,
    /// Written and not acknowledged yet.
    window: Window<Parcel>,
}

impl Flight {
    fn new(window: u16) -> Self {
        Self {
            handed: VecDeque::new(),
            window: Window::new(window),
        }
    }

    fn is_empty(&self) -> bool {
        self.handed.is_empty() && self.window.is_empty()
    }
}

/// Messages that were not sent yet, or not with success.
#[derive(Debug, Default)]
struct Backlog {
    again: VecDeque<Parcel>,
    queues: Vec<Outlet>,
    next: usize,
    /// No more publishers will come.
    complete: bool,
}

/// Time that others need for connecting and subscribing.
const MARGIN: Duration = Duration::from_millis(100);

/// Announces a peer.
const ONLINE: Bytes = Bytes::from_static(b"online");

/// What a greeting tells to whoever opens the transport.
pub(crate) type Ready = oneshot::Sender<Result<Greeting>>;

/// How a connection came to its end.
enum End {
    Left,
    Lost(Fault),
}

impl Sender {
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        status: Arc<Status>,
        outlets: mpsc::Receiver<Outlet>,
        phase: watch::Receiver<Phase>,
        limit: Limit,
        withdrawn: Arc<Notify>,
    ) -> Self {
        Self {
            dialer,
            status,
            outlets,
            phase,
            limit,
            withdrawn,
            backlog: Backlog::default(),
            flight: Flight::new(1),
        }
    }

    /// Runs until the transport is closed; `ready` learns how the first attempt to connect went,
    /// and if it failed, nothing else happens.
    pub(crate) async fn run(mut self, ready: Ready) -> CloseReport {
        let abandoned = Phase::abandoned(self.phase.clone());
        let mut pending = None;
        tokio::select! {
            () = self.serve(ready, &mut pending) => {}
            () = abandoned => {}
        }
        let abandoned = self.give_up();
        CloseReport {
            flushed: pending.unwrap_or(abandoned).saturating_sub(abandoned),
            abandoned,
        }
    }

    async fn serve(&mut self, ready: Ready, pending: &mut Option<u64>) {
        let mut ready = Some(ready);
        let settings = &self.dialer.settings;
        let mut backoff = settings.backoff();
        let mut hold = None;
        loop {
            // A clean start: what is unacknowledged is kept here and not in the library.
            let dialled = self
                .dialer
                .dial(Role::Publish, true, &BTreeSet::new())
                .await;
            let fault = match dialled {
                Ok((requests, wire, greeting)) => {
                    let since = Instant::now();
                    self.limit.set(limit(&self.dialer.settings, &greeting));
                    self.status.up(Role::Publish);
                    if let Some(ready) = ready.take() {
                        // Whoever opens may have given up; then the phase says so.
                        let _ = ready.send(Ok(greeting));
                    }
                    self.flight = Flight::new(greeting.window);
                    let mut connection = Connection {
                        requests,
                        wire,
                        greeting,
                        announce: self.dialer.settings.presence.is_some(),
                        hold: hold.map(|wait| tokio::time::Instant::now() + wait),
                        leaving: false,
                        progressed: false,
                    };
                    let end = connection.run(self, pending).await;
                    let progressed = connection.progressed;
                    drop(connection);
                    let flight = std::mem::replace(&mut self.flight, Flight::new(1));
                    let sent = self.backlog.recover(flight);
                    match end {
                        End::Left => return,
                        End::Lost(fault) => {
                            if sent {
                                self.backlog.blame(&fault, progressed);
                            }
                            backoff.ended(since.elapsed(), fault.contested);
                            if backoff.is_restless() && !fault.contested {
                                fault.perhaps_contested(&self.dialer.settings, backoff.brief())
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
            let cause = Arc::new(fault.error);
            self.status.down(Role::Publish, &cause);
            let pause = backoff.pause();
            self.status.retry(backoff.attempts(), &cause);
            self.idle(pause, pending).await;
            hold = Some(backoff.laggards() + MARGIN);
        }
    }

    /// Waits before the next attempt, and meanwhile takes note of new publishers and of the end.
    async fn idle(&mut self, wait: Duration, pending: &mut Option<u64>) {
        let wait = tokio::time::sleep(wait);
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return,
                outlet = self.outlets.recv(), if !self.backlog.complete => {
                    self.backlog.admit(outlet);
                }
                () = Phase::closing(&mut self.phase), if pending.is_none() => {
                    *pending = Some(self.backlog.close(&mut self.outlets, 0));
                }
            }
        }
    }

    /// Settles everything that was not sent. Returns how much that was.
    fn give_up(mut self) -> u64 {
        self.backlog.close(&mut self.outlets, 0);
        let why = "the transport was closed before it was delivered";
        let mut count = 0;
        let handed = self.flight.handed.drain(..).flatten();
        for parcel in self.flight.window.drain().chain(handed) {
            count += 1;
            parcel.lose(ErrorKind::Closed, why);
        }
        for parcel in self.backlog.again.drain(..) {
            count += 1;
            parcel.lose(ErrorKind::Closed, why);
        }
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for mut outlet in self.backlog.queues.drain(..) {
            while let Poll::Ready(Some(outgoing)) = outlet.consumer.poll_pop(&mut cx) {
                count += 1;
                outlet.parcel(outgoing).lose(ErrorKind::Closed, why);
            }
        }
        count
    }
}

impl Outlet {
    fn parcel(&self, Outgoing { message, entry }: Outgoing) -> Parcel {
        Parcel {
            message,
            entry,
            line: Arc::clone(&self.line),
            failures: 0,
        }
    }
}

impl Backlog {
    fn admit(&mut self, outlet: Option<Outlet>) {
        match outlet {
            Some(outlet) => self.queues.push(outlet),
            None => self.complete = true,
        }
    }

    /// Takes no further messages. Returns how many there are, `flying` included.
    fn close(&mut self, outlets: &mut mpsc::Receiver<Outlet>, flying: usize) -> u64 {
        outlets.close();
        while let Ok(outlet) = outlets.try_recv() {
            self.queues.push(outlet);
        }
        self.complete = true;
        for outlet in &self.queues {
            outlet.consumer.close();
        }
        let queued: usize = self.queues.iter().map(|outlet| outlet.consumer.len()).sum();
        (queued + self.again.len() + flying) as u64
    }

    /// The next message: first those that must be sent again, then from each queue in turn.
    /// `None` when there will be no more. `held` keeps those back that are to be acknowledged.
    fn poll_next(&mut self, cx: &mut Context<'_>, held: bool) -> Poll<Option<Parcel>> {
        if !held && let Some(parcel) = self.again.pop_front() {
            return Poll::Ready(Some(parcel));
        }
        let mut tries = self.queues.len();
        while tries > 0 {
            tries -= 1;
            if self.next >= self.queues.len() {
                self.next = 0;
            }
            let outlet = &mut self.queues[self.next];
            if held && outlet.line.delivery != Delivery::AtMostOnce {
                self.next += 1;
                continue;
            }
            match outlet.consumer.poll_pop(cx) {
                Poll::Ready(Some(outgoing)) => {
                    let mut parcel = outlet.parcel(outgoing);
                    let exact = outlet.line.delivery == Delivery::ExactlyOnce;
                    if exact && parcel.message.meta.id.is_none() {
                        parcel.message.meta.id = Some(outlet.ids.next_id());
                    }
                    self.next += 1;
                    return Poll::Ready(Some(parcel));
                }
                Poll::Ready(None) => {
                    // Its publisher is gone and everything was taken.
                    self.queues.remove(self.next);
                }
                Poll::Pending => self.next += 1,
            }
        }
        if self.complete && self.queues.is_empty() && self.again.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    /// Puts back what the connection did not deliver, in order. Returns whether the first of what
    /// is to be sent again was sent on it.
    fn recover(&mut self, mut flight: Flight) -> bool {
        let unsent = std::mem::take(&mut self.again);
        let handed = flight.handed.into_iter().flatten();
        for parcel in flight.window.drain().chain(handed) {
            if parcel.line.delivery == Delivery::AtMostOnce {
                parcel.lose(
                    ErrorKind::Disconnected,
                    "the connection ended while it was written",
                );
            } else {
                self.again.push_back(parcel);
            }
        }
        let sent = !self.again.is_empty();
        self.again.extend(unsent);
        sent
    }

    /// Gives up a message that ends every connection it is sent on.
    fn blame(&mut self, fault: &Fault, progressed: bool) {
        let Some(mut oldest) = self.again.pop_front() else {
            return;
        };
        if let Some(reason) = fault.reason {
            // Acknowledgements come in order.
            let kind = match reason {
                0x95 => ErrorKind::TooLarge,
                _ => ErrorKind::Backend,
            };
            let why = format!("the broker refused it with reason 0x{reason:02x}");
            return oldest.lose(kind, &why);
        }
        if !progressed {
            oldest.failures += 1;
        }
        if oldest.failures == FAILURES {
            let why = format!("the last {FAILURES} connections ended while it was sent");
            return oldest.lose(ErrorKind::Disconnected, &why);
        }
        self.again.push_front(oldest);
    }
}

/// One connection and what is on its way in it.
struct Connection {
    requests: Requests,
    wire: Wire,
    greeting: Greeting,
    /// This peer is to be announced.
    announce: bool,
    /// After a broker has forgotten everything, messages that it acknowledges would reach nobody
    /// until subscribers are back: they wait for them, at most so long.
    hold: Option<tokio::time::Instant>,
    leaving: bool,
    /// Something was acknowledged.
    progressed: bool,
}

impl Connection {
    async fn run(&mut self, sender: &mut Sender, pending: &mut Option<u64>) -> End {
        let dialer = Arc::clone(&sender.dialer);
        let settings = &dialer.settings;
        // Not before this peer can hear: others take it for back and send to it.
        let mut announcing = self.announce;
        let mut exhausted = false;
        loop {
            let flight = &mut sender.flight;
            if flight.window.is_exhausted() && flight.handed.is_empty() {
                self.wire.start_over(self.greeting.window);
                *flight = Flight::new(self.greeting.window);
            }
            if exhausted && flight.is_empty() && !self.leaving {
                self.leaving = true;
                if self.announce {
                    present(&self.requests, &mut flight.handed, settings, Bytes::new()).await;
                }
                self.requests.leave().await;
            }
            let happening = {
                let mut next = std::pin::pin!(self.wire.next(settings));
                loop {
                    let quiet = sender.flight.handed.is_empty() && !exhausted;
                    let free = quiet && sender.flight.window.has_room();
                    let held = self.hold.is_some();
                    tokio::select! {
                        biased;
                        happening = &mut next => break happening,
                        () = sender.status.subscribed(), if announcing && quiet => {
                            announcing = false;
                            let handed = &mut sender.flight.handed;
                            present(&self.requests, handed, settings, ONLINE).await;
                        }
                        parcel = std::future::poll_fn(|cx| sender.backlog.poll_next(cx, held)), if free => {
                            match parcel {
                                Some(parcel) => {
                                    if let Some(parcel) =
                                        fitting(parcel, &self.greeting, settings.metadata)
                                    {
                                        let Parcel { message, line, .. } = &parcel;
                                        self.requests
                                            .publish(
                                                line.topic.as_str(),
                                                level(line.delivery),
                                                line.retain,
                                                message,
                                                settings.metadata,
                                            )
                                            .await;
                                        sender.flight.handed.push_back(Some(parcel));
                                    }
                                }
                                None => {
                                    exhausted = true;
                                    if sender.flight.window.is_empty() {
                                        break Ok(Happening::Other);
                                    }
                                }
                            }
                        }
                        () = sender.withdrawn.notified(), if self.announce && quiet => {
                            let handed = &mut sender.flight.handed;
                            present(&self.requests, handed, settings, ONLINE).await;
                        }
                        () = released(self.hold, &sender.status), if held => self.hold = None,
                        outlet = sender.outlets.recv(), if !sender.backlog.complete => {
                            sender.backlog.admit(outlet);
                        }
                        () = Phase::closing(&mut sender.phase), if pending.is_none() => {
                            let flight = &sender.flight;
                            let flying = flight.window.len() + flight.handed.len();
                            *pending = Some(sender.backlog.close(&mut sender.outlets, flying));
                        }
                    }
                }
            };
            match happening {
                Ok(Happening::Sent(id)) => sender.flight.sent(id),
                Ok(Happening::Acknowledged(id, outcome)) => {
                    self.progressed = true;
                    sender.flight.acknowledged(id, outcome);
                }
                Ok(Happening::Left) => return End::Left,
                Ok(_) => {}
                Err(fault) => return End::Lost(fault),
            }
        }
    }
}

impl Flight {
    fn sent(&mut self, id: u16) {
        if let Some(Some(mut parcel)) = self.handed.pop_front() {
            parcel.entry.written(parcel.message.payload.len());
            if id != 0 {
                self.window.insert(id, parcel);
            }
        }
    }

    fn acknowledged(&mut self, id: u16, outcome: Result<(), crate::wire::Refusal>) {
        let Some(parcel) = self.window.settle(id) else {
            return;
        };
        match outcome {
            Ok(()) => parcel.entry.acknowledged(),
            Err(refusal) => {
                if refusal.leaks {
                    self.window.leak();
                }
                let why = format!("the broker refused it: {}", refusal.reason);
                parcel.lose(ErrorKind::Backend, &why);
            }
        }
    }
}

/// Waits until held messages may be sent.
async fn released(hold: Option<tokio::time::Instant>, status: &Status) {
    let Some(hold) = hold else {
        return;
    };
    tokio::select! {
        () = tokio::time::sleep_until(hold) => {}
        () = status.reunited() => {}
    }
}

/// Announces this peer, or withdraws that with an empty payload.
async fn present(
    requests: &Requests,
    handed: &mut VecDeque<Option<Parcel>>,
    settings: &Settings,
    state: Bytes,
) {
    if let Some(presence) = &settings.presence {
        let topic = format!("{presence}/{}", settings.peer);
        let message = Message::new(state);
        requests.publish(&topic, 0, true, &message, false).await;
        handed.push_back(None);
    }
}

/// Lets a message pass that the broker will take. Sending a larger one would end the connection.
fn fitting(parcel: Parcel, greeting: &Greeting, metadata: bool) -> Option<Parcel> {
    let Some(limit) = greeting.max_packet else {
        return Some(parcel);
    };
    let limit = limit as usize;
    let payload = parcel.message.payload.len();
    if payload + HEADROOM <= limit {
        return Some(parcel);
    }
    let meta = match metadata {
        true => properties::encode(&parcel.message.meta).map_or(0, |it| properties::size(&it)),
        false => 0,
    };
    // Fixed header 5, topic length 2, packet id 2, length of the properties 4.
    let size = payload + meta + parcel.line.topic.as_str().len() + 13;
    if size <= limit {
        return Some(parcel);
    }
    let why = format!("its packet of {size} B exceeds the broker's limit of {limit} B");
    parcel.lose(ErrorKind::TooLarge, &why);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::ledger::Ledger;
    use transport_api::{AckScope, PublisherCounters};

    fn parcel(ledger: &Arc<Ledger>, payload: &'static str) -> Parcel {
        Parcel {
            message: Message::new(payload),
            entry: ledger.accept(),
            line: Arc::new(Line {
                topic: ledger.topic().clone(),
                delivery: Delivery::AtLeastOnce,
                retain: false,
            }),
            failures: 0,
        }
    }

    #[test]
    fn only_what_was_sent_is_sent_again_first_and_can_be_blamed() {
        let topic = TopicName::parse("a").unwrap();
        let ledger = Ledger::new(topic, AckScope::NextHop, Arc::default());
        let mut backlog = Backlog::default();
        backlog.again.push_back(parcel(&ledger, "not sent yet"));
        assert!(!backlog.recover(Flight::new(2)));
        let mut flight = Flight::new(2);
        flight.window.insert(1, parcel(&ledger, "written"));
        flight.handed.push_back(None);
        flight.handed.push_back(Some(parcel(&ledger, "in hand")));
        assert!(backlog.recover(flight));
        let order: Vec<_> = backlog.again.iter().map(|it| &it.message.payload).collect();
        assert_eq!(order, ["written", "in hand", "not sent yet"]);
        drop(backlog);
        let lost = PublisherCounters {
            accepted: 3,
            lost: 3,
            ..PublisherCounters::default()
        };
        assert_eq!(ledger.counters(), lost);
    }
}
