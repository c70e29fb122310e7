//! What a trial sends: a loop that is prepared before, or a sensor while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lidar_messages::Pose;
use lidar_sensor::source::{Pace, Source, SourceError, SourceSpec, SpecError, Statistics, Sweep};
use lidar_sensor::{Convention, downsample};
use tokio::sync::watch;
use transport_api::Registry;
use vehicle::{DataType, Feed, Inlet};

use crate::cli::{LoadArgs, VehicleArgs};
use crate::failure::Failure;
use crate::fleet;
use crate::ros::RosTopic;
use crate::sides::Opened;
use crate::supervision::SourceReport;

/// Scans of a recording held in memory: a minute and a half at 10 Hz, about 180 MB of packets.
const MAX_SCANS: usize = 1000;

/// Tells the user something while a trial runs.
pub(crate) type Remark = fn(String);

/// What a trial sends, and where it comes from.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) feed: Feed,
    pub(crate) origin: Origin,
    /// Where its lidar is in the map, if the source knows.
    pub(crate) pose: Option<Pose>,
}

/// Where scans come from, and what became of them so far.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    name: String,
    data_type: DataType,
    goes_on: bool,
    statistics: Arc<Mutex<Statistics>>,
}

impl Origin {
    pub(crate) fn new(name: &str, data_type: DataType) -> Self {
        Self {
            name: name.to_owned(),
            data_type,
            goes_on: false,
            statistics: Arc::default(),
        }
    }

    /// What was used and skipped, to be read and set.
    pub(crate) fn statistics(&self) -> MutexGuard<'_, Statistics> {
        // Numbers are never half written.
        self.statistics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self) -> SourceReport {
        SourceReport {
            name: self.name.clone(),
            data_type: self.data_type,
            statistics: *self.statistics(),
            goes_on: self.goes_on,
        }
    }
}

/// What `--source` names.
enum Named {
    /// A topic of a running master.
    Ros(RosTopic),
    /// A sensor or a recording that keeps its own pace.
    Live(SourceSpec),
    /// What is read before the trial and gone over again and again.
    Loop(SourceSpec),
}

impl LoadArgs {
    /// Prepares what is sent, which may take long; `None` if told to stop meanwhile.
    pub(crate) async fn load(
        &self,
        registry: &Registry,
        vehicle: &VehicleArgs,
        stop: &mut watch::Receiver<bool>,
        opened: &mut Opened,
        remark: Remark,
    ) -> Result<Option<Load>, Failure> {
        let convention = vehicle.detection.convention();
        match self.named()? {
            Named::Ros(topic) => {
                let patience = vehicle.connection.connect_timeout;
                let topics = fleet::topics(&vehicle.quality.prefix, &vehicle.fleet.ids)?;
                if let Some(transport) = &vehicle.transport {
                    let config = transport.config()?;
                    for topics in &topics {
                        topic.check_apart(&config, topics)?;
                    }
                }
                topic
                    .listen(self, registry, convention, patience, stop, opened, remark)
                    .await
            }
            Named::Live(spec) => self.listen(&spec, convention, remark).map(Some),
            Named::Loop(spec) => {
                let load = self.clone();
                let prepared = tokio::task::spawn_blocking(move || load.prepare(&spec, convention));
                tokio::select! {
                    load = prepared => {
                        load.map_err(|error| Failure::new("prepare the source", error))?.map(Some)
                    }
                    _ = stop.wait_for(|stop| *stop) => Ok(None),
                }
            }
        }
    }

