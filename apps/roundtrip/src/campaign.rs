//! `roundtrip run`: the same round trip over one transport after the other.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use latency_timeline::Status;
use tokio::sync::watch;
use transport_api::{Registry, TransportConfig};

use crate::child::Child;
use crate::cli::{self, DetectionArgs, LoadArgs, QualityArgs, RunArgs, TransportUrl};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::log;
use crate::output::say;
use crate::resources::Resources;
use crate::results::{Arm, Outcome, Results};
use crate::signal;
use crate::supervision::Report;
use crate::table;

/// Samples of the study's protocol: 60 s at 10 Hz.
const FULL: u64 = 600;

/// How long a broker, master or router may take to start.
const HOST_START: Duration = Duration::from_secs(20);

/// How long an edge may take to connect and to load its detector.
const EDGE_START: Duration = Duration::from_secs(60);

/// How long a child may take to stop when a trial is over.
const END: Duration = Duration::from_secs(10);

/// The same after a stop was asked for, for the vehicle and then for edge and host, one after the
/// other: everything is gone within 3 s.
const END_STOPPED: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_millis(700)];

pub(crate) async fn run(registry: &Registry, mut args: RunArgs) -> Result<ExitCode, Failure> {
    if args.full {
        args.load.samples.get_or_insert(FULL);
    }
    log::start("warn");
    let stop = signal::stop(false)?;
    let arms = arms(registry, &args)?;
    // Mistakes in what all arms share are found before anything is started.
    args.load.check()?;
    args.quality.topics()?;
    let environment = Environment::read();
    if !environment.optimised {
        eprintln!("built without optimisation: the figures are not to be used; use --release");
    }
    let mut results = {
        let record = cli::record(&args.load, &args.quality, &args.detection);
        Results::create(&args.results, environment, record)?
    };
    for (label, config) in arms {
        if *stop.borrow() {
            break;
        }
        let folder = results.arm_folder(&label)?;
        let trial = Trial {
            args: &args,
            label: &label,
            folder: &folder,
        };
        let outcome = trial.run(&config, stop.clone()).await;
        if let Err(failure) = &outcome {
            eprintln!("{label}: {failure}");
        }
        results.add(Arm {
            label,
            url: config.to_string(),
            outcome,
        })?;
    }
    let text = table::of_arms(results.arms());
    say!("{}", text.trim_end());
    results.finish(&text)?;
    say!("raw data and summary: {}", results.folder().display());
    let complete = !*stop.borrow() && results.arms().iter().all(Arm::is_complete);
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The transports to compare, each under a label of its own.
fn arms(registry: &Registry, args: &RunArgs) -> Result<Vec<(String, TransportConfig)>, Failure> {
    let urls = args.transports.iter().map(TransportUrl::config);
    let mut configs = urls.collect::<Result<Vec<_>, _>>()?;
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
        registry.factory(&config)?;
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

/// The addresses of the two sides, secrets included.
struct Sides {
    first: String,
    second: String,
    one_process: bool,
}

struct Trial<'a> {
    args: &'a RunArgs,
    label: &'a str,
    folder: &'a Path,
}

impl Trial<'_> {
    /// Runs one arm in fresh processes.
    async fn run(
        &self,
        config: &TransportConfig,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Outcome, Failure> {
        let bar = self.bar();
        let resources = Resources::record(self.folder)?;
        let mut host = self.child("host", &[], &config.expose(), &resources)?;
        bar.set_message("starting");
        let meeting = self.first_report(&mut host, HOST_START, &mut stop).await;
        let outcome = match meeting {
            Ok(Some(Report::Meeting {
                first,
                second,
                one_process,
            })) => {
                let sides = Sides {
                    first,
                    second,
                    one_process,
                };
                self.meet(&sides, &resources, &bar, &mut stop).await
            }
            Ok(Some(other)) => Err(Failure::text(format!("unexpected report {other:?}"))),
            Ok(None) => Ok(Outcome::stopped()),
            Err(failure) => Err(failure),
        };
        let usage = match host.end(self.patience(&stop, 1)).await {
            Some(Report::Host { usage }) => Some(usage),
            _ => None,
        };
        bar.finish_and_clear();
        let outcome = outcome?;
        if bar.is_hidden() {
            eprintln!(
                "{}: {} answered",
                self.label,
                outcome.count(Status::Answered)
            );
        }
        Ok(Outcome {
            host: usage,
            ..outcome
        })
    }

    async fn meet(
        &self,
        sides: &Sides,
        resources: &Resources,
        bar: &ProgressBar,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Outcome, Failure> {
        let mut arguments = flags_of_load(&self.args.load);
        arguments.extend(flags_of_quality(&self.args.quality));
        let detection = flags_of_detection(&self.args.detection);
        if sides.one_process {
            arguments.push("--with-edge".to_owned());
            arguments.extend(detection);
            let vehicle = self.child("vehicle", &arguments, &sides.second, resources)?;
            return self.measure(vehicle, bar, stop).await;
        }
        let mut flags = flags_of_quality(&self.args.quality);
        flags.extend(detection);
        let mut edge = self.child("edge", &flags, &sides.first, resources)?;
        let outcome = match self.first_report(&mut edge, EDGE_START, stop).await {
            Ok(Some(Report::Ready)) => {
                let vehicle = self.child("vehicle", &arguments, &sides.second, resources)?;
                self.measure(vehicle, bar, stop).await
            }
            Ok(Some(other)) => Err(Failure::text(format!("unexpected report {other:?}"))),
            Ok(None) => Ok(Outcome::stopped()),
            Err(failure) => Err(failure),
        };
        let edge = match edge.end(self.patience(stop, 1)).await {
            Some(Report::Edge(report)) => Some(report),
            _ => None,
        };
        Ok(Outcome { edge, ..outcome? })
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
    ) -> Result<Outcome, Failure> {
        let warmup = self.args.load.warmup;
        bar.set_message("warming up");
        loop {
            let report = tokio::select! {
                report = vehicle.next() => report?,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match report {
                Report::Progress { answered } if answered > warmup => {
                    bar.set_message("measuring");
                    bar.set_position(answered - warmup);
                }
                Report::Progress { .. } => {}
                Report::Trial {
                    trial,
                    info,
                    usage,
                    edge,
                } => {
                    vehicle.end(self.patience(stop, 0)).await;
                    return Ok(Outcome::measured(*trial, info, usage, edge));
                }
                other => return Err(Failure::text(format!("unexpected report {other:?}"))),
            }
        }
        Ok(match vehicle.end(self.patience(stop, 0)).await {
            Some(Report::Trial {
                trial,
                info,
                usage,
                edge,
            }) => Outcome::measured(*trial, info, usage, edge),
            _ => Outcome::stopped(),
        })
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
        if bar.is_hidden() {
            // No terminal: progress in plain lines.
            eprintln!("{}: started", self.label);
        }
        bar
    }
}

const BAR: &str = "{prefix:10} {msg:11} {bar:30} {pos}/{len} {eta}";

fn flags_of_load(load: &LoadArgs) -> Vec<String> {
    vec![
        format!("--source={}", load.source),
        format!("--rate={}", load.rate),
        format!("--samples={}", load.samples()),
        format!("--warmup={}", load.warmup),
        format!("--data-type={}", name(load.data_type)),
        format!("--size={}", load.size),
        format!("--seed={}", load.seed),
        format!(
            "--ready-timeout={}",
            humantime::format_duration(load.ready_timeout)
        ),
    ]
}

fn flags_of_quality(quality: &QualityArgs) -> Vec<String> {
    vec![
        format!("--qos={}", name(quality.qos)),
        format!("--prefix={}", quality.prefix),
    ]
}

fn flags_of_detection(detection: &DetectionArgs) -> Vec<String> {
    vec![
        format!("--detector={}", detection.detector),
        format!("--threads={}", detection.threads),
        format!("--convention={}", name(detection.convention)),
        format!("--edge-clock-offset={}", detection.edge_clock_offset),
    ]
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
                    --seed 9 --qos exactly-once --prefix veh1 --detector fixed-delay:10ms \
                    --threads 1 --convention precise --edge-clock-offset=-5 --source pcap:a.pcap";
        let run = Cli::parse_from(line.split_whitespace()).run;
        let mut flags = vec!["roundtrip".to_owned(), "vehicle".to_owned()];
        flags.extend(flags_of_load(&run.load));
        flags.extend(flags_of_quality(&run.quality));
        flags.extend(flags_of_detection(&run.detection));
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
    }

    #[test]
    fn the_progress_bar_renders() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
