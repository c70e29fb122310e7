//! `roundtrip vehicle`, `roundtrip edge` and `roundtrip host`.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edge::Edge;
use latency_timeline::Clock;
use lidar_detector::Detector;
use tokio::sync::watch;
use transport_api::backoff::Backoff;
use transport_api::{Placement, Registry, Retry, Transport, TransportConfig};

use crate::cli::{self, DetectionArgs, EdgeArgs, HostArgs, Patience, QualityArgs, VehicleArgs};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::load::Load;
use crate::log;
use crate::output::{note, say};
use crate::phase::Phase;
use crate::record;
use crate::results::{Arm, Outcome, Results};
use crate::screen::Screen;
use crate::signal;
use crate::supervision::{EdgeReport, Pulse, Report, TrialReport, Usage, tell};
use crate::table;

/// How long a side takes at most to send what it has accepted, and to disconnect.
const CLOSE: Duration = Duration::from_secs(2);

/// The same when it was told to stop: it must be gone within 3 s.
const CLOSE_STOPPED: Duration = Duration::from_millis(300);

/// How much later than that a close may return before it is left alone.
const CLOSE_GRACE: Duration = Duration::from_millis(200);

/// How long an edge in the vehicle's process may take to end with what it has in hand.
const EDGE_END: Duration = Duration::from_secs(1);

/// The transports that a side has opened, in their order.
pub(crate) type Opened = Vec<Arc<dyn Transport>>;

/// Runs a side, and closes its transports only when all that it has to tell is told: a close may take
/// long, and who waits for it may kill the side meanwhile.
async fn run(
    supervised: bool,
    side: impl AsyncFnOnce(watch::Receiver<bool>, &mut Opened) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    log::start(if supervised { "info" } else { "warn" });
    let stop = signal::stop(supervised)?;
    let mut opened = Opened::new();
    let result = side(stop.clone(), &mut opened).await;
    if let (Err(failure), true) = (&result, supervised) {
        tell(&Report::Failed {
            error: failure.to_string(),
        });
    }
    for transport in opened.iter().rev() {
        close(transport, &stop).await;
    }
    result
}

async fn close(transport: &Arc<dyn Transport>, stop: &watch::Receiver<bool>) {
    let deadline = if *stop.borrow() { CLOSE_STOPPED } else { CLOSE };
    match tokio::time::timeout(deadline + CLOSE_GRACE, transport.close(deadline)).await {
        Ok(report) if report.abandoned > 0 => tracing::warn!(
            abandoned = report.abandoned,
            "accepted messages were not sent"
        ),
        Ok(_) => {}
        Err(_) => tracing::warn!(?deadline, "the transport did not close in time"),
    }
}

/// Pauses between attempts to open a transport: a side is there within 2 s of its broker.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Opens a transport, again and again while there may be somebody later and `patience` lasts; `None`
/// if told to stop before it is connected.
pub(crate) async fn open(
    registry: &Registry,
    config: &TransportConfig,
    side: &str,
    patience: Patience,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Arc<dyn Transport>>, Failure> {
    let config = config.clone().with_default_peer(cli::peer(side)?);
    let begin = Instant::now();
    let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
    let transport = loop {
        let opened = tokio::select! {
            opened = registry.open(&config) => opened,
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        };
        let error = match opened {
            Ok(transport) => break transport,
            Err(error) => error,
        };
        let limit = patience.limit().unwrap_or(Duration::MAX);
        let left = limit.saturating_sub(begin.elapsed());
        if error.retry() != Retry::Later || left.is_zero() {
            return Err(error.into());
        }
        if backoff.attempts() == 0 {
            let failure = Failure::from(error);
            note!("{side}: waiting for {config}: {failure}");
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause().min(left)) => {}
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    };
    if backoff.attempts() > 0 {
        let waited = begin.elapsed().as_secs_f64();
        note!("{side}: connected to {config} after {waited:.1} s");
    }
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

/// Refuses a URL by which two sides that are started by hand would never meet.
async fn check_place(
    registry: &Registry,
    config: &TransportConfig,
    with_edge: bool,
) -> Result<(), Failure> {
    // A host is a place to meet.
    if config.url().has_host() {
        return Ok(());
    }
    let meeting = registry.meet(config).await?;
    if meeting.placement == Placement::OneProcess {
        return match with_edge {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "`{config}` joins sides of one process only; run both in one with `roundtrip \
                 vehicle --with-edge`, or give the URL of a transport between processes"
            ))),
        };
    }
    let same = |side: &TransportConfig| side.url() == config.url();
    if meeting.host.is_none() && same(&meeting.first) && same(&meeting.second) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{config}` is a place of its own for each side that opens it, where nobody else comes; \
         `roundtrip host --transport '{config}'` arranges one for both sides and prints the two \
         addresses, or give the URL of a host, such as `{}://HOST` (see `roundtrip transports`)",
        config.url().scheme()
    )))
}

