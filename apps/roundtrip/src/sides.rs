//! `roundtrip vehicle`, `roundtrip edge` and `roundtrip host`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use edge::Edge;
use latency_timeline::Clock;
use tokio::sync::watch;
use transport_api::{Placement, Registry, Transport, TransportConfig};
use vehicle::Progress;

use crate::cli::{self, DetectionArgs, EdgeArgs, HostArgs, QualityArgs, VehicleArgs};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::log;
use crate::output::say;
use crate::results::{Arm, Outcome, Results};
use crate::signal;
use crate::supervision::{EdgeReport, Report, Usage, tell};
use crate::table;

/// How long a side takes at most to send what it has accepted, and to disconnect.
const CLOSE: Duration = Duration::from_secs(2);

/// The same when it was told to stop: it must be gone within 3 s.
const CLOSE_STOPPED: Duration = Duration::from_millis(300);

/// Tells a supervisor about a failure as well as the caller.
fn reported<T>(result: Result<T, Failure>, supervised: bool) -> Result<T, Failure> {
    if let (Err(failure), true) = (&result, supervised) {
        tell(&Report::Failed {
            error: failure.to_string(),
        });
    }
    result
}

/// Opens a transport, unless told to stop before it is connected (`None`).
async fn open(
    registry: &Registry,
    config: &TransportConfig,
    side: &str,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Arc<dyn Transport>>, Failure> {
    let config = config.clone().with_default_peer(cli::peer(side)?);
    let transport = tokio::select! {
        transport = registry.open(&config) => transport?,
        _ = stop.wait_for(|stop| *stop) => return Ok(None),
    };
    let info = transport.info();
    tracing::info!(
        endpoint = info.endpoint,
        implementation = info.implementation,
        settings = ?info.settings,
        max_payload = ?transport.capabilities().max_payload,
        "{side} connected"
    );
    Ok(Some(transport))
}

async fn close(transport: &Arc<dyn Transport>, stop: &watch::Receiver<bool>) {
    let report = transport
        .close(if *stop.borrow() { CLOSE_STOPPED } else { CLOSE })
        .await;
    if report.abandoned > 0 {
        tracing::warn!(
            abandoned = report.abandoned,
            "accepted messages were not sent"
        );
    }
}

pub(crate) async fn vehicle(registry: &Registry, args: VehicleArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    log::start(if supervised { "info" } else { "warn" });
    reported(measure(registry, args).await, supervised)
}

async fn measure(registry: &Registry, args: VehicleArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    let mut stop = signal::stop(supervised)?;
    let config = cli::required(args.transport)?;
    let settings = vehicle::Settings {
        topics: args.quality.topics()?,
        scan_qos: args.quality.qos(),
        objects_qos: args.quality.subscriber_qos(),
        rate: args.load.rate,
        handshake: HANDSHAKE,
        warmup: args.load.warmup,
        samples: args.load.samples(),
        ready_timeout: args.load.ready_timeout,
        clock: Clock::start(),
    };
    let record = cli::record(&args.load, &args.quality, &args.detection);
    let convention = args.detection.convention();
    let Some(feed) = args.load.feed(convention, &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let inside = match args.with_edge {
        false => None,
        true => match open(registry, &config, "edge", &mut stop).await? {
            Some(transport) => Some(start_edge(transport, &args.quality, &args.detection).await?),
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    let Some(transport) = open(registry, &config, "vehicle", &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let progress = |progress| match progress {
        Progress::Answered(answered) if supervised => tell(&Report::Progress { answered }),
        _ => {}
    };
    let driven = vehicle::drive(&*transport, feed, &settings, stop.clone(), progress).await;
    let edge = match inside {
        Some(inside) => Some(inside.finish().await?),
        None => None,
    };
    let info = transport.info().clone();
    close(&transport, &stop).await;
    let trial = driven?;
    let complete = trial.is_complete();
    if supervised {
        let usage = Usage::so_far();
        tell(&Report::Trial {
            trial: Box::new(trial),
            info,
            usage,
            edge,
        });
    } else {
        let label = info.scheme.clone();
        let outcome = Outcome::measured(trial, info, Usage::so_far(), edge);
        let arm = Arm {
            label,
            url: config.to_string(),
            outcome: Ok(outcome),
        };
        show(arm, args.results.as_deref(), record)?;
    }
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the table of one trial and keeps its data in a folder below `results`.
fn show(arm: Arm, results: Option<&Path>, settings: serde_json::Value) -> Result<(), Failure> {
    let Some(base) = results else {
        say!("{}", table::of_arms(&[arm]).trim_end());
        return Ok(());
    };
    let mut results = Results::create(base, Environment::read(), settings)?;
    results.arm_folder(&arm.label)?;
    results.add(arm)?;
    let text = table::of_arms(results.arms());
    say!("{}", text.trim_end());
    results.finish(&text)?;
    say!("raw data and summary: {}", results.folder().display());
    Ok(())
}

/// Echoes of an empty scan before a trial.
const HANDSHAKE: u64 = 20;

pub(crate) async fn edge(registry: &Registry, args: EdgeArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    log::start(if supervised { "info" } else { "warn" });
    reported(serve(registry, args).await, supervised)
}

async fn serve(registry: &Registry, args: EdgeArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    let mut stop = signal::stop(supervised)?;
    let config = cli::required(args.transport)?;
    let Some(transport) = open(registry, &config, "edge", &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let running = start_edge(transport, &args.quality, &args.detection).await?;
    if supervised {
        tell(&Report::Ready);
    } else {
        say!("edge ready on {config}; stop with Ctrl-C");
    }
    // The sender lives as long as the runtime, so this ends by a stop only.
    let _ = stop.wait_for(|stop| *stop).await;
    let report = running.finish().await?;
    if supervised {
        tell(&Report::Edge(report));
    } else {
        let done = report.report;
        say!(
            "answered {}, not decodable {}, not detected {}, missed {}, peak memory {:.0} MB",
            done.answered,
            done.undecodable,
            done.undetected,
            done.scans.missed + done.clouds.missed,
            report.usage.peak_memory as f64 / 1e6
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// An edge at work.
struct RunningEdge {
    transport: Arc<dyn Transport>,
    detector: String,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<transport_api::Result<edge::Report>>,
}

async fn start_edge(
    transport: Arc<dyn Transport>,
    quality: &QualityArgs,
    detection: &DetectionArgs,
) -> Result<RunningEdge, Failure> {
    let settings = edge::Settings {
        topics: quality.topics()?,
        scan_qos: quality.subscriber_qos(),
        objects_qos: quality.qos(),
        convention: detection.convention(),
        clock: detection.edge_clock(),
    };
    let detector = detection.detector()?;
    let name = detector.name().to_owned();
    let edge = Edge::open(&*transport, detector, &settings).await?;
    let (stop, stopped) = watch::channel(false);
    Ok(RunningEdge {
        transport,
        detector: name,
        stop,
        task: tokio::spawn(edge.run(stopped)),
    })
}

impl RunningEdge {
    async fn finish(self) -> Result<EdgeReport, Failure> {
        self.stop.send_replace(true);
        let report = self
            .task
            .await
            .map_err(|error| Failure::new("end the edge", error))??;
        close(&self.transport, &self.stop.subscribe()).await;
        Ok(EdgeReport {
            report,
            detector: self.detector,
            usage: Usage::so_far(),
        })
    }
}

pub(crate) async fn host(registry: &Registry, args: HostArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    log::start(if supervised { "info" } else { "warn" });
    reported(attend(registry, args).await, supervised)
}

async fn attend(registry: &Registry, args: HostArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    let mut stop = signal::stop(supervised)?;
    let config = cli::required(args.transport)?;
    let meeting = tokio::select! {
        meeting = registry.meet(&config) => meeting?,
        _ = stop.wait_for(|stop| *stop) => return Ok(ExitCode::SUCCESS),
    };
    if supervised {
        tell(&Report::Meeting {
            first: meeting.first.expose(),
            second: meeting.second.expose(),
            one_process: meeting.placement == Placement::OneProcess,
        });
    } else {
        say!("edge:    roundtrip edge --transport '{}'", meeting.first);
        say!(
            "vehicle: roundtrip vehicle --transport '{}'",
            meeting.second
        );
        match meeting.host {
            Some(_) => say!("running; stop with Ctrl-C"),
            None => {
                say!("nothing to run here");
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    // The sender lives as long as the runtime, so this ends by a stop only.
    let _ = stop.wait_for(|stop| *stop).await;
    if let Some(host) = meeting.host {
        host.stop().await;
    }
    if supervised {
        tell(&Report::Host {
            usage: Usage::so_far(),
        });
    }
    Ok(ExitCode::SUCCESS)
}
