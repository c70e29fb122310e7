//! What a viewer such as RViz draws of object lists.

use lidar_messages::{Color, Header, Marker, MarkerArray, Point, Pose, Quaternion, Text, Vector3};

use crate::detection::{Class, Detection};

/// Seconds and nanoseconds after which what is drawn vanishes if nothing newer comes.
const LIFETIME: [i32; 2] = [1, 0];

/// Height of texts, and how far above their boxes they are, in metres.
const TEXT: f64 = 0.6;

/// Detections as `visualization_msgs/MarkerArray`: what was drawn before is deleted, then there is a box
/// for each in the colour of its class, and a text with class, score and identity above it.
///
/// `ids` are the identities of a [`Tracker`](crate::Tracker), in the order of the detections; without
/// any the markers are numbered from 1, list by list, and the texts have none.
pub fn to_markers(header: &Header, detections: &[Detection], ids: Option<&[u64]>) -> MarkerArray {
    let mut markers = vec![Marker {
        header: header.clone(),
        action: Marker::DELETE_ALL,
        ..Marker::default()
    }];
    for (detection, number) in detections.iter().zip(0_usize..) {
        let id = ids.and_then(|ids| ids.get(number)).copied();
        let [x, y, z] = detection.center.map(f64::from);
        let [length, width, height] = detection.size.map(f64::from);
        let marker = |ns: &'static str| Marker {
            header: header.clone(),
            ns: ns.into(),
            // An identity is small; of larger ones the lower part will do for a viewer.
            id: id.unwrap_or(number as u64 + 1) as i32,
            action: Marker::ADD,
            lifetime: LIFETIME,
            ..Marker::default()
        };
        markers.push(Marker {
            kind: Marker::CUBE,
            pose: Pose {
                position: Point { x, y, z },
                orientation: Quaternion::from_yaw(detection.yaw.into()),
            },
            scale: Vector3 {
                x: length,
                y: width,
                z: height,
            },
            color: color(detection.class),
            ..marker("boxes")
        });
        let above = z + height / 2.0 + TEXT;
        markers.push(Marker {
            kind: Marker::TEXT_VIEW_FACING,
            pose: Pose {
                position: Point { x, y, z: above },
                ..Pose::default()
            },
            scale: Vector3 {
                z: TEXT,
                ..Vector3::default()
            },
            color: Color {
                r: 1.0,
                g: 1.0,
                b: 1.0,
                a: 1.0,
            },
            text: text(detection, id),
            ..marker("texts")
        });
    }
    MarkerArray { markers }
}

fn text(detection: &Detection, id: Option<u64>) -> Text {
    let (name, score) = (detection.class.name(), detection.score);
    match id {
        Some(id) => format!("{name} {score:.2} #{id}").into(),
        None => format!("{name} {score:.2}").into(),
    }
}

fn color(class: Class) -> Color {
    let [r, g, b] = match class {
        Class::Car => [0.2, 0.6, 1.0],
        Class::Truck => [0.7, 0.4, 1.0],
        Class::Pedestrian => [1.0, 0.4, 0.3],
        Class::Cyclist => [1.0, 0.8, 0.2],
    };
    Color { r, g, b, a: 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_ones_are_deleted_then_each_has_a_box_and_a_text() {
        let header = Header {
            frame_id: "velodyne".into(),
            ..Header::default()
        };
        let truck = Detection {
            class: Class::Truck,
            score: 0.75,
            center: [10.0, -2.0, 1.0],
            size: [8.0, 2.5, 3.0],
            yaw: 0.5,
        };
        let drawn = to_markers(&header, &[truck, truck], Some(&[7, 9])).markers;
        let facts: Vec<_> = drawn
            .iter()
            .map(|marker| (marker.action, marker.kind, marker.id, &*marker.text))
            .collect();
        let expected = [
            (Marker::DELETE_ALL, 0, 0, ""),
            (Marker::ADD, Marker::CUBE, 7, ""),
            (Marker::ADD, Marker::TEXT_VIEW_FACING, 7, "truck 0.75 #7"),
            (Marker::ADD, Marker::CUBE, 9, ""),
            (Marker::ADD, Marker::TEXT_VIEW_FACING, 9, "truck 0.75 #9"),
        ];
        assert_eq!(facts, expected);
        assert!(drawn.iter().all(|marker| marker.header == header));
        let cube = &drawn[1];
        assert_eq!(
            cube.scale,
            Vector3 {
                x: 8.0,
                y: 2.5,
                z: 3.0
            }
        );
        assert!((cube.pose.orientation.yaw() - 0.5).abs() < 1e-6);

        let drawn = to_markers(&header, &[], None).markers;
        assert_eq!(drawn.len(), 1, "an empty list deletes too");
        let drawn = to_markers(&header, &[truck], None).markers;
        assert_eq!((drawn[1].id, &*drawn[2].text), (1, "truck 0.75"));
    }
}
