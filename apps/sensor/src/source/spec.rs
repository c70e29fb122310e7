use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use thiserror::Error;

use super::{
    CloudFiles, CloudFormat, Live, LiveConfig, Playback, Recording, RecordingConfig,
    SimulatorConfig, Source, SourceError, StampClock, Synthetic,
};
use crate::{FULL_TURN, Model};

/// Turns in the loop of a synthetic source: two seconds.
const DEFAULT_TURNS: usize = 20;

/// Most bytes that a kernel is asked to hold.
const MAX_BUFFER: usize = 1 << 30;

/// Most turns of a synthetic loop, which is held in memory: 0.18 MB each.
const MAX_TURNS: usize = 1_000;

/// A source as the user names it; see the [module documentation](super) for the texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSpec {
    /// A loop of a ray-cast street.
    Synthetic {
        /// Seed of the street.
        seed: u64,
        /// Turns in the loop.
        turns: usize,
        /// What is simulated.
        model: Model,
    },
    /// A capture file.
    Recording {
        /// The file.
        path: PathBuf,
        /// How it is read.
        config: RecordingConfig,
    },
    /// A sensor.
    Live(LiveConfig),
    /// A ROS 1 bag or an MCAP file, which tell themselves what they are.
    Bag {
        /// The file.
        path: PathBuf,
        /// The topic, if it is not the only one that can be read.
        topic: Option<String>,
    },
    /// A file of clouds, or a folder of them.
    Clouds {
        /// The file or folder.
        path: PathBuf,
        /// What the files are.
        format: CloudFormat,
    },
}

/// A text that names no source.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Without a known kind.
    #[error(
        "source {text:?} is unknown; give synthetic:SEED, pcap:FILE, udp:PORT, bag:FILE, \
             mcap:FILE, pcd:PATH or kitti:PATH"
    )]
    Kind {
        /// The text.
        text: String,
    },
    /// With an option the kind does not have.
    #[error("source {kind} has no option {option:?}; it has {known}")]
    Option {
        /// The kind of source.
        kind: &'static str,
        /// The option given.
        option: String,
        /// The options there are.
        known: &'static str,
    },
    /// With a value that cannot be.
    #[error("{name} of a source cannot be {value:?}; give {wanted}")]
    Value {
        /// What the value is for.
        name: &'static str,
        /// The value given.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
}

impl SourceSpec {
    /// The source that a file is by the end of its name: `pcap`, `pcapng`, `bag`, `mcap`, `pcd` or
    /// `bin`,
    /// as KITTI has.
    pub fn of_file(path: &Path) -> Option<Self> {
        let path = path.to_owned();
        let clouds = |path, format| Self::Clouds { path, format };
        match path.extension()?.to_str()? {
            "pcap" | "pcapng" => Some(Self::Recording {
                path,
                config: RecordingConfig::default(),
            }),
            "bag" | "mcap" => Some(Self::Bag { path, topic: None }),
            "pcd" => Some(clouds(path, CloudFormat::Pcd)),
            "bin" => Some(clouds(path, CloudFormat::Kitti)),
            _ => None,
        }
    }

    /// Opens the source. A synthetic one casts its loop now, which takes tens of milliseconds a
    /// turn.
    ///
    /// # Errors
    ///
    /// If a recording or a socket cannot be opened.
    pub fn open(&self) -> Result<Source, SourceError> {
        Ok(match self {
            Self::Synthetic { seed, turns, model } => {
                let config = SimulatorConfig::new(*model, *seed);
                Source::Synthetic(Synthetic::new(config, *turns))
            }
            Self::Recording { path, config } => {
                Source::Recording(Box::new(Recording::open(path, config.clone())?))
            }
            Self::Live(config) => Source::Live(Box::new(Live::open(config.clone())?)),
            Self::Bag { path, topic } => {
                Source::Playback(Box::new(Playback::open(path, topic.as_deref())?))
            }
            Self::Clouds { path, format } => Source::Clouds(CloudFiles::open(path, *format)?),
        })
    }
}

