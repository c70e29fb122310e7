//! Finds cars, lorries, pedestrians and cyclists in point clouds, on the CPU.
//!
//! ```
//! use lidar_detector::{DEFAULT_THREADS, Detector, Neural, to_detection_array};
//! use lidar_messages::PointCloud2;
//!
//! let mut detector = Neural::embedded(DEFAULT_THREADS)?;
//! let cloud = PointCloud2::default();
//! let objects = detector.detect(&cloud)?;
//! let message = to_detection_array(cloud.header, &objects);
//! assert!(message.detections.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Neural`] fits the ground ([`Ground`]), draws a bird's-eye view ([`Raster`]), runs a small
//! convolutional network over it, and reads oriented boxes off the peaks of its heat maps. Any
//! cloud with `float32` x, y and z will do; x forward, y left, z up, in metres, the sensor upright
//! and 0 to 5 m above the ground. Objects are found up to 51 m to each side.
//!
//! [`Tracker`] gives what is found identities that last. A list goes out as
//! `vision_msgs/Detection3DArray` ([`to_detection_array`]) or `perception_msgs/ObjectList`
//! ([`to_object_list`]), and to viewers as markers ([`to_markers`]).
//!
//! [`FixedDelay`] is no detector: it answers a made-up list after a fixed time, for experiments.
//! Other detectors implement [`Detector`].

mod detection;
mod detector;
mod ego;
mod execution;
mod fixed_delay;
mod ground;
mod markers;
mod network;
mod neural;
mod objects;
mod onnx;
#[cfg(feature = "ort")]
mod onnxruntime;
mod overlap;
mod peaks;
mod plane;
mod pure;
mod raster;
mod squares;
mod track;

pub use detection::{Class, Detection, from_detection_array, to_detection_array};
pub use detector::{DetectError, Detector};
pub use ego::{Ego, EgoError};
pub use execution::{Execution, Runtime, RuntimeError};
pub use fixed_delay::{FIXED_OBJECTS, FixedDelay};
pub use ground::Ground;
pub use markers::to_markers;
pub use network::{LoadError, MAX_THREADS};
pub use neural::{DEFAULT_THREADS, DEFAULT_THRESHOLD, Neural};
pub use objects::{from_object_list, to_object_list};
pub use raster::{CELL, CHANNELS, GRID, REACH, Raster};
pub use track::Tracker;
