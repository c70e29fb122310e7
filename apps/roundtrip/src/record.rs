//! `--record`: a file of what a vehicle sends and gets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use recorder::{Recorder, Settings};
use tokio::sync::mpsc;
use vehicle::Frame;

use crate::failure::Failure;

#[derive(Clone, Debug, Args)]
pub(crate) struct RecordArgs {
    /// Write scans, clouds, objects, markers and stamps into this MCAP file, about 1.3 MB a frame. A run
    /// writes one for each arm, with its label before the ending. A file that is there is not
    /// overwritten.
    #[arg(long, value_name = "FILE", env = "ROUNDTRIP_RECORD")]
    pub(crate) record: Option<PathBuf>,
}

impl RecordArgs {
    /// The file of one of several arms or vehicles: `run.mcap` becomes `run-LABEL.mcap`.
    ///
    /// # Errors
    /// It is there already.
    pub(crate) fn of_arm(&self, label: &str) -> Result<Option<PathBuf>, Failure> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let path = labelled(path, label);
        if path.exists() {
            let what = path.display();
            return Err(Failure::usage(format!(
                "cannot record to {what}: it is there already; move it or give another --record FILE"
            )));
        }
        Ok(Some(path))
    }

    /// Begins to record, if that was asked for.
    pub(crate) fn start(
        &self,
        settings: Settings,
    ) -> Result<Option<(Recorder, mpsc::Sender<Frame>)>, Failure> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        Recorder::start(path, settings)
            .map(Some)
            .map_err(|error| Failure::new("record", error))
    }
}

/// Waits for the end of a recording, whose senders of frames must be gone.
pub(crate) async fn finish(recorder: Recorder) -> Result<recorder::Report, Failure> {
    let joined = tokio::task::spawn_blocking(|| recorder.finish()).await;
    match joined {
        Ok(Ok(report)) => Ok(report),
        _ => Err(Failure::text("the thread that records panicked")),
    }
}

/// What became of a recording in a line; `dropped` frames never reached it.
pub(crate) fn told(report: &recorder::Report, dropped: u64) -> String {
    let recorder::Report {
        path,
        frames,
        lost,
        unconverted,
        bytes,
        failure,
    } = report;
    let megabytes = *bytes as f64 / 1e6;
    let mut text = format!(
        "recorded {frames} frames, {megabytes:.1} MB, to {}",
        path.display()
    );
    if dropped > 0 {
        text.push_str(&format!(
            "; {dropped} frames were dropped, since the disk did not keep up"
        ));
    }
    if *unconverted > 0 {
        text.push_str(&format!(
            "; {unconverted} clouds or markers could not be made of what was sent"
        ));
    }
    if let Some(failure) = failure {
        text.push_str(&format!(
            "; then the recording ended: {failure}; {lost} frames are not in it"
        ));
    }
    text
}

fn labelled(path: &Path, label: &str) -> PathBuf {
    let mut name: OsString = path.file_stem().unwrap_or_default().to_owned();
    name.push("-");
    name.push(label);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_a_file_of_its_own() {
        let args = |path: &str| RecordArgs {
            record: Some(path.into()),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let of = |name: &str, label| args(path(name).to_str().unwrap()).of_arm(label).unwrap();
        assert_eq!(of("a.b.mcap", "mqtt"), Some(path("a.b-mqtt.mcap")));
        assert_eq!(of("a", "mqtt-2"), Some(path("a-mqtt-2")));
        std::fs::write(path("x-local.mcap"), "").unwrap();
        let taken = args(path("x.mcap").to_str().unwrap()).of_arm("local");
        assert!(taken.unwrap_err().to_string().contains("x-local.mcap"));
    }

    #[test]
    fn what_is_not_in_the_file_is_told() {
        let report = recorder::Report {
            path: "a.mcap".into(),
            frames: 7,
            lost: 3,
            unconverted: 0,
            bytes: 9_100_000,
            failure: Some("No space left on device".to_owned()),
        };
        assert_eq!(
            told(&report, 2),
            "recorded 7 frames, 9.1 MB, to a.mcap; 2 frames were dropped, since the disk did not \
             keep up; then the recording ended: No space left on device; 3 frames are not in it"
        );
    }
}
