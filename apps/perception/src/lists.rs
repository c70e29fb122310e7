use bytes::Bytes;
use exchange::ObjectsFormat;
use lidar_detector::{Detection, Tracker, to_detection_array, to_markers, to_object_list};
use lidar_messages::{Detection3DArray, Header};
use serde::Serialize;

/// What was found in one message of a vehicle.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// That of the message.
    pub header: Header,
    /// The objects, best first.
    pub detections: Vec<Detection>,
}

impl Found {
    /// As `vision_msgs/Detection3DArray`.
    pub fn to_array(&self) -> Detection3DArray {
        to_detection_array(self.header.clone(), &self.detections)
    }
}

/// How lists are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListSettings {
    /// As what they travel.
    pub format: ObjectsFormat,
    /// Whether objects keep their identities from list to list.
    pub track: bool,
    /// Whether there are markers for viewers too.
    pub markers: bool,
}

/// Makes the lists of one vehicle: a tracker follows the objects around it.
#[derive(Clone, Debug)]
pub struct Lister {
    format: ObjectsFormat,
    tracker: Option<Tracker>,
    /// Those of the last list.
    ids: Option<Vec<u64>>,
}

impl Lister {
    /// Gives identities from `first` on, if any: two that follow the same objects must not give the same.
    pub fn new(settings: ListSettings, first: u64) -> Self {
        Self {
            format: settings.format,
            tracker: settings.track.then(|| Tracker::from(first)),
            ids: None,
        }
    }

    /// The encoded list of the next message. They must come in the order of their stamps for identities to
    /// last.
    pub fn list(&mut self, found: &Found) -> Bytes {
        let Found { header, detections } = found;
        let stamp = header.stamp.as_nanos();
        let tracker = self.tracker.as_mut();
        self.ids = tracker.map(|tracker| tracker.follow(stamp, detections));
        match self.format {
            ObjectsFormat::Detection3d => found.to_array().encode(),
            ObjectsFormat::ObjectList => {
                to_object_list(header.clone(), detections, self.ids.as_deref()).encode()
            }
        }
    }

    /// The encoded `visualization_msgs/MarkerArray` of what [`list`](Self::list) listed last.
    pub fn markers(&self, found: &Found) -> Bytes {
        to_markers(&found.header, &found.detections, self.ids.as_deref()).encode()
    }
}

#[cfg(test)]
mod tests {
    use lidar_detector::Class;
    use lidar_messages::{MarkerArray, ObjectList, Time};

    use super::*;

    fn found(seq: u32) -> Found {
        Found {
            header: Header {
                seq,
                stamp: Time {
                    secs: 9,
                    nsecs: seq * 100_000_000,
                },
                frame_id: "velodyne".into(),
            },
            detections: vec![Detection {
                class: Class::Car,
                score: 0.5,
                center: [seq as f32, 0.0, 0.0],
                size: [4.5, 2.0, 1.5],
                yaw: 0.0,
            }],
        }
    }

    #[test]
    fn identities_last_from_list_to_list_and_are_on_the_markers() {
        let settings = ListSettings {
            format: ObjectsFormat::ObjectList,
            track: true,
            markers: true,
        };
        let mut lister = Lister::new(settings, 100);
        for seq in 0..5 {
            let list = ObjectList::decode(lister.list(&found(seq))).unwrap();
            assert_eq!((list.header.seq, list.objects[0].id), (seq, 100));
            let markers = MarkerArray::decode(lister.markers(&found(seq))).unwrap();
            assert_eq!(&*markers.markers[2].text, "car 0.50 #100");
        }
    }

    #[test]
    fn by_default_a_list_is_boxes_alone() {
        let mut lister = Lister::new(ListSettings::default(), 1);
        let list = Detection3DArray::decode(lister.list(&found(3))).unwrap();
        assert_eq!(list, found(3).to_array());
    }
}
