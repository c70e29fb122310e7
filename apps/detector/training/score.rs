//! Comparison of detections with the ground truth.

use lidar_detector::{Class, Detection};
use lidar_scene::TruthBox;

/// A detection whose middle is this near, in metres, found the object.
const NEAR_ENOUGH: f32 = 2.0;

/// Which objects count. Others are neither to be found nor wrong to find.
pub(crate) struct Rule {
    pub(crate) class: Class,
    /// Within this distance, in metres.
    pub(crate) range: f32,
    /// With at least this many points.
    pub(crate) points: u32,
}

/// Tally over scenes.
#[derive(Default)]
pub(crate) struct Score {
    /// Objects that count.
    pub(crate) objects: u32,
    /// Score of each detection, and whether it is of an object that counts; else it is of none.
    detections: Vec<(f32, bool)>,
    /// Sum of the distances of the found, in metres.
    error: f32,
}

impl Score {
    /// Adds a scene. `detections` come best first; each object is found once.
    pub(crate) fn add(
        &mut self,
        rule: &Rule,
        detections: &[Detection],
        objects: &[(TruthBox, u32)],
    ) {
        let reach = |[x, y, _]: [f32; 3]| x.hypot(y);
        let mut left: Vec<_> = objects
            .iter()
            .filter(|(object, _)| class(object) == rule.class)
            .collect();
        let counts = |object: &TruthBox, points: u32| {
            reach(object.center) < rule.range && points >= rule.points
        };
        self.objects += left
            .iter()
            .filter(|(object, points)| counts(object, *points))
            .count() as u32;
        for detection in detections.iter().filter(|found| found.class == rule.class) {
            let nearest = left
                .iter()
                .map(|(object, _)| distance(detection.center, object.center))
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .filter(|&(_, distance)| distance < NEAR_ENOUGH);
            match nearest {
                Some((index, distance)) => {
                    let (object, points) = left.swap_remove(index);
                    if counts(object, *points) {
                        self.detections.push((detection.score, true));
                        self.error += distance;
                    }
                }
                None if reach(detection.center) < rule.range => {
                    self.detections.push((detection.score, false));
                }
                None => {}
            }
        }
    }

    /// Found share of the objects, with scores above `threshold`.
    pub(crate) fn recall(&self, threshold: f32) -> f32 {
        self.count(threshold, true) as f32 / self.objects as f32
    }

    /// Detections of nothing with scores above `threshold`.
    pub(crate) fn invented(&self, threshold: f32) -> u32 {
        self.count(threshold, false)
    }

    fn count(&self, threshold: f32, found: bool) -> u32 {
        let counted = |detection: &&(f32, bool)| detection.0 > threshold && detection.1 == found;
        self.detections.iter().filter(counted).count() as u32
    }

    /// Area under the precision-recall curve.
    #[allow(dead_code, reason = "the tests look at one threshold")]
    pub(crate) fn average_precision(&self) -> f32 {
        let mut sorted = self.detections.clone();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut found = 0;
        let mut precisions = Vec::new();
        for (rank, (_, right)) in sorted.iter().enumerate() {
            if *right {
                found += 1;
                precisions.push(found as f32 / (rank + 1) as f32);
            }
        }
        // At each recall the best precision of this or any greater recall.
        let mut best = 0.0_f32;
        let mut sum = 0.0;
        for precision in precisions.into_iter().rev() {
            best = best.max(precision);
            sum += best;
        }
        sum / self.objects as f32
    }

    /// Mean distance of the found from the truth, in metres.
    #[allow(dead_code, reason = "the tests look at recall")]
    pub(crate) fn mean_error(&self) -> f32 {
        self.error / self.count(0.0, true) as f32
    }
}

fn class(object: &TruthBox) -> Class {
    match object.class {
        lidar_scene::Class::Car => Class::Car,
        lidar_scene::Class::Truck => Class::Truck,
        lidar_scene::Class::Pedestrian => Class::Pedestrian,
        lidar_scene::Class::Cyclist => Class::Cyclist,
    }
}

/// Seen from above.
fn distance(a: [f32; 3], b: [f32; 3]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}
