//! `roundtrip run`: the same round trip over one transport after the other.

use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use exchange::VehicleId;
use indicatif::{ProgressBar, ProgressStyle};
use latency_timeline::Status;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use transport_api::{Registry, TransportConfig};
use vehicle::Progress;
use view::{State, Stream};

use crate::child::{Child, EarlyEnd};
use crate::cli::{self, DetectionArgs, LoadArgs, QualityArgs, RunArgs, TransportUrl};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet;
use crate::log;
use crate::output::{note, say};
use crate::phase::Phase;
use crate::resources::Resources;
use crate::results::{Arm, Outcome, Results};
use crate::screen;
use crate::signal;
use crate::supervision::{Pulse, Report, TrialReport};
use crate::table;

/// Samples of the study's protocol: 60 s at 10 Hz.
const FULL: u64 = 600;

/// How long a broker, master or router may take to start.
pub(crate) const HOST_START: Duration = Duration::from_secs(20);

/// How long an edge may take to connect and to load its detector.
pub(crate) const EDGE_START: Duration = Duration::from_secs(60);

/// How long a child may take to stop when a trial is over.
pub(crate) const END: Duration = Duration::from_secs(10);

/// The same after a stop was asked for, for the vehicle and then for edge and host, one after the
/// other: everything is gone within 3 s.
const END_STOPPED: [Duration; 2] = [Duration::from_millis(1_200), Duration::from_millis(600)];

pub(crate) async fn run(registry: &Registry, mut args: RunArgs) -> Result<ExitCode, Failure> {
    if args.full {
        args.load.samples.get_or_insert(FULL);
    }
    log::start("warn");
    let stop = signal::stop(false)?;
    let arms = arms(registry, &args.transports)?;
    // Mistakes in what all arms share are found before anything is started.
    args.load.check(registry)?;
    let ids = fleet::ids(args.vehicles)?;
    fleet::check(&args.load, &args.collective, &args.quality.prefix, &ids)?;
    for (label, _) in &arms {
        args.record.of_arm(label)?;
    }
    let viewer = args.view.start()?;
    let streams: Vec<Option<Stream>> = arms
        .iter()
        .map(|(label, _)| viewer.as_ref().map(|viewer| viewer.stream(label.as_str())))
        .collect();
    let environment = Environment::read();
    if !environment.optimised {
        note!("built without optimisation: the figures are not to be used; use --release");
    }
    let mut results = {
        let mut record = cli::record(&args.load, &args.quality, &args.detection, &args.operation);
        record["fleet"] = args.collective.record(&ids);
        Results::create(&args.results, environment, record)?
    };
    let mut unmeasured = Vec::new();
    let mut kept = true;
    for ((label, config), stream) in arms.into_iter().zip(streams) {
        if *stop.borrow() {
            unmeasured.push(label);
            continue;
        }
        let folder = results.arm_folder(&label)?;
        let trial = Trial {
            args: &args,
            ids: &ids,
            label: &label,
            folder: &folder,
            stream: stream.as_ref(),
        };
        let ran = trial.run(&config, stop.clone()).await;
        if let Some(stream) = stream {
            let failure = ran.iter().find_map(|arm| arm.outcome.as_ref().err());
            let failure = failure.map(ToString::to_string);
            stream.enter(screen::ending(failure.as_deref()));
        }
        for arm in ran {
            if let Err(failure) = &arm.outcome {
                note!("{}: {failure}", arm.label);
            }
            // What was measured is shown, also where it cannot be kept.
            if let Err(failure) = results.add(arm) {
                note!("error: {failure}");
                kept = false;
            }
        }
    }
    if let Some(viewer) = viewer {
        viewer.close().await;
    }
    let mut text = table::of_arms(results.arms());
    let interrupted = *stop.borrow();
    if interrupted {
        text.push_str(&table::interruption(args.load.samples(), &unmeasured));
    }
    say!("{}", text.trim_end());
    results.finish(&text, interrupted)?;
    say!("raw data and summary: {}", results.folder().display());
    let complete = kept && !interrupted && results.arms().iter().all(Arm::is_complete);
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The transports that are asked for, or all on their embedded defaults, each under a label of its own.
pub(crate) fn arms(
    registry: &Registry,
    transports: &[TransportUrl],
) -> Result<Vec<(String, TransportConfig)>, Failure> {
    let urls = transports.iter().flat_map(TransportUrl::split);
    let configs = urls.map(|url| url.config());
    let mut configs = configs.collect::<Result<Vec<_>, _>>()?;
    if configs.is_empty() {
        let mut transports = registry.transports();
        // The baseline without a network comes first.
        transports.sort_by_key(|(_, about)| about.capabilities.cross_process);
        for (_, about) in transports {
            configs.push(TransportConfig::parse(about.default_url)?);
        }
    }
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut arms = Vec::new();
    for config in configs {
        registry.check(&config)?;
        let scheme = config.url().scheme().to_owned();
        let count = seen.entry(scheme.clone()).or_default();
        *count += 1;
        let label = if *count == 1 {
            scheme
        } else {
            format!("{scheme}-{count}")
        };
        arms.push((label, config));
    }
    Ok(arms)
}

/// What became of one vehicle.
type Ride = Result<Outcome, Failure>;

struct Trial<'a> {
    args: &'a RunArgs,
    /// Of the vehicles, if there are several.
    ids: &'a [VehicleId],
    label: &'a str,
    folder: &'a Path,
    /// Where the view shows it.
    stream: Option<&'a Stream>,
}