pub(crate) async fn vehicle(registry: &Registry, args: VehicleArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    run(supervised, async |stop, opened: &mut Opened| {
        let _pulse = supervised.then(Pulse::start);
        measure(registry, args, stop, opened).await
    })
    .await
}

async fn measure(
    registry: &Registry,
    args: VehicleArgs,
    mut stop: watch::Receiver<bool>,
    opened: &mut Opened,
) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    let config = cli::required(args.transport.clone())?;
    if !supervised {
        check_place(registry, &config, args.with_edge).await?;
    }
    let patience = args.connection.connect_timeout;
    // Before anything is waited for, so that a page can say what it waits for.
    let scheme = config.url().scheme();
    let screen = Screen::of_vehicle(&args.view, args.view_relay.as_deref(), scheme)?;
    let (screen, frames) = screen.unzip();
    let mut settings = vehicle::Settings {
        topics: args.quality.topics()?,
        scan_qos: args.quality.scans(),
        objects_qos: QualityArgs::received(args.quality.objects()),
        rate: args.load.rate(),
        handshake: HANDSHAKE,
        warmup: args.load.warmup,
        samples: args.load.samples(),
        ready_timeout: args.load.ready_timeout,
        clock: Clock::start(),
        limits: args.operation.limits(),
        selected: args.operation.publish_selected,
        frames: frames.into_iter().collect(),
        lists: args.detection.lists.settings(),
    };
    let local = args.operation.perception(&args.detection, settings.clock)?;
    let record = cli::record(&args.load, &args.quality, &args.detection, &args.operation);
    let remark = match supervised {
        true => |text| tell(&Report::Remark { text }),
        false => |text| note!("vehicle: {text}"),
    };
    let load = args.load.load(registry, &args, &mut stop, opened, remark);
    let Some(Load { feed, origin }) = load.await? else {
        return Ok(ExitCode::SUCCESS);
    };
    for warning in origin.report().warnings() {
        note!("{warning}");
    }
    let parts = args
        .with_edge
        .then(|| EdgeParts::prepare(&args.quality, &args.detection));
    let inside = match parts.transpose()? {
        None => None,
        Some(parts) => match open(registry, &config, "edge", patience, &mut stop).await? {
            Some(transport) => {
                opened.push(Arc::clone(&transport));
                Some(parts.start(&*transport).await?)
            }
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    let Some(transport) = open(registry, &config, "vehicle", patience, &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    opened.push(Arc::clone(&transport));
    let recording = args.record.start(recorder::Settings {
        clocks: settings.clock.pair(),
        objects: settings.lists.format,
        convention: args.detection.convention(),
    })?;
    let (recorder, frames) = recording.unzip();
    settings.frames.extend(frames);
    let told = Cell::new(None);
    let progress = |progress| {
        if supervised {
            return tell(&Report::Progress { progress });
        }
        let phase = Phase::of(progress, args.load.warmup);
        if told.get() < Some(phase) {
            told.set(Some(phase));
            note!("vehicle: {phase}");
            if let Some(screen) = &screen {
                screen.enter(phase);
            }
        }
    };
    let driven = vehicle::drive(&*transport, feed, &settings, local, stop.clone(), progress).await;
    settings.frames.clear();
    if let Some(screen) = screen {
        let failure = driven.as_ref().err().map(ToString::to_string);
        screen.finish(failure.as_deref()).await;
    }
    let recording = match recorder {
        Some(recorder) => Some(record::finish(recorder).await),
        None => None,
    };
    let interrupted = stop.borrow().then_some(settings.samples);
    // Its failure must not take along what the vehicle has measured.
    let edge = match inside {
        Some(inside) => {
            let ended = tokio::time::timeout(EDGE_END, inside.finish()).await;
            let late = |_| {
                Err(Failure::text(format!(
                    "the edge did not end within {EDGE_END:?}"
                )))
            };
            let ended = ended.unwrap_or_else(late);
            Some(ended.map_err(|failure| failure.to_string()))
        }
        None => None,
    };
    let info = transport.info().clone();
    let trial = driven?;
    let complete = trial.is_complete();
    let recording = match recording.transpose()? {
        Some(report) => {
            let dropped = trial.unseen_frames.last().copied().unwrap_or(0);
            Some(record::told(&report, dropped))
        }
        None => None,
    };
    let label = info.scheme.clone();
    let report = TrialReport {
        trial,
        info,
        usage: Usage::so_far(),
        edge,
        source: origin.report(),
        recording,
    };
    if supervised {
        tell(&Report::Trial(Box::new(report)));
    } else {
        let (outcome, early_ends) = Outcome::measured(report);
        let arm = Arm {
            label,
            url: config.to_string(),
            outcome: Ok(outcome),
            early_ends,
        };
        show(arm, args.results.as_deref(), record, interrupted)?;
    }
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the table of one trial and keeps its data in a folder below `results`. `interrupted`: how
/// many samples it should have had, if it was told to stop.
fn show(
    arm: Arm,
    results: Option<&Path>,
    settings: serde_json::Value,
    interrupted: Option<u64>,
) -> Result<(), Failure> {
    let render = |arms: &[Arm]| {
        let mut text = table::of_arms(arms);
        if let Some(samples) = interrupted {
            text.push_str(&table::interruption(samples, &[]));
        }
        text
    };
    let Some(base) = results else {
        say!("{}", render(&[arm]).trim_end());
        return Ok(());
    };
    let mut results = Results::create(base, Environment::read(), settings)?;
    results.arm_folder(&arm.label)?;
    let added = results.add(arm);
    let text = render(results.arms());
    say!("{}", text.trim_end());
    added?;
    results.finish(&text, interrupted.is_some())?;
    say!("raw data and summary: {}", results.folder().display());
    Ok(())
}

/// Echoes of an empty scan before a trial.
const HANDSHAKE: u64 = 20;

pub(crate) async fn edge(registry: &Registry, args: EdgeArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    run(supervised, async |stop, opened: &mut Opened| {
        serve(registry, args, stop, opened).await
    })
    .await
}

async fn serve(
    registry: &Registry,
    args: EdgeArgs,
    mut stop: watch::Receiver<bool>,
    opened: &mut Opened,
) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    let config = cli::required(args.transport)?;
    if !supervised {
        check_place(registry, &config, false).await?;
    }
    let parts = EdgeParts::prepare(&args.quality, &args.detection)?;
    let patience = args.connection.connect_timeout;
    let Some(transport) = open(registry, &config, "edge", patience, &mut stop).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    opened.push(Arc::clone(&transport));
    let mut running = parts.start(&*transport).await?;
    if supervised {
        tell(&Report::Ready);
    } else {
        say!("edge ready on {config}; stop with Ctrl-C");
    }
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        failure = running.early_end() => return Err(failure),
    }
    let report = running.finish().await?;
    if supervised {
        tell(&Report::Edge(Box::new(report)));
        return Ok(ExitCode::SUCCESS);
    }
    let done = report.report;
    say!(
        "answered {}, expired {}, not decodable {}, not detected {}, not published {}, unfinished \
         {}, missed {}, of these dropped {}, peak memory {:.0} MB",
        done.counts.answered,
        done.counts.expired,
        done.counts.undecodable,
        done.counts.undetected,
        done.counts.unpublished,
        done.counts.unfinished,
        done.scans.missed + done.clouds.missed,
        done.scans.dropped + done.clouds.dropped,
        report.usage.peak_memory as f64 / 1e6
    );
    for (when, clocks) in [("began", done.began), ("ended", done.ended)] {
        say!(
            "{when} at {} ns since 1970, {} ns of its monotonic clock",
            clocks.realtime_ns,
            clocks.monotonic_ns
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// An edge at work.
struct RunningEdge {
    detector: String,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<transport_api::Result<edge::Report>>,
}

/// What an edge is made of, besides its transport.
struct EdgeParts {
    settings: edge::Settings,
    detector: Box<dyn Detector>,
}

impl EdgeParts {
    /// Finds mistakes and loads the detector, before anything is waited for.
    fn prepare(quality: &QualityArgs, detection: &DetectionArgs) -> Result<Self, Failure> {
        Ok(Self {
            settings: edge::Settings {
                topics: quality.topics()?,
                scan_qos: QualityArgs::received(quality.scans()),
                objects_qos: quality.objects(),
                max_age: detection.max_age.limit(),
                convention: detection.convention(),
                lists: detection.lists.settings(),
                clock: detection.edge_clock(),
            },
            detector: detection.detector()?,
        })
    }

    async fn start(self, transport: &dyn Transport) -> Result<RunningEdge, Failure> {
        let name = self.detector.name().to_owned();
        let edge = Edge::open(transport, self.detector, &self.settings).await?;
        let (stop, stopped) = watch::channel(false);
        Ok(RunningEdge {
            detector: name,
            stop,
            task: tokio::spawn(edge.run(stopped)),
        })
    }
}

impl RunningEdge {
    /// Resolves when the edge ends although nobody told it to, with the reason. Cancel-safe.
    async fn early_end(&mut self) -> Failure {
        match (&mut self.task).await {
            Ok(Ok(report)) => Failure::text(format!(
                "the transport of the edge ended after {} answers",
                report.counts.answered
            )),
            Ok(Err(error)) => error.into(),
            Err(error) => Failure::new("run the edge", error),
        }
    }

    async fn finish(self) -> Result<EdgeReport, Failure> {
        self.stop.send_replace(true);
        let report = self
            .task
            .await
            .map_err(|error| Failure::new("end the edge", error))??;
        Ok(EdgeReport {
            report,
            detector: self.detector,
            usage: Usage::so_far(),
        })
    }
}

pub(crate) async fn host(registry: &Registry, args: HostArgs) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
    run(supervised, async |stop, _: &mut Opened| {
        attend(registry, args, stop).await
    })
    .await
}

async fn attend(
    registry: &Registry,
    args: HostArgs,
    mut stop: watch::Receiver<bool>,
) -> Result<ExitCode, Failure> {
    let supervised = args.supervision.supervised;
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
        if meeting.placement == Placement::OneProcess {
            say!(
                "both:    roundtrip vehicle --with-edge --transport '{}'",
                meeting.second
            );
        } else {
            say!("edge:    roundtrip edge --transport '{}'", meeting.first);
            say!(
                "vehicle: roundtrip vehicle --transport '{}'",
                meeting.second
            );
        }
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
    if supervised {
        tell(&Report::Host {
            usage: Usage::so_far(),
        });
    }
    if let Some(host) = meeting.host {
        host.stop().await;
    }
    Ok(ExitCode::SUCCESS)
}
