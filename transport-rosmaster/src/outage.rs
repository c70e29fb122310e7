//! When a node is cut off: from its first connection that is lost until all are back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transport_api::event::EventHub;
use transport_api::{Error, Event};

/// Counts the connections of a node that are lost, and tells when there are any.
#[derive(Debug)]
pub(crate) struct Outages {
    hub: Arc<EventHub>,
    /// `None` once the node closes: nothing comes back then.
    lost: Mutex<Option<usize>>,
}

impl Outages {
    pub(crate) fn new(hub: Arc<EventHub>) -> Arc<Self> {
        Arc::new(Self {
            hub,
            lost: Mutex::new(Some(0)),
        })
    }

    fn lost(&self) -> MutexGuard<'_, Option<usize>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection is lost until the outage is dropped.
    pub(crate) fn begin(self: &Arc<Self>, cause: &Arc<Error>) -> Outage {
        if let Some(lost) = &mut *self.lost() {
            *lost += 1;
            if *lost == 1 {
                let cause = Arc::clone(cause);
                self.hub.emit(Event::Disconnected { cause });
            }
        }
        Outage(Arc::clone(self))
    }

    /// From now on nothing is told.
    pub(crate) fn close(&self) {
        *self.lost() = None;
    }
}

/// A connection that is lost: to the master, or to a publisher that may still be there.
#[derive(Debug)]
pub(crate) struct Outage(Arc<Outages>);

impl Drop for Outage {
    fn drop(&mut self) {
        if let Some(lost) = &mut *self.0.lost() {
            *lost -= 1;
            if *lost == 0 {
                self.0.hub.emit(Event::Connected);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::ErrorKind;

    #[tokio::test]
    async fn an_outage_lasts_until_every_connection_is_back() {
        let hub = Arc::new(EventHub::default());
        let mut events = hub.subscribe();
        let outages = Outages::new(Arc::clone(&hub));
        let cause = Arc::new(Error::new(ErrorKind::Disconnected, "read", "reset"));
        let first = outages.begin(&cause);
        let second = outages.begin(&cause);
        drop(first);
        drop(second);
        let third = outages.begin(&cause);
        outages.close();
        drop(third);
        hub.emit(Event::Closed);
        let mut told = String::new();
        while let Some(event) = events.next().await {
            told.push(match event {
                Event::Disconnected { .. } => '-',
                Event::Connected => '+',
                _ => '.',
            });
        }
        assert_eq!(told, "-+-.");
    }
}
