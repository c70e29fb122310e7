use crate::random::Dice;
use crate::solid::{Bounds, Solid, Surface};

/// A leafy ellipsoid: rays get in and stop at a random depth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foliage {
    pub(crate) center: [f32; 3],
    pub(crate) radii: [f32; 3],
    /// Mean depth at which a ray meets a leaf, in metres.
    pub(crate) depth: f32,
    pub(crate) reflectivity: f32,
}

/// What an object is made of, in its own frame: origin on the ground below its middle, x forward.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    solids: Vec<Solid>,
    foliage: Vec<Foliage>,
    pub(crate) bounds: Bounds,
}

/// Where a ray met a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contact {
    pub(crate) distance: f32,
    pub(crate) cosine: f32,
    pub(crate) surface: Surface,
}

impl Shape {
    pub(crate) fn new(solids: Vec<Solid>, foliage: Vec<Foliage>) -> Self {
        let leaves = foliage.iter().map(|leaf| Bounds {
            low: std::array::from_fn(|axis| leaf.center[axis] - leaf.radii[axis]),
            high: std::array::from_fn(|axis| leaf.center[axis] + leaf.radii[axis]),
        });
        let bounds = solids
            .iter()
            .map(|solid| solid.bounds)
            .chain(leaves)
            .reduce(Bounds::union)
            .unwrap_or(Bounds {
                low: [0.0; 3],
                high: [0.0; 3],
            });
        Self {
            solids,
            foliage,
            bounds,
        }
    }

    /// The nearest contact before `limit`. `event` tells this object's chances from others'.
    pub(crate) fn meet(
        &self,
        origin: [f32; 3],
        direction: [f32; 3],
        limit: f32,
        dice: Dice,
        event: u64,
    ) -> Option<Contact> {
        if !self.bounds.meets(origin, direction, limit) {
            return None;
        }
        let mut nearest: Option<Contact> = None;
        let mut limit = limit;
        for (part, solid) in self.solids.iter().enumerate() {
            if !solid.bounds.meets(origin, direction, limit) {
                continue;
            }
            let Some((distance, cosine)) = solid.enter(origin, direction, limit) else {
                continue;
            };
            let through = solid.surface.through;
            if through > 0.0 && dice.roll(event + part as u64) < through {
                continue;
            }
            limit = distance;
            nearest = Some(Contact {
                distance,
                cosine,
                surface: solid.surface,
            });
        }
        for (part, leaf) in self.foliage.iter().enumerate() {
            let event = event + (self.solids.len() + part) as u64;
            let Some(distance) = leaf.meet(origin, direction, dice, event) else {
                continue;
            };
            if distance < limit {
                limit = distance;
                // Leaves point anywhere.
                let cosine = 0.2 + 0.8 * dice.roll(event ^ 0x1eaf);
                let surface = Surface::matt(leaf.reflectivity);
                nearest = Some(Contact {
                    distance,
                    cosine,
                    surface,
                });
            }
        }
        nearest
    }
}

impl Foliage {
    fn meet(&self, origin: [f32; 3], direction: [f32; 3], dice: Dice, event: u64) -> Option<f32> {
        let from: [f32; 3] =
            std::array::from_fn(|axis| (origin[axis] - self.center[axis]) / self.radii[axis]);
        let toward: [f32; 3] = std::array::from_fn(|axis| direction[axis] / self.radii[axis]);
        let a = crate::solid::dot(toward, toward);
        let b = crate::solid::dot(from, toward);
        let c = crate::solid::dot(from, from) - 1.0;
        let discriminant = b * b - a * c;
        if discriminant <= 0.0 {
            return None;
        }
        let root = discriminant.sqrt();
        let near = ((-b - root) / a).max(0.0);
        let far = (-b + root) / a;
        let distance = near + self.depth * dice.exponential(event);
        (distance < far).then_some(distance)
    }
}