impl FromStr for SourceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unknown = || SpecError::Kind {
            text: text.to_owned(),
        };
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        // From the end, as a file name may hold a question mark.
        let (name, options) = rest.rsplit_once('?').unwrap_or((rest, ""));
        let options = options.split('&').filter(|option| !option.is_empty());
        let options = options.map(|option| option.split_once('=').unwrap_or((option, "")));
        match kind {
            "synthetic" => {
                let seed = parse("the seed", name, "a number from 0 to 2^64 - 1")?;
                let (mut turns, mut model) = (DEFAULT_TURNS, Model::default());
                for (option, value) in options {
                    match option {
                        "turns" => turns = parse_turns(value)?,
                        "model" => model = parse("model", value, "vlp-32c, vlp-16 or hdl-32e")?,
                        _ => return Err(unknown_option("synthetic", option, "turns and model")),
                    }
                }
                Ok(Self::Synthetic { seed, turns, model })
            }
            "pcap" if !name.is_empty() => {
                let mut config = RecordingConfig::default();
                for (option, value) in options {
                    match option {
                        "cut" => config.cut = parse_cut(value)?,
                        "repeat" => config.repeat = parse("repeat", value, "true or false")?,
                        "port" => config.port = parse("port", value, "a UDP port")?,
                        "host" => config.host = Some(parse("host", value, "an IP address")?),
                        "pace" => config.pace = parse("pace", value, "fast or real")?,
                        "partial" => config.partial = parse("partial", value, "send or drop")?,
                        _ => {
                            let known = "cut, repeat, port, host, pace and partial";
                            return Err(unknown_option("pcap", option, known));
                        }
                    }
                }
                Ok(Self::Recording {
                    path: PathBuf::from(name),
                    config,
                })
            }
            "udp" => parse_live(name, options).map(Self::Live),
            "bag" | "mcap" if !name.is_empty() => {
                let mut topic = None;
                for (option, value) in options {
                    match option {
                        "topic" => topic = Some(value.to_owned()),
                        _ => return Err(unknown_option("bag", option, "topic")),
                    }
                }
                Ok(Self::Bag {
                    path: PathBuf::from(name),
                    topic,
                })
            }
            // They have no options, so a question mark is of the name.
            "pcd" | "kitti" if !rest.is_empty() => Ok(Self::Clouds {
                path: PathBuf::from(rest),
                format: match kind {
                    "pcd" => CloudFormat::Pcd,
                    _ => CloudFormat::Kitti,
                },
            }),
            _ => Err(unknown()),
        }
    }
}

