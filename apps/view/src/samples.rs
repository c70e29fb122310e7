//! What became of the last scans of a stream, and where their time went.

use std::collections::VecDeque;

use latency_timeline::Stage;
use serde::Serialize;
use serde::ser::SerializeSeq;
use vehicle::{Frame, Source};

/// Samples kept for each stream: a minute at 10 Hz.
pub(crate) const KEPT: usize = 600;

/// One scan: an array of its version, number, source (0 none, 1 edge, 2 local), the age of its list and
/// the total of the round trip, then the stages, in microseconds; `null` is what is not known.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// When the board learned of it.
    pub(crate) version: u64,
    sequence: u64,
    source: Option<Source>,
    age: Option<i64>,
    total: Option<i64>,
    stages: [Option<i64>; Stage::ALL.len()],
}

impl Sample {
    pub(crate) fn new(version: u64, frame: &Frame) -> Self {
        let objects = frame.objects.as_ref();
        // What the edge stamped says nothing about a list that the vehicle made.
        let answered = objects.filter(|objects| objects.source == Source::Edge);
        let parts = answered.and_then(|_| frame.timeline.parts().ok());
        Self {
            version,
            sequence: frame.seq,
            source: objects.map(|objects| objects.source),
            age: objects.and_then(|objects| i64::try_from(objects.age.as_nanos()).ok()),
            total: parts.map(|parts| parts.total),
            stages: Stage::ALL.map(|stage| parts.map(|parts| parts.stage(stage))),
        }
    }
}

impl Serialize for Sample {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = |nanos: Option<i64>| nanos.map(|nanos| nanos / 1000);
        let mut array = serializer.serialize_seq(Some(5 + self.stages.len()))?;
        array.serialize_element(&self.version)?;
        array.serialize_element(&self.sequence)?;
        array.serialize_element(&match self.source {
            None => 0,
            Some(Source::Edge) => 1,
            Some(Source::Local) => 2,
        })?;
        array.serialize_element(&micros(self.age))?;
        array.serialize_element(&micros(self.total))?;
        for stage in self.stages {
            array.serialize_element(&micros(stage))?;
        }
        array.end()
    }
}

/// The last [`KEPT`] samples.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<Sample>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Sample) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    /// Those that came after version `after`.
    pub(crate) fn since(&self, after: u64) -> impl Iterator<Item = &Sample> {
        let first = self.0.partition_point(|sample| sample.version <= after);
        self.0.range(first..)
    }
}
