//! Staying operational without the edge: its options, and what is reported of it.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use latency_timeline::statistics::quantile;
use latency_timeline::{Clock, Point, Summary};
use perception::Perception;
use serde_json::{Value, json};
use vehicle::{Limits, Mode, SampleRecord, Source, Switched, Trial, Verdict};

use crate::cli::{DetectionArgs, DetectorChoice};
use crate::failure::Failure;

/// When the vehicle detects by itself.
#[derive(Clone, Debug, Args)]
pub(crate) struct OperationArgs {
    /// How long the vehicle waits for the edge's answer to a scan before it detects by itself; 10s at
    /// most.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "100ms",
        value_parser = deadline,
        env = "ROUNDTRIP_DEADLINE"
    )]
    pub(crate) deadline: Duration,

    /// Late answers in a row after which the vehicle no longer waits, but detects in each scan at once.
    #[arg(
        long,
        value_name = "N",
        default_value_t = Limits::default().misses,
        value_parser = clap::value_parser!(u32).range(1..),
        env = "ROUNDTRIP_MISSES"
    )]
    pub(crate) misses: u32,

    /// Answers in time in a row after which it waits for the edge again.
    #[arg(
        long,
        value_name = "N",
        default_value_t = Limits::default().recoveries,
        value_parser = clap::value_parser!(u32).range(1..),
        env = "ROUNDTRIP_RECOVERIES"
    )]
    pub(crate) recoveries: u32,

    /// The vehicle's own detector: `same` as the edge's, `neural`, `fixed-delay:DURATION`, or `off`,
    /// with which it waits for the edge however long that takes.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "same",
        env = "ROUNDTRIP_LOCAL_DETECTOR"
    )]
    pub(crate) local_detector: LocalDetector,

    /// Publish the object lists that the vehicle acts on, whoever made them, as `objects/selected`.
    #[arg(long, env = "ROUNDTRIP_PUBLISH_SELECTED")]
    pub(crate) publish_selected: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalDetector {
    Off,
    Same,
    Other(DetectorChoice),
}

impl FromStr for LocalDetector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "same" => Ok(Self::Same),
            _ => text
                .parse()
                .map(Self::Other)
                .map_err(|error| match text.contains(':') {
                    true => error,
                    false => format!("{error}, or `same`, or `off`"),
                }),
        }
    }
}

impl std::fmt::Display for LocalDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Same => f.write_str("same"),
            Self::Other(choice) => choice.fmt(f),
        }
    }
}

/// Longest deadline: what a vehicle keeps of its scans until then is memory.
const LONGEST: Duration = Duration::from_secs(10);

fn deadline(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(deadline) if (Duration::from_millis(1)..=LONGEST).contains(&deadline) => Ok(deadline),
        Ok(_) => Err("give a duration from 1ms to 10s".to_owned()),
        Err(error) => Err(format!("{error}; write for example `100ms`")),
    }
}

impl OperationArgs {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            deadline: self.deadline,
            misses: self.misses,
            recoveries: self.recoveries,
        }
    }

    /// The vehicle's own detection, beside an edge that works by `detection`.
    pub(crate) fn perception(
        &self,
        detection: &DetectionArgs,
        clock: Clock,
    ) -> Result<Option<Perception>, Failure> {
        let choice = match &self.local_detector {
            LocalDetector::Off => return Ok(None),
            LocalDetector::Same => &detection.detector,
            LocalDetector::Other(choice) => choice,
        };
        let detector = choice.load(detection)?;
        let perception = Perception::new(detector, detection.convention(), clock);
        Ok(Some(perception))
    }

    /// The same on the command line of a vehicle.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--deadline={}", humantime::format_duration(self.deadline)),
            format!("--misses={}", self.misses),
            format!("--recoveries={}", self.recoveries),
            format!("--local-detector={}", self.local_detector),
        ];
        flags.extend(
            self.publish_selected
                .then(|| "--publish-selected".to_owned()),
        );
        flags
    }

    /// What was asked for, for the record.
    pub(crate) fn record(&self) -> Value {
        json!({
            "deadline_ms": self.deadline.as_secs_f64() * 1e3,
            "misses": self.misses,
            "recoveries": self.recoveries,
            "local_detector": self.local_detector.to_string(),
            "publish_selected": self.publish_selected,
        })
    }
}

