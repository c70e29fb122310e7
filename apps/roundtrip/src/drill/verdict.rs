//! Whether a vehicle kept its promises during a drill.

use comfy_table::{CellAlignment, Table, presets};
use latency_timeline::Point;
use serde_json::{Value, json};
use vehicle::{Mode, SampleRecord, Source, Trial};

use crate::drill::scenario::Scenario;

/// What the drill saw from outside; nanoseconds are of the host's clock, which is the vehicle's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// When it failed.
    pub(crate) failed_ns: i64,
    /// When it was whole again.
    pub(crate) healed_ns: i64,
    /// When the vehicle was told to stop.
    pub(crate) stopped_ns: i64,
    /// Whether answers came again.
    pub(crate) recovered: bool,
    /// Resident memory of the vehicle before it failed, in bytes.
    pub(crate) memory_before: Option<u64>,
    /// And after it had recovered.
    pub(crate) memory_after: Option<u64>,
}

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    frames: usize,
    edge: usize,
    local: usize,
    newer: usize,
    none: usize,
    /// Largest time from T0 to a list for that frame or a newer one.
    oldest_ns: i64,
    /// What was promised for it.
    promised_ns: i64,
    gap_ns: i64,
    /// From the failure to the first list of the vehicle's own.
    until_local_ns: Option<i64>,
    /// From the recovery until the vehicle relied on the edge again.
    return_ns: Option<i64>,
    memory: Option<(u64, u64)>,
    /// Promises that were broken.
    broken: Vec<String>,
}

/// What a busy machine may add to a deadline before it counts as missed by the vehicle.
const SLACK: i64 = 50_000_000;

/// How long the return may take, but for the answers in a row that it needs.
const RETURN: i64 = 1_500_000_000;

/// What resident memory moves by itself, in bytes.
const FLAT: u64 = 10_000_000;

impl Verdict {
    /// It could not be drilled although it should.
    pub(crate) fn failed(why: String) -> Self {
        Self {
            broken: vec![why],
            ..Self::default()
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.broken.is_empty()
    }

    /// Of a vehicle that was told to stop at the end of the drill.
    pub(crate) fn of(trial: &Trial, marks: Marks) -> Self {
        let operation = &trial.operation;
        let longest = operation.longest_detection_ns;
        let detection = (operation.deadline_ns + longest).max(2 * longest);
        let promised_ns = detection + SLACK;
        let start = |sample: &SampleRecord| sample.timeline.get(Point::Start).unwrap_or(0);
        // The last ones were still on their way when it was told to stop.
        let due = |sample: &&SampleRecord| start(sample) + promised_ns < marks.stopped_ns;
        let frames: Vec<_> = trial.samples.iter().filter(due).collect();
        let lists = |source: Option<Source>| {
            let lists = frames.iter().filter_map(|sample| sample.listed);
            lists.filter(|listed| listed.source == source).count()
        };
        let ages = frames
            .iter()
            .filter_map(|sample| Some(sample.listed?.at_ns - start(sample)));
        let first = |source: Source, from: i64| {
            let lists = frames.iter().filter_map(|sample| sample.listed);
            let lists = lists.filter(|listed| listed.source == Some(source));
            lists
                .map(|listed| listed.at_ns - from)
                .find(|after| *after >= 0)
        };
        let switches = operation.switches.iter();
        let mut since = switches.filter(|switch| switch.at_ns >= marks.failed_ns);
        let return_ns = match since.next_back() {
            Some(last) if last.to == Mode::Local => None,
            Some(last) => Some((last.at_ns - marks.healed_ns).max(0)),
            None => first(Source::Edge, marks.healed_ns),
        };
        let mut verdict = Self {
            frames: frames.len(),
            edge: lists(Some(Source::Edge)),
            local: lists(Some(Source::Local)),
            newer: lists(None),
            none: frames
                .iter()
                .filter(|sample| sample.listed.is_none())
                .count(),
            oldest_ns: ages.max().unwrap_or(0),
            promised_ns,
            gap_ns: trial.largest_gap().unwrap_or(0),
            until_local_ns: first(Source::Local, marks.failed_ns),
            return_ns: return_ns.filter(|_| marks.recovered),
            memory: marks.memory_before.zip(marks.memory_after),
            broken: Vec::new(),
        };
        verdict.judge(trial);
        verdict
    }

    fn judge(&mut self, trial: &Trial) {
        let mut broken = Vec::new();
        if self.none > 0 {
            broken.push(format!("{} frames without a list", self.none));
        }
        if self.oldest_ns > self.promised_ns {
            broken.push(format!(
                "a list after {:.0} ms, more than {:.0}",
                self.oldest_ns as f64 / 1e6,
                self.promised_ns as f64 / 1e6
            ));
        }
        let needed = RETURN + i64::from(trial.operation.recoveries) * trial.period_ns;
        match self.return_ns {
            None => broken.push("no return to the edge".to_owned()),
            Some(after) if after > needed => broken.push(format!(
                "return after {:.1} s, more than {:.1}",
                after as f64 / 1e9,
                needed as f64 / 1e9
            )),
            Some(_) => {}
        }
        if let Some((before, after)) = self.memory
            && after > before + FLAT
        {
            broken.push(format!(
                "memory grew by {} MB",
                (after - before) / 1_000_000
            ));
        }
        if let Some(failure) = &trial.operation.failure {
            broken.push(format!("local detection failed: {failure}"));
        }
        self.broken = broken;
    }
}

/// For the folder of the scenario.
pub(crate) fn record(scenario: &Scenario, verdict: &Result<Verdict, String>) -> Value {
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(why) => return json!({ "scenario": scenario.to_string(), "not_drilled": why }),
    };
    json!({
        "scenario": scenario.to_string(),
        "frames": verdict.frames,
        "lists": {
            "edge": verdict.edge,
            "local": verdict.local,
            "newer": verdict.newer,
            "none": verdict.none,
        },
        "oldest_ns": verdict.oldest_ns,
        "promised_ns": verdict.promised_ns,
        "largest_gap_ns": verdict.gap_ns,
        "until_local_ns": verdict.until_local_ns,
        "return_ns": verdict.return_ns,
        "memory_before_after": verdict.memory,
        "broken": verdict.broken,
    })
}

