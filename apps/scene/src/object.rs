use crate::elementary::sin_cos;
use crate::grid::Footprint;
use crate::random::Dice;
use crate::road_user::Class;
use crate::shape::{Contact, Shape};

/// A shape standing in the street.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    shape: Shape,
    /// The sensor frame's `[x, y, z]` of the shape's origin, on the ground.
    position: [f32; 3],
    yaw: f32,
    sin: f32,
    cos: f32,
    /// Along x, in m/s.
    pub(crate) speed: f32,
    pub(crate) label: Option<Label>,
}

/// What the ground truth says about an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub(crate) class: Class,
    pub(crate) size: [f32; 3],
}

impl Object {
    pub(crate) fn new(shape: Shape, position: [f32; 3], yaw: f32) -> Self {
        let (sin, cos) = sin_cos(yaw);
        Self {
            shape,
            position,
            yaw,
            sin,
            cos,
            speed: 0.0,
            label: None,
        }
    }

    pub(crate) fn position(&self) -> [f32; 3] {
        self.position
    }

    pub(crate) fn yaw(&self) -> f32 {
        self.yaw
    }

    pub(crate) fn move_to(&mut self, position: [f32; 3]) {
        self.position = position;
    }

    pub(crate) fn footprint(&self) -> Footprint {
        let bounds = self.shape.bounds;
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for x in [bounds.low[0], bounds.high[0]] {
            for y in [bounds.low[1], bounds.high[1]] {
                let corner = [x * self.cos - y * self.sin, x * self.sin + y * self.cos];
                for axis in 0..2 {
                    low[axis] = low[axis].min(self.position[axis] + corner[axis]);
                    high[axis] = high[axis].max(self.position[axis] + corner[axis]);
                }
            }
        }
        Footprint { low, high }
    }

    pub(crate) fn meet(
        &self,
        origin: [f32; 3],
        direction: [f32; 3],
        limit: f32,
        dice: Dice,
        event: u64,
    ) -> Option<Contact> {
        let offset: [f32; 3] = std::array::from_fn(|axis| origin[axis] - self.position[axis]);
        self.shape.meet(
            self.to_local(offset),
            self.to_local(direction),
            limit,
            dice,
            event,
        )
    }

    fn to_local(&self, [x, y, z]: [f32; 3]) -> [f32; 3] {
        [x * self.cos + y * self.sin, y * self.cos - x * self.sin, z]
    }
}
