use std::path::{Path, PathBuf};

use bytes::Bytes;
use lidar_messages::{DecodeError, MessageType, PointCloud2, VelodyneScan};

use super::{SourceError, Statistics, Sweep};
use crate::{
    bag::{Bag, BagError, Connection, Encoding},
    turn::Turn,
};

/// Scans or clouds of one topic of a bag or an MCAP file.
#[derive(Debug)]
pub struct Playback {
    path: PathBuf,
    bag: Bag,
    topic: Connection,
    kind: Kind,
    statistics: Statistics,
}

/// What the messages of a topic are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scans,
    Clouds,
}

impl Kind {
    fn of(connection: &Connection) -> Option<Self> {
        if let Encoding::Other(_) = connection.encoding {
            return None;
        }
        let is = |kind: MessageType| {
            // Where there is no fingerprint the message itself tells whether it is one.
            let same = connection.md5.as_ref().is_none_or(|md5| md5 == kind.md5);
            connection.kind == kind.name && same
        };
        if is(VelodyneScan::TYPE) {
            Some(Self::Scans)
        } else if is(PointCloud2::TYPE) {
            Some(Self::Clouds)
        } else {
            None
        }
    }
}

impl Playback {
    /// Opens a bag and chooses the topic: the one named, or the only one that holds scans or
    /// clouds.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or there is not exactly one such topic; the error names those there
    /// are.
    pub fn open(path: &Path, topic: Option<&str>) -> Result<Self, SourceError> {
        let bag = Bag::open(path).map_err(|reason| bag_error(path, reason))?;
        Self::choose(path, bag, topic)
    }

    fn choose(path: &Path, mut bag: Bag, topic: Option<&str>) -> Result<Self, SourceError> {
        let wanted = |connection: &Connection| topic.is_none_or(|topic| connection.topic == topic);
        let mut found = Vec::new();
        for connection in bag.connections() {
            if let Some(kind) = Kind::of(connection).filter(|_| wanted(connection)) {
                found.push((connection.clone(), kind));
            }
        }
        let [(topic, kind)] = &found[..] else {
            let topics = bag.connections().into_iter();
            let topics = topics.map(|Connection { topic, kind, .. }| format!("{topic} ({kind})"));
            return Err(SourceError::Topic {
                path: path.to_owned(),
                found: found.len(),
                wanted: topic.map(str::to_owned),
                topics: topics.collect::<Vec<_>>().join(", "),
            });
        };
        let (topic, kind) = (topic.clone(), *kind);
        bag.select(|connection| *connection == topic);
        let truncated = bag.damage().map(|_| bag.len() as u64);
        Ok(Self {
            path: path.to_owned(),
            bag,
            topic,
            kind,
            statistics: Statistics {
                truncated_after: truncated,
                ..Statistics::default()
            },
        })
    }

    /// The topic that is read.
    pub fn topic(&self) -> &str {
        &self.topic.topic
    }

    /// The next scan or cloud, or `None` after the last. A message that cannot be decoded is
    /// counted as damaged.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn next_sweep(&mut self) -> Result<Option<Sweep>, SourceError> {
        loop {
            let message = self.bag.next_message();
            let message = message.map_err(|reason| bag_error(&self.path, reason))?;
            let Some(message) = message else {
                return Ok(None);
            };
            let Ok(sweep) = self.decode(message.data) else {
                self.statistics.damaged += 1;
                continue;
            };
            self.statistics.turns += 1;
            if let Sweep::Scan(turn) = &sweep {
                self.statistics.packets += turn.scan.packets.len() as u64;
            }
            return Ok(Some(sweep));
        }
    }

    fn decode(&self, message: Bytes) -> Result<Sweep, DecodeError> {
        let is_cdr = self.topic.encoding == Encoding::Cdr;
        match self.kind {
            Kind::Scans => {
                let scan = if is_cdr {
                    VelodyneScan::decode_cdr(message)?
                } else {
                    VelodyneScan::decode(message)?
                };
                Ok(Sweep::Scan(Turn {
                    scan,
                    partial: false,
                    lost: 0,
                }))
            }
            Kind::Clouds if is_cdr => PointCloud2::decode_cdr(message).map(Sweep::Cloud),
            Kind::Clouds => PointCloud2::decode(message).map(Sweep::Cloud),
        }
    }

    /// What was used and skipped so far. A bag that is not whole is counted in messages.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

fn bag_error(path: &Path, reason: BagError) -> SourceError {
    SourceError::Bag {
        path: path.to_owned(),
        reason,
    }
}
