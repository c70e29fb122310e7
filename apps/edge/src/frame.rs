//! Where a sensor is in the common frame, and what that makes of an object.

use lidar_messages::{Detection3D, Point, Pose, PoseWithCovariance, Quaternion};

/// How far the length of a rotation may be from 1: poses are often sent with few digits.
const SLACK: f64 = 0.01;

/// A rigid motion: the pose of a sensor in the common frame, which takes what the sensor sees there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    origin: [f64; 3],
    turn: Quaternion,
    /// The same as a matrix, by rows.
    rows: [[f64; 3]; 3],
}

impl Frame {
    /// The frame of a sensor with this pose, in metres; the error is for the log.
    pub(crate) fn at(pose: &Pose) -> Result<Self, String> {
        let Pose {
            position: Point { x, y, z },
            orientation:
                Quaternion {
                    x: i,
                    y: j,
                    z: k,
                    w,
                },
        } = *pose;
        if ![x, y, z].iter().all(|value| value.is_finite()) {
            return Err(format!("the position {x}, {y}, {z} is not finite"));
        }
        let length = [i, j, k, w].iter().map(|part| part * part).sum::<f64>();
        let length = length.sqrt();
        if length.is_nan() || (length - 1.0).abs() > SLACK {
            return Err(format!(
                "the orientation {i}, {j}, {k}, {w} is no rotation: its length is {length}, not 1"
            ));
        }
        let [i, j, k, w] = [i, j, k, w].map(|part| part / length);
        Ok(Self {
            origin: [x, y, z],
            turn: Quaternion {
                x: i,
                y: j,
                z: k,
                w,
            },
            rows: [
                [
                    1.0 - 2.0 * (j * j + k * k),
                    2.0 * (i * j - k * w),
                    2.0 * (i * k + j * w),
                ],
                [
                    2.0 * (i * j + k * w),
                    1.0 - 2.0 * (i * i + k * k),
                    2.0 * (j * k - i * w),
                ],
                [
                    2.0 * (i * k - j * w),
                    2.0 * (j * k + i * w),
                    1.0 - 2.0 * (i * i + j * j),
                ],
            ],
        })
    }

    /// Takes an object from the sensor's frame into the common one: its box, and the pose and
    /// covariance of each of its hypotheses.
    pub(crate) fn place(&self, object: &mut Detection3D) {
        object.bbox.center = self.pose(&object.bbox.center);
        for result in &mut object.results {
            result.pose = PoseWithCovariance {
                pose: self.pose(&result.pose.pose),
                covariance: self.covariance(&result.pose.covariance),
            };
        }
    }

    fn pose(&self, pose: &Pose) -> Pose {
        let Point { x, y, z } = pose.position;
        let [x, y, z] = std::array::from_fn(|n| {
            let [a, b, c] = self.rows[n];
            a * x + b * y + c * z + self.origin[n]
        });
        Pose {
            position: Point { x, y, z },
            orientation: product(self.turn, pose.orientation),
        }
    }

    /// Position and rotation turn alike: each 3 x 3 block `B` becomes `R B Rᵀ`.
    fn covariance(&self, covariance: &[f64; 36]) -> [f64; 36] {
        // An unknown one stays exactly that.
        if covariance.iter().all(|value| *value == 0.0) {
            return *covariance;
        }
        let part = |row: usize, column: usize| {
            let (top, left) = (row / 3 * 3, column / 3 * 3);
            let mut sum = 0.0;
            for m in 0..3 {
                for n in 0..3 {
                    let value = covariance[(top + m) * 6 + left + n];
                    sum += self.rows[row % 3][m] * value * self.rows[column % 3][n];
                }
            }
            sum
        };
        std::array::from_fn(|at| part(at / 6, at % 6))
    }
}

