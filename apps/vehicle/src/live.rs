//! What comes from a sensor while a trial runs: the newest turn, and how many gave way to it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lidar_sensor::source::Sweep;
use tokio::sync::watch;

/// Where a sensor's turns are put; the other end is a [`Feed`](crate::Feed).
#[derive(Debug)]
pub struct Inlet(Arc<Shared>);

/// Where they are taken from.
#[derive(Debug)]
pub(crate) struct Arrivals(Arc<Shared>);

/// What came next.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A turn, and when it was complete.
    Turn(Instant, Sweep),
    /// The trial was stopped.
    Stopped,
    /// The sensor gives no more, and why.
    Ended(String),
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<(Instant, Sweep)>,
    /// Turns that were not sent.
    skipped: u64,
    ended: Option<String>,
    /// Whether the trial has begun.
    begun: bool,
    /// Whether nobody takes any more.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn channel() -> (Inlet, Arrivals) {
    let shared = Arc::new(Shared::default());
    (Inlet(Arc::clone(&shared)), Arrivals(shared))
}

impl Inlet {
    /// Waits until the trial begins, for a source that would begin with it. `false` if nobody takes
    /// anything any more.
    pub fn wait(&self) -> bool {
        let waiting = |state: &mut State| !state.begun && !state.closed;
        let waited = self.0.changed.wait_while(self.0.lock(), waiting);
        !waited.unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Puts a turn that is complete now. One that still waits gives way to it and is counted as
    /// skipped. `false` if nobody takes any more.
    pub fn offer(&self, sweep: Sweep) -> bool {
        let mut state = self.0.lock();
        if state.newest.replace((Instant::now(), sweep)).is_some() {
            state.skipped += 1;
        }
        self.0.changed.notify_all();
        !state.closed
    }

    /// Counts turns that were lost on their way to here.
    pub fn skip(&self, turns: u64) {
        self.0.lock().skipped += turns;
    }

    /// Whether nobody takes any more.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Says that nothing more will come, and why.
    pub fn end(self, why: String) {
        self.0.lock().ended.get_or_insert(why);
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let gone = || "the reader of the source ended".to_owned();
        self.0.lock().ended.get_or_insert_with(gone);
        self.0.changed.notify_all();
    }
}

/// Longest wait before looking for a stop.
const NAP: Duration = Duration::from_millis(100);

impl Arrivals {
    /// Forgets what came so far: it is from before the trial.
    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        state.newest = None;
        state.skipped = 0;
        state.begun = true;
        self.0.changed.notify_all();
    }

    /// Waits for the next turn.
    pub(crate) fn next(&self, stop: &watch::Receiver<bool>) -> Arrival {
        let mut state = self.0.lock();
        loop {
            if *stop.borrow() {
                return Arrival::Stopped;
            }
            if let Some((complete, sweep)) = state.newest.take() {
                return Arrival::Turn(complete, sweep);
            }
            if let Some(why) = &state.ended {
                return Arrival::Ended(why.clone());
            }
            let waited = self.0.changed.wait_timeout(state, NAP);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Counts a turn that cannot be sent.
    pub(crate) fn skip(&self) {
        self.0.lock().skipped += 1;
    }

    /// Turns since the trial began that were not sent.
    pub(crate) fn skipped(&self) -> u64 {
        self.0.lock().skipped
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lidar_messages::PointCloud2;

    fn cloud(seq: u32) -> Sweep {
        let mut cloud = PointCloud2::default();
        cloud.header.seq = seq;
        Sweep::Cloud(cloud)
    }

    fn seq(arrival: &Arrival) -> u32 {
        match arrival {
            Arrival::Turn(_, Sweep::Cloud(cloud)) => cloud.header.seq,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_turn_comes_first_and_the_others_are_counted() {
        let (stopper, stop) = watch::channel(false);
        let (inlet, arrivals) = channel();
        assert!(inlet.offer(cloud(0)));
        arrivals.begin();
        for n in 1..4 {
            assert!(inlet.offer(cloud(n)));
        }
        assert_eq!(seq(&arrivals.next(&stop)), 3);
        assert_eq!(arrivals.skipped(), 2);
        assert!(inlet.offer(cloud(4)));
        inlet.end("unplugged".to_owned());
        // What came before the end is still sent.
        assert_eq!(seq(&arrivals.next(&stop)), 4);
        assert!(matches!(arrivals.next(&stop), Arrival::Ended(why) if why == "unplugged"));
        stopper.send_replace(true);
        assert!(matches!(arrivals.next(&stop), Arrival::Stopped));
    }

    #[test]
    fn a_source_can_begin_with_the_trial() {
        let (_stopper, stop) = watch::channel(false);
        let (inlet, arrivals) = channel();
        let source = std::thread::spawn(move || inlet.wait() && inlet.offer(cloud(7)));
        arrivals.begin();
        assert_eq!(seq(&arrivals.next(&stop)), 7);
        assert!(source.join().unwrap());
    }

    #[test]
    fn either_end_learns_that_the_other_is_gone() {
        let (_stopper, stop) = watch::channel(false);
        let (inlet, arrivals) = channel();
        drop(arrivals);
        assert!(!inlet.wait());
        assert!(inlet.is_closed() && !inlet.offer(cloud(0)));
        let (inlet, arrivals) = channel();
        drop(inlet);
        assert!(matches!(arrivals.next(&stop), Arrival::Ended(_)));
    }
}
