//! `roundtrip sensor`: what a recording holds, and conversion from one format to another.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lidar_sensor::source::{SourceSpec, Statistics, Sweep};
use lidar_sensor::{Convention, Converter, PacketView, Point, SinkSpec, Turn};
use serde_json::{Value, json};

use crate::cli::{Angles, FormatArgs};
use crate::failure::Failure;
use crate::output::{note, say};

#[derive(Debug, Args)]
pub(crate) struct SensorArgs {
    #[command(subcommand)]
    command: SensorCommand,
}

#[derive(Debug, Subcommand)]
enum SensorCommand {
    /// Say what a source holds: sensor, turns, what was lost or skipped, points.
    Info {
        /// A file whose name ends in pcap, pcapng, bag, mcap, pcd or bin, or a source such as
        /// `bag:FILE?topic=TOPIC`, `kitti:FOLDER`, `udp:PORT?turns=N` or `synthetic:SEED`.
        source: String,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Write the packets or points of a source in another format.
    Convert {
        /// A file or a source, as for `info`.
        from: String,
        /// `pcap:FILE` for packets, `pcd:FOLDER` or `kitti:FOLDER` for points.
        to: String,
        /// Angle convention of the conversion from packets to points.
        #[arg(long, value_enum, default_value_t = Angles::RosCompat, env = "ROUNDTRIP_CONVENTION")]
        convention: Angles,
    },
}

pub(crate) fn run(args: &SensorArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        SensorCommand::Info { source, format } => info(source, format.json),
        SensorCommand::Convert {
            from,
            to,
            convention,
        } => convert(from, to, (*convention).into()),
    }
}

