//! Ground truth and detections as the metric takes them.

use lidar_detector::{Class, Detection};
use lidar_eval::{Cuboid, Finding, Found, Frame, Object, Truth};
use lidar_scene::TruthBox;

/// Objects with fewer points may be found or not.
pub(crate) const POINTS: u32 = 5;

pub(crate) fn objects(truth: &[(TruthBox, u32)]) -> Vec<Object<Class>> {
    truth
        .iter()
        .map(|(object, points)| Object {
            class: Some(match object.class {
                lidar_scene::Class::Car => Class::Car,
                lidar_scene::Class::Truck => Class::Truck,
                lidar_scene::Class::Pedestrian => Class::Pedestrian,
                lidar_scene::Class::Cyclist => Class::Cyclist,
            }),
            cuboid: cuboid(object.center, object.size, object.yaw),
            points: *points,
        })
        .collect()
}

pub(crate) fn findings(detections: &[Detection]) -> Vec<Finding<Class>> {
    detections
        .iter()
        .map(|found| Finding {
            class: found.class,
            cuboid: cuboid(found.center, found.size, found.yaw),
            score: f64::from(found.score),
        })
        .collect()
}

fn cuboid([x, y, _]: [f32; 3], size: [f32; 3], yaw: f32) -> Cuboid {
    Cuboid {
        center: [x.into(), y.into()],
        size: size.map(f64::from),
        yaw: yaw.into(),
    }
}

/// What is there and was found of one class within `range` metres.
#[allow(dead_code, reason = "the tests look at all classes together")]
pub(crate) fn frame(
    class: Class,
    range: f64,
    truth: &[Object<Class>],
    found: &[Finding<Class>],
) -> Frame {
    let near = |cuboid: &Cuboid| cuboid.center[0].hypot(cuboid.center[1]) < range;
    let truth = truth
        .iter()
        .filter(|object| object.class == Some(class) && object.points > 0 && near(&object.cuboid));
    let found = found
        .iter()
        .filter(|finding| finding.class == class && near(&finding.cuboid));
    Frame {
        truth: truth
            .map(|object| Truth {
                cuboid: object.cuboid,
                counts: object.points >= POINTS,
            })
            .collect(),
        found: found
            .map(|finding| Found {
                cuboid: finding.cuboid,
                score: finding.score,
            })
            .collect(),
    }
}
