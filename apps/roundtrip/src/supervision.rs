//! What a supervised command tells its supervisor: one JSON object per line on standard output.

use std::io::Write;
use std::time::Duration;

use edge::{Served, collective};
use exchange::Outage;
use latency_timeline::ClockPair;
use lidar_sensor::source::Statistics;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use transport_api::TransportInfo;
use vehicle::{DataType, Progress, Trial};

/// A line of a supervised command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(crate) enum Report {
    /// A host runs; here are the addresses of the two sides, secrets included.
    Meeting {
        /// For the edge.
        first: String,
        /// For the vehicle.
        second: String,
        /// Whether both sides must share a process.
        one_process: bool,
    },
    /// An edge is subscribed.
    Ready,
    /// A vehicle lives; see [`Pulse`].
    Alive,
    /// A vehicle came further.
    Progress {
        /// Which of those in the process.
        vehicle: usize,
        /// How far.
        progress: Progress,
    },
    /// Something a user should know while a vehicle runs.
    Remark {
        /// What.
        text: String,
    },
    /// The vehicles of a process are done.
    Trial(Box<TrialReport>),
    /// An edge is done.
    Edge(Box<EdgeReport>),
    /// A host is done.
    Host {
        /// What it used.
        usage: Usage,
    },
    /// The command failed.
    Failed {
        /// Why.
        error: String,
    },
}

/// The vehicles of a process at their end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrialReport {
    /// Each of them.
    pub(crate) vehicles: Vec<VehicleReport>,
    /// What the process used.
    pub(crate) usage: Usage,
    /// The edge, if it ran in the same process, or why it failed.
    pub(crate) edge: Option<Result<EdgeReport, String>>,
}

/// A vehicle at its end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VehicleReport {
    /// What it measured.
    pub(crate) trial: Trial,
    /// What it measured over.
    pub(crate) info: TransportInfo,
    /// Where its scans came from.
    pub(crate) source: SourceReport,
    /// What became of its recording, in a line.
    pub(crate) recording: Option<String>,
}

/// An edge at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EdgeReport {
    /// What it did.
    pub(crate) report: edge::Report,
    /// Name of its detector.
    pub(crate) detector: String,
    /// What it used.
    pub(crate) usage: Usage,
}

impl EdgeReport {
    /// What it did for vehicle number `n`.
    pub(crate) fn of_vehicle(&self, n: usize) -> Option<EdgeSide> {
        let report = &self.report;
        Some(EdgeSide {
            report: ServedReport {
                served: report.vehicles.get(n)?.clone(),
                collective: report.collective,
                began: report.began,
                ended: report.ended,
                outages: report.outages.clone(),
            },
            detector: self.detector.clone(),
            usage: self.usage,
        })
    }
}

/// What an edge did for one vehicle.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EdgeSide {
    /// What it did.
    pub(crate) report: ServedReport,
    /// Name of its detector.
    pub(crate) detector: String,
    /// What it used, for all vehicles.
    pub(crate) usage: Usage,
}

/// As [`edge::Report`], of one vehicle.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServedReport {
    /// The vehicle.
    #[serde(flatten)]
    pub(crate) served: Served,
    /// The list of what all vehicles see.
    pub(crate) collective: Option<collective::Report>,
    /// The clocks when it had subscribed.
    pub(crate) began: ClockPair,
    /// The clocks at its end.
    pub(crate) ended: ClockPair,
    /// When it was disconnected, by its clock.
    pub(crate) outages: Vec<Outage>,
}

/// A source of scans or clouds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SourceReport {
    /// Its name, as on the command line.
    pub(crate) name: String,
    /// As what they were sent.
    pub(crate) data_type: DataType,
    /// What was used and what was skipped.
    pub(crate) statistics: Statistics,
    /// Whether a recording goes on after the turns that are held in memory.
    pub(crate) goes_on: bool,
}

impl SourceReport {
    /// What a user should know before trusting the figures.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let Self {
            name,
            statistics,
            goes_on,
            ..
        } = self;
        let damage = (!statistics.is_sound()).then(|| {
            format!("source `{name}` is not whole: {statistics}; what could be read is used")
        });
        let partial = (statistics.partial > 0).then(|| {
            format!(
                "{} of the {} turns of source `{name}` are partial, as where a recording begins and \
                 ends; they are sent like the others, or left out with partial=drop",
                statistics.partial, statistics.turns
            )
        });
        let rest = goes_on.then(|| {
            format!(
                "source `{name}` is longer than what is held in memory; its first {} turns are \
                 used",
                statistics.turns
            )
        });
        damage.into_iter().chain(partial).chain(rest)
    }
}

/// What a process used from start to end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Processor time of all threads, user and kernel, in milliseconds.
    pub(crate) cpu_ms: u64,
    /// Largest resident memory, in bytes.
    pub(crate) peak_memory: u64,
}

impl Usage {
    /// Of this process, so far.
    pub(crate) fn so_far() -> Self {
        // It only fails for a wrong argument.
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return Self::default();
        };
        let millis = |time: nix::sys::time::TimeVal| {
            u64::try_from(time.tv_sec() * 1000 + time.tv_usec() / 1000).unwrap_or(0)
        };
        Self {
            cpu_ms: millis(usage.user_time()) + millis(usage.system_time()),
            peak_memory: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
        }
    }
}

/// Tells the supervisor regularly that this process lives, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pulse(JoinHandle<()>);

impl Pulse {
    /// The longest pause between two reports of a healthy process on a busy machine, and more.
    pub(crate) const SILENCE: Duration = Duration::from_secs(15);

    /// Begins on the async runtime.
    pub(crate) fn start() -> Self {
        Self(tokio::spawn(async {
            let mut beat = tokio::time::interval(Duration::from_secs(1));
            loop {
                beat.tick().await;
                tell(&Report::Alive);
            }
        }))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the supervisor. Without one reading there is nobody to tell, so failures are ignored.
pub(crate) fn tell(report: &Report) {
    let mut output = std::io::stdout().lock();
    let _ = serde_json::to_writer(&mut output, report)
        .map_err(std::io::Error::from)
        .and_then(|()| output.write_all(b"\n"))
        .and_then(|()| output.flush());
}