/// First `b`, then `a`.
fn product(a: Quaternion, b: Quaternion) -> Quaternion {
    Quaternion {
        x: a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        y: a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
        z: a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
        w: a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lidar_messages::{BoundingBox3D, ObjectHypothesisWithPose};

    fn pose(x: f64, y: f64, z: f64, orientation: Quaternion) -> Pose {
        Pose {
            position: Point { x, y, z },
            orientation,
        }
    }

    fn object(center: Pose, covariance: [f64; 36]) -> Detection3D {
        Detection3D {
            results: vec![ObjectHypothesisWithPose {
                pose: PoseWithCovariance {
                    pose: center,
                    covariance,
                },
                ..Default::default()
            }],
            bbox: BoundingBox3D {
                center,
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn assert_near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
        }
    }

    /// Position and heading in degrees.
    fn seen(object: &Detection3D) -> [f64; 4] {
        let Pose {
            position,
            orientation,
        } = object.bbox.center;
        assert_eq!(object.results[0].pose.pose, object.bbox.center);
        let yaw = orientation.yaw().to_degrees();
        [position.x, position.y, position.z, yaw]
    }

    #[test]
    fn a_sensor_that_looks_along_y_sees_its_front_there() {
        for (yaw, [x, y, z, heading], wanted) in [
            (90.0, [5.0, 2.0, -1.0, 30.0], [8.0, 25.0, 0.5, 120.0]),
            (180.0, [5.0, 2.0, -1.0, 30.0], [5.0, 18.0, 0.5, -150.0]),
            (-90.0, [0.0, 3.0, 0.0, 0.0], [13.0, 20.0, 1.5, -90.0]),
            (0.0, [1.0, 2.0, 3.0, 10.0], [11.0, 22.0, 4.5, 10.0]),
        ] {
            let frame = pose(10.0, 20.0, 1.5, Quaternion::from_yaw(f64::to_radians(yaw)));
            let center = pose(x, y, z, Quaternion::from_yaw(f64::to_radians(heading)));
            let mut object = object(center, [0.0; 36]);
            Frame::at(&frame).unwrap().place(&mut object);
            assert_near(&seen(&object), &wanted);
            assert_eq!(object.results[0].pose.covariance, [0.0; 36]);
        }
    }

    /// The numbers were computed with matrices of the three angles, outside of this project: roll 0.3,
    /// pitch -0.2 and yaw 1.1 radians.
    #[test]
    fn a_tilted_sensor_turns_places_headings_and_covariances() {
        let tilted = Quaternion {
            x: 0.178_358_912_956_690_43,
            y: -0.006_435_555_672_053_96,
            z: 0.526_954_821_971_845_2,
            w: 0.830_942_415_208_611_2,
        };
        let mut covariance = [0.0; 36];
        for (row, column, value) in [
            (0, 0, 4.0),
            (1, 1, 1.0),
            (2, 2, 0.25),
            (3, 3, 0.04),
            (4, 4, 0.05),
            (5, 5, 0.09),
            (0, 1, 0.5),
            (0, 5, 0.1),
            (1, 5, -0.2),
        ] {
            covariance[row * 6 + column] = value;
            covariance[column * 6 + row] = value;
        }
        let mut object = object(pose(12.0, -3.5, 0.8, Quaternion::from_yaw(0.4)), covariance);
        let frame = Frame::at(&pose(100.0, -50.0, 2.0, tilted)).unwrap();
        frame.place(&mut object);
        let Pose {
            position: Point { x, y, z },
            orientation: turn,
        } = object.bbox.center;
        assert_near(
            &[x, y, z],
            &[
                108.549_594_660_576_19,
                -41.094_791_998_918_12,
                4.119_363_488_718_79,
            ],
        );
        assert_near(
            &[turn.x, turn.y, turn.z, turn.w],
            &[
                0.173_525_061_910_286_16,
                -0.041_741_718_902_456_974,
                0.681_533_582_605_613_7,
                0.709_689_127_416_263,
            ],
        );
        let covariance = object.results[0].pose.covariance;
        for (row, column, wanted) in [
            (0, 0, 1.178_981_116_427_405_6),
            (0, 1, 0.906_425_206_903_895_3),
            (1, 1, 3.552_553_827_097_398_6),
            (2, 2, 0.518_465_056_475_196_6),
            (0, 5, 0.206_042_796_461_577_64),
            (5, 0, 0.206_042_796_461_577_64),
            (3, 3, 0.049_280_827_992_031_06),
            (4, 5, -0.013_090_421_119_667_597),
        ] {
            assert_near(&[covariance[row * 6 + column]], &[wanted]);
        }
    }

    #[test]
    fn a_pose_that_is_none_is_refused_and_few_digits_are_not() {
        let turned = |x, y, z, w| pose(0.0, 0.0, 0.0, Quaternion { x, y, z, w });
        let few = Frame::at(&turned(0.0, 0.0, 0.707, 0.707)).unwrap();
        let mut object = object(pose(1.0, 0.0, 0.0, Quaternion::default()), [0.0; 36]);
        few.place(&mut object);
        assert_near(&seen(&object), &[0.0, 1.0, 0.0, 90.0]);
        for (wrong, why) in [
            (turned(0.0, 0.0, 0.0, 0.0), "its length is 0"),
            (turned(0.0, 0.0, 0.0, 2.0), "its length is 2"),
            (turned(0.0, 0.0, f64::NAN, 1.0), "no rotation"),
            (turned(0.0, 0.0, f64::INFINITY, 1.0), "no rotation"),
            (
                pose(f64::NAN, 0.0, 0.0, Quaternion::default()),
                "not finite",
            ),
        ] {
            let error = Frame::at(&wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
