//! What the vehicle sends: a loop of prepared scans, or what a sensor gives.

use std::time::Instant;

use bytes::Bytes;
use exchange::DataType;
use lidar_messages::{Header, PointCloud2, Text, Time, VelodyneScan};
use lidar_sensor::source::Sweep;
use lidar_sensor::{Convention, ConvertError, Converter};
use tokio::sync::watch;

use crate::live::{self, Arrival, Arrivals, Inlet};

/// Scans or clouds: a loop that was prepared before the trial, so that generating costs it nothing,
/// or what a sensor gives while it runs.
#[derive(Debug)]
pub struct Feed {
    frames: Frames,
    empty: Bytes,
}

#[derive(Debug)]
enum Frames {
    Scans(Vec<VelodyneScan>),
    Clouds(Vec<PointCloud2>),
    Live(Live),
}

/// A sensor, and what its turns are sent as.
#[derive(Debug)]
struct Live {
    arrivals: Arrivals,
    data_type: DataType,
    converter: Converter,
}

/// What is sent next, not yet encoded.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Packets of a turn.
    Scan(VelodyneScan),
    /// Points of a turn.
    Cloud(PointCloud2),
    /// A scan without packets or a cloud without points, encoded.
    Empty(Bytes),
}

/// What a live feed gave.
#[derive(Debug)]
pub(crate) enum Next {
    /// A payload, and when its turn was complete.
    Payload(Instant, Payload),
    /// The trial was stopped.
    Stopped,
    /// The source gives no more, and why.
    Ended(String),
}

impl Payload {
    /// When it was taken; 0 for what is empty.
    pub(crate) fn stamp(&self) -> Time {
        match self {
            Self::Scan(scan) => scan.header.stamp,
            Self::Cloud(cloud) => cloud.header.stamp,
            Self::Empty(_) => Time::default(),
        }
    }
}