fn parse_live<'a>(
    port: &str,
    options: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<LiveConfig, SpecError> {
    let mut config = LiveConfig::default();
    config.bind.set_port(parse("the port", port, "a UDP port")?);
    for (option, value) in options {
        match option {
            "bind" => config.bind.set_ip(parse("bind", value, "an IP address")?),
            "group" => {
                let wanted = "a multicast address";
                let group: IpAddr = parse("group", value, wanted)?;
                if !group.is_multicast() {
                    return Err(refused("group", value, wanted));
                }
                config.group = Some(group);
            }
            "interface" => config.interface = parse("interface", value, "the index of one")?,
            "host" => config.host = Some(parse("host", value, "an IP address")?),
            "cut" => config.cut = parse_cut(value)?,
            "clock" => {
                config.clock = match value {
                    "host" => StampClock::Host,
                    "sensor" => StampClock::Sensor,
                    _ => return Err(refused("clock", value, "host or sensor")),
                }
            }
            "buffer" => {
                let wanted = "bytes from 1 to 1073741824";
                config.buffer = parse("buffer", value, wanted)?;
                if !(1..=MAX_BUFFER).contains(&config.buffer) {
                    return Err(refused("buffer", value, wanted));
                }
            }
            "silence" => {
                let wanted = "seconds from 0.001 to 86400";
                let seconds: f64 = parse("silence", value, wanted)?;
                if !(0.001..=86_400.0).contains(&seconds) {
                    return Err(refused("silence", value, wanted));
                }
                config.silence = Duration::from_secs_f64(seconds);
            }
            "partial" => config.partial = parse("partial", value, "send or drop")?,
            "turns" => config.turns = Some(parse("turns", value, "a number of turns")?),
            _ => {
                let known = "bind, group, interface, host, cut, clock, buffer, silence, partial and \
                             turns";
                return Err(unknown_option("udp", option, known));
            }
        }
    }
    if config
        .group
        .is_some_and(|group| group.is_ipv4() != config.bind.is_ipv4())
    {
        // The unspecified address of the other family is what is meant.
        let address = config.bind.ip().to_string();
        return Err(refused(
            "bind",
            &address,
            "an address of the family of the group",
        ));
    }
    Ok(config)
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synthetic { seed, turns, model } => {
                let model = model.name().to_ascii_lowercase();
                write!(f, "synthetic:{seed}?turns={turns}&model={model}")
            }
            Self::Recording { path, config } => {
                let RecordingConfig {
                    cut,
                    repeat,
                    port,
                    host,
                    pace,
                    partial,
                } = config;
                let cut = f64::from(*cut) / 100.0;
                let path = path.display();
                write!(
                    f,
                    "pcap:{path}?cut={cut}&repeat={repeat}&port={port}&pace={pace}&partial={partial}"
                )?;
                match host {
                    Some(host) => write!(f, "&host={host}"),
                    None => Ok(()),
                }
            }
            Self::Live(config) => write_live(f, config),
            Self::Bag { path, topic } => {
                write!(f, "bag:{}", path.display())?;
                match topic {
                    Some(topic) => write!(f, "?topic={topic}"),
                    // So that a question mark in the name is not taken for the start of options.
                    None => write!(f, "?"),
                }
            }
            Self::Clouds { path, format } => match format {
                CloudFormat::Pcd => write!(f, "pcd:{}", path.display()),
                CloudFormat::Kitti => write!(f, "kitti:{}", path.display()),
            },
        }
    }
}

fn write_live(f: &mut fmt::Formatter<'_>, config: &LiveConfig) -> fmt::Result {
    let LiveConfig {
        bind,
        group,
        interface,
        host,
        cut,
        clock,
        buffer,
        silence,
        partial,
        turns,
    } = config;
    let (address, port) = (bind.ip(), bind.port());
    let cut = f64::from(*cut) / 100.0;
    let clock = match clock {
        StampClock::Host => "host",
        StampClock::Sensor => "sensor",
    };
    let silence = silence.as_secs_f64();
    write!(
        f,
        "udp:{port}?bind={address}&interface={interface}&cut={cut}&clock={clock}"
    )?;
    write!(f, "&buffer={buffer}&silence={silence}&partial={partial}")?;
    if let Some(group) = group {
        write!(f, "&group={group}")?;
    }
    if let Some(host) = host {
        write!(f, "&host={host}")?;
    }
    match turns {
        Some(turns) => write!(f, "&turns={turns}"),
        None => Ok(()),
    }
}

fn unknown_option(kind: &'static str, option: &str, known: &'static str) -> SpecError {
    SpecError::Option {
        kind,
        option: option.to_owned(),
        known,
    }
}

fn parse<T: FromStr>(
    name: &'static str,
    value: &str,
    wanted: &'static str,
) -> Result<T, SpecError> {
    value.parse().map_err(|_| refused(name, value, wanted))
}

fn refused(name: &'static str, value: &str, wanted: &'static str) -> SpecError {
    SpecError::Value {
        name,
        value: value.to_owned(),
        wanted,
    }
}

fn parse_turns(value: &str) -> Result<usize, SpecError> {
    let wanted = "1 to 1000";
    let turns = parse("turns", value, wanted)?;
    if (1..=MAX_TURNS).contains(&turns) {
        return Ok(turns);
    }
    Err(refused("turns", value, wanted))
}

/// Degrees to hundredths.
fn parse_cut(value: &str) -> Result<u16, SpecError> {
    let wanted = "degrees from 0 to less than 360";
    let degrees: f64 = parse("cut", value, wanted)?;
    let hundredths = (degrees * 100.0).round();
    if (0.0..f64::from(FULL_TURN)).contains(&hundredths) {
        // In the range of an azimuth.
        return Ok(hundredths as u16);
    }
    Err(refused("cut", value, wanted))
}
