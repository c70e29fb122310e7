//! `roundtrip drill`: whether a vehicle stays operational when its link, its broker or its edge fails.

mod scenario;
mod verdict;

use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use latency_timeline::Clock;
use tokio::sync::watch;
use transport_api::{Registry, TransportConfig};
use transport_relay::{Path, Proxy};
use vehicle::{Mode, Progress};

use crate::campaign::{self, AT_ONCE, EDGE_START, END, HOST_START};
use crate::child::Child;
use crate::cli::{DetectionArgs, QualityArgs, TransportUrl};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::fleet;
use crate::log;
use crate::operation::OperationArgs;
use crate::output::{note, say};
use crate::resources::{self, Resources};
use crate::results::{Arm, Outcome, Results};
use crate::signal;
use crate::supervision::{Report, TrialReport};

use scenario::Scenario;
use verdict::{Marks, Verdict};

#[derive(Debug, Args)]
pub(crate) struct DrillArgs {
    /// Transport to drill, by URL; give it several times for several. Default: each one that is
    /// compiled in, on its embedded default.
    #[arg(
        long = "transport",
        value_name = "URL",
        env = "ROUNDTRIP_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) transports: Vec<TransportUrl>,

    /// What fails: `broker-kill`, `edge-kill`, `cut:DURATION`, `slow:RATE` with a rate in bytes a second
    /// such as `200KiB`; several times for several. Default: the first two, cuts of 200 ms, 2 s and
    /// 30 s, and `slow:200KiB`.
    #[arg(long = "scenario", value_name = "SCENARIO", env = "ROUNDTRIP_SCENARIO")]
    pub(crate) scenarios: Vec<Scenario>,

    /// Scans a second.
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 10.0,
        value_parser = crate::cli::rate,
        allow_negative_numbers = true,
        env = "ROUNDTRIP_RATE"
    )]
    pub(crate) rate: f64,

    /// Where scans come from, as for `run`.
    #[arg(
        long,
        value_name = "SOURCE",
        default_value = "synthetic:1?turns=10",
        env = "ROUNDTRIP_SOURCE"
    )]
    pub(crate) source: String,

    #[command(flatten)]
    pub(crate) quality: QualityArgs,

    #[command(flatten)]
    pub(crate) detection: DetectionArgs,

    #[command(flatten)]
    pub(crate) operation: OperationArgs,

    /// Folder below which a folder for this drill is made.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "ROUNDTRIP_RESULTS"
    )]
    pub(crate) results: std::path::PathBuf,
}

/// Scans before anything is looked at.
const WARM_UP: u64 = 20;

/// Answered scans before something fails, and after it has recovered: what is normal must be seen.
const NORMAL: f64 = 2.0;

/// How long an edge or a broker that was killed stays away.
const AWAY: Duration = Duration::from_secs(2);

/// How long a recovery may take before the drill gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a slow link stays slow.
const SLOW: Duration = Duration::from_secs(5);