/// What the samples file says of a frame's list: whose it is, and how old the frame was when it, or that
/// of a newer frame, was there, in nanoseconds.
pub(crate) fn columns(sample: &SampleRecord) -> (&'static str, Option<i64>) {
    let Some(listed) = sample.listed else {
        return ("none", None);
    };
    let start = sample.timeline.get(Point::Start);
    let age = start.map(|start| listed.at_ns.wrapping_sub(start));
    let list = match listed.source {
        Some(Source::Edge) => "edge",
        Some(Source::Local) => "local",
        None => "newer",
    };
    (list, age)
}

/// What the summary says of a trial.
pub(crate) fn summary(trial: &Trial) -> Value {
    let ages = |source| {
        let ages = trial.ages(source);
        json!({
            "summary": Summary::of(&ages),
            "p90": quantile(&ages, 0.9),
            "p99": quantile(&ages, 0.99),
        })
    };
    json!({
        "lists": {
            "edge": trial.lists(Source::Edge),
            "local": trial.lists(Source::Local),
            "newer": trial.ages(None).len(),
            "none": trial.unlisted(),
        },
        "age_ns": {
            "edge": ages(Some(Source::Edge)),
            "local": ages(Some(Source::Local)),
            "newer": ages(None),
        },
        "largest_gap_ns": trial.largest_gap(),
        "with_warm_up": trial.operation,
    })
}

/// The text of a cell.
type Cell = fn(&Trial) -> String;

/// The rows of the table, each with its cell.
pub(crate) const ROWS: [(&str, Cell); 6] = [
    ("object lists, edge / local", |trial| {
        let of = |source| trial.lists(source);
        format!("{} / {}", of(Source::Edge), of(Source::Local))
    }),
    ("overtaken / without a list", |trial| {
        format!("{} / {}", trial.ages(None).len(), trial.unlisted())
    }),
    ("age of lists, edge, median / max", |trial| {
        age(&trial.ages(Some(Source::Edge)))
    }),
    ("age of lists, local, median / max", |trial| {
        age(&trial.ages(Some(Source::Local)))
    }),
    ("largest gap between lists", |trial| {
        let gap = trial.largest_gap();
        gap.map_or("-".to_owned(), |gap| format!("{:.3}", gap as f64 / 1e6))
    }),
    ("switches to local / back", |trial| {
        let to = |mode| {
            let switches = trial.operation.switches.iter();
            switches.filter(|switch| switch.to == mode).count()
        };
        format!("{} / {}", to(Mode::Local), to(Mode::Edge))
    }),
];

fn age(ages: &[i64]) -> String {
    Summary::of(ages).map_or("-".to_owned(), |ages| {
        format!("{:.3} / {:.3}", ages.median / 1e6, ages.max / 1e6)
    })
}

/// What a reader of the table must know.
pub(crate) fn notes(trial: &Trial) -> Vec<String> {
    let operation = &trial.operation;
    let switches = operation.switches.iter().take(SHOWN);
    let mut notes: Vec<_> = switches.map(|switch| told(switch, trial)).collect();
    if operation.switches.len() > SHOWN {
        let more = operation.switches.len() - SHOWN;
        notes.push(format!(
            "and {more} more switches (`switches` in the summary)"
        ));
    }
    if let Some(failure) = &operation.failure {
        notes.push(format!(
            "{} of {} detections in the vehicle failed: {failure}",
            operation.failed, operation.detections
        ));
    }
    if operation.unwatched > 0 {
        notes.push(format!(
            "{} scans were sent without looking for their lists: the vehicle's process hung",
            operation.unwatched
        ));
    }
    for unseen in trial.unseen_frames.iter().filter(|unseen| **unseen > 0) {
        notes.push(format!(
            "{unseen} frames were not shown or recorded: who looks on did not keep up"
        ));
    }
    notes
}

/// Switches that are told below the table; the summary has all.
const SHOWN: usize = 6;

fn told(switch: &Switched, trial: &Trial) -> String {
    let to = match switch.to {
        Mode::Local => "local detection",
        Mode::Edge => "the edge",
    };
    let operation = &trial.operation;
    let cause = match switch.cause {
        Verdict::InTime => format!("{} answers in a row in time", operation.recoveries),
        Verdict::Late => format!("{} answers in a row late", operation.misses),
        Verdict::Refused => format!(
            "{} scans in a row late or not taken by the transport",
            operation.misses
        ),
    };
    let after = switch.at_ns.wrapping_sub(trial.began.monotonic_ns) as f64 / 1e9;
    format!(
        "switched to {to} after {after:.1} s, at scan {}: {cause}",
        switch.seq
    )
}
