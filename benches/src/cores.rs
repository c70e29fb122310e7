//! Where the processes of a path run.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::failure::{Failure, Result};

/// The host that a process stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Of the asking end.
    Vehicle,
    /// Of the answering end, and of what runs between the ends.
    Edge,
}

/// Keeps this process, and those it starts, on the core that stands for `host`. Left to the
/// scheduler, two processes that take turns end up on one core or on two, and a round trip is a
/// change of context in one run and wakes a sleeping core in the next. Where this process may use
/// one core only, nothing happens.
///
/// # Errors
/// The system refuses.
pub fn settle(host: Host) -> Result<()> {
    let failed = |error| Failure::new("choose a core", error);
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).map_err(failed)?;
    let mut cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
    let (Some(one), Some(other)) = (cores.next(), cores.next()) else {
        return Ok(());
    };
    let mut own = CpuSet::new();
    own.set(match host {
        Host::Vehicle => one,
        Host::Edge => other,
    })
    .map_err(failed)?;
    sched_setaffinity(this, &own).map_err(failed)
}
