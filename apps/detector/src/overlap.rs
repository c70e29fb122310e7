use crate::detection::{Class, Detection};

/// Boxes of vehicles that overlap more than this are the same vehicle: real ones do not overlap at
/// all.
const SAME_VEHICLE: f32 = 0.15;
/// People and bicycles nearer than this to each other, in metres, are the same.
const SAME_PERSON: f32 = 0.5;

/// Keeps the first of every group that describes one object. `detections` come best first.
pub(crate) fn suppress(detections: Vec<Detection>) -> Vec<Detection> {
    let mut kept: Vec<Detection> = Vec::new();
    for detection in detections {
        if !kept.iter().any(|other| same(other, &detection)) {
            kept.push(detection);
        }
    }
    kept
}

fn same(a: &Detection, b: &Detection) -> bool {
    let vehicle = |class| matches!(class, Class::Car | Class::Truck);
    match (vehicle(a.class), vehicle(b.class)) {
        (true, true) => overlap(a, b) > SAME_VEHICLE,
        (false, false) => distance(a, b) < SAME_PERSON,
        // A person beside a car.
        _ => false,
    }
}

fn distance(a: &Detection, b: &Detection) -> f32 {
    (a.center[0] - b.center[0]).hypot(a.center[1] - b.center[1])
}

/// Intersection over union of two boxes seen from above.
pub(crate) fn overlap(a: &Detection, b: &Detection) -> f32 {
    let reach = |detection: &Detection| detection.size[0].hypot(detection.size[1]) / 2.0;
    if distance(a, b) >= reach(a) + reach(b) {
        return 0.0;
    }
    let area = |detection: &Detection| detection.size[0] * detection.size[1];
    let common = intersection(corners(a), corners(b));
    let union = area(a) + area(b) - common;
    if union > 0.0 { common / union } else { 0.0 }
}

type Corner = [f32; 2];

/// Counter-clockwise.
fn corners(detection: &Detection) -> [Corner; 4] {
    let (sin, cos) = detection.yaw.sin_cos();
    let [x, y, _] = detection.center;
    let [length, width] = [detection.size[0] / 2.0, detection.size[1] / 2.0];
    [
        [length, width],
        [-length, width],
        [-length, -width],
        [length, -width],
    ]
    .map(|[along, across]| {
        [
            x + along * cos - across * sin,
            y + along * sin + across * cos,
        ]
    })
}

/// Area both rectangles cover: one clipped by each edge of the other (Sutherland, Hodgman).
fn intersection(subject: [Corner; 4], clip: [Corner; 4]) -> f32 {
    // Four corners and at most one more per edge.
    let mut polygon = Polygon::default();
    subject.into_iter().for_each(|corner| polygon.push(corner));
    for edge in 0..4 {
        let (start, end) = (clip[edge], clip[(edge + 1) % 4]);
        let inside = |[x, y]: Corner| {
            (end[0] - start[0]) * (y - start[1]) - (end[1] - start[1]) * (x - start[0])
        };
        let mut clipped = Polygon::default();
        for (index, &from) in polygon.corners().iter().enumerate() {
            let to = polygon.corners()[(index + 1) % polygon.len];
            let (a, b) = (inside(from), inside(to));
            if a >= 0.0 {
                clipped.push(from);
            }
            if a * b < 0.0 {
                let share = a / (a - b);
                clipped.push([
                    from[0] + share * (to[0] - from[0]),
                    from[1] + share * (to[1] - from[1]),
                ]);
            }
        }
        polygon = clipped;
    }
    let corners = polygon.corners();
    let twice: f32 = (0..corners.len())
        .map(|index| {
            let (a, b) = (corners[index], corners[(index + 1) % corners.len()]);
            a[0] * b[1] - b[0] * a[1]
        })
        .sum();
    twice.abs() / 2.0
}

/// A convex polygon on the stack.
#[derive(Default)]
struct Polygon {
    corners: [Corner; 16],
    len: usize,
}

impl Polygon {
    fn push(&mut self, corner: Corner) {
        // Rounding could add corners to a degenerate polygon; they add no area.
        if let Some(slot) = self.corners.get_mut(self.len) {
            *slot = corner;
            self.len += 1;
        }
    }

    fn corners(&self) -> &[Corner] {
        &self.corners[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, SQRT_2};

    use super::*;

    fn car(x: f32, y: f32, size: [f32; 2], yaw: f32, score: f32) -> Detection {
        Detection {
            class: Class::Car,
            score,
            center: [x, y, 0.0],
            size: [size[0], size[1], 1.5],
            yaw,
        }
    }

    #[test]
    fn overlaps_of_known_rectangles() {
        let square = car(10.0, 5.0, [2.0, 2.0], 0.0, 1.0);
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-3, "{a} {b}");
        close(overlap(&square, &square), 1.0);
        close(
            overlap(&square, &car(10.0, 5.0, [2.0, 2.0], FRAC_PI_2, 1.0)),
            1.0,
        );
        close(
            overlap(&square, &car(11.0, 5.0, [2.0, 2.0], 0.0, 1.0)),
            1.0 / 3.0,
        );
        close(overlap(&square, &car(13.0, 5.0, [2.0, 2.0], 0.0, 1.0)), 0.0);
        close(
            overlap(&square, &car(10.0, 5.0, [1.0, 1.0], 0.3, 1.0)),
            0.25,
        );
        // A square and the same turned by 45 degrees share a regular octagon.
        let octagon = 8.0 * (SQRT_2 - 1.0);
        let turned = car(10.0, 5.0, [2.0, 2.0], FRAC_PI_4, 1.0);
        close(overlap(&square, &turned), octagon / (8.0 - octagon));
        close(
            overlap(
                &car(0.0, 0.0, [4.0, 2.0], 0.0, 1.0),
                &car(0.0, 0.0, [4.0, 2.0], FRAC_PI_2, 1.0),
            ),
            4.0 / 12.0,
        );
    }

    #[test]
    fn the_best_of_a_group_stays() {
        let best = car(10.0, 5.0, [4.5, 1.8], 0.0, 0.9);
        let other_lane = car(10.0, 8.0, [4.5, 1.8], 0.0, 0.8);
        let again = car(10.5, 5.2, [4.5, 1.8], 0.1, 0.7);
        let as_truck = Detection {
            class: Class::Truck,
            ..again
        };
        let person = Detection {
            class: Class::Pedestrian,
            ..again
        };
        let rider = Detection {
            class: Class::Cyclist,
            ..person
        };
        let kept = suppress(vec![best, other_lane, again, as_truck, person, rider]);
        assert_eq!(kept, [best, other_lane, person]);
    }
}