    /// Looks for mistakes without preparing anything.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), Failure> {
        match self.named()? {
            Named::Ros(topic) => topic.check(registry),
            Named::Live(SourceSpec::Live(_)) => Ok(()),
            Named::Live(spec) | Named::Loop(spec) => {
                if let SourceSpec::Synthetic { .. } | SourceSpec::Live(_) = spec {
                    return Ok(());
                }
                let first = spec.open().and_then(|mut source| source.next_sweep());
                let first = first.map_err(|error| Failure::new(self.what(), error))?;
                first.map_or(Ok(()), |sweep| self.data_type_of(&sweep).map(drop))
            }
        }
    }

    /// How texts name the source.
    pub(crate) fn what(&self) -> String {
        format!("source `{}`", self.source)
    }

    fn usage(&self, why: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{}: {why}", self.what()))
    }

    fn named(&self) -> Result<Named, Failure> {
        if let Some(topic) = self.source.strip_prefix("ros:") {
            self.check_pace()?;
            let topic = RosTopic::parse(topic).map_err(|error| self.usage(error))?;
            return Ok(Named::Ros(topic));
        }
        let spec: SourceSpec = self.source.parse().map_err(|error| match error {
            SpecError::Kind { .. } => self.usage(format!("{error}, or ros:TOPIC")),
            error => self.usage(error),
        })?;
        let is_live = match &spec {
            SourceSpec::Live(config) => config.turns.is_none(),
            SourceSpec::Recording { config, .. } if config.pace == Pace::Real => true,
            SourceSpec::Recording { config, .. } if config.repeat => {
                return Err(self.usage(
                    "a run goes over a recording again and again by itself; leave out repeat, or \
                     add pace=real",
                ));
            }
            _ => false,
        };
        if !is_live {
            return Ok(Named::Loop(spec));
        }
        self.check_pace()?;
        Ok(Named::Live(spec))
    }

    fn check_pace(&self) -> Result<(), Failure> {
        match self.rate {
            None => Ok(()),
            Some(_) => Err(self.usage(
                "its turns are sent when they come, so the rate is the sensor's; leave out --rate",
            )),
        }
    }

    /// As what a source is sent that holds the likes of `sweep`.
    pub(crate) fn data_type_of(&self, sweep: &Sweep) -> Result<DataType, Failure> {
        let asked = self.data_type.map(DataType::from);
        match sweep {
            Sweep::Scan(_) => Ok(asked.unwrap_or(DataType::Scan)),
            Sweep::Cloud(_) if asked == Some(DataType::Scan) => Err(self.usage(
                "it holds clouds and no packets of a sensor, so it cannot be sent as scans; leave \
                 out --data-type",
            )),
            Sweep::Cloud(_) if self.size != WHOLE => Err(self.usage(
                "it holds clouds, and only of packets can a part be sent; leave out --size",
            )),
            Sweep::Cloud(_) => Ok(DataType::Cloud),
        }
    }

    /// `sweep` number `n` with as many of its packets as are to be sent.
    pub(crate) fn part(&self, sweep: Sweep, n: u64) -> Result<Sweep, Failure> {
        match sweep {
            Sweep::Scan(mut turn) if self.size != WHOLE => {
                turn.scan = downsample(&turn.scan, self.size, self.seed.wrapping_add(n))
                    .map_err(|error| Failure::new(self.what(), error))?;
                Ok(Sweep::Scan(turn))
            }
            sweep => Ok(sweep),
        }
    }

    /// Opens a source that keeps its own pace, and reads it on a thread of its own.
    fn listen(
        &self,
        spec: &SourceSpec,
        convention: Convention,
        remark: Remark,
    ) -> Result<Load, Failure> {
        let source = spec
            .open()
            .map_err(|error| Failure::new(self.what(), error))?;
        if let Source::Live(live) = &source {
            let granted = live.granted_buffer();
            tracing::info!(address = %live.local_address(), buffer = ?granted, "listening");
        }
        let data_type = self.data_type.map_or(DataType::Scan, DataType::from);
        let (feed, inlet) = Feed::live(data_type, convention);
        let origin = Origin::new(&self.source, data_type);
        let (load, thread_origin) = (self.clone(), origin.clone());
        // It ends when nobody takes its turns any more, or with the process.
        std::thread::Builder::new()
            .name("source".to_owned())
            .spawn(move || load.read(source, inlet, &thread_origin, remark))
            .map_err(|error| Failure::new("start the thread of the source", error))?;
        let pose = None;
        Ok(Load { feed, origin, pose })
    }

    fn read(&self, mut source: Source, inlet: Inlet, origin: &Origin, remark: Remark) {
        // A sensor goes on meanwhile, and a recording has a beginning.
        if matches!(source, Source::Recording(_)) && !inlet.wait() {
            return;
        }
        let mut silent: Option<Instant> = None;
        for n in 0.. {
            let sweep = loop {
                let sweep = source.next_sweep();
                *origin.statistics() = source.statistics();
                match sweep {
                    Ok(Some(sweep)) => break sweep,
                    Ok(None) => {
                        let turns = source.statistics().turns;
                        return inlet.end(format!("the source ended after {turns} turns"));
                    }
                    // A sensor may come back: it is told once and waited for.
                    Err(error @ SourceError::Silent { .. }) => {
                        if inlet.is_closed() {
                            return;
                        }
                        if silent.is_none() {
                            silent = Some(Instant::now());
                            remark(error.to_string());
                        }
                    }
                    Err(error) => return inlet.end(error.to_string()),
                }
            };
            if let Some(since) = silent.take() {
                let more = since.elapsed().as_secs_f64();
                remark(format!("the sensor is heard again, {more:.1} s later"));
            }
            match self.part(sweep, n) {
                Ok(sweep) => {
                    if !inlet.offer(sweep) {
                        return;
                    }
                }
                Err(failure) => return inlet.end(failure.to_string()),
            }
        }
    }

    fn prepare(&self, spec: &SourceSpec, convention: Convention) -> Result<Load, Failure> {
        let what = self.what();
        let turns = match spec {
            SourceSpec::Synthetic { turns, .. } => *turns,
            // What has an end is held whole, once through.
            _ => usize::MAX,
        };
        let mut source = spec.open().map_err(|error| Failure::new(&what, error))?;
        let (mut scans, mut clouds) = (Vec::new(), Vec::new());
        let mut data_type = self.data_type.map_or(DataType::Scan, DataType::from);
        let mut next = || {
            source
                .next_sweep()
                .map_err(|error| Failure::new(&what, error))
        };
        let mut n = 0;
        while n < turns.min(MAX_SCANS) {
            let Some(sweep) = next()? else { break };
            data_type = self.data_type_of(&sweep)?;
            // No more than fit the memory.
            match self.part(sweep, n as u64)? {
                Sweep::Scan(turn) => scans.push(turn.scan),
                Sweep::Cloud(cloud) => clouds.push(cloud),
            }
            n += 1;
        }
        let statistics = source.statistics();
        if n == 0 {
            return Err(Failure::text(format!(
                "{what} holds no turn ({statistics})"
            )));
        }
        let has_end = !matches!(spec, SourceSpec::Synthetic { .. } | SourceSpec::Live(_));
        let goes_on = has_end && n == MAX_SCANS && matches!(source.next_sweep(), Ok(Some(_)));
        tracing::info!(source = self.source, %statistics, "source read");
        let feed = match clouds.is_empty() {
            true => Feed::new(scans, data_type, convention)
                .map_err(|error| Failure::new(what, error))?,
            false => Feed::of_clouds(clouds),
        };
        let origin = Origin {
            goes_on,
            ..Origin::new(&self.source, data_type)
        };
        *origin.statistics() = statistics;
        let pose = source.pose();
        Ok(Load { feed, origin, pose })
    }
}

/// All of a turn, in percent.
const WHOLE: u8 = 100;
