/// The vehicle that carries the sensor, seen from above in the sensor's frame: points in this box
/// are its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ego {
    /// From its rear to its front along x, in metres.
    pub x: [f32; 2],
    /// From its right to its left along y, in metres.
    pub y: [f32; 2],
}

/// A passenger car with the sensor in the middle of its roof.
impl Default for Ego {
    fn default() -> Self {
        Self {
            x: [-2.5, 2.5],
            y: [-1.1, 1.1],
        }
    }
}

impl Ego {
    /// Nothing of the vehicle is in the sensor's view.
    pub const NONE: Self = Self {
        x: [0.0; 2],
        y: [0.0; 2],
    };

    pub(crate) fn covers(&self, x: f32, y: f32) -> bool {
        self.x[0] < x && x < self.x[1] && self.y[0] < y && y < self.y[1]
    }
}
