//! `roundtrip run`: the same round trip over one transport after the other.

use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use latency_timeline::Status;
use tokio::sync::watch;
use transport_api::{Registry, TransportConfig};
use vehicle::Progress;
use view::{State, Stream};

use crate::child::{Child, EarlyEnd};
use crate::cli::{self, DetectionArgs, LoadArgs, QualityArgs, RunArgs, TransportUrl};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::log;
use crate::output::{note, say};
use crate::phase::Phase;
use crate::resources::Resources;
use crate::results::{Arm, Outcome, Results};
use crate::screen;
use crate::signal;
use crate::supervision::{Pulse, Report};
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
    args.quality.topics()?;
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
        let record = cli::record(&args.load, &args.quality, &args.detection, &args.operation);
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
            label: &label,
            folder: &folder,
            stream: stream.as_ref(),
        };
        let mut early_ends = Vec::new();
        let outcome = trial.run(&config, stop.clone(), &mut early_ends).await;
        if let Err(failure) = &outcome {
            note!("{label}: {failure}");
        }
        if let Some(stream) = stream {
            let failure = outcome.as_ref().err().map(ToString::to_string);
            stream.enter(screen::ending(failure.as_deref()));
        }
        let added = results.add(Arm {
            label,
            url: config.to_string(),
            outcome,
            early_ends,
        });
        // What was measured is shown, also where it cannot be kept.
        if let Err(failure) = added {
            note!("error: {failure}");
            kept = false;
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

struct Trial<'a> {
    args: &'a RunArgs,
    label: &'a str,
    folder: &'a Path,
    /// Where the view shows it.
    stream: Option<&'a Stream>,
}

