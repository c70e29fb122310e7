//! Looks after the frames while they are on their way: what happens to them, one thing after the other.

use std::future::pending;
use std::time::Duration;

use latency_timeline::Clock;
use tokio::sync::mpsc;

use crate::Progress;
use crate::answers::Answers;
use crate::local::{Done, Local};
use crate::operation::{Listed, Operation};
use crate::selection::{Offer, Selection};

/// Sent frames that may wait to be noticed.
const OFFERS: usize = 256;

/// The selection with its clock, its detector, and what the sending thread tells.
#[derive(Debug)]
pub(crate) struct Lookout {
    selection: Selection,
    local: Option<Local>,
    clock: Clock,
    offered: mpsc::Receiver<Offer>,
}

impl Lookout {
    /// And where the sending thread tells of frames.
    pub(crate) fn new(
        selection: Selection,
        local: Option<Local>,
        clock: Clock,
    ) -> (Self, mpsc::Sender<Offer>) {
        let (offers, offered) = mpsc::channel(OFFERS);
        let lookout = Self {
            selection,
            local,
            clock,
            offered,
        };
        (lookout, offers)
    }

    /// Waits for the next thing that happens and sees to it. Cancel-safe.
    pub(crate) async fn step(&mut self, answers: &mut Answers<'_>) {
        let clock = self.clock;
        let (mode, deadline) = (self.selection.mode(), self.selection.next_deadline());
        tokio::select! {
            biased;
            Some(offer) = self.offered.recv() => self.selection.offered(offer, clock.now()),
            answer = answers.next() => if let Some(answer) = answer {
                self.selection.answered(answer);
            },
            done = done(&mut self.local) => match done {
                Some(done) => self.selection.detected(done, clock.now()),
                None => {
                    self.local = None;
                    self.selection.bereft();
                }
            },
            () = passes(deadline, clock) => self.selection.pass(clock.now()),
        }
        self.detect();
        if self.selection.mode() != mode {
            answers.tell(Progress::Switched(self.selection.mode()));
        }
    }

    /// The sending thread has told of its last frame; of `unwatched` others it could not.
    pub(crate) fn all_sent(&mut self, unwatched: u64) {
        while let Ok(offer) = self.offered.try_recv() {
            self.selection.offered(offer, self.clock.now());
        }
        self.selection.unwatched(unwatched);
        self.detect();
    }

    /// Whether the vehicle is still to find a list by itself.
    pub(crate) fn is_busy(&self) -> bool {
        self.selection.is_busy()
    }

    /// The end, as of [`Selection::end`].
    pub(crate) fn end(self) -> (Vec<(u64, Listed)>, Operation, Vec<u64>) {
        self.selection.end()
    }

    fn detect(&mut self) {
        if let Some(local) = self.local.as_mut().filter(|local| !local.is_busy())
            && let Some(job) = self.selection.job(self.clock.now())
        {
            local.detect(job);
        }
    }
}

/// The next result; never without a detector. `None` if it is gone. Cancel-safe.
async fn done(local: &mut Option<Local>) -> Option<Done> {
    match local {
        Some(local) => local.done().await,
        None => pending().await,
    }
}

/// Resolves when `clock` has reached `deadline`; never without one. Cancel-safe.
async fn passes(deadline: Option<i64>, clock: Clock) {
    match deadline {
        Some(deadline) => {
            let left = u64::try_from(deadline.saturating_sub(clock.now())).unwrap_or(0);
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
        None => pending().await,
    }
}
