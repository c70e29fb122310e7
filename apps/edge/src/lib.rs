//! The edge: receives scans or clouds, converts, detects, answers.
//!
//! It names no transport. One dedicated thread receives, works and publishes, so a scan changes
//! threads only inside the transport and, if it has one, the detector's thread pool. How many scans
//! wait while the detector works is [`Settings::scan_qos`]; with `exchange::freshest` it is the newest
//! one, and the others are dropped and counted.
//!
//! It serves several vehicles by turns: each has a queue of its own, and of those that have something
//! in it the next in line is served, whatever the others send. A vehicle that does not take its answers
//! holds up its own scans and nobody else's. With [`Settings::collective`] the edge also publishes what
//! all of them see in one frame.
//!
//! Every scan and every cloud is answered, also one without points. A message that is neither, a scan
//! older than [`Settings::max_age`], and a cloud that the detector refuses, are counted and not
//! answered; the next one is.

mod age;
pub mod collective;
mod frame;
mod lane;

use std::fmt;
use std::task::Poll;
use std::time::Duration;

use exchange::{DataType, ObjectsFormat, Outage, Outages, Topics};
use latency_timeline::{Clock, ClockPair};
use lidar_detector::Detector;
use lidar_messages::{Pose, Time};
use lidar_sensor::Convention;
use perception::{ListSettings, Perception};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use transport_api::{Error, ErrorKind, Qos, Result, Sample, Transport};

pub use lane::{Counts, Served};

use collective::Collective;
use lane::Lane;

/// How an edge works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whom it serves.
    pub vehicles: Vec<Vehicle>,
    /// The list of what all of them see; `None`: there is none.
    pub collective: Option<collective::Settings>,
    /// Quality of service of scans.
    pub scan_qos: Qos,
    /// Quality of service of object lists.
    pub objects_qos: Qos,
    /// How lists are made.
    pub lists: ListSettings,
    /// Scans older than this on arrival are not answered; `None`: all are. The age is the delay of a
    /// scan beyond that of the fastest one of the same vehicle, so no clocks need to agree.
    pub max_age: Option<Duration>,
    /// Angle convention of the conversion.
    pub convention: Convention,
    /// The clock of the stamps.
    pub clock: Clock,
}

/// A vehicle that an edge serves.
#[derive(Clone, Debug)]
pub struct Vehicle {
    /// What reports call it.
    pub name: String,
    /// Where its scans come in and objects go out.
    pub topics: Topics,
    /// Where its lidar stands in the common frame; `None`: it says so itself on [`Topics::pose`], or
    /// its objects are not in the collective list.
    pub pose: Option<Pose>,
}

/// What an edge has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// For each vehicle.
    pub vehicles: Vec<Served>,
    /// The collective list.
    pub collective: Option<collective::Report>,
    /// The clocks when it had subscribed.
    pub began: ClockPair,
    /// The clocks at its end.
    pub ended: ClockPair,
    /// When it was disconnected, by its clock.
    pub outages: Vec<Outage>,
}

impl Report {
    /// Answers to all vehicles.
    pub fn answered(&self) -> u64 {
        self.vehicles
            .iter()
            .map(|served| served.counts.answered)
            .sum()
    }
}