pub(crate) async fn run(registry: &Registry, args: DrillArgs) -> Result<ExitCode, Failure> {
    log::start("warn");
    let stop = signal::stop(false)?;
    let arms = campaign::arms(registry, &args.transports)?;
    fleet::topics(&args.quality.prefix, &[])?;
    let scenarios = match args.scenarios.is_empty() {
        true => Scenario::usual(),
        false => args.scenarios.clone(),
    };
    let settings = serde_json::json!({
        "scenarios": scenarios.iter().map(Scenario::to_string).collect::<Vec<_>>(),
        "rate_hz": args.rate,
        "source": args.source,
        "detector": args.detection.detector.to_string(),
        "operation": args.operation.record(),
    });
    let mut results = Results::create(&args.results, Environment::read(), settings)?;
    let mut verdicts = Vec::new();
    'arms: for (label, config) in arms {
        for scenario in &scenarios {
            if *stop.borrow() {
                break 'arms;
            }
            let name = format!("{label}-{}", scenario.label());
            let folder = results.arm_folder(&name)?;
            note!("{label}: {scenario}");
            let drill = Drill {
                args: &args,
                folder: &folder,
                clock: Clock::start(),
            };
            let done = drill.run(&config, *scenario, stop.clone()).await;
            let (outcome, verdict) = match done {
                Ok(Done::Drilled(report, marks)) => {
                    let verdict = match &report.vehicles[..] {
                        [vehicle] => Verdict::of(&vehicle.trial, marks),
                        other => Verdict::failed(format!("{} vehicles reported", other.len())),
                    };
                    let outcome = Outcome::measured(*report).0.into_iter().next();
                    (Ok(outcome.unwrap_or_default()), Ok(verdict))
                }
                Ok(Done::Impossible(why)) => (Ok(Outcome::stopped()), Err(why.to_owned())),
                Err(failure) => {
                    let why = failure.to_string();
                    (Err(failure), Ok(Verdict::failed(why)))
                }
            };
            results.note(&name, "drill.json", &verdict::record(scenario, &verdict))?;
            results.add(Arm {
                label: name,
                vehicle: fleet::ALONE.to_owned(),
                url: config.to_string(),
                outcome,
                early_ends: Vec::new(),
            })?;
            verdicts.push((label.clone(), *scenario, verdict));
        }
    }
    let mut text = verdict::table(&verdicts);
    let interrupted = *stop.borrow();
    if interrupted {
        text.push_str("interrupted: what is missing or ends early was not drilled\n");
    }
    say!("{}", text.trim_end());
    results.finish(&text, interrupted)?;
    say!("raw data and summary: {}", results.folder().display());
    let kept = |verdict: &Result<Verdict, String>| verdict.as_ref().is_ok_and(Verdict::is_kept);
    let all = |verdict: &Result<Verdict, String>| verdict.is_err() || kept(verdict);
    let some = verdicts.iter().any(|(_, _, verdict)| kept(verdict));
    let success = !interrupted && some && verdicts.iter().all(|(_, _, verdict)| all(verdict));
    Ok(if success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One scenario over one transport.
struct Drill<'a> {
    args: &'a DrillArgs,
    folder: &'a FilePath,
    /// Of this host, so its readings compare with those of the vehicle.
    clock: Clock,
}

