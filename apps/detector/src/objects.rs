//! Object lists with states and identities.

use lidar_messages::{Header, Iscactr, Object, ObjectClassification, ObjectList, ObjectState};

use crate::detection::{Class, Detection};

/// Detections as `perception_msgs/ObjectList`: each a box in the state model ISCACTR whose velocities
/// and accelerations are marked as not set, with the score as the probability of its class and of its
/// existence.
///
/// `ids` are the identities of a [`Tracker`](crate::Tracker), in the order of the detections; without
/// any the objects are numbered from 1, list by list.
///
/// Classes are those for detectors that cannot tell finer ones apart: 50 (car or van), 51 (lorry or
/// bus), 52 (bicycle or motorcycle), and 1 (pedestrian).
pub fn to_object_list(header: Header, detections: &[Detection], ids: Option<&[u64]>) -> ObjectList {
    let objects = detections.iter().zip(1_u64..).map(|(detection, number)| {
        let score = f64::from(detection.score);
        let ids = ids.and_then(|ids| ids.get(number as usize - 1));
        let box_ = Iscactr {
            position: detection.center.map(f64::from),
            yaw: detection.yaw.into(),
            size: detection.size.map(f64::from),
        };
        Object {
            id: ids.copied().unwrap_or(number),
            existence_probability: score,
            state: ObjectState {
                header: header.clone(),
                model_id: Iscactr::MODEL_ID,
                continuous_state: box_.continuous_state(),
                continuous_state_covariance: Iscactr::covariance(),
                classifications: vec![ObjectClassification {
                    kind: kind(detection.class),
                    probability: score,
                }],
                ..ObjectState::default()
            },
            ..Object::default()
        }
    });
    ObjectList {
        objects: objects.collect(),
        header,
    }
}

/// The detections in an object list, with their identities. Objects in another state model than ISCACTR,
/// or of a class that no detector here has, are left out.
pub fn from_object_list(list: &ObjectList) -> (Vec<Detection>, Vec<u64>) {
    let known = list.objects.iter().filter_map(|object| {
        let Iscactr {
            position,
            yaw,
            size,
        } = Iscactr::of(&object.state)?;
        let best = object.state.classifications.iter();
        let best = best.max_by(|a, b| a.probability.total_cmp(&b.probability))?;
        let detection = Detection {
            class: class(best.kind)?,
            score: best.probability as f32,
            center: position.map(|value| value as f32),
            size: size.map(|value| value as f32),
            yaw: yaw as f32,
        };
        Some((detection, object.id))
    });
    known.unzip()
}

fn kind(class: Class) -> u8 {
    match class {
        Class::Car => ObjectClassification::CAR_UNION,
        Class::Truck => ObjectClassification::TRUCK_UNION,
        Class::Pedestrian => ObjectClassification::PEDESTRIAN,
        Class::Cyclist => ObjectClassification::BIKE_UNION,
    }
}

fn class(kind: u8) -> Option<Class> {
    match kind {
        ObjectClassification::CAR | ObjectClassification::VAN | ObjectClassification::CAR_UNION => {
            Some(Class::Car)
        }
        ObjectClassification::TRUCK
        | ObjectClassification::BUS
        | ObjectClassification::TRUCK_UNION => Some(Class::Truck),
        ObjectClassification::PEDESTRIAN => Some(Class::Pedestrian),
        ObjectClassification::BICYCLE
        | ObjectClassification::MOTORBIKE
        | ObjectClassification::BIKE_UNION => Some(Class::Cyclist),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detections_come_back_with_their_identities() {
        let header = Header {
            seq: 3,
            frame_id: "velodyne".into(),
            ..Header::default()
        };
        let detections = Class::ALL.map(|class| Detection {
            class,
            score: 0.75,
            center: [10.0, -2.0, 0.5],
            size: [4.5, 1.75, 1.5],
            yaw: 0.25,
        });
        let list = to_object_list(header.clone(), &detections, Some(&[9, 4, 6, 8]));
        assert_eq!(list.header, header);
        let (found, ids) = from_object_list(&ObjectList::decode(list.encode()).unwrap());
        assert_eq!((found, ids), (detections.to_vec(), vec![9, 4, 6, 8]));

        let list = to_object_list(header, &detections, None);
        assert_eq!(from_object_list(&list).1, [1, 2, 3, 4]);
    }

    #[test]
    fn what_no_detector_here_knows_is_left_out() {
        let detection = Detection {
            class: Class::Car,
            score: 0.5,
            center: [0.0; 3],
            size: [1.0; 3],
            yaw: 0.0,
        };
        let list = to_object_list(Header::default(), &[detection; 4], None);
        let mut objects = list.objects.into_iter();
        let mut change = |change: fn(&mut ObjectState)| {
            let mut object = objects.next().unwrap();
            change(&mut object.state);
            object
        };
        let list = ObjectList {
            objects: vec![
                change(|state| state.model_id = 17),
                change(|state| state.classifications[0].kind = 8),
                change(|state| state.classifications.clear()),
                change(|state| state.continuous_state.truncate(11)),
            ],
            ..ObjectList::default()
        };
        assert_eq!(from_object_list(&list), (vec![], vec![]));
    }
}
