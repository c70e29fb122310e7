//! The state of the transport's two connections as one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use transport_api::event::EventHub;
use transport_api::{Error, Event};

/// Which of the two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Publish,
    Subscribe,
}

/// Tells the readers of events when both connections stand, and when one is lost.
#[derive(Debug)]
pub(crate) struct Status {
    hub: Arc<EventHub>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    up: [bool; 2],
    /// Messages reach whom they reached before: the broker remembered the session of the subscribing
    /// connection that stands, or everybody who was there is back.
    reunited: bool,
    connected: bool,
    attempt: u32,
}

impl Status {
    pub(crate) fn new(hub: Arc<EventHub>) -> Self {
        Self {
            hub,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The connection stands and is ready for use.
    pub(crate) fn up(&self, role: Role) {
        let mut state = self.lock();
        state.up[role as usize] = true;
        if state.up == [true; 2] && !state.connected {
            state.connected = true;
            state.attempt = 0;
            self.hub.emit(Event::Connected);
        }
    }

    /// The subscribing connection stands again; `resumed` says whether the broker remembered it.
    pub(crate) fn restored(&self, resumed: bool) {
        self.lock().reunited |= resumed;
        self.up(Role::Subscribe);
        self.changed.notify_waiters();
    }

    /// Everybody who was there before the broker forgot everything is back.
    pub(crate) fn reunite(&self) {
        self.lock().reunited = true;
        self.changed.notify_waiters();
    }

    /// Waits until the subscribing connection stands.
    pub(crate) async fn subscribed(&self) {
        self.until(|state| state.up[Role::Subscribe as usize]).await;
    }

    /// Waits until it is known that messages reach whom they reached before.
    pub(crate) async fn reunited(&self) {
        self.until(|state| state.up[Role::Subscribe as usize] && state.reunited)
            .await;
    }

    async fn until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if reached(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection ended.
    pub(crate) fn down(&self, role: Role, cause: &Arc<Error>) {
        let mut state = self.lock();
        state.up[role as usize] = false;
        if role == Role::Subscribe {
            state.reunited = false;
        }
        if state.connected {
            state.connected = false;
            tracing::warn!(?role, %cause, "connection lost");
            self.hub.emit(Event::Disconnected {
                cause: Arc::clone(cause),
            });
        }
    }

    /// The connection is about to be tried again; `attempt` counts from 1.
    pub(crate) fn retry(&self, attempt: u32, cause: &Arc<Error>) {
        let mut state = self.lock();
        if attempt > state.attempt {
            state.attempt = attempt;
            if attempt.is_power_of_two() {
                tracing::warn!(attempt, %cause, "connecting again");
            }
            self.hub.emit(Event::Reconnecting {
                attempt,
                cause: Arc::clone(cause),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::ErrorKind;

    #[test]
    fn two_connections_are_told_as_one() {
        let hub = Arc::new(EventHub::default());
        let status = Status::new(Arc::clone(&hub));
        let mut events = hub.subscribe();
        let cause = Arc::new(Error::new(ErrorKind::Connect, "connect", "gone"));
        status.up(Role::Publish);
        status.up(Role::Subscribe);
        for role in [Role::Publish, Role::Subscribe] {
            status.down(role, &cause);
            status.retry(1, &cause);
        }
        status.up(Role::Subscribe);
        status.up(Role::Publish);
        hub.emit(Event::Closed);
        let mut seen = Vec::new();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        while let std::task::Poll::Ready(Some(event)) = std::pin::pin!(events.next()).poll(&mut cx)
        {
            seen.push(
                format!("{event:?}")
                    .split([' ', '('])
                    .next()
                    .unwrap()
                    .to_owned(),
            );
        }
        let expected = [
            "Connected",
            "Disconnected",
            "Reconnecting",
            "Connected",
            "Closed",
        ];
        assert_eq!(seen, expected);
    }
}
