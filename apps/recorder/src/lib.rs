//! Records a vehicle's frames into an MCAP file while it runs.
//!
//! | topic | type | what |
//! |---|---|---|
//! | `/velodyne_packets` | `velodyne_msgs/VelodyneScan` | scans as they were sent |
//! | `/points` | `sensor_msgs/PointCloud2` | clouds as they were sent, or made of the scans |
//! | `/objects` | that of the lists | lists as they came |
//! | `/objects/markers` | `visualization_msgs/MarkerArray` | what a viewer draws of them |
//! | `/stamps` | JSON ([`STAMPS_SCHEMA`]) | source, age and every stamp of a frame |
//!
//! The file has the `ros1` profile, so ROS and Foxglove tools read it without more. A thread of its own
//! converts and writes; what does not fit into the channel before it is dropped by the vehicle and
//! counted there. After each frame a chunk is complete and handed to the system: whatever ends the
//! process, all but the frame in hand can be read again.

mod file;
mod stamps;

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use exchange::ObjectsFormat;
use latency_timeline::ClockPair;
use lidar_sensor::Convention;
use mcap::McapError;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::mpsc;
use vehicle::Frame;

use file::Recording;

pub use stamps::STAMPS_SCHEMA;

/// Frames that may wait for the disk: more than a second at 10 Hz.
const WAITING: usize = 16;

/// What a recorder has to know of the vehicle.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The vehicle's clock and that of the day, read at once.
    pub clocks: ClockPair,
    /// As what object lists come.
    pub objects: ObjectsFormat,
    /// Angle convention of the conversion from scans to clouds.
    pub convention: Convention,
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    thread: JoinHandle<Report>,
}

/// What became of the frames that reached the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Frames written.
    pub frames: u64,
    /// Frames that could not be written.
    pub lost: u64,
    /// Scans whose cloud, and lists whose markers, could not be made.
    pub unconverted: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Why the recording ended before the vehicle did.
    pub failure: Option<String>,
}

/// A recording that cannot begin.
#[derive(Debug, Error)]
#[error("cannot record to {}: {reason}", path.display())]
pub struct StartError {
    path: PathBuf,
    reason: String,
}

impl Recorder {
    /// Makes the file and begins to record what is sent into the channel. A file that is there is never
    /// overwritten.
    ///
    /// # Errors
    /// The file is there already or cannot be made; the thread cannot be started.
    pub fn start(
        path: &Path,
        settings: Settings,
    ) -> Result<(Self, mpsc::Sender<Frame>), StartError> {
        let failed = |reason: &dyn std::fmt::Display| StartError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let file = File::create_new(path).map_err(|error| failed(&error))?;
        let recording = Recording::begin(BufWriter::new(file), settings);
        let recording = recording.map_err(|error| failed(&error))?;
        let (sender, frames) = mpsc::channel(WAITING);
        let report = Report {
            path: path.to_owned(),
            ..Report::default()
        };
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || record(recording, frames, report))
            .map_err(|error| failed(&error))?;
        Ok((Self { thread }, sender))
    }

    /// Waits until all frames are written; every sender of frames must be gone. Blocks.
    ///
    /// # Errors
    /// The recorder's thread panicked.
    pub fn finish(self) -> std::thread::Result<Report> {
        self.thread.join()
    }
}

/// Writes until the vehicle is done. A failure ends the file, not the vehicle.
fn record<W: Write + Seek>(
    recording: Recording<W>,
    mut frames: mpsc::Receiver<Frame>,
    mut report: Report,
) -> Report {
    let mut open = Some(recording);
    while let Some(frame) = frames.blocking_recv() {
        let Some(recording) = &mut open else {
            report.lost += 1;
            continue;
        };
        match recording.write(&frame) {
            Ok(unconverted) => {
                report.frames += 1;
                report.unconverted += unconverted;
            }
            Err(error) => {
                report.lost += 1;
                report.fail(&error);
                open = None;
            }
        }
    }
    if let Some(recording) = open
        && let Err(error) = recording.finish()
    {
        report.fail(&error);
    }
    report.bytes = std::fs::metadata(&report.path).map_or(0, |about| about.len());
    report
}

impl Report {
    fn fail(&mut self, error: &McapError) {
        let why = match error {
            // Its own text only says that something could not be written.
            McapError::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        tracing::error!(path = %self.path.display(), frames = self.frames, why,
            "recording ends, the vehicle goes on");
        self.failure = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Error, ErrorKind, Result, SeekFrom};

    use bytes::Bytes;
    use latency_timeline::Timeline;

    use super::*;

    /// A disk with room for so many bytes.
    struct Disk(Cursor<Vec<u8>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            if self.0.get_ref().len() + bytes.len() > self.1 {
                return Err(Error::from(ErrorKind::StorageFull));
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Seek for Disk {
        fn seek(&mut self, to: SeekFrom) -> Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_not_the_vehicle() {
        let settings = Settings {
            clocks: ClockPair {
                realtime_ns: 0,
                monotonic_ns: 0,
            },
            objects: ObjectsFormat::Detection3d,
            convention: Convention::RosCompat,
        };
        let (sender, frames) = mpsc::channel(10);
        for seq in 0..10 {
            let frame = Frame {
                seq,
                start_ns: 0,
                data_type: vehicle::DataType::Cloud,
                payload: Bytes::from(vec![0; 10_000]),
                objects: None,
                timeline: Timeline::default(),
            };
            assert!(sender.try_send(frame).is_ok());
        }
        drop(sender);
        let disk = Disk(Cursor::default(), 50_000);
        let recording = Recording::begin(disk, settings).unwrap();
        let report = record(recording, frames, Report::default());
        assert_eq!((report.frames, report.lost), (4, 6));
        let failure = report.failure.unwrap();
        let full = Error::from(ErrorKind::StorageFull).to_string();
        assert!(
            failure.contains("I/O") || failure.contains(&full),
            "{failure}"
        );
    }
}
