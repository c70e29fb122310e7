//! The results folder.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use exchange::Outage;
use latency_timeline::{Directions, Point, Stage, Status, Summary};
use serde_json::{Value, json};
use transport_api::{Sequence, TransportInfo};
use vehicle::{SampleRecord, Trial};

use crate::child::EarlyEnd;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::operation;
use crate::outage::{self, Mark};
use crate::supervision::{EdgeSide, SourceReport, TrialReport, Usage};

/// Version of the folder's layout.
const SCHEMA: u32 = 4;

/// The stream of every sample: one vehicle sends one stream of scans.
const STREAM: u16 = 0;

/// One transport of a run, and one vehicle of it.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Column name, and folder name.
    pub(crate) label: String,
    /// Which vehicle.
    pub(crate) vehicle: String,
    /// URL without secrets.
    pub(crate) url: String,
    pub(crate) outcome: Result<Outcome, Failure>,
    /// Processes that ended before their time.
    pub(crate) early_ends: Vec<EarlyEnd>,
}

/// What an arm gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) trial: Option<Trial>,
    pub(crate) info: Option<TransportInfo>,
    pub(crate) vehicle: Option<Usage>,
    pub(crate) edge: Option<EdgeSide>,
    pub(crate) host: Option<Usage>,
    pub(crate) source: Option<SourceReport>,
    pub(crate) recording: Option<String>,
}

impl Outcome {
    /// Stopped before anything was measured.
    pub(crate) fn stopped() -> Self {
        Self::default()
    }

    /// What the vehicles of a process reported. An edge in the same process that failed is a process
    /// that ended before its time.
    pub(crate) fn measured(report: TrialReport) -> (Vec<Self>, Vec<EarlyEnd>) {
        let (edge, failure) = match report.edge {
            Some(Ok(edge)) => (Some(edge), None),
            Some(Err(how)) => (None, Some(EarlyEnd::new("edge", how))),
            None => (None, None),
        };
        let vehicles = report.vehicles.into_iter().enumerate();
        let outcomes = vehicles.map(|(n, vehicle)| Self {
            trial: Some(vehicle.trial),
            info: Some(vehicle.info),
            vehicle: Some(report.usage),
            edge: edge.as_ref().and_then(|edge| edge.of_vehicle(n)),
            host: None,
            source: Some(vehicle.source),
            recording: vehicle.recording,
        });
        (outcomes.collect(), failure.into_iter().collect())
    }

    pub(crate) fn samples(&self) -> &[SampleRecord] {
        self.trial.as_ref().map_or(&[], |trial| &trial.samples)
    }

    pub(crate) fn count(&self, status: Status) -> usize {
        self.trial.as_ref().map_or(0, |trial| trial.count(status))
    }

    /// What is known of each direction.
    pub(crate) fn directions(&self) -> Directions {
        let answered = self.samples().iter();
        Directions::of(answered.filter_map(|sample| Some((sample.edge_clock?, &sample.timeline))))
    }

    /// When the vehicle was disconnected, by its clock.
    pub(crate) fn vehicle_outages(&self) -> &[Outage] {
        self.trial.as_ref().map_or(&[], |trial| &trial.outages)
    }

    /// When the edge was disconnected, by its clock.
    pub(crate) fn edge_outages(&self) -> &[Outage] {
        let edge = self.edge.as_ref();
        edge.map_or(&[], |edge| &edge.report.outages)
    }