fn info(source: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let mut about = About::default();
    let statistics = each_sweep(source, |sweep| about.add(sweep))?;
    // Files of clouds tell no time, and the stamps they are given here say nothing about them.
    let is_timed = !matches!(named(source)?, SourceSpec::Clouds { .. });
    let seconds = is_timed.then(|| about.seconds());
    let turns_per_second = about.turns_per_second().filter(|_| is_timed);
    let points = about.points.map(|(least, all, most)| {
        json!({ "min": least, "mean": all as f64 / statistics.turns as f64, "max": most })
    });
    let rows = [
        ("source", json!(source)),
        ("holds", json!(about.holds)),
        ("sensor", json!(about.sensors)),
        ("return modes", json!(about.modes)),
        ("frame", json!(about.frames)),
        ("fields", json!(about.fields)),
        ("turns", json!(statistics.turns)),
        ("partial turns", json!(about.partial)),
        ("seconds", json!(seconds)),
        ("turns a second", json!(turns_per_second)),
        ("points a turn", json!(points)),
        ("statistics", json!(statistics)),
    ];
    if as_json {
        let object: serde_json::Map<_, _> = rows
            .into_iter()
            .map(|(name, value)| (name.replace(' ', "-"), value))
            .collect();
        let text = serde_json::to_string_pretty(&object)
            .map_err(|error| Failure::new("print JSON", error))?;
        say!("{text}");
    } else {
        for (name, value) in rows {
            let text = match name {
                "statistics" => statistics.to_string(),
                _ => plain(&value),
            };
            if !text.is_empty() {
                say!("{name:16} {text}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn convert(from: &str, to: &str, convention: Convention) -> Result<ExitCode, Failure> {
    let spec: SinkSpec = to
        .parse()
        .map_err(|error| Failure::usage(format!("`{to}`: {error}")))?;
    // A source that cannot be read must leave no empty file behind.
    let mut sink = None;
    let statistics = each_sweep(from, |sweep| {
        let mut open = match sink.take() {
            Some(open) => open,
            None => spec
                .create(convention)
                .map_err(|error| Failure::new(format!("`{to}`"), error))?,
        };
        open.write(sweep)
            .map_err(|error| Failure::new(format!("`{to}`"), error))?;
        sink = Some(open);
        Ok(())
    })?;
    match sink {
        Some(sink) => sink
            .finish()
            .map_err(|error| Failure::new(format!("`{to}`"), error))?,
        None => return Err(Failure::text(format!("`{from}` holds nothing to convert"))),
    }
    say!("{from} to {to}: {statistics}");
    Ok(ExitCode::SUCCESS)
}

/// What a source's name, or that of a file, stands for.
fn named(source: &str) -> Result<SourceSpec, Failure> {
    let usage = |why: String| Failure::usage(format!("source `{source}`: {why}"));
    let spec = match source.parse::<SourceSpec>() {
        Ok(spec) => spec,
        // A file as it is, if its name tells what it is.
        Err(error) => match SourceSpec::of_file(Path::new(source)) {
            Some(spec) if !source.contains(':') || Path::new(source).exists() => spec,
            _ => return Err(usage(error.to_string())),
        },
    };
    let endless = match &spec {
        SourceSpec::Recording { config, .. } if config.repeat => Some("leave out repeat"),
        SourceSpec::Live(config) if config.turns.is_none() => Some("say how many, with turns=N"),
        _ => None,
    };
    if let Some(hint) = endless {
        return Err(usage(format!("it would never end; {hint}")));
    }
    Ok(spec)
}

/// Goes over a source once.
pub(crate) fn each_sweep(
    source: &str,
    mut visit: impl FnMut(&Sweep) -> Result<(), Failure>,
) -> Result<Statistics, Failure> {
    let what = format!("source `{source}`");
    let spec = named(source)?;
    let turns = match &spec {
        SourceSpec::Synthetic { turns, .. } => *turns as u64,
        _ => u64::MAX,
    };
    let mut source = spec.open().map_err(|error| Failure::new(&what, error))?;
    while source.statistics().turns < turns {
        let sweep = source.next_sweep();
        match sweep.map_err(|error| Failure::new(&what, error))? {
            Some(sweep) => visit(&sweep)?,
            None => break,
        }
    }
    let statistics = source.statistics();
    if !statistics.is_sound() {
        note!("warning: {what} is not whole: {statistics}; what could be read is used");
    }
    Ok(statistics)
}

const PACKETS: &str = "packets";
const POINTS: &str = "points";

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// What was seen in a source.
struct About {
    converter: Converter,
    /// Points of the last scan.
    converted: Vec<Point>,
    holds: BTreeSet<&'static str>,
    sensors: BTreeSet<&'static str>,
    modes: BTreeSet<String>,
    frames: BTreeSet<String>,
    fields: BTreeSet<String>,
    clouds: u64,
    partial: u64,
    /// When the turn before began by the sensor's clock, in microseconds of its hour, if it was a
    /// whole one.
    whole_since: Option<u32>,
    /// Whole turns that another one followed, and how long they took in microseconds.
    whole: (u64, u64),
    /// The first and the last stamp, in nanoseconds.
    stamps: Option<(u64, u64)>,
    /// Fewest and all and most.
    points: Option<(usize, usize, usize)>,
}

impl Default for About {
    fn default() -> Self {
        Self {
            converter: Converter::new(Convention::Precise),
            converted: Vec::new(),
            holds: BTreeSet::new(),
            sensors: BTreeSet::new(),
            modes: BTreeSet::new(),
            frames: BTreeSet::new(),
            fields: BTreeSet::new(),
            clouds: 0,
            partial: 0,
            whole_since: None,
            whole: (0, 0),
            stamps: None,
            points: None,
        }
    }
}

impl About {
    fn add(&mut self, sweep: &Sweep) -> Result<(), Failure> {
        let (header, points) = match sweep {
            Sweep::Scan(turn) => {
                self.holds.insert(PACKETS);
                self.partial += u64::from(turn.partial);
                self.time(turn);
                for packet in turn.scan.packets.iter() {
                    if let Ok(view) = PacketView::new(packet.data) {
                        self.sensors.insert(view.model().name());
                        let mode = format!("{:?}", view.return_mode()).to_lowercase();
                        self.modes.insert(mode);
                    }
                }
                self.converted.clear();
                self.converter
                    .points(&turn.scan, &mut self.converted)
                    .map_err(|error| Failure::new("convert a scan", error))?;
                (&turn.scan.header, self.converted.len())
            }
            Sweep::Cloud(cloud) => {
                self.holds.insert(POINTS);
                self.clouds += 1;
                let fields = cloud.fields.iter();
                self.fields.extend(fields.map(|field| {
                    let kind = format!("{:?}", field.datatype).to_lowercase();
                    format!("{} {kind}", &*field.name)
                }));
                let points = cloud.points();
                let points = points.map_err(|error| Failure::new("read a cloud", error))?;
                (&cloud.header, points.count())
            }
        };
        self.frames.insert(header.frame_id.to_string());
        let stamp = header.stamp.as_nanos();
        let (first, _) = self.stamps.unwrap_or((stamp, stamp));
        self.stamps = Some((first, stamp));
        let (least, all, most) = self.points.unwrap_or((points, 0, points));
        self.points = Some((least.min(points), all + points, most.max(points)));
        Ok(())
    }

    /// Takes the time of the turn before, which ends where this one begins.
    fn time(&mut self, turn: &Turn) {
        let first = turn.scan.packets.iter().next();
        let view = first.and_then(|packet| PacketView::new(packet.data).ok());
        let began = view.map(|view| view.timestamp_us());
        if let (Some(before), Some(began)) = (self.whole_since, began) {
            // The sensor's clock starts over every hour.
            let micros = i64::from(began) - i64::from(before);
            self.whole.0 += 1;
            self.whole.1 += micros.rem_euclid(MICROS_PER_HOUR) as u64;
        }
        self.whole_since = began.filter(|_| !turn.partial);
    }

    /// Of packets by whole turns and the sensor's clock, of clouds by their stamps.
    fn turns_per_second(&self) -> Option<f64> {
        let (turns, seconds) = match self.whole {
            (0, _) if self.holds.contains(POINTS) => {
                (self.clouds.saturating_sub(1), self.seconds())
            }
            (turns, micros) => (turns, micros as f64 / 1e6),
        };
        (turns > 0 && seconds > 0.0).then(|| turns as f64 / seconds)
    }

    /// From the first turn to the last.
    fn seconds(&self) -> f64 {
        self.stamps
            .map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }
}

/// A value as text; nothing for what there is none of.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(values) => values
            .iter()
            .map(|(name, value)| format!("{name} {}", plain(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => format!("{value:.3}"),
            _ => number.to_string(),
        },
        Value::Bool(value) => value.to_string(),
    }
}
