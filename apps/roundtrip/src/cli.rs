//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latency_timeline::Clock;
use lidar_detector::{Detector, Execution, FixedDelay, Neural};
use lidar_sensor::Convention;
use transport_api::{PeerId, Qos, TransportConfig};
use vehicle::DataType;

use crate::drill::DrillArgs;
use crate::eval::EvalArgs;
use crate::failure::Failure;
use crate::fleet::{self, CollectiveArgs, VehiclesArgs};
use crate::lists::ListArgs;
use crate::operation::OperationArgs;
use crate::record::RecordArgs;
use crate::screen::ViewArgs;
use crate::sensor::SensorArgs;

/// Sends lidar scans from a vehicle to an edge and object lists back, over interchangeable
/// transports, and measures where the time goes.
///
/// Without a subcommand it runs `run` on every transport's embedded default.
#[derive(Debug, Parser)]
#[command(
    name = "roundtrip",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Every option can be set by the environment variable shown with it, or in a TOML \
                  file (--config): keys are the long option names, at the top for all commands or \
                  in a table named like the command. Command line beats environment beats file. \
                  RUST_LOG chooses what is logged to standard error, such as \
                  RUST_LOG=transport_mqtt=debug; a run's child processes log to files in its \
                  results folder."
)]
pub(crate) struct Cli {
    /// TOML file with settings.
    #[arg(long, value_name = "FILE", global = true, env = "ROUNDTRIP_CONFIG")]
    #[allow(
        dead_code,
        reason = "read by `file` before parsing; here for help and checking"
    )]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare transports: vehicle, edge and what they need, in processes of their own.
    Run(RunArgs),
    /// The vehicle alone: publish scans, time the answers.
    Vehicle(VehicleArgs),
    /// The edge alone: receive, convert, detect, answer.
    Edge(EdgeArgs),
    /// Let brokers, edges and links fail, and see whether the vehicle stays operational.
    Drill(DrillArgs),
    /// Run what two sides need to meet, such as an embedded broker or master, until stopped.
    Host(HostArgs),
    /// List the transports that are compiled in, with capabilities, limits and options.
    Transports(FormatArgs),
    /// Look into recordings of sensors and convert them.
    Sensor(SensorArgs),
    /// Score the detector against labels: streets of the generator or a recording.
    Eval(EvalArgs),
    /// Show what this machine offers: brokers, routers, masters, namespaces, allocator settings.
    Doctor(FormatArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    /// Print JSON.
    #[arg(long, env = "ROUNDTRIP_JSON")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Transport to compare, by URL; give it several times for several, or several URLs with spaces
    /// between them. Default: each one that is compiled in, on its embedded default.
    #[arg(
        long = "transport",
        value_name = "URL",
        env = "ROUNDTRIP_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) transports: Vec<TransportUrl>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) quality: QualityArgs,

    #[command(flatten)]
    pub(crate) detection: DetectionArgs,

    #[command(flatten)]
    pub(crate) operation: OperationArgs,

    #[command(flatten)]
    pub(crate) view: ViewArgs,

    #[command(flatten)]
    pub(crate) record: RecordArgs,

    /// Vehicles at once on one edge. Several have the ids `vehicle1`, `vehicle2` … with topics of their
    /// own below them, and synthetic sources of as many seeds.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(fleet::MOST)),
        env = "ROUNDTRIP_VEHICLES"
    )]
    pub(crate) vehicles: u8,

    #[command(flatten)]
    pub(crate) collective: CollectiveArgs,

    /// The study's protocol: 600 samples, unless --samples says otherwise.
    #[arg(long, env = "ROUNDTRIP_FULL")]
    pub(crate) full: bool,

    /// Folder below which a folder for this run is made.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "ROUNDTRIP_RESULTS"
    )]
    pub(crate) results: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VehicleArgs {
    /// Transport, by URL.
    #[arg(
        long,
        value_name = "URL",
        env = "ROUNDTRIP_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) transport: Option<TransportUrl>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) quality: QualityArgs,

    #[command(flatten)]
    pub(crate) operation: OperationArgs,

    #[command(flatten)]
    pub(crate) record: RecordArgs,

    #[command(flatten)]
    pub(crate) fleet: VehiclesArgs,

    /// Folder below which a folder for this trial is made; without it only the table is printed.
    #[arg(long, value_name = "DIR", env = "ROUNDTRIP_RESULTS")]
    pub(crate) results: Option<PathBuf>,

    /// Run the edge in this process too: the in-vehicle baseline.
    #[arg(long, env = "ROUNDTRIP_WITH_EDGE")]
    pub(crate) with_edge: bool,

    #[command(flatten)]
    pub(crate) detection: DetectionArgs,

    #[command(flatten)]
    pub(crate) collective: CollectiveArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) view: ViewArgs,

    /// Socket of the run's view.
    #[arg(long, hide = true)]
    pub(crate) view_relay: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) supervision: SupervisionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EdgeArgs {
    /// Transport, by URL.
    #[arg(
        long,
        value_name = "URL",
        env = "ROUNDTRIP_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) transport: Option<TransportUrl>,

    #[command(flatten)]
    pub(crate) quality: QualityArgs,

    #[command(flatten)]
    pub(crate) fleet: VehiclesArgs,

    #[command(flatten)]
    pub(crate) detection: DetectionArgs,

    #[command(flatten)]
    pub(crate) collective: CollectiveArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) supervision: SupervisionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Transport, by URL, such as `mqtt:embedded`.
    #[arg(
        long,
        value_name = "URL",
        env = "ROUNDTRIP_TRANSPORT",
        hide_env_values = true
    )]
    pub(crate) transport: Option<TransportUrl>,

    #[command(flatten)]
    pub(crate) supervision: SupervisionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// How long to try to reach a broker, router, master or peer that is not there yet, such as
    /// `30s`; `0s` tries once.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "forever",
        env = "ROUNDTRIP_CONNECT_TIMEOUT"
    )]
    pub(crate) connect_timeout: Patience,
}