enum Done {
    Drilled(Box<TrialReport>, Marks),
    /// The transport has nothing that could fail so.
    Impossible(&'static str),
}

/// What a drill runs beside the vehicle.
struct Stage {
    host: Option<Child>,
    edge: Option<Child>,
    /// For the edge, and for a host that is started again.
    first: TransportConfig,
    hosted: TransportConfig,
    relay: Option<Proxy>,
}

impl Drill<'_> {
    async fn run(
        &self,
        config: &TransportConfig,
        scenario: Scenario,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Done, Failure> {
        let resources = Resources::record(self.folder)?;
        let mut host = self.child("host", &[], &config.expose(), &resources)?;
        let Report::Meeting {
            first,
            second,
            one_process,
        } = within(HOST_START, &mut host).await?
        else {
            return Err(Failure::text("the host did not tell where to meet"));
        };
        if one_process {
            host.end(END).await;
            return Ok(Done::Impossible(
                "both sides are in one process: there is nothing between them that could fail",
            ));
        }
        let (first, second) = (
            TransportConfig::parse(&first)?,
            TransportConfig::parse(&second)?,
        );
        let mut stage = Stage {
            hosted: config.clone(),
            host: Some(host),
            edge: None,
            first,
            relay: None,
        };
        let second = match stage.prepare(scenario, config, &second).await? {
            Ok(second) => second,
            Err(why) => return Ok(Done::Impossible(why)),
        };
        self.start_edge(&mut stage, &resources).await?;
        let vehicle = self.child(
            "vehicle",
            &self.flags(scenario),
            &second.expose(),
            &resources,
        )?;
        let done = self
            .watch(vehicle, &mut stage, scenario, &resources, &mut stop)
            .await;
        for child in [stage.edge, stage.host].into_iter().flatten() {
            child.end(END).await;
        }
        done
    }

    /// Runs the vehicle, lets `scenario` happen, and waits until answers come again.
    async fn watch(
        &self,
        mut vehicle: Child,
        stage: &mut Stage,
        scenario: Scenario,
        resources: &Resources,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Done, Failure> {
        let normal = (NORMAL * self.args.rate).ceil() as u64;
        let mut marks = Marks::default();
        let mut seen = Seen::default();
        if !self
            .until(&mut vehicle, &mut seen, WARM_UP + normal, None, stop)
            .await?
        {
            return Err(Failure::text("stopped before anything could fail"));
        }
        marks.memory_before = vehicle.pid().and_then(resources::resident);
        marks.failed_ns = self.clock.now();
        {
            // The vehicle's reports are read meanwhile, so that it is never held up.
            let failing = self.fail(stage, scenario, resources);
            tokio::pin!(failing);
            loop {
                tokio::select! {
                    done = &mut failing => break done?,
                    report = vehicle.next() => seen.note(&report?),
                    _ = stop.wait_for(|stop| *stop) => {
                        return Err(Failure::text("stopped while something failed"));
                    }
                }
            }
        }
        marks.healed_ns = self.clock.now();
        let back = seen.answered + normal + u64::from(self.args.operation.recoveries);
        marks.recovered = self
            .until(&mut vehicle, &mut seen, back, Some(PATIENCE), stop)
            .await?;
        marks.stopped_ns = self.clock.now();
        marks.memory_after = vehicle.pid().and_then(resources::resident);
        match vehicle.end(END).await {
            Some(Report::Trial(report)) => Ok(Done::Drilled(report, marks)),
            _ => Err(Failure::text("the vehicle did not tell what it measured")),
        }
    }

    /// Reads reports until so many scans are answered and the vehicle relies on the edge; `false` if told to stop or out of patience
    /// before.
    async fn until(
        &self,
        vehicle: &mut Child,
        seen: &mut Seen,
        wanted: u64,
        patience: Option<Duration>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<bool, Failure> {
        let end = tokio::time::sleep(patience.unwrap_or(EDGE_START + PATIENCE));
        tokio::pin!(end);
        while seen.answered < wanted || seen.local {
            tokio::select! {
                report = vehicle.next() => seen.note(&report?),
                () = &mut end => return Ok(false),
                _ = stop.wait_for(|stop| *stop) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Lets `scenario` happen; returns once everything is as it was before.
    async fn fail(
        &self,
        stage: &mut Stage,
        scenario: Scenario,
        resources: &Resources,
    ) -> Result<(), Failure> {
        match scenario {
            Scenario::EdgeKill => {
                if let Some(edge) = stage.edge.take() {
                    edge.kill().await;
                }
                tokio::time::sleep(AWAY).await;
                self.start_edge(stage, resources).await
            }
            Scenario::BrokerKill => {
                if let Some(host) = stage.host.take() {
                    host.kill().await;
                }
                tokio::time::sleep(AWAY).await;
                let host = self.child("host", &[], &stage.hosted.expose(), resources)?;
                within(HOST_START, stage.host.insert(host)).await.map(drop)
            }
            Scenario::Cut(span) => stage.disturb(Path::Cut, span).await,
            Scenario::Slow(rate) => stage.disturb(Path::Slow(rate), SLOW).await,
        }
    }

    async fn start_edge(&self, stage: &mut Stage, resources: &Resources) -> Result<(), Failure> {
        let mut flags = campaign::flags_of_quality(&self.args.quality);
        flags.extend(campaign::flags_of_detection(&self.args.detection));
        let edge = self.child("edge", &flags, &stage.first.expose(), resources)?;
        match within(EDGE_START, stage.edge.insert(edge)).await? {
            Report::Ready => Ok(()),
            other => Err(Failure::text(format!("unexpected report {other:?}"))),
        }
    }

    fn flags(&self, scenario: Scenario) -> Vec<String> {
        let fails = match scenario {
            Scenario::Cut(span) => span,
            Scenario::Slow(_) => SLOW,
            Scenario::BrokerKill | Scenario::EdgeKill => AWAY + EDGE_START,
        };
        let longest = fails + 2 * PATIENCE;
        let mut flags = vec![
            format!("--source={}", self.args.source),
            format!("--rate={}", self.args.rate),
            format!("--warmup={WARM_UP}"),
            // It is stopped before.
            format!(
                "--samples={}",
                (longest.as_secs_f64() * self.args.rate).ceil()
            ),
            AT_ONCE.to_owned(),
        ];
        flags.extend(campaign::flags_of_quality(&self.args.quality));
        flags.extend(campaign::flags_of_detection(&self.args.detection));
        flags.extend(self.args.operation.flags());
        flags
    }

    fn child(
        &self,
        name: &'static str,
        arguments: &[String],
        transport: &str,
        resources: &Resources,
    ) -> Result<Child, Failure> {
        let child = Child::start(name, name, arguments, transport, self.folder)?;
        resources.watch(name, child.pid());
        Ok(child)
    }
}

impl Stage {
    /// Puts what `scenario` needs between the sides and returns the vehicle's address, or why there is
    /// nothing that could fail so.
    async fn prepare(
        &mut self,
        scenario: Scenario,
        config: &TransportConfig,
        second: &TransportConfig,
    ) -> Result<Result<TransportConfig, &'static str>, Failure> {
        let url = second.url();
        match scenario {
            Scenario::EdgeKill => return Ok(Ok(second.clone())),
            Scenario::BrokerKill => {
                if config.url().has_host() {
                    return Ok(Err("it is not ours to kill; kill it yourself during `run`"));
                }
                if self.first.to_string() != second.to_string() {
                    return Ok(Err("there is none between the sides"));
                }
                let Some(port) = url.port() else {
                    return Ok(Err("its address has no port to start it again at"));
                };
                self.hosted = config.clone().with_option("port", &port.to_string());
                return Ok(Ok(second.clone()));
            }
            Scenario::Cut(_) | Scenario::Slow(_) => {}
        }
        if url.scheme() == "rosmaster" {
            return Ok(Err(
                "data goes from node to node, past every relay in front of the master",
            ));
        }
        let (Some(host), Some(port)) = (url.host(), url.port()) else {
            return Ok(Err(
                "its address names no port to relay; give one in the URL",
            ));
        };
        let upstream = resolve(&format!("{host}:{port}")).await?;
        let relay = Proxy::to(upstream).map_err(|error| Failure::new("start a relay", error))?;
        let mut url = url.clone();
        let relayed = url.set_ip_host(relay.address().ip()).is_ok()
            && url.set_port(Some(relay.address().port())).is_ok();
        if !relayed {
            return Ok(Err("its address cannot be led through a relay"));
        }
        let second = second.clone().with_url(url);
        self.relay = Some(relay);
        Ok(Ok(second))
    }

    async fn disturb(&mut self, path: Path, span: Duration) -> Result<(), Failure> {
        let relay = self.relay.as_ref();
        let relay = relay.ok_or_else(|| Failure::text("no relay to disturb"))?;
        relay.set(path);
        tokio::time::sleep(span).await;
        relay.set(Path::Live);
        Ok(())
    }
}

async fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let what = format!("resolve {address}");
    let mut found = tokio::net::lookup_host(address)
        .await
        .map_err(|error| Failure::new(&what, error))?;
    let none = || Failure::text(format!("{what}: no address"));
    found.next().ok_or_else(none)
}

/// The first report of a child.
async fn within(patience: Duration, child: &mut Child) -> Result<Report, Failure> {
    let report = tokio::time::timeout(patience, child.next()).await;
    report.unwrap_or_else(|_| Err(Failure::text(format!("not ready within {patience:?}"))))
}

/// What the vehicle has told.
#[derive(Debug, Default)]
struct Seen {
    answered: u64,
    /// Whether it relies on itself.
    local: bool,
}

impl Seen {
    fn note(&mut self, report: &Report) {
        match report {
            Report::Progress {
                progress: Progress::Answered(answered),
                ..
            } => self.answered = *answered,
            Report::Progress {
                progress: Progress::Switched(mode),
                ..
            } => self.local = *mode == Mode::Local,
            _ => {}
        }
    }
}
