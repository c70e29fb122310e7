use std::time::{Duration, Instant};

use lidar_messages::PointCloud2;

use crate::detection::{Class, Detection};
use crate::detector::{DetectError, Detector, read_positions};

/// Not a detector: waits a fixed time and answers the same list for every readable cloud.
///
/// For controlled experiments only, where the time in the detector must not depend on the machine
/// or the cloud. Its name says so in every report.
#[derive(Debug)]
pub struct FixedDelay {
    name: String,
    delay: Duration,
    objects: Vec<Detection>,
    points: Vec<[f32; 3]>,
}

/// How many objects [`FixedDelay::new`] answers.
pub const FIXED_OBJECTS: usize = 20;

impl FixedDelay {
    /// Answers [`FIXED_OBJECTS`] cars in a row, `delay` after it was asked.
    pub fn new(delay: Duration) -> Self {
        let objects = (0..FIXED_OBJECTS).map(|index| Detection {
            class: Class::Car,
            score: 1.0,
            center: [5.0 + 6.0 * index as f32, 3.5, -1.1],
            size: [4.5, 1.8, 1.5],
            yaw: 0.0,
        });
        Self::with_objects(delay, objects.collect())
    }

    /// Answers `objects`.
    pub fn with_objects(delay: Duration, objects: Vec<Detection>) -> Self {
        let name = format!("fixed-delay {delay:?}, {} made-up objects", objects.len());
        Self {
            name,
            delay,
            objects,
            points: Vec::new(),
        }
    }
}

impl Detector for FixedDelay {
    fn name(&self) -> &str {
        &self.name
    }

    /// Blocks the thread for the delay, also if the cloud is refused. The operating system may
    /// wake it later, usually by less than 0.1 ms.
    fn detect(&mut self, cloud: &PointCloud2) -> Result<Vec<Detection>, DetectError> {
        let end = Instant::now() + self.delay;
        let read = read_positions(cloud, &mut self.points);
        if let Some(rest) = end.checked_duration_since(Instant::now()) {
            std::thread::sleep(rest);
        }
        read?;
        Ok(self.objects.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_says_so() {
        let mut detector = FixedDelay::new(Duration::from_millis(20));
        assert!(
            detector.name().contains("fixed-delay"),
            "{}",
            detector.name()
        );
        let start = Instant::now();
        let objects = detector.detect(&PointCloud2::default()).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(objects.len(), FIXED_OBJECTS);
    }

    #[test]
    fn refuses_what_a_detector_refuses() {
        let cloud = PointCloud2 {
            width: 1,
            height: 1,
            ..Default::default()
        };
        let error = FixedDelay::new(Duration::ZERO).detect(&cloud).unwrap_err();
        assert!(error.to_string().contains("\"x\""), "{error}");
    }
}