/// How long something may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Forever,
    For(Duration),
}

impl Patience {
    /// `None` without a limit.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(duration) => Some(duration),
        }
    }
}

impl std::fmt::Display for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forever => f.write_str("forever"),
            Self::For(duration) => humantime::format_duration(*duration).fmt(f),
        }
    }
}

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let duration = humantime::parse_duration(text);
        duration
            .map(Self::For)
            .map_err(|error| format!("{error}; give `forever` or a duration such as `30s`"))
    }
}

#[derive(Debug, Args)]
pub(crate) struct SupervisionArgs {
    /// Report as JSON lines and stop when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

/// Scans measured unless something else is asked for.
const SAMPLES: u64 = 100;

/// Scans a second unless something else is asked for: as often as most sensors turn.
const RATE: f64 = 10.0;

/// Most scans of a trial: more than a day at 10 Hz. Each one is recorded in memory.
const MOST: u64 = 1_000_000;

/// What is sent, and how often.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Where scans or clouds come from: `synthetic:SEED`, `pcap:FILE`, `bag:FILE`, `mcap:FILE`,
    /// `pcd:PATH`, `kitti:PATH`, a sensor that sends to `udp:PORT`, or `ros:TOPIC` of a running
    /// master; options follow as `?name=value&…`.
    #[arg(
        long,
        value_name = "SOURCE",
        default_value = "synthetic:1?turns=10",
        env = "ROUNDTRIP_SOURCE"
    )]
    pub(crate) source: String,

    /// Scans a second; 10 by default. What a sensor sends meanwhile comes as often as it sends it.
    #[arg(
        long,
        value_name = "HZ",
        value_parser = rate,
        allow_negative_numbers = true,
        env = "ROUNDTRIP_RATE"
    )]
    pub(crate) rate: Option<f64>,

    /// Scans measured; 100 by default.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=MOST),
        env = "ROUNDTRIP_SAMPLES"
    )]
    pub(crate) samples: Option<u64>,

    /// Scans sent before, to warm up.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(..=MOST),
        env = "ROUNDTRIP_WARMUP"
    )]
    pub(crate) warmup: u64,

    /// Send packets, converted at the edge, or clouds, converted before; by default what the source
    /// holds.
    #[arg(long, value_enum, env = "ROUNDTRIP_DATA_TYPE")]
    pub(crate) data_type: Option<Data>,

    /// Percentage of each scan's packets that is sent, 0 to 100.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 100,
        value_parser = clap::value_parser!(u8).range(0..=100),
        env = "ROUNDTRIP_SIZE"
    )]
    pub(crate) size: u8,

    /// Seed of the choice of packets.
    #[arg(long, value_name = "N", default_value_t = 1, env = "ROUNDTRIP_SEED")]
    pub(crate) seed: u64,

    /// How long the edge may take to give its first answer, such as `30s`.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration,
        env = "ROUNDTRIP_READY_TIMEOUT"
    )]
    pub(crate) ready_timeout: Duration,
}

/// What both sides must agree on.
#[derive(Clone, Debug, Args)]
pub(crate) struct QualityArgs {
    /// Delivery guarantee of scans and object lists.
    #[arg(long, value_enum, default_value_t = Guarantee::AtMostOnce, env = "ROUNDTRIP_QOS")]
    pub(crate) qos: Guarantee,

    /// Scans that may wait at the vehicle, and at the edge; by default 1 at most once, so that the
    /// newest comes first, and 8 where scans are acknowledged.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=100),
        env = "ROUNDTRIP_QUEUE"
    )]
    pub(crate) queue: Option<u8>,

    /// Topic prefix, such as `vehicle1`; none by default.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        env = "ROUNDTRIP_PREFIX"
    )]
    pub(crate) prefix: String,
}

