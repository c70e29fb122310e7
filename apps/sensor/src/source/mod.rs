//! Where scans and clouds come from: a synthetic street, a recording or a sensor.
//!
//! A source is named by a text, which [`SourceSpec`] parses:
//!
//! | text | source |
//! |---|---|
//! | `synthetic:SEED` | a street, ray cast once and then repeated |
//! | `synthetic:SEED?turns=N&model=MODEL` | the same with a loop of N turns, 20 unless given, of a `vlp-32c` unless it is to be a `vlp-16` or `hdl-32e` |
//! | `pcap:FILE` | a recording in the format pcap or pcapng, once |
//! | `pcap:FILE?cut=DEGREES&repeat=BOOL&port=PORT&host=ADDRESS&pace=PACE&partial=PARTIAL` | the same, cut elsewhere than at 0 degrees, over and over, from another UDP port than 2368, from one host only, `fast` or as recorded (`real`), with partial turns (`send`) or without (`drop`) |
//! | `udp:PORT` | a sensor that sends to this UDP port |
//! | `udp:PORT?OPTIONS` | the same: `bind=ADDRESS`, `group=ADDRESS` and `interface=INDEX` for multicast, `host=ADDRESS`, `cut=DEGREES`, `clock=host` or `sensor`, `buffer=BYTES`, `silence=SECONDS`, `partial=PARTIAL`, `turns=N`; see [`LiveConfig`] |
//! | `bag:FILE` | a ROS 1 bag with one topic of scans or clouds |
//! | `bag:FILE?topic=TOPIC` | the same of this topic |
//! | `mcap:FILE`, `mcap:FILE?topic=TOPIC` | the same for an MCAP file of ROS 1 or ROS 2 |
//! | `pcd:PATH` | a PCD file, or those of a folder by name |
//! | `kitti:PATH` | a file of points as KITTI has them, or those of a folder by name |

mod clouds;
mod intake;
mod live;
mod pace;
mod partial;
mod playback;
mod recording;
mod spec;
mod synthetic;

use std::{fmt, io, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use clouds::{CloudFileError, CloudFiles, CloudFormat};
pub use live::{Live, LiveConfig, StampClock};
pub use pace::Pace;
pub use partial::PartialTurns;
pub use playback::Playback;
pub use recording::{Recording, RecordingConfig};
pub use spec::{SourceSpec, SpecError};
pub use synthetic::{SimulatedTurn, Simulator, SimulatorConfig, Synthetic};

use lidar_messages::{PointCloud2, Pose};

use crate::{bag::BagError, capture::CaptureError, packet::PacketError, turn::Turn};

/// A source of scans.
#[derive(Debug)]
pub enum Source {
    /// A ray-cast street.
    Synthetic(Synthetic),
    /// A capture file.
    Recording(Box<Recording>),
    /// A sensor that is listened to.
    Live(Box<Live>),
    /// A topic of a bag.
    Playback(Box<Playback>),
    /// Files of clouds.
    Clouds(CloudFiles),
}

/// What a source gives for one turn of a sensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Sweep {
    /// Its packets.
    Scan(Turn),
    /// Its points.
    Cloud(PointCloud2),
}

impl Source {
    /// The next turn, or `None` at the end of a recording that is read once, or of the turns that
    /// were asked for.
    ///
    /// Turns come as fast as they are asked for, unless their source keeps a pace: then this blocks
    /// until the next one is due. Stamps never go back.
    ///
    /// # Errors
    ///
    /// If a recording cannot be read, a sensor is not heard, it is one that is not supported or more
    /// than one, or there is no data packet at all.
    pub fn next_sweep(&mut self) -> Result<Option<Sweep>, SourceError> {
        match self {
            Self::Synthetic(synthetic) => Ok(Some(Sweep::Scan(synthetic.next_scan()))),
            Self::Recording(recording) => Ok(recording.next_scan()?.map(Sweep::Scan)),
            Self::Live(live) => Ok(live.next_scan()?.map(Sweep::Scan)),
            Self::Playback(playback) => playback.next_sweep(),
            Self::Clouds(files) => Ok(files.next_cloud()?.map(Sweep::Cloud)),
        }
    }

    /// The next turn of a source of packets.
    ///
    /// # Errors
    ///
    /// As [`next_sweep`](Self::next_sweep), and if the source holds clouds.
    pub fn next_scan(&mut self) -> Result<Option<Turn>, SourceError> {
        match self.next_sweep()? {
            Some(Sweep::Scan(turn)) => Ok(Some(turn)),
            Some(Sweep::Cloud(_)) => Err(SourceError::NoPackets),
            None => Ok(None),
        }
    }

    /// Where the sensor of a synthetic source is in the map that all of them share
    /// ([`Simulator::pose`]); recordings and sensors do not tell.
    pub fn pose(&self) -> Option<Pose> {
        match self {
            Self::Synthetic(synthetic) => Some(synthetic.pose()),
            _ => None,
        }
    }

