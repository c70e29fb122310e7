use std::{
    fs::File,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use lidar_messages::Time;

use super::{Pace, PartialTurns, SourceError, Statistics, intake::Intake, pace::Pacer};
use crate::{
    capture::{Capture, CaptureError},
    frame::Content,
    model::Model,
    packet::{DATA_PORT, POSITION_PACKET_LEN, POSITION_PORT, PacketView},
    turn::Turn,
};

/// How a recording is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingConfig {
    /// Azimuth at which turns are cut, in hundredths of a degree.
    pub cut: u16,
    /// Whether it starts over at its end. Stamps go on as if the sensor had.
    pub repeat: bool,
    /// UDP port of data packets.
    pub port: u16,
    /// Address of the sensor, if packets of others are to be left out.
    pub host: Option<IpAddr>,
    /// When turns come.
    pub pace: Pace,
    /// What becomes of partial ones.
    pub partial: PartialTurns,
}

impl Default for RecordingConfig {
    fn default() -> Self {
        Self {
            cut: 0,
            repeat: false,
            port: DATA_PORT,
            host: None,
            pace: Pace::default(),
            partial: PartialTurns::default(),
        }
    }
}

/// Turns from a capture file.
///
/// Packets come out as they were captured; only the stamps of later passes are moved on.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    config: RecordingConfig,
    /// `None` between passes.
    capture: Option<Capture<File>>,
    intake: Intake,
    /// Packets used in this pass.
    pass: u64,
    clock: Clock,
    pacer: Pacer,
}

/// Moves the stamps of later passes behind those of earlier ones.
#[derive(Debug, Default)]
struct Clock {
    shift: u64,
    last: u64,
    /// Whether the next stamp is the first of a later pass.
    restarted: bool,
}

impl Clock {
    /// The stamp of a packet of `view`.
    fn stamp(&mut self, recorded: Time, view: &PacketView<'_>) -> Time {
        let recorded = recorded.as_nanos();
        if std::mem::take(&mut self.restarted) {
            let per_firing = view.return_mode().blocks_per_firing() as u64;
            let packet = view.model().geometry().packet_nanos() / per_firing;
            self.shift = self.last.saturating_add(packet).saturating_sub(recorded);
        }
        self.last = self.last.max(recorded.saturating_add(self.shift));
        Time::from_nanos(self.last)
    }
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// If it is no file, cannot be opened, or does not start as a capture.
    pub fn open(path: &Path, config: RecordingConfig) -> Result<Self, SourceError> {
        Ok(Self {
            path: path.to_owned(),
            capture: Some(open(path)?),
            intake: Intake::new(config.cut, config.partial),
            config,
            pass: 0,
            clock: Clock::default(),
            pacer: Pacer::default(),
        })
    }

    /// The next turn, or `None` at the end of a recording that is not repeated.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, holds another sensor, or ends without any data packet.
    pub fn next_scan(&mut self) -> Result<Option<Turn>, SourceError> {
        loop {
            let turn = if self.capture.is_some() {
                self.read_turn()?
            } else if self.config.repeat && self.pass > 0 {
                self.capture = Some(open(&self.path)?);
                self.pass = 0;
                self.clock.restarted = true;
                continue;
            } else {
                return Ok(None);
            };
            if let Some(turn) = turn {
                if self.config.pace == Pace::Real {
                    // A turn is there when its last packet is.
                    let last = Time::from_nanos(self.clock.last);
                    thread::sleep(self.pacer.wait(last, Instant::now()));
                }
                return Ok(Some(turn));
            }
        }
    }

    /// What was used and skipped so far, in all passes together.
    pub fn statistics(&self) -> Statistics {
        self.intake.statistics()
    }

    /// What recorded it, once a data packet was read.
    pub fn model(&self) -> Option<Model> {
        self.intake.model()
    }

    /// Reads to the end of a turn or of the pass; the latter may leave no turn.
    fn read_turn(&mut self) -> Result<Option<Turn>, SourceError> {
        while let Some(capture) = &mut self.capture {
            let frame = match capture.next_frame() {
                Ok(frame) => frame,
                Err(CaptureError::Truncated { .. }) => {
                    self.intake
                        .statistics
                        .truncated_after
                        .get_or_insert(self.pass);
                    None
                }
                Err(reason) => {
                    return Err(SourceError::Capture {
                        path: self.path.clone(),
                        reason,
                    });
                }
            };
            let Some(frame) = frame else {
                return self.end_pass();
            };
            let data = match frame.content {
                Content::Other => {
                    self.intake.statistics.other += 1;
                    continue;
                }
                Content::Fragment => {
                    self.intake.statistics.fragments += 1;
                    continue;
                }
                Content::Udp { host, .. } if self.config.host.is_some_and(|ours| ours != host) => {
                    self.intake.statistics.other_host += 1;
                    continue;
                }
                Content::Udp { port, payload, .. } if port == self.config.port => payload,
                Content::Udp { port, payload, .. } => {
                    let position = port == POSITION_PORT && payload.len() == POSITION_PACKET_LEN;
                    if position {
                        self.intake.statistics.position += 1;
                    } else {
                        self.intake.statistics.other_port += 1;
                    }
                    continue;
                }
            };
            let packet = match self.intake.accept(data) {
                Ok(Some(packet)) => packet,
                Ok(None) => continue,
                Err(reason) => {
                    return Err(SourceError::Model {
                        path: self.path.clone(),
                        packet: self.pass,
                        reason,
                    });
                }
            };
            self.pass += 1;
            let stamp = self.clock.stamp(frame.stamp, &packet.view);
            if let Some(turn) = self.intake.push(stamp, &packet) {
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    fn end_pass(&mut self) -> Result<Option<Turn>, SourceError> {
        self.capture = None;
        if self.pass == 0 {
            return Err(SourceError::Empty {
                path: self.path.clone(),
                port: self.config.port,
                statistics: self.statistics(),
            });
        }
        Ok(self.intake.finish())
    }
}

fn open(path: &Path) -> Result<Capture<File>, SourceError> {
    let open = || {
        let file = File::open(path)?;
        // Opening a directory succeeds; only reading it would fail.
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(file)
    };
    let file = open().map_err(|reason| SourceError::Open {
        path: path.to_owned(),
        reason,
    })?;
    Capture::new(file).map_err(|reason| SourceError::Capture {
        path: path.to_owned(),
        reason,
    })
}
