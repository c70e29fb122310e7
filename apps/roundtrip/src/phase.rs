//! Where a trial is.

use std::fmt;

use vehicle::Progress;

/// The parts of a trial, in their order; answers that come while it drains do not lead back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Host, edge and vehicle start.
    Starting,
    /// The vehicle waits for its edge.
    Handshake,
    /// Scans are sent; no measured one is answered yet.
    WarmingUp,
    /// A measured scan was answered.
    Measuring,
    /// All scans are sent; answers are on their way.
    Draining,
}

impl Phase {
    /// The phase of a vehicle that warms up with `warmup` scans.
    pub(crate) fn of(progress: Progress, warmup: u64) -> Self {
        match progress {
            Progress::Handshake(_) => Self::Handshake,
            Progress::Answered(answered) if answered > warmup => Self::Measuring,
            Progress::Answered(_) => Self::WarmingUp,
            // It happens in every phase, and no phase leads back to the first.
            Progress::Switched(_) => Self::Starting,
            Progress::Draining => Self::Draining,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Handshake => "handshake",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Draining => "draining",
        })
    }
}
