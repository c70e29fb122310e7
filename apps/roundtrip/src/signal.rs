//! How a command is asked to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::failure::Failure;

/// Becomes true on SIGINT, SIGTERM or SIGHUP and, if `supervised`, when standard input ends: a supervisor
/// that goes away, however it ends, takes its children along.
pub(crate) fn stop(supervised: bool) -> Result<watch::Receiver<bool>, Failure> {
    let fault = |error| Failure::new("listen for signals", error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fault)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(fault)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(fault)?;
    let (sender, receiver) = watch::channel(false);
    let end = async move {
        if supervised {
            let _ = end_of_input().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            () = end => {}
        }
        sender.send_replace(true);
        // Holding the sender keeps receivers from mistaking its end for a stop.
        std::future::pending::<()>().await;
    });
    Ok(receiver)
}

/// Standard input can only be read by blocking, so a thread of its own does; it ends with the process.
fn end_of_input() -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        // A closed or broken standard input ends the supervision all the same.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    end
}