impl Trial<'_> {
    /// Runs one arm in fresh processes.
    async fn run(
        &self,
        config: &TransportConfig,
        mut stop: watch::Receiver<bool>,
        early_ends: &mut Vec<EarlyEnd>,
    ) -> Result<Outcome, Failure> {
        let bar = self.bar();
        self.enter(Phase::Starting, &bar);
        let resources = Resources::record(self.folder)?;
        let mut company = Company::default();
        let outcome = self.meet(config, &resources, &bar, &mut stop, &mut company);
        let outcome = outcome.await;
        let reports = company.end(|| self.patience(&stop, 1)).await;
        early_ends.append(&mut company.early_ends);
        bar.finish_and_clear();
        let mut outcome = outcome?;
        for report in reports {
            match report {
                Report::Host { usage } => outcome.host = Some(usage),
                Report::Edge(report) => outcome.edge = Some(*report),
                _ => {}
            }
        }
        if bar.is_hidden() {
            note!(
                "{}: {} answered",
                self.label,
                outcome.count(Status::Answered)
            );
        }
        Ok(outcome)
    }

    /// Starts host and edge, then measures.
    async fn meet(
        &self,
        config: &TransportConfig,
        resources: &Resources,
        bar: &ProgressBar,
        stop: &mut watch::Receiver<bool>,
        company: &mut Company,
    ) -> Result<Outcome, Failure> {
        let host = self.child("host", &[], &config.expose(), resources)?;
        let report = self.first_report(company.join(host), HOST_START, stop);
        let (first, second, one_process) = match report.await? {
            Some(Report::Meeting {
                first,
                second,
                one_process,
            }) => (first, second, one_process),
            Some(other) => return Err(Failure::text(format!("unexpected report {other:?}"))),
            None => return Ok(Outcome::stopped()),
        };
        let mut of_vehicle = flags_of_load(&self.args.load);
        of_vehicle.extend(flags_of_quality(&self.args.quality));
        of_vehicle.push(AT_ONCE.to_owned());
        of_vehicle.extend(self.args.operation.flags());
        // Its own detector may be the edge's.
        let detection = flags_of_detection(&self.args.detection);
        of_vehicle.extend(detection.iter().cloned());
        if one_process {
            of_vehicle.push("--with-edge".to_owned());
        } else {
            let mut of_edge = flags_of_quality(&self.args.quality);
            of_edge.extend(detection);
            of_edge.push(AT_ONCE.to_owned());
            let edge = self.child("edge", &of_edge, &first, resources)?;
            let report = self.first_report(company.join(edge), EDGE_START, stop);
            match report.await? {
                Some(Report::Ready) => {}
                Some(other) => return Err(Failure::text(format!("unexpected report {other:?}"))),
                None => return Ok(Outcome::stopped()),
            }
        }
        if let Some(stream) = self.stream {
            let path = stream.listen();
            let path = path.map_err(|error| Failure::new("make a socket for the view", error))?;
            of_vehicle.push(format!("--view-relay={}", path.display()));
        }
        if let Some(file) = self.args.record.of_arm(self.label)? {
            of_vehicle.push(format!("--record={}", file.display()));
        }
        let vehicle = self.child("vehicle", &of_vehicle, &second, resources)?;
        self.measure(vehicle, bar, stop, company).await
    }

    fn child(
        &self,
        name: &'static str,
        arguments: &[String],
        transport: &str,
        resources: &Resources,
    ) -> Result<Child, Failure> {
        let child = Child::start(name, arguments, transport, self.folder)?;
        resources.watch(name, child.pid());
        Ok(child)
    }

    async fn measure(
        &self,
        mut vehicle: Child,
        bar: &ProgressBar,
        stop: &mut watch::Receiver<bool>,
        company: &mut Company,
    ) -> Result<Outcome, Failure> {
        let warmup = self.args.load.warmup;
        let mut phase = Phase::Starting;
        let last = loop {
            let report = tokio::select! {
                report = tokio::time::timeout(Pulse::SILENCE, vehicle.next()) => match report {
                    Ok(report) => report?,
                    // It is killed when it is dropped: who does not run cannot be asked to stop.
                    Err(_) => return Err(Failure::text(format!(
                        "vehicle has shown no sign of life for {} s and is killed; see the logs \
                         in {}",
                        Pulse::SILENCE.as_secs(),
                        self.folder.display()
                    ))),
                },
                _ = stop.wait_for(|stop| *stop) => break None,
                how = company.early_end() => {
                    // The vehicle goes on: what it measures shows what the loss does.
                    bar.suspend(|| note!("{}: {how}", self.label));
                    continue;
                }
            };
            let progress = match report {
                Report::Alive => continue,
                Report::Progress { progress } => progress,
                Report::Remark { text } => {
                    bar.suspend(|| note!("{}: {text}", self.label));
                    continue;
                }
                last => break Some(last),
            };
            let now = Phase::of(progress, warmup);
            if now > phase {
                phase = now;
                self.enter(phase, bar);
            }
            if let Progress::Answered(answered) = progress {
                bar.set_position(answered.saturating_sub(warmup));
            }
        };
        let rest = vehicle.end(self.patience(stop, 0)).await;
        match last.or(rest) {
            Some(Report::Trial(report)) => {
                let (outcome, failures) = Outcome::measured(*report);
                for failure in &failures {
                    note!("{}: {}", self.label, failure.how);
                }
                company.early_ends.extend(failures);
                Ok(outcome)
            }
            Some(other) if !*stop.borrow() => {
                Err(Failure::text(format!("unexpected report {other:?}")))
            }
            _ => Ok(Outcome::stopped()),
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

    fn patience(&self, stop: &watch::Receiver<bool>, step: usize) -> Duration {
        if *stop.borrow() {
            END_STOPPED[step]
        } else {
            END
        }
    }

    fn bar(&self) -> ProgressBar {
        let bar = ProgressBar::new(self.args.load.samples());
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

/// The processes that a vehicle needs while it measures.
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
                    --threads 1 --max-age 1s --convention precise --edge-clock-offset=-5 --source pcap:a.pcap \
                    --deadline 1s500ms --misses 4 --recoveries 6 --local-detector fixed-delay:5ms \
                    --publish-selected --objects-format object-list --track --markers";
        let run = Cli::parse_from(line.split_whitespace()).run;
        let mut flags = vec!["roundtrip".to_owned(), "vehicle".to_owned()];
        flags.extend(flags_of_load(&run.load));
        flags.extend(flags_of_quality(&run.quality));
        flags.extend(flags_of_detection(&run.detection));
        flags.extend(run.operation.flags());
        let Some(Command::Vehicle(vehicle)) = Cli::parse_from(flags).command else {
            panic!("not the vehicle");
        };
        assert_eq!(format!("{:?}", vehicle.load), format!("{:?}", run.load));
        assert_eq!(
            format!("{:?}", vehicle.quality),
            format!("{:?}", run.quality)
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
