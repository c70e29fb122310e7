use lidar_messages::{LayoutError, PointCloud2};
use thiserror::Error;

use crate::detection::Detection;

/// Finds objects in clouds. Implement this to plug in another detector.
///
/// A detector is used by one thread at a time and may keep buffers, or tracks, between clouds.
pub trait Detector: Send {
    /// What reports call it.
    fn name(&self) -> &str;

    /// The objects in a cloud, best first; none is a valid answer.
    ///
    /// The cloud comes from outside: points may be NaN, infinite or missing altogether. Every
    /// number of an answer is finite.
    ///
    /// # Errors
    ///
    /// If the cloud cannot be read or the detector failed. The detector stays usable.
    fn detect(&mut self, cloud: &PointCloud2) -> Result<Vec<Detection>, DetectError>;
}

/// Why there is no object list.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DetectError {
    /// The cloud contradicts itself or lacks a coordinate.
    #[error("cannot read the cloud: {0}")]
    Cloud(#[from] LayoutError),
    /// The network could not be run.
    #[error("the network failed: {0}")]
    Network(String),
}

/// Replaces the content of `points` by the positions in `cloud`, as they come: possibly not
/// finite. A cloud without points needs no fields.
pub(crate) fn read_positions(
    cloud: &PointCloud2,
    points: &mut Vec<[f32; 3]>,
) -> Result<(), LayoutError> {
    points.clear();
    if cloud.width == 0 || cloud.height == 0 {
        return cloud.check_layout();
    }
    points.extend(cloud.points()?.map(|point| [point.x, point.y, point.z]));
    Ok(())
}
