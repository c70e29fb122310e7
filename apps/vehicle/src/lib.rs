//! The vehicle: publishes scans on an open-loop schedule and times the answers.
//!
//! It names no transport. A dedicated thread keeps the absolute schedule and publishes; the answers
//! are received on the async runtime. Nothing is shared between the two while a trial runs: the
//! records of both are joined afterwards, by sequence number, so that every offered scan ends in
//! exactly one [`latency_timeline::Status`].

mod answers;
mod beacon;
mod feed;
mod frame;
mod live;
mod local;
mod lookout;
mod mode;
mod operation;
mod outlet;
mod record;
mod schedule;
mod selection;

use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::{Outages, Topics};
use latency_timeline::Clock;
use lidar_messages::{Pose, Time};
use perception::{ListSettings, Perception};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use transport_api::{Error, ErrorKind, Publisher, Qos, Result, Sequence, TopicFilter, Transport};

pub use exchange::{DataType, Source};
pub use feed::Feed;
pub use frame::{Frame, Objects};
pub use live::Inlet;
pub use mode::{Mode, Verdict};
pub use operation::{Limits, Listed, Operation, Switched};
pub use record::{Missed, SampleRecord, Trial};

use answers::{Answers, Echo};
use beacon::Beacon;
use local::Local;
use lookout::Lookout;
use outlet::{Outlet, Selected};
use schedule::{Outcome, Sender, Sent};
use selection::Selection;

/// How a trial runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where scans go out and objects come in.
    pub topics: Topics,
    /// As what the edge sends its lists and the vehicle makes its own; their markers are the edge's.
    pub lists: ListSettings,
    /// Quality of service of scans.
    pub scan_qos: Qos,
    /// Quality of service of object lists.
    pub objects_qos: Qos,
    /// Scans per second; those of a live feed come as its sensor gives them.
    pub rate: f64,
    /// Echoes of an empty scan before anything else is sent.
    pub handshake: u64,
    /// Scans sent and not measured, to warm up.
    pub warmup: u64,
    /// Scans measured.
    pub samples: u64,
    /// How long the first echo may take.
    pub ready_timeout: Duration,
    /// Where the lidar is in [`exchange::MAP`], said on [`Topics::pose`] with every scan; `None`: it is
    /// not said.
    pub pose: Option<Pose>,
    /// The clock of the stamps.
    pub clock: Clock,
    /// When the vehicle no longer waits for its edge.
    pub limits: Limits,
    /// Whether the lists that the vehicle acts on are published, on [`Topics::selected`].
    pub selected: bool,
    /// Where each frame of the schedule goes, warm-up included, once its object list is there or given
    /// up: to each viewer and recorder. What does not fit is dropped and counted
    /// ([`Trial::unseen_frames`]), so nobody who looks on can hold up the vehicle.
    pub frames: Vec<mpsc::Sender<Frame>>,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// So many echoes came back; 0 when the first one is sent.
    Handshake(u64),
    /// So many scans, warm-up included, were answered; 0 when the schedule begins.
    Answered(u64),
    /// The vehicle relies on somebody else now.
    Switched(Mode),
    /// The last scan was sent; waiting for answers.
    Draining,
}

/// Shortest drain after the last scan.
const DRAIN: Duration = Duration::from_secs(2);

/// How long the last echo, which tells the directions apart, may take.
const LAST_ECHO: Duration = Duration::from_secs(2);

