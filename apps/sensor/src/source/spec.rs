use std::{fmt, path::PathBuf, str::FromStr};

use thiserror::Error;

use super::{Recording, RecordingConfig, SimulatorConfig, Source, SourceError, Synthetic};
use crate::{FULL_TURN, Model};

/// Turns in the loop of a synthetic source: two seconds.
const DEFAULT_TURNS: usize = 20;

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
}

/// A text that names no source.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Without a known kind.
    #[error("source {text:?} is unknown; give synthetic:SEED or pcap:FILE")]
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
    /// Opens the source. A synthetic one casts its loop now, which takes tens of milliseconds a
    /// turn.
    ///
    /// # Errors
    ///
    /// If a recording cannot be opened.
    pub fn open(&self) -> Result<Source, SourceError> {
        Ok(match self {
            Self::Synthetic { seed, turns, model } => {
                let config = SimulatorConfig::new(*model, *seed);
                Source::Synthetic(Synthetic::new(config, *turns))
            }
            Self::Recording { path, config } => {
                Source::Recording(Box::new(Recording::open(path, config.clone())?))
            }
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
                        _ => {
                            let known = "cut, repeat, port, host and pace";
                            return Err(unknown_option("pcap", option, known));
                        }
                    }
                }
                Ok(Self::Recording {
                    path: PathBuf::from(name),
                    config,
                })
            }
            _ => Err(unknown()),
        }
    }
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
                } = config;
                let cut = f64::from(*cut) / 100.0;
                let path = path.display();
                write!(
                    f,
                    "pcap:{path}?cut={cut}&repeat={repeat}&port={port}&pace={pace}"
                )?;
                match host {
                    Some(host) => write!(f, "&host={host}"),
                    None => Ok(()),
                }
            }
        }
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
    value.parse().map_err(|_| SpecError::Value {
        name,
        value: value.to_owned(),
        wanted,
    })
}

fn parse_turns(value: &str) -> Result<usize, SpecError> {
    let wanted = "1 to 1000";
    let turns = parse("turns", value, wanted)?;
    if (1..=MAX_TURNS).contains(&turns) {
        return Ok(turns);
    }
    Err(SpecError::Value {
        name: "turns",
        value: value.to_owned(),
        wanted,
    })
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
    Err(SpecError::Value {
        name: "cut",
        value: value.to_owned(),
        wanted,
    })
}