    /// What was used and skipped so far.
    pub fn statistics(&self) -> Statistics {
        match self {
            Self::Synthetic(synthetic) => synthetic.statistics(),
            Self::Recording(recording) => recording.statistics(),
            Self::Live(live) => live.statistics(),
            Self::Playback(playback) => playback.statistics(),
            Self::Clouds(files) => files.statistics(),
        }
    }
}

/// What a source used and what it skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Turns returned.
    pub turns: u64,
    /// Those of them of which packets are missing, as where a recording begins and ends. It is known
    /// where packets are made into turns here.
    pub partial: u64,
    /// Turns of which packets are missing that were not returned.
    pub left_out: u64,
    /// Data packets used.
    pub packets: u64,
    /// Position packets: they hold time and place, no points.
    pub position: u64,
    /// Datagrams to the data port of a length no packet has.
    pub wrong_size: u64,
    /// Data packets that are damaged.
    pub damaged: u64,
    /// Data packets that never arrived, by the sensor's clock.
    pub lost: u64,
    /// Datagrams that the kernel dropped for want of room. Packets of the sensor among them are also
    /// [`lost`](Self::lost).
    pub dropped: u64,
    /// Data packets that arrived after later ones. They are used.
    pub late: u64,
    /// Jumps of the sensor's clock, after which lost packets could not be counted.
    pub clock_steps: u64,
    /// Datagrams to other ports.
    pub other_port: u64,
    /// Datagrams of other hosts than the sensor, if its address was given.
    pub other_host: u64,
    /// Parts of datagrams that were split on their way. They are not joined.
    pub fragments: u64,
    /// Frames that hold no datagram, such as ARP and TCP.
    pub other: u64,
    /// Data packets before the place where the file is cut or damaged, if it is; for a bag, messages.
    pub truncated_after: Option<u64>,
}

impl Statistics {
    /// Whether nothing was lost, damaged, split, of a wrong size or cut off.
    pub fn is_sound(&self) -> bool {
        [self.lost, self.damaged, self.wrong_size, self.fragments] == [0; 4]
            && self.truncated_after.is_none()
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packets {
            0 => write!(f, "{} turns", self.turns)?,
            packets => write!(f, "{packets} packets in {} turns", self.turns)?,
        }
        for (count, what) in [
            (self.partial, "of the turns partial"),
            (self.left_out, "partial turns left out"),
            (self.lost, "lost"),
            (self.dropped, "dropped by the kernel"),
            (self.late, "late"),
            (self.clock_steps, "steps of the sensor's clock"),
            (self.position, "position packets"),
            (self.wrong_size, "of wrong size"),
            (self.damaged, "damaged"),
            (self.other_port, "to other ports"),
            (self.other_host, "from other hosts"),
            (self.fragments, "fragments"),
            (self.other, "other frames"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        match self.truncated_after {
            Some(count) if self.packets == 0 => write!(f, ", truncated after {count}"),
            Some(packets) => write!(f, ", truncated after {packets} packets"),
            None => Ok(()),
        }
    }
}

/// Why a source gives no scan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The recording cannot be opened.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// The recording cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: CaptureError,
    },
    /// The recording is of a sensor that is not supported, or of two.
    #[error("{}, packet {packet}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Good data packets before.
        packet: u64,
        /// Which sensor.
        reason: PacketError,
    },
    /// A bag cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Bag {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: BagError,
    },
    /// A bag has not the one topic that is to be read.
    #[error(
        "{} has {found} topics of scans or clouds{}, and one is needed; it holds: {}",
        path.display(),
        wanted.as_ref().map(|topic| format!(" named {topic}")).unwrap_or_default(),
        if topics.is_empty() { "nothing" } else { topics }
    )]
    Topic {
        /// The file.
        path: PathBuf,
        /// Topics that could be read.
        found: usize,
        /// The topic that was asked for.
        wanted: Option<String>,
        /// All that there are, with their types.
        topics: String,
    },
    /// A file of clouds cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    CloudFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: CloudFileError,
    },
    /// Packets are needed and the source has only points.
    #[error("the source holds clouds and no packets of a sensor; give one with packets")]
    NoPackets,
    /// The socket for a sensor cannot be opened.
    #[error("cannot listen to UDP {address}: {reason}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// The socket failed.
    #[error("cannot receive from UDP {address}: {reason}")]
    Receive {
        /// The address that is listened to.
        address: SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// A sensor that is not supported is heard, or a second one.
    #[error("UDP {address}: {reason}")]
    Sensor {
        /// The address that is listened to.
        address: SocketAddr,
        /// Which sensor.
        reason: PacketError,
    },
    /// Nothing came for too long.
    #[error(
        "no data packet came to UDP {address} for {silence:?} ({statistics}); check the address \
         that the sensor sends to, and the firewall"
    )]
    Silent {
        /// The address that is listened to.
        address: SocketAddr,
        /// How long was waited.
        silence: Duration,
        /// What came before.
        statistics: Statistics,
    },
    /// The recording was read to its end and had no data packet.
    #[error(
        "{} holds no data packet on UDP port {port} ({statistics}); check the file and the port",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
        /// The data port.
        port: u16,
        /// What it does hold.
        statistics: Statistics,
    },
}
