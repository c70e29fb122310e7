//! Round trips of every path: each alone for criterion, then in turns for the tables of ratios.
//!
//! `cargo bench -p benches` does both. With a filter only criterion runs, and with `--test` every
//! path makes each of its round trips once.

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::comparison::{Measured, PERIOD, Pace, compare};
use benches::path::{PATHS, Path};
use benches::payload::SIZES;
use benches::stand::Stand;
use benches::table::Ratios;
use benches::{Failure, environment};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

/// What the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Only names.
    List,
    /// Each round trip once.
    Test,
    /// Some paths, with criterion.
    Some,
    /// Everything.
    All,
}

impl Task {
    /// Reads the arguments as criterion does: without `--bench` from Cargo it is a test.
    fn of(arguments: impl Iterator<Item = String>) -> Self {
        let arguments: Vec<String> = arguments.collect();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        if has("--list") {
            Self::List
        } else if has("--test") || !has("--bench") {
            Self::Test
        } else if arguments.iter().any(|argument| argument != "--bench") {
            Self::Some
        } else {
            Self::All
        }
    }
}

fn main() -> ExitCode {
    let task = Task::of(env::args().skip(1));
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .nresamples(10_000)
        .noise_threshold(0.03)
        .without_plots()
        .configure_from_args();
    if task == Task::List {
        time_alone(&mut criterion, None);
        return ExitCode::SUCCESS;
    }
    let busy = environment::busy();
    let mut stand = Stand::start(env!("CARGO_BIN_EXE_bench-peer"));
    introduce(&stand, busy.as_deref());
    time_alone(&mut criterion, Some(&mut stand));
    criterion.final_summary();
    match task {
        Task::All => compare_all(&mut stand, busy.as_deref()),
        Task::Some => println!("No ratios: `cargo bench -p benches` without arguments."),
        Task::Test => println!("Paths that answered: {}", names(&stand.running())),
        Task::List => {}
    }
    verdict(&stand)
}

fn names(paths: &[&Path]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.name).collect();
    names.join(", ")
}

fn introduce(stand: &Stand, busy: Option<&str>) {
    for line in environment::lines() {
        println!("{line}");
    }
    for (path, settings) in stand.settings() {
        println!("{path}: {settings}");
    }
    complain(stand);
    if let Some(busy) = busy {
        println!("{busy}");
    }
}

fn complain(stand: &Stand) {
    for (path, failure) in stand.failures() {
        let word = match failure {
            Failure::Missing(_) => "NOT MEASURED",
            Failure::Broken(_) => "FAILED",
        };
        println!("{}: {word}: {failure}", path.name);
    }
}

/// Times each path by itself. Without a stand there is nothing to time, only names to list.
fn time_alone(criterion: &mut Criterion, mut stand: Option<&mut Stand>) {
    let paths = match &stand {
        Some(stand) => stand.running(),
        None => PATHS.iter().collect(),
    };
    let mut group = criterion.benchmark_group("round_trip");
    group.sampling_mode(SamplingMode::Flat);
    for path in &paths {
        for size in SIZES {
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new(path.name, size), |bencher| {
                bencher.iter_custom(|count| {
                    let trips = stand.as_mut().map(|stand| {
                        // The first one finds cold caches.
                        stand.round_trips(path, size, 1, count as usize)
                    });
                    complete(trips.unwrap_or_default(), count)
                });
            });
        }
    }
    group.finish();

    let mut group = criterion.benchmark_group("round_trip_10_hz");
    group
        .sampling_mode(SamplingMode::Flat)
        .warm_up_time(PERIOD)
        // Half again what ten samples of one round trip need: a busy machine is late.
        .measurement_time(PERIOD * 15);
    for path in &paths {
        for size in SIZES {
            group.bench_function(BenchmarkId::new(path.name, size), |bencher| {
                bencher.iter_custom(|count| {
                    let begun = Instant::now();
                    let mut trips = Vec::new();
                    for turn in 1..=count as u32 {
                        std::thread::sleep((PERIOD * turn).saturating_sub(begun.elapsed()));
                        if let Some(stand) = stand.as_mut() {
                            trips.extend(stand.round_trips(path, size, 0, 1));
                        }
                    }
                    complete(trips, count)
                });
            });
        }
    }
    group.finish();
}

/// The sum of `count` round trips. A path that failed has fewer; criterion must get some number, and
/// [`verdict`] tells that it means nothing.
fn complete(trips: Vec<Duration>, count: u64) -> Duration {
    if trips.len() as u64 == count {
        trips.iter().sum()
    } else {
        Duration::from_secs(1) * count as u32
    }
}

fn compare_all(stand: &mut Stand, busy: Option<&str>) {
    let mut ratios = Ratios::default();
    for pace in [Pace::BackToBack, Pace::TenPerSecond] {
        for size in SIZES {
            let running = stand.running();
            let mut measured = Measured::new();
            for paths in running.chunk_by(|one, next| one.floor == next.floor) {
                measured.extend(compare(stand, paths, size, pace, pace.plan()));
            }
            ratios.add(pace, size, &running, &measured);
        }
    }
    println!("{ratios}");
    for pace in [Pace::BackToBack, Pace::TenPerSecond] {
        let plan = pace.plan();
        println!(
            "{}: {} turns of {} round trips each",
            pace.name(),
            plan.turns,
            plan.block
        );
    }
    println!("ratio of medians (quartiles over tenths of the run); tcp-again is tcp once more");
    for line in environment::lines() {
        println!("{line}");
    }
    let score = ratios.score();
    println!("goals: {} met, {} missed", score.met, score.missed);
    if let Some(busy) = busy {
        println!("{busy}");
    }
}

/// What could not be measured is said last, and fails unless it is merely not installed here.
fn verdict(stand: &Stand) -> ExitCode {
    complain(stand);
    let required = env::var("CONFORMANCE_REQUIRE").is_ok_and(|what| what == "all");
    let failed = stand
        .failures()
        .any(|(_, failure)| required || matches!(failure, Failure::Broken(_)));
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
