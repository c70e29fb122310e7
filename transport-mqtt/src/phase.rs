//! The life of a transport, as its tasks see it.

use tokio::sync::watch;
use tokio::time::Instant;

/// How far the transport is on its way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// What was accepted is sent, until the deadline.
    Closing(Instant),
    /// Nothing is left to send; subscriptions end, until the deadline.
    Leaving(Instant),
    /// Everything stops now.
    Abandoned,
}

impl Phase {
    /// Waits until the transport is closing.
    pub(crate) async fn closing(phase: &mut watch::Receiver<Self>) {
        // An error means that the transport is gone, which `abandoned` sees too.
        let _ = phase.wait_for(|phase| *phase != Self::Open).await;
    }

    /// Waits until the transport has nothing left to send.
    pub(crate) async fn leaving(phase: &mut watch::Receiver<Self>) {
        let _ = phase
            .wait_for(|phase| matches!(phase, Self::Leaving(_) | Self::Abandoned))
            .await;
    }

    /// Waits until everything must stop: the transport is gone or the deadline has passed.
    pub(crate) async fn abandoned(mut phase: watch::Receiver<Self>) {
        loop {
            let now = *phase.borrow_and_update();
            let changed = match now {
                Self::Open => phase.changed().await,
                Self::Abandoned => return,
                Self::Closing(deadline) | Self::Leaving(deadline) => {
                    match tokio::time::timeout_at(deadline, phase.changed()).await {
                        Ok(changed) => changed,
                        Err(_) => return,
                    }
                }
            };
            if changed.is_err() {
                return;
            }
        }
    }
}
