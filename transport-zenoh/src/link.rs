//! The state of the connection, as the library reports it, and who waits for it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use transport_api::event::EventHub;
use transport_api::{Error, ErrorKind, Event};
use zenoh::session::ZenohId;

use crate::options::Role;
use crate::settings::Schedule;

/// Follows the connections of one session.
#[derive(Debug)]
pub(crate) struct Link {
    role: Role,
    endpoint: String,
    schedule: Schedule,
    events: Arc<EventHub>,
    runtime: Handle,
    state: Mutex<State>,
    /// For senders, which are threads.
    changed: Condvar,
    /// For `open`, which is a task.
    joined: Notify,
    /// Whether there is a connection, and the losses so far; beside the lock because every message
    /// looks at them.
    connected: AtomicBool,
    losses: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    others: HashSet<ZenohId>,
    /// Whether the app was told that the transport is connected.
    announced: bool,
    closed: bool,
    reports: Option<AbortHandle>,
}

impl State {
    fn stop_reports(&mut self) {
        if let Some(reports) = self.reports.take() {
            reports.abort();
        }
    }
}

impl Link {
    pub(crate) fn new(
        role: Role,
        endpoint: String,
        schedule: Schedule,
        events: Arc<EventHub>,
        runtime: Handle,
    ) -> Self {
        Self {
            role,
            endpoint,
            schedule,
            events,
            runtime,
            state: Mutex::default(),
            changed: Condvar::new(),
            joined: Notify::new(),
            connected: AtomicBool::new(false),
            losses: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection was opened.
    pub(crate) fn join(&self, other: ZenohId) {
        let mut state = self.lock();
        let first = state.others.is_empty();
        state.others.insert(other);
        self.connected.store(true, Ordering::Release);
        state.stop_reports();
        if first && self.role == Role::Connect && state.announced && !state.closed {
            self.events.emit(Event::Connected);
        }
        drop(state);
        self.joined.notify_waiters();
        self.changed.notify_all();
    }

    /// A connection ended.
    pub(crate) fn leave(self: &Arc<Self>, other: ZenohId) {
        let mut state = self.lock();
        state.others.remove(&other);
        if state.others.is_empty() && self.role == Role::Connect && !state.closed {
            self.connected.store(false, Ordering::Release);
            self.losses.fetch_add(1, Ordering::Release);
            if state.announced {
                self.report_loss(&mut state);
            }
        }
    }

    /// Tells that the transport is connected; what happened before goes unreported.
    pub(crate) fn announce(self: &Arc<Self>) {
        let mut state = self.lock();
        state.announced = true;
        self.events.emit(Event::Connected);
        if state.others.is_empty() && self.role == Role::Connect {
            self.report_loss(&mut state);
        }
    }

    /// Tells of the loss and then of the attempts. The library reconnects by itself and is silent
    /// about it, so the attempts are told by the schedule it was given.
    fn report_loss(self: &Arc<Self>, state: &mut State) {
        let cause = Arc::new(Error::new(
            ErrorKind::Disconnected,
            "connect",
            format!("the connection to {} ended", self.endpoint),
        ));
        self.events.emit(Event::Disconnected {
            cause: Arc::clone(&cause),
        });
        let link = Arc::downgrade(self);
        let mut wait = self.schedule.first;
        let schedule = self.schedule;
        let reports = self.runtime.spawn(async move {
            for attempt in 1.. {
                let Some(link) = link.upgrade() else { return };
                {
                    let state = link.lock();
                    if state.closed || !state.others.is_empty() {
                        return;
                    }
                    let cause = Arc::clone(&cause);
                    link.events.emit(Event::Reconnecting { attempt, cause });
                }
                drop(link);
                tokio::time::sleep(wait).await;
                wait = schedule.after(wait);
            }
        });
        state.reports = Some(reports.abort_handle());
    }

    /// Waits until there is a connection. Cancel-safe.
    pub(crate) async fn connected(&self) {
        loop {
            let joined = self.joined.notified();
            tokio::pin!(joined);
            joined.as_mut().enable();
            if !self.lock().others.is_empty() {
                return;
            }
            joined.await;
        }
    }

    /// How often the connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Blocks the thread while there is nobody to send to: without a connection the library takes
    /// messages and forgets them. Ends early when `stop` says so; see [`Link::nudge`].
    pub(crate) fn hold(&self, stop: impl Fn() -> bool) {
        if self.role == Role::Listen || self.connected.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lock();
        while state.others.is_empty() && !state.closed && !stop() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until `done`, at most for `limit`; see [`Link::nudge`].
    pub(crate) fn hold_until(&self, limit: Duration, done: impl Fn() -> bool) {
        let end = Instant::now() + limit;
        let mut state = self.lock();
        while !state.closed && !done() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Makes blocked threads look again at what they wait for.
    pub(crate) fn nudge(&self) {
        // The lock keeps this from falling between a thread's look and its sleep.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Ends all waiting and reporting.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.stop_reports();
        drop(state);
        self.changed.notify_all();
    }
}