impl Trial<'_> {
    /// Runs one transport in fresh processes and returns the arm of each vehicle.
    async fn run(&self, config: &TransportConfig, mut stop: watch::Receiver<bool>) -> Vec<Arm> {
        let bar = self.bar();
        self.enter(Phase::Starting, &bar);
        let mut company = Company::default();
        let rides = self.meet(config, &bar, &mut stop, &mut company).await;
        let reports = company.end(|| patience(&stop, 1)).await;
        bar.finish_and_clear();
        let mut rides = rides.unwrap_or_else(|failure| {
            let failed = |_| Err(Failure::text(failure.to_string()));
            self.names().map(failed).collect()
        });
        for report in reports {
            for (n, ride) in rides.iter_mut().enumerate() {
                let Ok(outcome) = ride else {
                    continue;
                };
                match &report {
                    Report::Host { usage } => outcome.host = Some(*usage),
                    Report::Edge(report) => outcome.edge = report.of_vehicle(n),
                    _ => {}
                }
            }
        }
        let arms = self.names().zip(rides).map(|(vehicle, outcome)| {
            let label = fleet::label(self.label, self.ids, &vehicle);
            if let (true, Ok(outcome)) = (bar.is_hidden(), &outcome) {
                note!("{label}: {} answered", outcome.count(Status::Answered));
            }
            Arm {
                label,
                vehicle,
                url: config.to_string(),
                outcome,
                early_ends: company.early_ends.clone(),
            }
        });
        arms.collect()
    }

    /// The vehicles.
    fn names(&self) -> impl Iterator<Item = String> {
        fleet::names(self.ids).into_iter()
    }

    /// Starts host and edge, then measures.
    async fn meet(
        &self,
        config: &TransportConfig,
        bar: &ProgressBar,
        stop: &mut watch::Receiver<bool>,
        company: &mut Company,
    ) -> Result<Vec<Ride>, Failure> {
        let resources = Resources::record(self.folder)?;
        let transport = config.expose();
        let host = Child::start("host", "host", &[], &transport, self.folder)?;
        resources.watch("host", host.pid());
        let report = self.first_report(company.join(host), HOST_START, stop);
        let (first, second, one_process) = match report.await? {
            Some(Report::Meeting {
                first,
                second,
                one_process,
            }) => (first, second, one_process),
            Some(other) => return Err(Failure::text(format!("unexpected report {other:?}"))),
            None => return Ok(self.names().map(|_| Ok(Outcome::stopped())).collect()),
        };
        // The view and a recording are of the first vehicle.
        let mut shown = Vec::new();
        if let Some(stream) = self.stream {
            let path = stream.listen();
            let path = path.map_err(|error| Failure::new("make a socket for the view", error))?;
            shown.push(format!("--view-relay={}", path.display()));
        }
        if let Some(file) = self.args.record.of_arm(self.label)? {
            shown.push(format!("--record={}", file.display()));
        }
        if one_process {
            if !self.ids.is_empty() {
                for name in self.names() {
                    fleet::folder(self.folder, &name)?;
                }
            }
            let mut flags = self.flags_of_vehicle(0, self.ids);
            flags.extend(shown);
            flags.push("--with-edge".to_owned());
            flags.extend(self.args.collective.flags());
            let vehicle = Child::start("vehicle", "vehicle", &flags, &second, self.folder)?;
            resources.watch("vehicle", vehicle.pid());
            return Ok(self.measure(vec![vehicle], bar, stop, company).await);
        }
        let mut of_edge = flags_of_quality(&self.args.quality);
        of_edge.extend(flags_of_detection(&self.args.detection));
        of_edge.extend(self.args.collective.flags());
        of_edge.extend(fleet::flags(self.ids));
        of_edge.push(AT_ONCE.to_owned());
        let edge = Child::start("edge", "edge", &of_edge, &first, self.folder)?;
        resources.watch("edge", edge.pid());
        let report = self.first_report(company.join(edge), EDGE_START, stop);
        match report.await? {
            Some(Report::Ready) => {}
            Some(other) => return Err(Failure::text(format!("unexpected report {other:?}"))),
            None => return Ok(self.names().map(|_| Ok(Outcome::stopped())).collect()),
        }
        let mut vehicles = Vec::new();
        for (n, name) in self.names().enumerate() {
            let id = self.ids.get(n..=n).unwrap_or_default();
            let mut flags = self.flags_of_vehicle(n, id);
            flags.append(&mut shown);
            let folder = match id {
                [] => self.folder.to_owned(),
                _ => fleet::folder(self.folder, &name)?,
            };
            let vehicle = Child::start("vehicle", &name, &flags, &second, &folder)?;
            resources.watch(&name, vehicle.pid());
            vehicles.push(vehicle);
        }
        Ok(self.measure(vehicles, bar, stop, company).await)
    }

    /// The command line of the process of vehicle number `n` and those after it that are in `ids`.
    fn flags_of_vehicle(&self, n: usize, ids: &[VehicleId]) -> Vec<String> {
        let mut flags = flags_of_load(&fleet::load(&self.args.load, n));
        flags.extend(flags_of_quality(&self.args.quality));
        flags.extend(fleet::flags(ids));
        flags.extend(self.args.operation.flags());
        // Its own detector may be the edge's.
        flags.extend(flags_of_detection(&self.args.detection));
        flags.push(AT_ONCE.to_owned());
        flags
    }

    /// Waits for the vehicles and returns what became of each.
    async fn measure(
        &self,
        processes: Vec<Child>,
        bar: &ProgressBar,
        stop: &mut watch::Receiver<bool>,
        company: &mut Company,
    ) -> Vec<Ride> {
        let warmup = self.args.load.warmup;
        let count = self.names().count();
        let mut rides: Vec<_> = (0..count).map(|_| Ok(Outcome::stopped())).collect();
        let mut phases = vec![Phase::Starting; count];
        let mut answered = vec![0; count];
        let mut shown = Phase::Starting;
        let (told, mut tells) = mpsc::channel(64);
        let mut running = JoinSet::new();
        for (n, process) in processes.into_iter().enumerate() {
            let (told, stop) = (told.clone(), stop.clone());
            let (bar, label) = (bar.clone(), self.label.to_owned());
            let remark = move |text| bar.suspend(|| note!("{label}: {text}"));
            running.spawn(async move { (n, ride(n, process, told, remark, stop).await) });
        }
        drop(told);
        let mut listening = true;
        loop {
            tokio::select! {
                biased;
                told = tells.recv(), if listening => {
                    let Some((vehicle, progress)) = told else {
                        listening = false;
                        continue;
                    };
                    let Some(phase) = phases.get_mut(vehicle) else { continue };
                    *phase = Phase::of(progress, warmup).max(*phase);
                    if let Progress::Answered(scans) = progress {
                        answered[vehicle] = scans.saturating_sub(warmup);
                        bar.set_position(answered.iter().sum());
                    }
                    // The last one is where all of them are.
                    let all = phases.iter().min().copied().unwrap_or(shown);
                    if all > shown {
                        shown = all;
                        self.enter(shown, bar);
                    }
                }
                ended = running.join_next() => {
                    let Some(ended) = ended else { return rides };
                    let (first, report) = match ended {
                        Ok(ended) => ended,
                        Err(error) => std::panic::resume_unwind(error.into_panic()),
                    };
                    // Others must not wait for one that is gone.
                    phases[first] = Phase::Draining;
                    match report {
                        Ok(None) => {}
                        Err(failure) => rides[first] = Err(failure),
                        Ok(Some(report)) => {
                            let (outcomes, early_ends) = Outcome::measured(report);
                            for (ride, outcome) in rides[first..].iter_mut().zip(outcomes) {
                                *ride = Ok(outcome);
                            }
                            for end in &early_ends {
                                note!("{}: {}", self.label, end.how);
                            }
                            company.early_ends.extend(early_ends);
                        }
                    }
                }
                how = company.early_end() => {
                    // The vehicles go on: what they measure shows what the loss does.
                    bar.suspend(|| note!("{}: {how}", self.label));
                }
            }
        }
    }

    /// The first report of a child; `None` if told to stop before.
    async fn first_report(
        &self,
        child: &mut Child,
        patience: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<Report>, Failure> {
        tokio::select! {
            report = tokio::time::timeout(patience, child.next()) => match report {
                Ok(report) => report.map(Some),
                Err(_) => Err(Failure::text(format!(
                    "not ready within {} s; see the logs in {}",
                    patience.as_secs(),
                    self.folder.display()
                ))),
            },
            _ = stop.wait_for(|stop| *stop) => Ok(None),
        }
    }

    fn bar(&self) -> ProgressBar {
        let vehicles = u64::from(self.args.vehicles);
        let bar = ProgressBar::new(self.args.load.samples().saturating_mul(vehicles));
        // The template is ours, and a test renders it.
        if let Ok(style) = ProgressStyle::with_template(BAR) {
            bar.set_style(style);
        }
        bar.set_prefix(self.label.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// Shows where the trial is; without a terminal in plain lines.
    fn enter(&self, phase: Phase, bar: &ProgressBar) {
        bar.set_message(phase.to_string());
        if let Some(stream) = self.stream {
            stream.enter(State::Running(phase.to_string()));
        }
        if bar.is_hidden() {
            note!("{}: {phase}", self.label);
        }
    }
}

/// Waits for a process of vehicles, the first of which is number `first`, and passes on how far they
/// are; `None` if told to stop before they had anything to report.
async fn ride(
    first: usize,
    mut process: Child,
    told: mpsc::Sender<(usize, Progress)>,
    remark: impl Fn(String),
    mut stop: watch::Receiver<bool>,
) -> Result<Option<TrialReport>, Failure> {
    let last = loop {
        let report = tokio::select! {
            report = tokio::time::timeout(Pulse::SILENCE, process.next()) => match report {
                Ok(report) => report?,
                // It is killed when it is dropped: who does not run cannot be asked to stop.
                Err(_) => return Err(Failure::text(format!(
                    "{} has shown no sign of life for {} s and is killed; its log is {}",
                    process.name(),
                    Pulse::SILENCE.as_secs(),
                    process.log().display()
                ))),
            },
            _ = stop.wait_for(|stop| *stop) => break None,
        };
        let (vehicle, progress) = match report {
            Report::Alive => continue,
            Report::Progress { vehicle, progress } => (vehicle, progress),
            Report::Remark { text } => {
                remark(text);
                continue;
            }
            last => break Some(last),
        };
        // Whoever listens outlives this.
        let _ = told.send((first + vehicle, progress)).await;
    };
    let rest = process.end(patience(&stop, 0)).await;
    match last.or(rest) {
        Some(Report::Trial(report)) => Ok(Some(*report)),
        Some(other) if !*stop.borrow() => {
            Err(Failure::text(format!("unexpected report {other:?}")))
        }
        _ => Ok(None),
    }
}

/// How long a child may take to end.
fn patience(stop: &watch::Receiver<bool>, step: usize) -> Duration {
    if *stop.borrow() {
        END_STOPPED[step]
    } else {
        END
    }
}

/// The processes that vehicles need while they measure.
#[derive(Debug, Default)]
struct Company {
    alive: Vec<Child>,
    early_ends: Vec<EarlyEnd>,
}

impl Company {
    fn join(&mut self, child: Child) -> &mut Child {
        let place = self.alive.len();
        self.alive.push(child);
        &mut self.alive[place]
    }

    /// Resolves when one of them ends before its time; how it ended is kept. Cancel-safe.
    async fn early_end(&mut self) -> String {
        let (n, end) = poll_fn(|cx| {
            for (n, child) in self.alive.iter_mut().enumerate() {
                if let Poll::Ready(end) = pin!(child.early_end()).poll(cx) {
                    return Poll::Ready((n, end));
                }
            }
            Poll::Pending
        })
        .await;
        self.alive.remove(n);
        let how = end.how.clone();
        self.early_ends.push(end);
        how
    }

    /// Ends those that are left, the last first, and returns their last reports.
    async fn end(&mut self, patience: impl Fn() -> Duration) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Some(child) = self.alive.pop() {
            reports.extend(child.end(patience()).await);
        }
        reports
    }
}

/// A run starts what it needs, so what is not there when a side starts will not come.
pub(crate) const AT_ONCE: &str = "--connect-timeout=0s";

const BAR: &str = "{prefix:10} {msg:11} {bar:30} {pos}/{len} {eta}";

fn flags_of_load(load: &LoadArgs) -> Vec<String> {
    let mut flags = vec![
        format!("--source={}", load.source),
        format!("--samples={}", load.samples()),
        format!("--warmup={}", load.warmup),
        format!("--size={}", load.size),
        format!("--seed={}", load.seed),
        format!(
            "--ready-timeout={}",
            humantime::format_duration(load.ready_timeout)
        ),
    ];
    flags.extend(load.rate.map(|rate| format!("--rate={rate}")));
    flags.extend(
        load.data_type
            .map(|data| format!("--data-type={}", name(data))),
    );
    flags
}

pub(crate) fn flags_of_quality(quality: &QualityArgs) -> Vec<String> {
    let mut flags = vec![
        format!("--qos={}", name(quality.qos)),
        format!("--prefix={}", quality.prefix),
    ];
    flags.extend(quality.queue.map(|depth| format!("--queue={depth}")));
    flags
}

pub(crate) fn flags_of_detection(detection: &DetectionArgs) -> Vec<String> {
    let mut flags = vec![
        format!("--detector={}", detection.detector),
        format!("--threads={}", detection.threads),
        format!("--runtime={}", detection.runtime),
        format!("--ego={}", detection.ego),
        format!("--max-age={}", detection.max_age),
        format!("--convention={}", name(detection.convention)),
        format!("--edge-clock-offset={}", detection.edge_clock_offset),
        format!("--objects-format={}", name(detection.lists.objects_format)),
    ];
    flags.extend(detection.lists.track.then(|| "--track".to_owned()));
    flags.extend(detection.lists.markers.then(|| "--markers".to_owned()));
    flags
}

/// How a value is written on the command line.
fn name(value: impl clap::ValueEnum) -> String {
    let shown = value.to_possible_value();
    shown
        .map(|shown| shown.get_name().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn children_get_exactly_the_settings_of_the_run() {
        let line = "roundtrip --rate 5 --samples 7 --warmup 3 --data-type cloud --size 50 \
                    --seed 9 --qos exactly-once --queue 3 --prefix veh1 --detector fixed-delay:10ms \
                    --threads 1 --runtime ort --ego=-3,2,-1,1 --max-age 1s --convention precise --edge-clock-offset=-5 --source pcap:a.pcap \
                    --deadline 1s500ms --misses 4 --recoveries 6 --local-detector fixed-delay:5ms \
                    --publish-selected --objects-format object-list --track --markers \
                    --vehicles 2 --pose vehicle2=1,-2,0.5,90 --collective-rate 2.5 \
                    --collective-max-age 1s";
        let run = Cli::parse_from(line.split_whitespace()).run;
        let mut flags = vec!["roundtrip".to_owned(), "vehicle".to_owned()];
        flags.extend(flags_of_load(&run.load));
        flags.extend(flags_of_quality(&run.quality));
        flags.extend(flags_of_detection(&run.detection));
        flags.extend(run.operation.flags());
        flags.extend(run.collective.flags());
        let ids = fleet::ids(run.vehicles).unwrap();
        flags.extend(fleet::flags(&ids));
        let Some(Command::Vehicle(vehicle)) = Cli::parse_from(flags).command else {
            panic!("not the vehicle");
        };
        assert_eq!(format!("{:?}", vehicle.load), format!("{:?}", run.load));
        assert_eq!(
            format!("{:?}", vehicle.quality),
            format!("{:?}", run.quality)
        );
        assert_eq!(vehicle.fleet.ids, ids);
        assert_eq!(
            format!("{:?}", vehicle.collective),
            format!("{:?}", run.collective)
        );
        assert_eq!(
            format!("{:?}", vehicle.detection),
            format!("{:?}", run.detection)
        );
        assert_eq!(
            format!("{:?}", vehicle.operation),
            format!("{:?}", run.operation)
        );
    }

    #[test]
    fn the_progress_bar_renders() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