/// An edge whose subscriptions are active.
pub struct Edge {
    perception: Perception,
    lanes: Vec<Lane>,
    /// The lane that is looked at first.
    next: usize,
    collective: Option<(Collective, Duration)>,
    clock: Clock,
    began: ClockPair,
    outages: Outages,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge")
            .field("detector", &self.perception.detector())
            .field("vehicles", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

impl Edge {
    /// Subscribes; the edge answers from the moment [`Edge::run`] is called. Not cancel-safe.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the transport carries no metadata; a pose that is none; what the
    /// transport answers.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn open(
        transport: &dyn Transport,
        detector: Box<dyn Detector>,
        settings: &Settings,
    ) -> Result<Self> {
        exchange::check_metadata(transport)?;
        let mut lanes = Vec::with_capacity(settings.vehicles.len());
        for vehicle in &settings.vehicles {
            lanes.push(Lane::open(transport, vehicle, settings).await?);
        }
        let collective = match &settings.collective {
            None => None,
            Some(list) => {
                let schema = ObjectsFormat::Detection3d.schema()?;
                let publisher = transport.publisher(&list.topic, &schema, Qos::default());
                Some((Collective::new(publisher.await?, list), list.period))
            }
        };
        Ok(Self {
            perception: Perception::new(detector, settings.convention, settings.clock),
            lanes,
            next: 0,
            collective,
            clock: settings.clock,
            began: settings.clock.pair(),
            outages: Outages::watch(transport.events(), settings.clock),
        })
    }

    /// Answers until `stop` becomes true or its sender is gone, or the transport ends. Not
    /// cancel-safe: a dropped future leaves the thread running until `stop`.
    ///
    /// # Errors
    /// The thread could not be started or ended by a panic.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<Report> {
        let runtime = Handle::current();
        let (done, finished) = tokio::sync::oneshot::channel();
        let work = move || {
            // The receiver is gone only if `run` was dropped; then nobody wants the report.
            let _ = done.send(runtime.block_on(self.answer_all(stop)));
        };
        std::thread::Builder::new()
            .name("edge".to_owned())
            .spawn(work)
            .map_err(|error| Error::config("the edge's thread").with_source(error))?;
        finished
            .await
            .map_err(|_| Error::new(ErrorKind::Backend, "run edge", "the edge's thread panicked"))
    }

    async fn answer_all(mut self, mut stop: watch::Receiver<bool>) -> Report {
        let runtime = Handle::current();
        let mut ticks = self.collective.as_ref().map(|(_, period)| {
            let mut ticks = tokio::time::interval(*period);
            // One list too few is better than two at once.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks
        });
        loop {
            let next = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                () = tick(&mut ticks) => {
                    self.publish_collective();
                    continue;
                }
                next = self.receive(&runtime) => next,
            };
            match next {
                Some((lane, data_type, Ok(sample))) => {
                    let list_age = self.collective.as_ref().map(|(list, _)| list.max_age());
                    let perception = &mut self.perception;
                    self.lanes[lane].answer(data_type, &sample, perception, &runtime, list_age);
                }
                // It names both types and the topic.
                Some((_, _, Err(error))) => tracing::error!(%error, "messages are refused"),
                None => break,
            }
        }
        self.lanes.iter_mut().for_each(Lane::end);
        let flushed = async {
            for lane in &self.lanes {
                lane.flush().await;
            }
        };
        // What one vehicle does not take must not hold up the end.
        let _ = tokio::time::timeout(FLUSH, flushed).await;
        Report {
            vehicles: self.lanes.into_iter().map(Lane::served).collect(),
            collective: self.collective.map(|(list, _)| list.report()),
            began: self.began,
            ended: self.clock.pair(),
            outages: self.outages.so_far(),
        }
    }

    /// The next message of the vehicle whose turn it is, with the number of its lane; `None` when all
    /// subscriptions have ended. Cancel-safe.
    async fn receive(&mut self, runtime: &Handle) -> Option<(usize, DataType, Result<Sample>)> {
        std::future::poll_fn(|cx| {
            let count = self.lanes.len();
            let mut ended = 0;
            for n in (self.next..count).chain(0..self.next) {
                match self.lanes[n].poll_next(cx, runtime) {
                    Poll::Ready(Some((data_type, sample))) => {
                        self.next = (n + 1) % count;
                        return Poll::Ready(Some((n, data_type, sample)));
                    }
                    Poll::Ready(None) => ended += 1,
                    Poll::Pending => {}
                }
            }
            match ended == count {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }

    fn publish_collective(&mut self) {
        let Some((list, _)) = &mut self.collective else {
            return;
        };
        let vehicles = self.lanes.iter_mut();
        let vehicles = vehicles.filter_map(|lane| lane.contribution.as_mut());
        let pair = self.clock.pair();
        let stamp = Time::from_nanos(u64::try_from(pair.realtime_ns).unwrap_or(0));
        list.publish(vehicles, self.clock.now(), stamp);
    }
}

/// The next instant of a schedule; never without one.
async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => _ = ticks.tick().await,
        None => std::future::pending().await,
    }
}

/// How long the last answers may take to leave when the edge ends.
const FLUSH: Duration = Duration::from_millis(300);
