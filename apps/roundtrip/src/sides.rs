//! `roundtrip vehicle`, `roundtrip edge` and `roundtrip host`.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
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
use crate::fleet::{self, CollectiveArgs, VehiclesArgs};
use crate::load::Load;
use crate::log;
use crate::output::{note, say};
use crate::phase::Phase;
use crate::record;
use crate::results::{Arm, Outcome, Results};
use crate::screen::Screen;
use crate::signal;
use crate::supervision::{EdgeReport, Pulse, Report, TrialReport, Usage, VehicleReport, tell};
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
    // Before anything is waited for, so that a page can say what it waits for. It shows the first
    // vehicle.
    let scheme = config.url().scheme();
    let screen = Screen::of_vehicle(&args.view, args.view_relay.as_deref(), scheme)?;
    let (screen, mut frames) = screen.unzip();
    let screen = screen.map(Rc::new);
    let ids = &args.fleet.ids;
    let names = fleet::names(ids);
    let topics = fleet::topics(&args.quality.prefix, ids)?;
    let remark = match supervised {
        true => |text| tell(&Report::Remark { text }),
        false => |text| note!("vehicle: {text}"),
    };
    let mut loads = Vec::new();
    for n in 0..names.len() {
        let load = fleet::load(&args.load, n);
        let load = load
            .load(registry, &args, &mut stop, opened, remark)
            .await?;
        let Some(load) = load else {
            return Ok(ExitCode::SUCCESS);
        };
        for warning in load.origin.report().warnings() {
            note!("{warning}");
        }
        loads.push(load);
    }
    let record = cli::record(&args.load, &args.quality, &args.detection, &args.operation);
    let parts = args.with_edge.then(|| {
        EdgeParts::prepare(
            &args.quality,
            &args.fleet,
            &args.detection,
            &args.collective,
        )
    });
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
    // As the view, of the first vehicle.
    let mut recorder = None;
    let mut drives = Vec::new();
    let mut equipment = Vec::new();
    for (n, (topics, load)) in topics.into_iter().zip(loads).enumerate() {
        let Load { feed, origin, pose } = load;
        let name = &names[n];
        let Some(transport) = open(registry, &config, name, patience, &mut stop).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        opened.push(Arc::clone(&transport));
        equipment.push((transport.info().clone(), origin));
        let mut settings = vehicle::Settings {
            topics,
            scan_qos: args.quality.scans(),
            objects_qos: QualityArgs::received(args.quality.objects()),
            rate: args.load.rate(),
            handshake: HANDSHAKE,
            warmup: args.load.warmup,
            samples: args.load.samples(),
            ready_timeout: args.load.ready_timeout,
            pose: pose.filter(|_| !ids.is_empty()),
            clock: Clock::start(),
            limits: args.operation.limits(),
            selected: args.operation.publish_selected,
            frames: frames.take().into_iter().collect(),
            lists: args.detection.lists.settings(),
        };
        if n == 0 {
            let recording = args.record.start(recorder::Settings {
                clocks: settings.clock.pair(),
                objects: settings.lists.format,
                convention: args.detection.convention(),
            })?;
            let (first, frames) = recording.unzip();
            recorder = first;
            settings.frames.extend(frames);
        }
        let local = args.operation.perception(&args.detection, settings.clock)?;
        let told = Cell::new(None);
        let warmup = args.load.warmup;
        let name = name.clone();
        let screen = screen.clone().filter(|_| n == 0);
        let progress = move |progress| {
            if supervised {
                let vehicle = n;
                return tell(&Report::Progress { vehicle, progress });
            }
            let phase = Phase::of(progress, warmup);
            if told.get() < Some(phase) {
                told.set(Some(phase));
                note!("{name}: {phase}");
                if let Some(screen) = &screen {
                    screen.enter(phase);
                }
            }
        };
        let stop = stop.clone();
        drives.push(async move {
            vehicle::drive(&*transport, feed, &settings, local, stop, progress).await
        });
    }
    let driven = fleet::all(drives).await;
    // Nobody else has it any more.
    if let Some(screen) = screen.and_then(Rc::into_inner) {
        let failure = driven.iter().find_map(|driven| driven.as_ref().err());
        let failure = failure.map(ToString::to_string);
        screen.finish(failure.as_deref()).await;
    }
    let mut recording = match recorder {
        // Its failure must not take along what the vehicles have measured.
        Some(recorder) => match record::finish(recorder).await {
            Ok(report) => Some(report),
            Err(failure) => {
                note!("error: {failure}");
                None
            }
        },
        None => None,
    };
    let scheme = equipment.first().map(|(info, _)| info.scheme.clone());
    let interrupted = stop.borrow().then_some(args.load.samples());
    // Its failure must not take along what the vehicles have measured.
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
    let mut vehicles = Vec::new();
    for (trial, (info, origin)) in driven.into_iter().zip(equipment) {
        let trial = trial?;
        let recording = recording.take().map(|report| {
            let dropped = trial.unseen_frames.last().copied().unwrap_or(0);
            record::told(&report, dropped)
        });
        vehicles.push(VehicleReport {
            trial,
            info,
            source: origin.report(),
            recording,
        });
    }
    let complete = vehicles.iter().all(|vehicle| vehicle.trial.is_complete());
    let report = TrialReport {
        vehicles,
        usage: Usage::so_far(),
        edge,
    };
    if supervised {
        tell(&Report::Trial(Box::new(report)));
    } else {
        let (outcomes, early_ends) = Outcome::measured(report);
        let arms = outcomes
            .into_iter()
            .zip(names)
            .map(|(outcome, vehicle)| Arm {
                label: fleet::label(scheme.as_deref().unwrap_or_default(), ids, &vehicle),
                vehicle,
                url: config.to_string(),
                outcome: Ok(outcome),
                early_ends: early_ends.clone(),
            });
        show(arms.collect(), args.results.as_deref(), record, interrupted)?;
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
    arms: Vec<Arm>,
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
        say!("{}", render(&arms).trim_end());
        return Ok(());
    };
    let mut results = Results::create(base, Environment::read(), settings)?;
    let mut added = Ok(());
    for arm in arms {
        results.arm_folder(&arm.label)?;
        added = added.and(results.add(arm));
    }
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
    let parts = EdgeParts::prepare(
        &args.quality,
        &args.fleet,
        &args.detection,
        &args.collective,
    )?;
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
    for served in &done.vehicles {
        say!("{}", fleet::served(served));
    }
    if let Some(collective) = done.collective {
        say!("{}", fleet::collective(&collective));
    }
    say!(
        "peak memory {:.0} MB",
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
    fn prepare(
        quality: &QualityArgs,
        fleet: &VehiclesArgs,
        detection: &DetectionArgs,
        collective: &CollectiveArgs,
    ) -> Result<Self, Failure> {
        let (prefix, ids) = (&quality.prefix, &fleet.ids);
        Ok(Self {
            settings: edge::Settings {
                vehicles: collective.vehicles(prefix, ids)?,
                collective: collective.settings(prefix, ids)?,
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
                report.answered()
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
