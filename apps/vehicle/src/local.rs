//! Detection in the vehicle, on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use exchange::DataType;
use latency_timeline::Timeline;
use perception::{Fault, ListSettings, Lister, Perception};
use tokio::sync::{mpsc, oneshot};
use transport_api::{Error, ErrorKind, Result};

/// A frame to detect in.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) seq: u64,
    pub(crate) payload: Bytes,
}

/// What came of it: an encoded object list.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) seq: u64,
    pub(crate) list: std::result::Result<Bytes, Fault>,
}

/// The thread that detects. It has one frame at a time and nothing waits for it, so that it always
/// takes the newest.
#[derive(Debug)]
pub(crate) struct Local {
    jobs: SyncSender<Job>,
    results: mpsc::Receiver<Done>,
    busy: bool,
}

impl Local {
    /// Starts the thread, which warms up with `sample` first: the first detection takes the longest.
    ///
    /// # Errors
    /// The thread could not be started, or the detector panicked.
    pub(crate) async fn start(
        mut perception: Perception,
        lists: ListSettings,
        data_type: DataType,
        sample: Bytes,
    ) -> Result<Self> {
        let lister = Lister::new(lists, FIRST_IDENTITY);
        // One each: the next job is handed over only after the result of the last one was taken.
        let (jobs, todo) = sync_channel(1);
        let (done, results) = mpsc::channel(1);
        let (warm, warmed) = oneshot::channel();
        let work = move || {
            // Its result, and even its failure, mean nothing: it only fills buffers and caches.
            let _ = perception.detect(data_type, sample, &mut Timeline::default());
            let _ = warm.send(());
            work(perception, lister, data_type, &todo, &done);
        };
        std::thread::Builder::new()
            .name("local".to_owned())
            .spawn(work)
            .map_err(|error| Error::config("the local detector's thread").with_source(error))?;
        warmed.await.map_err(|_| {
            Error::new(ErrorKind::Backend, "warm up", "the local detector panicked")
        })?;
        Ok(Self {
            jobs,
            results,
            busy: false,
        })
    }

    /// Whether it has a frame already.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Hands a frame over; only to one that is not busy.
    pub(crate) fn detect(&mut self, job: Job) {
        debug_assert!(!self.busy, "one at a time");
        // It fails only if the thread has ended, which `done` tells.
        let _ = self.jobs.try_send(job);
        self.busy = true;
    }

    /// The next result; `None` once the thread has ended, by a panic of the detector. Cancel-safe.
    pub(crate) async fn done(&mut self) -> Option<Done> {
        let done = self.results.recv().await;
        self.busy = false;
        done
    }
}

/// Identities of the vehicle's own lists: far from those of any edge, which count from 1.
const FIRST_IDENTITY: u64 = 1 << 32;

fn work(
    mut perception: Perception,
    mut lister: Lister,
    data_type: DataType,
    todo: &Receiver<Job>,
    done: &mpsc::Sender<Done>,
) {
    for Job { seq, payload } in todo {
        let found = perception.detect(data_type, payload, &mut Timeline::default());
        let list = found.map(|found| lister.list(&found));
        if done.blocking_send(Done { seq, list }).is_err() {
            // The trial is over.
            return;
        }
    }
}
