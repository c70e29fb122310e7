use lidar_messages::{
    BoundingBox3D, Detection3D, Detection3DArray, Header, ObjectHypothesisWithPose, Point, Pose,
    PoseWithCovariance, Quaternion, Vector3,
};

/// What an object is. [`id`](Self::id) is its number on the wire:
///
/// | id | class |
/// |---|---|
/// | 1 | car: passenger cars, vans, pickups |
/// | 2 | truck: lorries and buses |
/// | 3 | pedestrian |
/// | 4 | cyclist: bicycles and motorcycles, with or without a rider |
///
/// 0 is never sent: it is what a reader finds in a field nobody set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Passenger cars, vans and pickups.
    Car,
    /// Lorries and buses.
    Truck,
    /// People on foot.
    Pedestrian,
    /// Bicycles and motorcycles, with or without a rider.
    Cyclist,
}

impl Class {
    /// All classes, in the order of their ids.
    pub const ALL: [Self; 4] = [Self::Car, Self::Truck, Self::Pedestrian, Self::Cyclist];

    /// The number `vision_msgs/ObjectHypothesisWithPose` carries.
    pub fn id(self) -> i64 {
        match self {
            Self::Car => 1,
            Self::Truck => 2,
            Self::Pedestrian => 3,
            Self::Cyclist => 4,
        }
    }

    /// The class with a number; `None` if no class has it.
    pub fn from_id(id: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.id() == id)
    }

    /// For instance `car`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::Truck => "truck",
            Self::Pedestrian => "pedestrian",
            Self::Cyclist => "cyclist",
        }
    }
}

/// An object: an upright box in the frame of the cloud.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// What it is.
    pub class: Class,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Middle of the box, `[x, y, z]` in metres.
    pub center: [f32; 3],
    /// Length (along the heading), width and height, in metres.
    pub size: [f32; 3],
    /// Heading around z in radians, from x towards y, in -pi to pi.
    pub yaw: f32,
}

/// The wire form of an object list: one hypothesis each, with the id of its [`Class`], unknown
/// (zero) covariance and no source cloud. `header` should be the cloud's; each object repeats it.
pub fn to_detection_array(header: Header, detections: &[Detection]) -> Detection3DArray {
    let detections = detections
        .iter()
        .map(|detection| {
            let [x, y, z] = detection.center.map(f64::from);
            let pose = Pose {
                position: Point { x, y, z },
                orientation: Quaternion::from_yaw(f64::from(detection.yaw)),
            };
            let [length, width, height] = detection.size.map(f64::from);
            Detection3D {
                header: header.clone(),
                results: vec![ObjectHypothesisWithPose {
                    id: detection.class.id(),
                    score: f64::from(detection.score),
                    pose: PoseWithCovariance {
                        pose,
                        ..Default::default()
                    },
                }],
                bbox: BoundingBox3D {
                    center: pose,
                    size: Vector3 {
                        x: length,
                        y: width,
                        z: height,
                    },
                },
                source_cloud: Default::default(),
            }
        })
        .collect();
    Detection3DArray { header, detections }
}

/// The detections in an object list as [`to_detection_array`] makes it, by the most likely class of
/// each. Those without a class of this detector are left out.
pub fn from_detection_array(list: &Detection3DArray) -> Vec<Detection> {
    let known = list.detections.iter().filter_map(|detection| {
        let best = detection.results.iter();
        let best = best.max_by(|a, b| a.score.total_cmp(&b.score))?;
        let Point { x, y, z } = detection.bbox.center.position;
        let size = detection.bbox.size;
        Some(Detection {
            class: Class::from_id(best.id)?,
            score: best.score as f32,
            center: [x, y, z].map(|value| value as f32),
            size: [size.x, size.y, size.z].map(|value| value as f32),
            yaw: detection.bbox.center.orientation.yaw() as f32,
        })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back_to_their_class() {
        for class in Class::ALL {
            assert_eq!(Class::from_id(class.id()), Some(class));
        }
        assert_eq!(Class::from_id(0), None);
        assert_eq!(Class::from_id(5), None);
    }

    #[test]
    fn the_wire_form_holds_everything() {
        let header = Header {
            seq: 7,
            frame_id: "velodyne".into(),
            ..Default::default()
        };
        let detection = Detection {
            class: Class::Truck,
            score: 0.75,
            center: [10.0, -2.0, -0.5],
            size: [8.0, 2.5, 3.0],
            yaw: -2.0,
        };
        let array = to_detection_array(header.clone(), &[detection]);
        let array = Detection3DArray::decode(array.encode()).unwrap();
        assert_eq!(array.header, header);
        let object = &array.detections[0];
        assert_eq!(object.header, header);
        assert_eq!((object.results[0].id, object.results[0].score), (2, 0.75));
        assert_eq!(
            object.bbox.center.position,
            Point {
                x: 10.0,
                y: -2.0,
                z: -0.5
            }
        );
        assert!((object.bbox.center.orientation.yaw() + 2.0).abs() < 1e-6);
        assert_eq!(
            object.bbox.size,
            Vector3 {
                x: 8.0,
                y: 2.5,
                z: 3.0
            }
        );
        assert!(object.source_cloud.data.is_empty());
        let again = from_detection_array(&array);
        assert!((again[0].yaw - detection.yaw).abs() < 1e-6);
        let again = Detection {
            yaw: detection.yaw,
            ..again[0]
        };
        assert_eq!(again, detection);
    }
}