impl Feed {
    /// A loop of `scans`, sent as `data_type`; clouds are converted by `convention`, before the first
    /// stamp. An empty list gives empty scans.
    ///
    /// # Errors
    /// A scan holds a packet that is no data packet of a known sensor.
    pub fn new(
        scans: Vec<VelodyneScan>,
        data_type: DataType,
        convention: Convention,
    ) -> Result<Self, ConvertError> {
        let frame_id = scans.first().map(|scan| &scan.header.frame_id);
        let empty = empty(frame_id, data_type);
        let frames = match data_type {
            DataType::Scan => Frames::Scans(scans),
            DataType::Cloud => {
                let mut converter = Converter::new(convention);
                let clouds = scans.iter().map(|scan| converter.convert(scan));
                Frames::Clouds(clouds.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { frames, empty })
    }

    /// A loop of clouds, sent as they are but for the number in the header. An empty list gives
    /// empty clouds.
    pub fn of_clouds(clouds: Vec<PointCloud2>) -> Self {
        let frame_id = clouds.first().map(|cloud| &cloud.header.frame_id);
        Self {
            empty: empty(frame_id, DataType::Cloud),
            frames: Frames::Clouds(clouds),
        }
    }

    /// What is put into the [`Inlet`] while the trial runs, each turn when it is there; the newest
    /// first, and what cannot be sent in time not at all. Clouds are sent as they are but for the
    /// number in the header; scans as `data_type`, converted by `convention` after the first stamp.
    ///
    /// A turn that cannot be sent as `data_type` is counted as skipped.
    pub fn live(data_type: DataType, convention: Convention) -> (Self, Inlet) {
        let (inlet, arrivals) = live::channel();
        let feed = Self {
            empty: empty(None, data_type),
            frames: Frames::Live(Live {
                arrivals,
                data_type,
                converter: Converter::new(convention),
            }),
        };
        (feed, inlet)
    }

    /// As what the scans are sent.
    pub fn data_type(&self) -> DataType {
        match &self.frames {
            Frames::Scans(_) => DataType::Scan,
            Frames::Clouds(_) => DataType::Cloud,
            Frames::Live(live) => live.data_type,
        }
    }

    /// Whether a sensor says when something is sent, and not the schedule.
    pub fn is_live(&self) -> bool {
        matches!(self.frames, Frames::Live(_))
    }

    /// Begins the trial: what a sensor gave before is not part of it.
    pub(crate) fn begin(&self) {
        if let Frames::Live(live) = &self.frames {
            live.arrivals.begin();
        }
    }

    /// Payload number `n` of the trial out of the loop.
    pub(crate) fn payload(&self, n: usize) -> Payload {
        match &self.frames {
            Frames::Scans(scans) if !scans.is_empty() => {
                Payload::Scan(scans[n % scans.len()].clone())
            }
            Frames::Clouds(clouds) if !clouds.is_empty() => {
                Payload::Cloud(clouds[n % clouds.len()].clone())
            }
            _ => Payload::Empty(self.empty.clone()),
        }
    }

    /// Waits for what the sensor gives next; `None` if there is none and the schedule says when.
    pub(crate) fn next(&mut self, stop: &watch::Receiver<bool>) -> Option<Next> {
        let Frames::Live(live) = &mut self.frames else {
            return None;
        };
        Some(loop {
            match live.arrivals.next(stop) {
                Arrival::Turn(complete, sweep) => match live.prepare(sweep) {
                    Some(payload) => break Next::Payload(complete, payload),
                    None => live.arrivals.skip(),
                },
                Arrival::Stopped => break Next::Stopped,
                Arrival::Ended(why) => break Next::Ended(why),
            }
        })
    }

    /// Turns that a sensor gave and that were not sent: a newer one was there, or they cannot be
    /// sent as what the others are.
    pub(crate) fn skipped(&self) -> u64 {
        match &self.frames {
            Frames::Live(live) => live.arrivals.skipped(),
            Frames::Scans(_) | Frames::Clouds(_) => 0,
        }
    }

    /// Bytes of the largest payload, as far as it is known.
    pub(crate) fn largest(&self) -> usize {
        let frames = match &self.frames {
            Frames::Scans(scans) => scans.iter().map(VelodyneScan::encoded_len).max(),
            Frames::Clouds(clouds) => clouds.iter().map(PointCloud2::encoded_len).max(),
            Frames::Live(_) => None,
        };
        frames.unwrap_or(0).max(self.empty.len())
    }

    /// Payload of a scan without packets or a cloud without points.
    pub(crate) fn empty(&self) -> Bytes {
        self.empty.clone()
    }
}

impl Live {
    /// `sweep` as what is sent; `None` if it cannot be.
    fn prepare(&mut self, sweep: Sweep) -> Option<Payload> {
        match (sweep, self.data_type) {
            (Sweep::Scan(turn), DataType::Scan) => Some(Payload::Scan(turn.scan)),
            (Sweep::Scan(turn), DataType::Cloud) => {
                self.converter.convert(&turn.scan).ok().map(Payload::Cloud)
            }
            (Sweep::Cloud(cloud), DataType::Cloud) => Some(Payload::Cloud(cloud)),
            (Sweep::Cloud(_), DataType::Scan) => None,
        }
    }
}

impl Payload {
    /// The payload under header number `seq`.
    pub(crate) fn encode(self, seq: u32) -> Bytes {
        match self {
            Self::Scan(mut scan) => {
                scan.header.seq = seq;
                scan.encode()
            }
            Self::Cloud(mut cloud) => {
                cloud.header.seq = seq;
                cloud.encode()
            }
            Self::Empty(bytes) => bytes,
        }
    }
}

/// An encoded scan without packets or cloud without points.
fn empty(frame_id: Option<&Text>, data_type: DataType) -> Bytes {
    let header = Header {
        frame_id: frame_id.map_or(lidar_sensor::FRAME_ID.into(), Clone::clone),
        ..Header::default()
    };
    let scan = VelodyneScan {
        header,
        ..VelodyneScan::default()
    };
    match data_type {
        DataType::Scan => scan.encode(),
        DataType::Cloud => Converter::new(Convention::RosCompat)
            .convert(&scan)
            .expect("no packet is no bad packet")
            .encode(),
    }
}