/// Runs one trial. `stop` ends it early, keeping what was measured. Not cancel-safe: a dropped
/// future leaves the sending thread running until `stop`.
///
/// With `local`, no frame is without an object list, its own or that of a newer frame, for longer than
/// the deadline and one detection, as long as the detector keeps up with the sensor; without, the
/// vehicle waits for the edge. That changes nothing of what is measured: a late answer is an answer.
///
/// A transport that ends meanwhile ends the trial as an outage would: what is left counts as rejected
/// or missed.
///
/// # Errors
/// The transport refuses, carries no metadata or smaller payloads only; the rate is not a positive
/// number; or no edge answers within [`Settings::ready_timeout`].
///
/// # Panics
/// Outside of a Tokio runtime.
pub async fn drive(
    transport: &dyn Transport,
    feed: Feed,
    settings: &Settings,
    local: Option<Perception>,
    mut stop: watch::Receiver<bool>,
    progress: impl Fn(Progress),
) -> Result<Trial> {
    let period = match Duration::try_from_secs_f64(1.0 / settings.rate) {
        Ok(period) if settings.rate > 0.0 && !period.is_zero() => period,
        _ => {
            let message = format!(
                "rate {} is not a positive number of scans a second",
                settings.rate
            );
            return Err(Error::config(message));
        }
    };
    exchange::check_metadata(transport)?;
    transport.capabilities().check_size(feed.largest())?;
    let period_ns = match feed.is_live() {
        true => 0,
        false => i64::try_from(period.as_nanos()).unwrap_or(i64::MAX),
    };
    let began = settings.clock.pair();
    let outages = Outages::watch(transport.events(), settings.clock);
    let (topic, schema) = match feed.data_type() {
        DataType::Scan => (&settings.topics.scan, exchange::scan_schema()?),
        DataType::Cloud => (&settings.topics.cloud, exchange::cloud_schema()?),
    };
    let objects = TopicFilter::from(&settings.topics.objects);
    let subscriber = transport
        .subscriber(
            &objects,
            &settings.lists.format.schema()?,
            settings.objects_qos,
        )
        .await?;
    let publisher: Arc<dyn Publisher> = Arc::from(
        transport
            .publisher(topic, &schema, settings.scan_qos)
            .await?,
    );
    let beacon = match settings.pose {
        None => None,
        Some(pose) => {
            let schema = exchange::pose_schema()?;
            let publisher = transport.publisher(&settings.topics.pose, &schema, Qos::default());
            Some(Arc::new(Beacon::new(publisher.await?, pose)))
        }
    };
    let mut sequence = Sequence::random();
    let total = settings.warmup.saturating_add(settings.samples);
    let mut answers = Answers::new(
        subscriber,
        settings.lists.format,
        sequence.source(),
        settings.clock,
        &progress,
    );
    let selected = match settings.selected {
        true => Some(Selected {
            publisher: transport
                .publisher(
                    &settings.topics.selected,
                    &settings.lists.format.schema()?,
                    exchange::freshest(),
                )
                .await?,
            ids: Sequence::random(),
            scans: sequence.source(),
            clock: settings.clock,
        }),
        false => None,
    };
    let outlet = Outlet {
        data_type: feed.data_type(),
        viewers: settings.frames.clone(),
        selected,
        unseen: vec![0; settings.frames.len()],
    };
    let detector = local.as_ref().map(|local| local.detector().to_owned());
    let selection = Selection::new(settings.limits, detector, outlet, total as usize);
    let local = match local {
        Some(local) => Some(
            Local::start(
                local,
                settings.lists,
                feed.data_type(),
                feed.payload(0).encode(0),
            )
            .await?,
        ),
        None => None,
    };
    let (mut lookout, offers) = Lookout::new(selection, local, settings.clock);
    let mut echo = Echo::new(Arc::clone(&publisher), feed.empty(), stop.clone());

    progress(Progress::Handshake(0));
    let deadline = Instant::now() + settings.ready_timeout;
    let mut before = None;
    for n in 0..settings.handshake.max(1) {
        if let Some(beacon) = &beacon {
            beacon.tell(Time::default());
        }
        let answered = echo.once(&mut sequence, &mut answers, deadline).await;
        before = answered.map_err(|error| explain(&error, &outages))?;
        if before.is_none() {
            break;
        }
        progress(Progress::Handshake(n + 1));
    }
    let first = sequence.count();
    let mut outcome = Outcome::default();
    // Stopped before the edge was there: nothing is measured.
    if before.is_some() {
        answers.begin(first);
        let sender = Sender {
            beacon: beacon.clone(),
            offers,
            publisher: Arc::clone(&publisher),
            feed,
            ids: (0..total).map(|_| sequence.next_id()).collect(),
            period,
            clock: settings.clock,
            runtime: Handle::current(),
            stop: stop.clone(),
        };
        let mut sending = sender.start()?;
        progress(Progress::Answered(0));
        outcome = loop {
            tokio::select! {
                biased;
                () = lookout.step(&mut answers) => {}
                outcome = &mut sending => break outcome.map_err(|_| {
                    Error::new(ErrorKind::Backend, "run vehicle", "the sending thread panicked")
                })?,
            }
        };
        lookout.all_sent(outcome.unwatched);
        progress(Progress::Draining);
        drain(&outcome.sent, &mut answers, &mut lookout, &mut stop).await;
    }

    let sent = outcome.sent;
    // One more echo says how many scans the edge has answered in all: that splits what is missed by
    // direction, also at the tail. Without it the split is unknown, not zero. It also brings what the
    // edge stamped after the last answer.
    let after = echo
        .once(&mut sequence, &mut answers, Instant::now() + LAST_ECHO)
        .await;
    let rejected = sent.iter().filter(|sent| !sent.accepted()).count() as u64;
    let missed = before
        .zip(after.unwrap_or_default())
        .map(|(before, after)| Missed::between(before, after, rejected, answers.missed()));
    let interrupted = *stop.borrow();
    let (listed, operation, unseen_frames) = lookout.end();
    let mut samples = record::join(&sent, answers.take(), first, settings.warmup, interrupted);
    record::set_lists(&mut samples, &listed);
    Ok(Trial {
        source: sequence.source(),
        period_ns,
        began,
        ended: settings.clock.pair(),
        outages: outages.so_far(),
        samples,
        operation,
        missed,
        interrupted,
        cut_short: answers.ended(),
        unrelated: answers.unrelated(),
        undecodable: answers.undecodable(),
        refused: answers.refused(),
        answered_by_two: answers.rivals(),
        rejection: outcome.rejection,
        skipped: outcome.skipped,
        source_end: outcome.source_end,
        unseen_frames,
        poses: beacon.map(|beacon| beacon.counters()),
        publisher: publisher.counters(),
        subscriber: answers.counters(),
    })
}

/// `error` with what the transport told meanwhile, which may be why.
fn explain(error: &Error, outages: &Outages) -> Error {
    let mut message = error.message().to_owned();
    if let Some(outage) = outages.so_far().last() {
        message.push_str(&format!(" It was disconnected meanwhile: {}", outage.cause));
    }
    Error::new(error.kind(), error.operation(), message)
}

/// Waits for the answers that are still on their way, and for detections that are under way.
async fn drain(
    sent: &[Sent],
    answers: &mut Answers<'_>,
    lookout: &mut Lookout,
    stop: &mut watch::Receiver<bool>,
) {
    let expected = sent.iter().filter(|sent| sent.accepted()).count();
    let drain = tokio::time::sleep(DRAIN.max(5 * answers.slowest(sent)));
    tokio::pin!(drain);
    while (answers.count() < expected && !answers.ended()) || lookout.is_busy() {
        tokio::select! {
            biased;
            () = lookout.step(answers) => {}
            () = &mut drain => break,
            () = stopped(stop) => break,
        }
    }
}

/// Resolves when `stop` becomes true; never if its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