/// How the edge detects.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetectionArgs {
    /// `neural`, or `fixed-delay:DURATION` for controlled experiments: no detection, only the time.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "neural",
        env = "ROUNDTRIP_DETECTOR"
    )]
    pub(crate) detector: DetectorChoice,

    /// Threads of the neural network.
    #[arg(
        long,
        value_name = "N",
        default_value_t = lidar_detector::DEFAULT_THREADS,
        value_parser = threads,
        env = "ROUNDTRIP_THREADS"
    )]
    pub(crate) threads: usize,

    /// What runs the neural network: `rten`, or `ort` for ONNX Runtime in builds with that feature, with
    /// its shared library at `ORT_DYLIB_PATH`.
    #[arg(
        long,
        value_name = "NAME",
        default_value_t = lidar_detector::Runtime::default(),
        env = "ROUNDTRIP_RUNTIME"
    )]
    pub(crate) runtime: lidar_detector::Runtime,

    /// The vehicle around the sensor, whose own points are left out by the neural network: its rear, front,
    /// right and left end in metres from the sensor, or `none`.
    #[arg(
        long,
        value_name = "BOX",
        default_value_t = lidar_detector::Ego::default(),
        allow_hyphen_values = true,
        env = "ROUNDTRIP_EGO"
    )]
    pub(crate) ego: lidar_detector::Ego,

    /// Do not answer scans that are older on arrival, such as `500ms`: those count as expired. The age
    /// is the delay beyond that of the vehicle's fastest scan.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "forever",
        env = "ROUNDTRIP_MAX_AGE"
    )]
    pub(crate) max_age: Patience,

    /// Angle convention of the conversion.
    #[arg(long, value_enum, default_value_t = Angles::RosCompat, env = "ROUNDTRIP_CONVENTION")]
    pub(crate) convention: Angles,

    #[command(flatten)]
    pub(crate) lists: ListArgs,

    /// Nanoseconds added to the edge's clock, to check that no latency depends on it.
    #[arg(
        long,
        value_name = "NS",
        default_value_t = 0,
        value_parser = clap::value_parser!(i64).range(-FARTHEST..=FARTHEST),
        allow_negative_numbers = true,
        env = "ROUNDTRIP_EDGE_CLOCK_OFFSET"
    )]
    pub(crate) edge_clock_offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// `velodyne_msgs/VelodyneScan`.
    Scan,
    /// `sensor_msgs/PointCloud2`.
    Cloud,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(clippy::enum_variant_names, reason = "the field's own terms")]
pub(crate) enum Guarantee {
    /// Once or not at all, newest first: a scan that still waits gives way to the next one.
    #[value(alias = "0")]
    AtMostOnce,
    /// Once or more often.
    #[value(alias = "1")]
    AtLeastOnce,
    /// Once.
    #[value(alias = "2")]
    ExactlyOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Angles {
    /// As the ROS driver: no interpolation inside a block.
    RosCompat,
    /// Interpolated by firing time.
    Precise,
}

/// A transport URL. It is parsed when it is used: an error of the command line's own parser would
/// repeat the text, and with it a password.
#[derive(Clone)]
pub(crate) struct TransportUrl(String);

impl TransportUrl {
    /// The configuration; its options are checked when it is opened.
    pub(crate) fn config(&self) -> Result<TransportConfig, Failure> {
        Ok(TransportConfig::parse(&self.0)?)
    }

    /// The URLs of a list with white space between them: in an environment variable there is no
    /// other way to give several, and in a URL there is none.
    pub(crate) fn split(&self) -> impl Iterator<Item = Self> {
        self.0.split_whitespace().map(|url| Self(url.to_owned()))
    }
}

impl std::fmt::Debug for TransportUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match TransportConfig::parse(&self.0) {
            Ok(config) => config.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}

impl FromStr for TransportUrl {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// The transport of a command that needs one.
pub(crate) fn required(transport: Option<TransportUrl>) -> Result<TransportConfig, Failure> {
    let missing = "no transport; give --transport URL, such as `mqtt://broker:1883` (see \
                   `roundtrip transports`)";
    transport.ok_or_else(|| Failure::usage(missing))?.config()
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (SLOWEST..=FASTEST).contains(&rate) => Ok(rate),
        _ => Err(format!(
            "give a number of scans a second from {SLOWEST} to {FASTEST}"
        )),
    }
}

/// A century in nanoseconds: farther clocks could not be subtracted.
const FARTHEST: i64 = 100 * 366 * 86_400 * 1_000_000_000;

/// The longest delay of a detector that waits.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

const SLOWEST: f64 = 0.01;
const FASTEST: f64 = 10_000.0;

pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=lidar_detector::MAX_THREADS).contains(&threads) => Ok(threads),
        _ => Err(format!(
            "give a number from 1 to {}",
            lidar_detector::MAX_THREADS
        )),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DetectorChoice {
    Neural,
    FixedDelay(Duration),
}

