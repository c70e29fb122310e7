use std::fmt;

use lidar_messages::PointCloud2;

use crate::detection::Detection;
use crate::detector::{DetectError, Detector, read_positions};
use crate::ego::Ego;
use crate::execution::Execution;
use crate::ground::Ground;
use crate::network::{LoadError, Network};
use crate::peaks::detections;
use crate::raster::Raster;

/// Threads that serve a small edge computer; see the measurements in `docs/detector.md`.
pub const DEFAULT_THREADS: usize = 2;

/// Scores above this are reported unless [`Neural::with_threshold`] says otherwise.
///
/// The scores of the embedded network are such that this suits every class: `training/export.py`.
pub const DEFAULT_THRESHOLD: f32 = 0.5;

/// The network trained by this crate's `training` directory; `MODEL_CARD.md` tells on what and how
/// well it works.
static WEIGHTS: &[u8] = include_bytes!("../weights/street.onnx");

/// The detector: ground, bird's-eye raster, network, peaks, suppression of doubles.
///
/// Deterministic: the same cloud gives the same list, whatever was seen before.
pub struct Neural {
    network: Network,
    threshold: f32,
    ego: Ego,
    ground: Ground,
    raster: Raster,
    points: Vec<[f32; 3]>,
}

impl Neural {
    /// With the weights in the program, run as `execution` says; a number is that of the threads.
    ///
    /// # Errors
    ///
    /// If the threads are 0 or more than [`MAX_THREADS`](crate::MAX_THREADS), or the runtime is not
    /// there.
    pub fn embedded(execution: impl Into<Execution>) -> Result<Self, LoadError> {
        Self::load(WEIGHTS.to_vec(), execution)
    }

    /// With other weights: the content of a file `training/export.py` wrote. Load only files you
    /// trust: damage inside the graph is found by the ONNX loader, if at all.
    ///
    /// # Errors
    ///
    /// If the threads are 0 or more than [`MAX_THREADS`](crate::MAX_THREADS), the runtime is not there,
    /// or `onnx` is no such network.
    pub fn load(onnx: Vec<u8>, execution: impl Into<Execution>) -> Result<Self, LoadError> {
        Ok(Self {
            network: Network::load(onnx, execution.into())?,
            threshold: DEFAULT_THRESHOLD,
            ego: Ego::default(),
            ground: Ground::new(),
            raster: Raster::new(),
            points: Vec::new(),
        })
    }

    /// Reports objects with a score above `threshold`: lower finds more and invents more.
    ///
    /// # Errors
    ///
    /// If `threshold` is not from 0 to 1.
    pub fn with_threshold(self, threshold: f32) -> Result<Self, LoadError> {
        if !(0.0..=1.0).contains(&threshold) {
            return Err(LoadError::Threshold { threshold });
        }
        Ok(Self { threshold, ..self })
    }

    /// Leaves out points on the vehicle that carries the sensor: by default a car with the sensor in
    /// the middle of its roof.
    #[must_use]
    pub fn with_ego(self, ego: Ego) -> Self {
        Self { ego, ..self }
    }
}

impl Detector for Neural {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn detect(&mut self, cloud: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        read_positions(cloud, &mut self.points)?;
        self.ground.fit(&self.points);
        self.raster.fill(&self.points, &self.ground, &self.ego);
        if self.raster.occupied().is_empty() {
            return Ok(Vec::new());
        }
        let heads = self
            .network
            .run(self.raster.features())
            .map_err(DetectError::Network)?;
        Ok(detections(&heads, self.threshold, &self.ground))
    }
}

impl fmt::Debug for Neural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neural")
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::MAX_THREADS;

    #[test]
    fn settings_that_cannot_be_are_refused() {
        for threads in [0, MAX_THREADS + 1] {
            let error = Neural::embedded(threads).unwrap_err().to_string();
            assert!(error.contains(&format!("{threads} threads")), "{error}");
        }
        for threshold in [-0.1, 1.1, f32::NAN] {
            let error = Neural::embedded(1)
                .unwrap()
                .with_threshold(threshold)
                .unwrap_err();
            assert!(
                error.to_string().contains(&threshold.to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn files_that_are_no_network_are_refused() {
        for bytes in [&b""[..], b"ONNX", &WEIGHTS[..1_000], &[0xff; 64]] {
            let error = Neural::load(bytes.to_vec(), 1).unwrap_err();
            assert!(error.to_string().contains("export.py"), "{error}");
        }
    }
}
