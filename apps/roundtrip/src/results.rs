//! The results folder.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use latency_timeline::{Point, Stage, Status, Summary};
use serde_json::{Value, json};
use transport_api::TransportInfo;
use vehicle::{SampleRecord, Trial};

use crate::environment::Environment;
use crate::failure::Failure;
use crate::supervision::{EdgeReport, Usage};

/// Version of the folder's layout.
const SCHEMA: u32 = 1;

/// One transport of a run.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Column name, and folder name.
    pub(crate) label: String,
    /// URL without secrets.
    pub(crate) url: String,
    pub(crate) outcome: Result<Outcome, Failure>,
}

/// What an arm gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) trial: Option<Trial>,
    pub(crate) info: Option<TransportInfo>,
    pub(crate) vehicle: Option<Usage>,
    pub(crate) edge: Option<EdgeReport>,
    pub(crate) host: Option<Usage>,
}

impl Outcome {
    /// Stopped before anything was measured.
    pub(crate) fn stopped() -> Self {
        Self::default()
    }

    pub(crate) fn measured(
        trial: Trial,
        info: TransportInfo,
        vehicle: Usage,
        edge: Option<EdgeReport>,
    ) -> Self {
        Self {
            trial: Some(trial),
            info: Some(info),
            vehicle: Some(vehicle),
            edge,
            host: None,
        }
    }

    pub(crate) fn samples(&self) -> &[SampleRecord] {
        self.trial.as_ref().map_or(&[], |trial| &trial.samples)
    }

    pub(crate) fn count(&self, status: Status) -> usize {
        self.trial.as_ref().map_or(0, |trial| trial.count(status))
    }

    /// One figure per answered sample, in nanoseconds.
    pub(crate) fn values(&self, figure: Figure) -> Vec<i64> {
        let answered = self
            .samples()
            .iter()
            .filter(|sample| sample.status == Status::Answered);
        let parts = answered.filter_map(|sample| sample.timeline.parts().ok());
        parts
            .map(|parts| match figure {
                Figure::Stage(stage) => parts.stage(stage),
                Figure::Total => parts.total,
                Figure::Response => parts.response,
            })
            .collect()
    }
}

/// A figure that every answered sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Stage(Stage),
    /// From publishing to the object list.
    Total,
    /// From the intended instant to the object list.
    Response,
}

impl Arm {
    /// Whether every offered scan was answered.
    pub(crate) fn is_complete(&self) -> bool {
        let outcome = self.outcome.as_ref();
        outcome.is_ok_and(|outcome| outcome.trial.as_ref().is_some_and(Trial::is_complete))
    }

    fn summary(&self) -> Value {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                return json!({
                    "label": self.label, "url": self.url, "failure": failure.to_string(),
                });
            }
        };
        let stages: serde_json::Map<_, _> = Stage::ALL
            .iter()
            .map(|stage| {
                let values = outcome.values(Figure::Stage(*stage));
                (format!("{stage:?}"), json!(Summary::of(&values)))
            })
            .collect();
        json!({
            "label": self.label,
            "url": self.url,
            "transport": outcome.info,
            "offered": outcome.samples().len(),
            "answered": outcome.count(Status::Answered),
            "lost": outcome.count(Status::Lost),
            "rejected": outcome.count(Status::Rejected),
            "interrupted": outcome.count(Status::Interrupted),
            "losses_by_direction": outcome.trial.as_ref().and_then(|trial| trial.losses),
            "publisher": outcome.trial.as_ref().map(|trial| trial.publisher),
            "subscriber": outcome.trial.as_ref().map(|trial| trial.subscriber),
            "stages_ns": stages,
            "total_ns": Summary::of(&outcome.values(Figure::Total)),
            "response_ns": Summary::of(&outcome.values(Figure::Response)),
            "edge": outcome.edge,
            "vehicle_usage": outcome.vehicle,
            "host_usage": outcome.host,
        })
    }
}

/// A folder of one run.
#[derive(Debug)]
pub(crate) struct Results {
    folder: PathBuf,
    manifest: Value,
    arms: Vec<Arm>,
}

impl Results {
    /// Makes a new folder below `base`, named by the time.
    pub(crate) fn create(
        base: &Path,
        environment: Environment,
        settings: Value,
    ) -> Result<Self, Failure> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = now.replace(':', "-");
        fs::create_dir_all(base)
            .map_err(|error| Failure::new(format!("create {}", base.display()), error))?;
        // Two runs in one second get folders of their own.
        let mut attempt = 1;
        let folder = loop {
            let suffix = if attempt == 1 {
                String::new()
            } else {
                format!("-{attempt}")
            };
            let folder = base.join(format!("{stamp}{suffix}"));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => {
                    return Err(Failure::new(format!("create {}", folder.display()), error));
                }
            }
        };
        let manifest = json!({
            "schema": SCHEMA,
            "started": now,
            "settings": settings,
            "environment": environment,
        });
        let results = Self {
            folder,
            manifest,
            arms: Vec::new(),
        };
        results.write("manifest.json", pretty(&results.manifest).as_bytes())?;
        Ok(results)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// Makes the folder of one arm.
    pub(crate) fn arm_folder(&self, label: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(label);
        fs::create_dir(&folder)
            .map_err(|error| Failure::new(format!("create {}", folder.display()), error))?;
        Ok(folder)
    }

    /// Takes over an arm and writes its samples.
    pub(crate) fn add(&mut self, arm: Arm) -> Result<(), Failure> {
        if let Ok(outcome) = &arm.outcome {
            let path = self.folder.join(&arm.label).join("samples.csv");
            write_samples(&path, outcome.samples())
                .map_err(|error| Failure::new(format!("write {}", path.display()), error))?;
        }
        self.arms.push(arm);
        Ok(())
    }

    /// Writes the summary and the table.
    pub(crate) fn finish(&self, table: &str) -> Result<(), Failure> {
        let arms: Vec<_> = self.arms.iter().map(Arm::summary).collect();
        let summary = json!({ "schema": SCHEMA, "run": self.manifest, "arms": arms });
        self.write("summary.json", pretty(&summary).as_bytes())?;
        self.write("table.txt", table.as_bytes())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.folder.join(name);
        fs::write(&path, content)
            .map_err(|error| Failure::new(format!("write {}", path.display()), error))
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// One row per offered scan: stamps in nanoseconds, `S` to `VO` and `WI` to `T9` of the vehicle's
/// clock, the others of the edge's.
fn write_samples(path: &Path, samples: &[SampleRecord]) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write!(out, "number,status,bytes_up,bytes_down,objects,repeats")?;
    for point in Point::ALL {
        write!(out, ",{}", point.column())?;
    }
    writeln!(out)?;
    for sample in samples {
        let status = match sample.status {
            Status::Answered => "answered",
            Status::Lost => "lost",
            Status::Rejected => "rejected",
            Status::Interrupted => "interrupted",
        };
        write!(
            out,
            "{},{status},{},{},{},{}",
            sample.number, sample.bytes_up, sample.bytes_down, sample.objects, sample.repeats
        )?;
        for point in Point::ALL {
            match sample.timeline.get(point) {
                Some(nanos) => write!(out, ",{nanos}")?,
                None => write!(out, ",")?,
            }
        }
        writeln!(out)?;
    }
    out.flush()
}
