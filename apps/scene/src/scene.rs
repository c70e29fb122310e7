use crate::grid::Grid;
use crate::ground::Ground;
use crate::object::Object;
use crate::random::{Dice, mix};
use crate::road_user::Class;

/// No return comes from farther away, in metres (VLP-32C data sheet).
pub const MAX_RANGE: f32 = 200.0;

/// Vehicles that drive out at one end come in at the other: the street is this long, in metres.
pub(crate) const LENGTH: f32 = 200.0;

/// Received power below which a pulse may be lost, and surely is at half of it. Relative to a
/// white, perpendicular surface at 100 m; chosen so that asphalt returns up to about 80 m.
const DETECTABLE: f32 = 0.024;

/// Share of pulses lost for no visible reason.
const DROPOUT: f32 = 0.03;

/// A street around a sensor that stands still, with moving traffic.
///
/// The sensor is the origin of the frame: x forward along the street, y left, z up, in metres.
/// Everything is a function of the seed and the elapsed time: no platform, thread or call order
/// changes a hit.
#[derive(Debug, Clone)]
pub struct Scene {
    ground: Ground,
    objects: Vec<Object>,
    grid: Grid,
    /// Decides chances along rays, and changes with time: the next turn loses other pulses.
    dice_seed: u64,
    mount_height: f32,
}

/// A returned pulse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Distance from the origin of the ray, in metres, exact: sensor noise is the sensor's.
    pub range: f32,
    /// Velodyne's calibrated scale: 0 to 100 is diffuse, 101 to 255 retroreflective.
    pub reflectivity: u8,
    /// The [`TruthBox::id`] of the labelled object that was hit.
    pub target: Option<u32>,
}

/// A labelled object as it is now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthBox {
    /// Stays the same while time advances.
    pub id: u32,
    /// What it is.
    pub class: Class,
    /// Middle of the box in the sensor frame, in metres.
    pub center: [f32; 3],
    /// Length (along the heading), width and height, in metres.
    pub size: [f32; 3],
    /// Heading around z in radians, from x towards y.
    pub yaw: f32,
    /// Speed along the sensor's x axis, in m/s.
    pub velocity: f32,
}

impl Scene {
    pub(crate) fn new(
        ground: Ground,
        objects: Vec<Object>,
        mount_height: f32,
        dice_seed: u64,
    ) -> Self {
        let grid = Grid::new(objects.iter().map(Object::footprint));
        Self {
            ground,
            objects,
            grid,
            dice_seed,
            mount_height,
        }
    }

    /// Height of the sensor above the road, in metres.
    pub fn mount_height(&self) -> f32 {
        self.mount_height
    }

    /// Moves the traffic on by `seconds`. Zero, negative and non-finite times change nothing.
    pub fn advance(&mut self, seconds: f32) {
        if !(seconds.is_finite() && seconds > 0.0) {
            return;
        }
        let ground = self.ground;
        for object in self.objects.iter_mut().filter(|object| object.speed != 0.0) {
            let [x, y, _] = object.position();
            let x = (x + object.speed * seconds + LENGTH / 2.0).rem_euclid(LENGTH) - LENGTH / 2.0;
            object.move_to([x, y, ground.height(x, y)]);
        }
        self.grid = Grid::new(self.objects.iter().map(Object::footprint));
        self.dice_seed = mix(self.dice_seed ^ u64::from(seconds.to_bits()));
    }

    /// Fires one ray. `direction` need not have length 1.
    ///
    /// `None`: nothing within [`MAX_RANGE`], the pulse was lost (glass, grazing or dark surfaces,
    /// dropout), or the ray is not finite or has no direction.
    pub fn cast(&self, origin: [f32; 3], direction: [f32; 3]) -> Option<Hit> {
        let length = crate::solid::dot(direction, direction).sqrt();
        if !(length.is_finite() && length > 0.0 && origin.iter().all(|value| value.is_finite())) {
            return None;
        }
        let direction = direction.map(|value| value / length);
        let dice = Dice::new(self.dice_seed, origin, direction);
        let mut nearest = self
            .ground
            .meet(origin, direction)
            .filter(|contact| contact.distance < MAX_RANGE);
        let mut target = None;
        let mut limit = nearest.map_or(MAX_RANGE, |contact| contact.distance);
        self.grid.walk(origin, direction, limit, |index| {
            let object = &self.objects[index as usize];
            // 256 events for each object's parts.
            let event = (u64::from(index) + 1) << 8;
            if let Some(contact) = object.meet(origin, direction, limit, dice, event) {
                limit = contact.distance;
                nearest = Some(contact);
                target = object.label.map(|_| index);
            }
            limit
        });
        let contact = nearest?;
        let surface = contact.surface;
        let brightness = surface.reflectivity * contact.cosine.sqrt();
        let falloff = (100.0 / contact.distance.max(10.0)).powi(2);
        if dice.roll(0) < DROPOUT
            || dice.roll(1) < surface.mirror
            || brightness * falloff < DETECTABLE * (0.5 + 0.5 * dice.roll(2))
        {
            return None;
        }
        let reflectivity = if surface.reflectivity > 1.0 {
            180.0
        } else {
            100.0 * brightness
        };
        let reflectivity = (reflectivity + 6.0 * (dice.roll(3) - 0.5)).clamp(1.0, 255.0) as u8;
        Some(Hit {
            range: contact.distance,
            reflectivity,
            target,
        })
    }

    /// Every labelled object, in the order of their ids, whether or not a ray can reach it.
    pub fn truth(&self) -> Vec<TruthBox> {
        let labelled = self.objects.iter().zip(0_u32..).filter_map(|(object, id)| {
            let label = object.label?;
            let [x, y, z] = object.position();
            Some(TruthBox {
                id,
                class: label.class,
                center: [x, y, z + label.size[2] / 2.0],
                size: label.size,
                yaw: object.yaw(),
                velocity: object.speed,
            })
        });
        labelled.collect()
    }
}
