//! What is shown, of all streams.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lidar_sensor::Converter;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use vehicle::{DataType, Frame, Source};

use crate::cloud::{self, Cloud, Unreadable};
use crate::samples::{Sample, Samples};

/// Where a stream is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "detail")]
pub enum State {
    /// Its turn has not come.
    Waiting,
    /// At work; in which phase.
    Running(String),
    /// Done; its figures stay.
    Ended,
    /// It ended by a failure; which one.
    Failed(String),
}

/// What became of the scans of a stream.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    /// Scans that the view was told of.
    scans: u64,
    /// Of these, with objects from the edge.
    edge: u64,
    /// With objects found in the vehicle.
    local: u64,
    /// Without objects.
    unanswered: u64,
    /// Scans that the view was not told of, by the gaps in their numbers.
    skipped: u64,
}

#[derive(Debug)]
struct Track {
    label: String,
    state: State,
    counts: Counts,
    /// The number of the last scan.
    last: Option<u64>,
    samples: Samples,
    newest: Option<Arc<Shown>>,
    heard: Option<Instant>,
    /// A page waits for a frame of this stream.
    wanted: Arc<Notify>,
}

/// A frame that can be shown.
#[derive(Debug)]
pub(crate) struct Shown {
    version: u64,
    pub(crate) sequence: u64,
    pub(crate) data_type: DataType,
    payload: Bytes,
    /// The encoded list, and who made it.
    pub(crate) objects: Option<(Source, Bytes)>,
    cloud: OnceLock<Result<Cloud, Unreadable>>,
}

impl Shown {
    /// Bytes as they were sent.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Its points; converted once, for the first page that asks.
    pub(crate) fn cloud(&self, converter: &Converter) -> &Result<Cloud, Unreadable> {
        self.cloud
            .get_or_init(|| cloud::read(converter, self.data_type, self.payload.clone()))
    }
}

/// What a page is told of a stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamHead {
    label: String,
    state: State,
    counts: Counts,
    /// Milliseconds since it was last heard of.
    silent_ms: Option<u64>,
    samples: Vec<Sample>,
}

/// What a page is told.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) version: u64,
    pub(crate) ended: bool,
    pub(crate) streams: Vec<StreamHead>,
    /// Of the stream that is looked at, if it is new.
    pub(crate) newest: Option<Arc<Shown>>,
}

#[derive(Debug, Default)]
struct Content {
    ended: bool,
    tracks: Vec<Track>,
    /// When a page last asked.
    asked: Option<Instant>,
}

/// Everything that is shown. Versions count its changes, so a page can ask for what is new.
#[derive(Debug)]
pub(crate) struct Board {
    content: Mutex<Content>,
    version: watch::Sender<u64>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self {
            content: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the content, under the next version.
    fn change<T>(&self, how: impl FnOnce(&mut Content, u64) -> T) -> T {
        let mut content = self.content();
        let version = *self.version.borrow() + 1;
        let result = how(&mut content, version);
        // Still locked: who sees the version finds what belongs to it.
        self.version.send_replace(version);
        result
    }

    /// Adds a stream and returns its place.
    pub(crate) fn add(&self, label: String) -> usize {
        self.change(|content, _| {
            content.tracks.push(Track {
                label,
                state: State::Waiting,
                counts: Counts::default(),
                last: None,
                samples: Samples::default(),
                newest: None,
                heard: None,
                wanted: Arc::default(),
            });
            content.tracks.len() - 1
        })
    }

    pub(crate) fn enter(&self, stream: usize, state: State) {
        self.change(|content, _| content.tracks[stream].state = state);
    }

    /// Takes the next frame of a stream; one whose payload was left out brings its figures only.
    pub(crate) fn push(&self, stream: usize, frame: Frame) {
        self.change(|content, version| {
            let track = &mut content.tracks[stream];
            let counts = &mut track.counts;
            counts.scans += 1;
            match frame.objects.as_ref().map(|objects| objects.source) {
                Some(Source::Edge) => counts.edge += 1,
                Some(Source::Local) => counts.local += 1,
                None => counts.unanswered += 1,
            }
            let expected = track.last.map_or(frame.seq, |last| last.saturating_add(1));
            counts.skipped += frame.seq.saturating_sub(expected);
            track.last = Some(frame.seq.max(expected));
            track.heard = Some(Instant::now());
            track.samples.push(Sample::new(version, &frame));
            if !frame.payload.is_empty() {
                track.newest = Some(Arc::new(Shown {
                    version,
                    sequence: frame.seq,
                    data_type: frame.data_type,
                    payload: frame.payload,
                    objects: frame.objects.map(|objects| (objects.source, objects.list)),
                    cloud: OnceLock::new(),
                }));
            }
        });
    }

    /// Nothing comes any more.
    pub(crate) fn end(&self) {
        self.change(|content, _| content.ended = true);
    }

    /// What wakes when a page waits for a frame of a stream.
    pub(crate) fn wanted(&self, stream: usize) -> Arc<Notify> {
        Arc::clone(&self.content().tracks[stream].wanted)
    }

    /// Whether a page has asked within `time`.
    pub(crate) fn asked_within(&self, time: Duration) -> bool {
        self.content()
            .asked
            .is_some_and(|asked| asked.elapsed() < time)
    }

    /// What is new since version `after`, as soon as there is something, or after `patience` without.
    /// Cancel-safe.
    pub(crate) async fn look(&self, stream: usize, after: u64, patience: Duration) -> Look {
        let mut version = self.version.subscribe();
        // A page that knows more than there is has outlived another board.
        let after = if *version.borrow() < after { 0 } else { after };
        {
            let mut content = self.content();
            content.asked = Some(Instant::now());
            if let Some(track) = content.tracks.get(stream) {
                track.wanted.notify_one();
            }
        }
        let news = version.wait_for(|version| *version > after);
        // The sender is in this board; nothing new is an answer too.
        let _ = tokio::time::timeout(patience, news).await;
        let content = self.content();
        let head = |track: &Track| StreamHead {
            label: track.label.clone(),
            state: track.state.clone(),
            counts: track.counts,
            silent_ms: track
                .heard
                .map(|heard| u64::try_from(heard.elapsed().as_millis()).unwrap_or(u64::MAX)),
            samples: track.samples.since(after).cloned().collect(),
        };
        let newest = content
            .tracks
            .get(stream)
            .and_then(|track| track.newest.clone());
        Look {
            version: *self.version.borrow(),
            ended: content.ended,
            streams: content.tracks.iter().map(head).collect(),
            newest: newest.filter(|newest| newest.version > after),
        }
    }
}