impl FromStr for DetectorChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "neural" => Ok(Self::Neural),
            Some(("fixed-delay", text)) => match humantime::parse_duration(text) {
                Ok(delay) if delay <= LONGEST_DELAY => Ok(Self::FixedDelay(delay)),
                Ok(_) => Err(format!("delay `{text}` is longer than {LONGEST_DELAY:?}")),
                Err(error) => Err(format!("delay `{text}`: {error}; write for example `10ms`")),
            },
            _ => Err("give `neural` or `fixed-delay:DURATION`".to_owned()),
        }
    }
}

impl DetectorChoice {
    /// The detector itself; the network works as `detection` says.
    pub(crate) fn load(&self, detection: &DetectionArgs) -> Result<Box<dyn Detector>, Failure> {
        let execution = Execution {
            runtime: detection.runtime,
            threads: detection.threads,
        };
        Ok(match self {
            Self::Neural => Box::new(
                Neural::embedded(execution)
                    .map_err(|error| Failure::new("load the detector", error))?
                    .with_ego(detection.ego),
            ),
            Self::FixedDelay(delay) => Box::new(FixedDelay::new(*delay)),
        })
    }
}

impl std::fmt::Display for DetectorChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Neural => f.write_str("neural"),
            Self::FixedDelay(delay) => {
                write!(f, "fixed-delay:{}", humantime::format_duration(*delay))
            }
        }
    }
}

impl LoadArgs {
    /// Scans measured.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.unwrap_or(SAMPLES)
    }

    /// Scans a second, where no sensor says when.
    pub(crate) fn rate(&self) -> f64 {
        self.rate.unwrap_or(RATE)
    }
}

impl From<Data> for DataType {
    fn from(data: Data) -> Self {
        match data {
            Data::Scan => Self::Scan,
            Data::Cloud => Self::Cloud,
        }
    }
}

impl QualityArgs {
    /// How object lists are published.
    pub(crate) fn objects(&self) -> Qos {
        match self.qos {
            Guarantee::AtMostOnce => Qos::default(),
            Guarantee::AtLeastOnce => Qos::at_least_once(),
            Guarantee::ExactlyOnce => Qos::exactly_once(),
        }
    }

    /// How scans are published. What nobody waits for must not queue.
    pub(crate) fn scans(&self) -> Qos {
        let qos = match self.qos {
            Guarantee::AtMostOnce => exchange::freshest(),
            Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => self.objects(),
        };
        match self.queue {
            Some(depth) => qos.with_depth(depth.into()),
            None => qos,
        }
    }

    /// How what is published by `qos` is received: never holding up the transport, so a full queue
    /// gives up its oldest.
    pub(crate) fn received(qos: Qos) -> Qos {
        Qos {
            overflow: Qos::default().overflow,
            ..qos
        }
    }
}

impl DetectionArgs {
    pub(crate) fn detector(&self) -> Result<Box<dyn Detector>, Failure> {
        self.detector.load(self)
    }

    pub(crate) fn edge_clock(&self) -> Clock {
        Clock::shifted(self.edge_clock_offset)
    }

    pub(crate) fn convention(&self) -> Convention {
        self.convention.into()
    }
}

impl From<Angles> for Convention {
    fn from(angles: Angles) -> Self {
        match angles {
            Angles::RosCompat => Self::RosCompat,
            Angles::Precise => Self::Precise,
        }
    }
}

/// The name of a side: what it is and a part that no other process has.
pub(crate) fn peer(side: &str) -> Result<PeerId, Failure> {
    Ok(PeerId::parse(&format!("{side}-{}", PeerId::random()))?)
}

/// What was asked for, for the record.
pub(crate) fn record(
    load: &LoadArgs,
    quality: &QualityArgs,
    detection: &DetectionArgs,
    operation: &OperationArgs,
) -> serde_json::Value {
    serde_json::json!({
        "source": load.source,
        "rate_hz": load.rate(),
        "samples": load.samples(),
        "warmup": load.warmup,
        "data_type": load.data_type.map(DataType::from),
        "size_percent": load.size,
        "seed": load.seed,
        "qos": { "scans": quality.scans(), "objects": quality.objects() },
        "prefix": quality.prefix,
        "detector": detection.detector.to_string(),
        "threads": detection.threads,
        "runtime": detection.runtime.to_string(),
        "ego": detection.ego.to_string(),
        "max_age": detection.max_age.to_string(),
        "convention": format!("{:?}", detection.convention()),
        "lists": detection.lists.settings(),
        "edge_clock_offset_ns": detection.edge_clock_offset,
        "operation": operation.record(),
    })
}
