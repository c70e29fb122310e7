//! Scores object lists against labels by the nuScenes detection definition.
//!
//! ```
//! use lidar_eval::{Cuboid, Evaluation, Finding, Object, Settings};
//!
//! let car = Cuboid { center: [10.0, 2.0], size: [4.5, 1.8, 1.5], yaw: 0.1 };
//! let truth = [Object { class: Some("car"), cuboid: car, points: 80 }];
//! let found = [Finding { class: "car", cuboid: car, score: 0.9 }];
//!
//! let mut evaluation = Evaluation::new(vec!["car"], Settings::default());
//! evaluation.add(0, &truth, &found);
//! let report = evaluation.report();
//! assert!(report.mean_average_precision.unwrap().value > 0.999);
//! ```
//!
//! [`Tally`] is the metric for one class and one matching distance; [`Evaluation`] makes a
//! [`Report`] of several classes, distances and range bands out of it, with intervals. Distances are
//! between the middles of boxes seen from above, in metres.

mod bootstrap;
mod cuboid;
mod curve;
mod evaluation;
pub mod labels;
mod tally;

pub use bootstrap::Estimate;
pub use cuboid::Cuboid;
pub use evaluation::{
    BandReport, ClassReport, DISTANCES, Evaluation, Finding, MATCHED, Object, Report, Settings,
};
pub use tally::{Found, Frame, Operation, Score, Tally, Truth};
