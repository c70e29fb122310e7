//! The times during which a side was disconnected, as its transport tells them.

use std::sync::{Arc, Mutex, PoisonError};

use latency_timeline::Clock;
use serde::{Deserialize, Serialize};
use transport_api::{Event, Events};

/// From `Disconnected` to `Connected`, in nanoseconds of the side's clock.
///
/// It begins when the transport notices, which for a link that falls silent may be seconds after
/// the first loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// When the transport noticed.
    pub from_ns: i64,
    /// When it was connected again; `None` if it still was not at the end.
    pub until_ns: Option<i64>,
    /// Why.
    pub cause: String,
}

/// Keeps a list of the outages of one transport until it is dropped.
#[derive(Debug)]
pub struct Outages {
    list: Arc<Mutex<Vec<Outage>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Outages {
    /// Starts, on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn watch(mut events: Events, clock: Clock) -> Self {
        let list = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&list);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                note(&mut notes, &event, clock.now());
            }
        });
        Self { list, task }
    }

    /// The outages so far.
    pub fn so_far(&self) -> Vec<Outage> {
        self.list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Outages {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn note(outages: &mut Vec<Outage>, event: &Event, now: i64) {
    let open = outages.last_mut().filter(|last| last.until_ns.is_none());
    match (event, open) {
        (Event::Disconnected { cause }, None) => outages.push(Outage {
            from_ns: now,
            until_ns: None,
            cause: cause.to_string(),
        }),
        (Event::Connected, Some(open)) => open.until_ns = Some(now),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport_api::{Error, ErrorKind};

    #[test]
    fn an_outage_lasts_from_disconnected_to_connected() {
        let gone = Event::Disconnected {
            cause: Arc::new(Error::new(ErrorKind::Disconnected, "read", "reset")),
        };
        let mut outages = Vec::new();
        for (event, now) in [
            (&Event::Connected, 1),
            (&gone, 2),
            (&gone, 3),
            (&Event::Connected, 4),
            (&Event::Connected, 5),
            (&gone, 6),
        ] {
            note(&mut outages, event, now);
        }
        let spans: Vec<_> = outages
            .iter()
            .map(|outage| (outage.from_ns, outage.until_ns))
            .collect();
        assert_eq!(spans, [(2, Some(4)), (6, None)]);
        assert!(outages[0].cause.contains("reset"));
    }
}