/// The table of a drill: transports, scenarios, and what came of them.
pub(crate) fn table(verdicts: &[(String, Scenario, Result<Verdict, String>)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "transport",
        "scenario",
        "frames",
        "edge",
        "local",
        "newer",
        "none",
        "oldest ms",
        "largest gap ms",
        "until local ms",
        "return s",
        "memory MB",
        "promise",
    ]);
    let mut notes = String::new();
    for (label, scenario, verdict) in verdicts {
        let mut row = vec![label.clone(), scenario.to_string()];
        match verdict {
            Ok(verdict) => {
                row.extend(cells(verdict));
                for broken in &verdict.broken {
                    notes.push_str(&format!("{label}, {scenario}: {broken}\n"));
                }
            }
            Err(why) => {
                row.extend(std::iter::repeat_n(NONE.to_owned(), 10));
                row.push("not drilled".to_owned());
                notes.push_str(&format!("{label}, {scenario}: {why}\n"));
            }
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{notes}")
}

/// What is not known, or does not apply.
const NONE: &str = "-";

fn cells(verdict: &Verdict) -> Vec<String> {
    let millis = |nanos: i64| format!("{:.0}", nanos as f64 / 1e6);
    let seconds = |nanos: i64| format!("{:.2}", nanos as f64 / 1e9);
    let counts = [
        verdict.frames,
        verdict.edge,
        verdict.local,
        verdict.newer,
        verdict.none,
    ];
    let mut cells: Vec<_> = counts.iter().map(usize::to_string).collect();
    cells.extend([
        millis(verdict.oldest_ns),
        millis(verdict.gap_ns),
        verdict.until_local_ns.map_or(NONE.to_owned(), millis),
        verdict.return_ns.map_or(NONE.to_owned(), seconds),
        verdict.memory.map_or(NONE.to_owned(), |(before, after)| {
            format!("{} / {}", before / 1_000_000, after / 1_000_000)
        }),
        if verdict.is_kept() { "kept" } else { "broken" }.to_owned(),
    ]);
    cells
}
