use lidar_detector::Class;
use lidar_eval::Object;
use lidar_eval::labels::{IGNORE, LabelledScan};
use lidar_messages::PointCloud2;

use crate::failure::Failure;

/// A cloud and what is there.
pub(super) struct Labelled {
    /// What messages call it.
    pub(super) name: String,
    pub(super) scene: u32,
    pub(super) cloud: PointCloud2,
    pub(super) objects: Vec<Object<&'static str>>,
    scan: LabelledScan,
}

impl Labelled {
    /// Counts the points on each label.
    ///
    /// # Errors
    /// The cloud cannot be read, or a class is unknown.
    pub(super) fn new(
        name: String,
        scene: u32,
        cloud: PointCloud2,
        scan: LabelledScan,
    ) -> Result<Self, Failure> {
        let points: Vec<[f64; 3]> = match cloud.width == 0 || cloud.height == 0 {
            true => Vec::new(),
            false => cloud
                .points()
                .map_err(|error| Failure::new(&name, error))?
                .map(|point| [point.x, point.y, point.z].map(f64::from))
                .collect(),
        };
        let mut objects = Vec::new();
        for label in &scan.labels {
            let object = Object {
                class: class(&label.class)
                    .map_err(|why| Failure::text(format!("{name}: {why}")))?,
                cuboid: label.cuboid(),
                points: label.points(points.iter().copied()),
            };
            if scan.sees(object.cuboid.center) {
                objects.push(object);
            }
        }
        Ok(Self {
            name,
            scene,
            cloud,
            objects,
            scan,
        })
    }

    /// Whether a place is where everything is labelled.
    pub(super) fn sees(&self, place: [f64; 2]) -> bool {
        self.scan.sees(place)
    }
}

/// The detector's class of a label; `None` if it is not to be judged.
fn class(name: &str) -> Result<Option<&'static str>, String> {
    Ok(Some(match name {
        IGNORE => return Ok(None),
        "car" | "van" => Class::Car.name(),
        "truck" | "bus" => Class::Truck.name(),
        "pedestrian" => Class::Pedestrian.name(),
        "cyclist" | "bicycle" | "motorcycle" => Class::Cyclist.name(),
        _ => {
            return Err(format!(
                "class `{name}` of a label is unknown; give car, van, truck, bus, pedestrian, \
                 cyclist, bicycle, motorcycle or ignore"
            ));
        }
    }))
}