    /// For each sample, whether an outage touched it.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        let offset = match self.directions().offsets[..] {
            [offset] => Some(offset),
            _ => None,
        };
        let (vehicle, edge) = (self.vehicle_outages(), self.edge_outages());
        outage::marks(self.samples(), vehicle, edge, offset)
    }

    /// Samples that ended as `status` and that an outage touched.
    pub(crate) fn count_in_outage(&self, status: Status) -> usize {
        let marked = self.samples().iter().zip(self.marks());
        marked
            .filter(|(sample, mark)| sample.status == status && mark.is_set())
            .count()
    }

    /// How much later than scheduled each measured scan was sent, in nanoseconds.
    fn lateness(&self) -> Vec<i64> {
        let samples = self.samples().iter();
        samples.filter_map(|s| s.timeline.lateness()).collect()
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
    /// Whether every offered scan was answered and every process lived to the end.
    pub(crate) fn is_complete(&self) -> bool {
        let outcome = self.outcome.as_ref();
        self.early_ends.is_empty()
            && outcome.is_ok_and(|outcome| outcome.trial.as_ref().is_some_and(Trial::is_complete))
    }

    fn summary(&self, number: usize) -> Value {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                return json!({
                    "label": self.label,
                    "vehicle": self.vehicle,
                    "url": self.url,
                    "trial": number,
                    "failure": failure.to_string(),
                    "early_ends": self.early_ends,
                });
            }
        };
        let trial = outcome.trial.as_ref();
        let edge = outcome.edge.as_ref();
        let directions = outcome.directions();
        let stages: serde_json::Map<_, _> = Stage::ALL
            .iter()
            .map(|stage| {
                let values = outcome.values(Figure::Stage(*stage));
                (format!("{stage:?}"), json!(Summary::of(&values)))
            })
            .collect();
        json!({
            "label": self.label,
            "vehicle": self.vehicle,
            "url": self.url,
            "trial": number,
            "message_source": trial.map(|trial| format!("{:016x}", trial.source)),
            "transport": outcome.info,
            "source": outcome.source,
            "early_ends": self.early_ends,
            "clocks": {
                "vehicle": trial.map(|trial| [trial.began, trial.ended]),
                "edge": edge.map(|edge| [edge.report.began, edge.report.ended]),
            },
            "offered": outcome.samples().len(),
            "answered": outcome.count(Status::Answered),
            "missed": outcome.count(Status::Missed),
            "rejected": outcome.count(Status::Rejected),
            "interrupted": outcome.count(Status::Interrupted),
            "cut_short": trial.map(|trial| trial.cut_short),
            "skipped": trial.map(|trial| trial.skipped),
            "source_end": trial.and_then(|trial| trial.source_end.as_ref()),
            "missing": trial.map(Trial::missing),
            "answered_by_two_edges": trial.map(|trial| trial.answered_by_two),
            "missed_by_direction": trial.and_then(|trial| trial.missed),
            "outages": {
                "vehicle": outcome.vehicle_outages(),
                "edge": outcome.edge_outages(),
                "answered": outcome.count_in_outage(Status::Answered),
                "missed": outcome.count_in_outage(Status::Missed),
                "rejected": outcome.count_in_outage(Status::Rejected),
                "interrupted": outcome.count_in_outage(Status::Interrupted),
            },
            "schedule": trial.map(|trial| json!({
                "late_after_ns": trial.late_after(),
                "late": trial.late(),
                "generator_limited": trial.is_generator_limited(),
                "lateness_ns": Summary::of(&outcome.lateness()),
            })),
            "operation": trial.map(operation::summary),
            "unseen_frames": trial.map(|trial| &trial.unseen_frames),
            "recording": outcome.recording,
            "poses": trial.map(|trial| trial.poses),
            "publisher": trial.map(|trial| trial.publisher),
            "subscriber": trial.map(|trial| trial.subscriber),
            "stages_ns": stages,
            "total_ns": Summary::of(&outcome.values(Figure::Total)),
            "response_ns": Summary::of(&outcome.values(Figure::Response)),
            "edge_clock_offset": directions.offsets,
            "pdv_up_ns": Summary::of(&directions.up),
            "pdv_down_ns": Summary::of(&directions.down),
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
    /// Random: no two runs share it, whatever their clocks say.
    run: String,
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
        let run = format!("{:016x}", Sequence::random().source());
        let manifest = json!({
            "schema": SCHEMA,
            "run_id": run,
            "started": now,
            "settings": settings,
            "environment": environment,
        });
        let results = Self {
            folder,
            run,
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

    /// Makes the folder of one arm, or of several that share the first part of their labels.
    pub(crate) fn arm_folder(&self, label: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(label);
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::new(format!("create {}", folder.display()), error))?;
        Ok(folder)
    }

    /// Writes what else is known of an arm into its folder.
    pub(crate) fn note(&self, label: &str, file: &str, value: &Value) -> Result<(), Failure> {
        self.write(&format!("{label}/{file}"), pretty(value).as_bytes())
    }

    /// Takes over an arm and writes its samples.
    ///
    /// # Errors
    /// The samples cannot be written; the arm is kept all the same.
    pub(crate) fn add(&mut self, arm: Arm) -> Result<(), Failure> {
        let written = arm.outcome.as_ref().map_or(Ok(()), |outcome| {
            let path = self.folder.join(&arm.label).join("samples.csv");
            self.write_samples(&path, outcome)
                .map_err(|error| Failure::new(format!("write {}", path.display()), error))
        });
        self.arms.push(arm);
        written
    }

    /// Writes the summary and the table. `interrupted`: whether the run was told to stop.
    pub(crate) fn finish(&self, table: &str, interrupted: bool) -> Result<(), Failure> {
        let arms = self.arms.iter().enumerate();
        let arms: Vec<_> = arms.map(|(number, arm)| arm.summary(number)).collect();
        let summary = json!({
            "schema": SCHEMA,
            "run": self.manifest,
            "interrupted": interrupted,
            "arms": arms,
        });
        self.write("summary.json", pretty(&summary).as_bytes())?;
        self.write("table.txt", table.as_bytes())
    }

    /// One row per offered scan of the arm that comes next: its key, what became of it, and its stamps
    /// in nanoseconds; those of the edge are of the edge's clock. What is not known is left empty.
    fn write_samples(&self, path: &Path, outcome: &Outcome) -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        write!(
            out,
            "run_id,trial,stream,seq,status,outage,bytes_up,bytes_down,objects,repeats,list,list_age,edge_clock"
        )?;
        for point in Point::ALL {
            write!(out, ",{}", point.column())?;
        }
        writeln!(out)?;
        for (sample, mark) in outcome.samples().iter().zip(outcome.marks()) {
            let status = match sample.status {
                Status::Answered => "answered",
                Status::Missed => "missed",
                Status::Rejected => "rejected",
                Status::Interrupted => "interrupted",
            };
            write!(
                out,
                "{},{},{STREAM},{},{status},{mark},{},{},{},{}",
                self.run,
                self.arms.len(),
                sample.seq,
                sample.bytes_up,
                sample.bytes_down,
                sample.objects,
                sample.repeats
            )?;
            let (list, age) = operation::columns(sample);
            write!(out, ",{list}")?;
            write_known(&mut out, age)?;
            write_known(&mut out, sample.edge_clock)?;
            for point in Point::ALL {
                write_known(&mut out, sample.timeline.get(point))?;
            }
            writeln!(out)?;
        }
        out.flush()
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

fn write_known(out: &mut impl Write, value: Option<impl Display>) -> std::io::Result<()> {
    match value {
        Some(value) => write!(out, ",{value}"),
        None => write!(out, ","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latency_timeline::{ClockPair, Timeline};
    use proptest::prelude::*;

    const PAIR: ClockPair = ClockPair {
        realtime_ns: 0,
        monotonic_ns: 0,
    };

    /// An arm with samples of the given stamps, the edge's moved by `edge_shift`.
    fn arm(stamps: &[[i64; 18]], edge_shift: i64) -> Arm {
        let samples = stamps.iter().enumerate().map(|(n, stamps)| {
            let mut timeline = Timeline::default();
            for (point, nanos) in Point::ALL.into_iter().zip(stamps) {
                timeline.set(point, *nanos);
            }
            for point in Point::EDGE.into_iter().chain(Point::EDGE_AFTER) {
                if let Some(nanos) = timeline.get(point) {
                    timeline.set(point, nanos.wrapping_add(edge_shift));
                }
            }
            SampleRecord {
                seq: n as u64,
                status: Status::Answered,
                timeline,
                edge_clock: Some(5),
                bytes_up: 1,
                bytes_down: 1,
                objects: 0,
                repeats: 0,
                listed: None,
            }
        });
        let trial = Trial {
            source: 1,
            period_ns: 100_000_000,
            began: PAIR,
            ended: PAIR,
            outages: Vec::new(),
            samples: samples.collect(),
            missed: None,
            interrupted: false,
            cut_short: false,
            unrelated: 0,
            undecodable: 0,
            refused: 0,
            answered_by_two: 0,
            rejection: None,
            operation: Default::default(),
            unseen_frames: Vec::new(),
            poses: None,
            skipped: 0,
            source_end: None,
            publisher: Default::default(),
            subscriber: Default::default(),
        };
        let outcome = Outcome {
            trial: Some(trial),
            ..Outcome::default()
        };
        Arm {
            label: "a".to_owned(),
            vehicle: "vehicle".to_owned(),
            url: "a:b".to_owned(),
            outcome: Ok(outcome),
            early_ends: Vec::new(),
        }
    }

    /// The summary and the table without what is said of the offset, and that.
    fn reported(arm: Arm) -> (String, String, Value) {
        let mut summary = arm.summary(0);
        let offset = summary["edge_clock_offset"].take();
        let table = crate::table::of_arms(&[arm]);
        let lines = table.lines().filter(|line| !line.contains("clock offset"));
        // Columns are as wide as their widest cell, which may be the offset.
        let cells: Vec<_> = lines.flat_map(|line| line.split_whitespace()).collect();
        let cells = cells.into_iter().filter(|cell| !cell.starts_with("|-"));
        (summary.to_string(), cells.collect(), offset)
    }

    #[test]
    fn an_arm_whose_samples_cannot_be_written_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut results = Results::create(base.path(), Environment::read(), json!(null)).unwrap();
        let folder = results.arm_folder("a").unwrap();
        fs::create_dir(folder.join("samples.csv")).unwrap();
        let failure = results.add(arm(&[[0; 18]], 0)).unwrap_err().to_string();
        assert!(failure.contains("samples.csv"), "{failure}");
        assert_eq!(results.arms().len(), 1);
    }

    proptest! {
        #[test]
        fn a_constant_added_to_all_edge_stamps_moves_only_the_offset(
            stamps in prop::collection::vec(
                prop::array::uniform18(-1_000_000_000_000_000i64..1_000_000_000_000_000),
                1..8,
            ),
            shift in any::<i64>(),
        ) {
            let honest = reported(arm(&stamps, 0));
            let moved = reported(arm(&stamps, shift));
            prop_assert_eq!(honest.0, moved.0);
            prop_assert_eq!(honest.1, moved.1);
            for end in ["from_ns", "to_ns"] {
                let honest = honest.2[0][end].as_i64().unwrap();
                let moved = moved.2[0][end].as_i64().unwrap();
                prop_assert_eq!(moved, honest.wrapping_add(shift));
            }
        }
    }
}
