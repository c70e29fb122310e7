//! What checks and peers in other processes run on.

use tokio::runtime::{Builder, Runtime};

/// A runtime of its own, of two workers.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for a runtime")
}
