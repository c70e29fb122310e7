use crate::shape::Contact;
use crate::solid::Surface;

/// A tilted road along x with raised pavements on both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground {
    /// Height of the road below the sensor, a negative z.
    pub(crate) level: f32,
    /// Rise per metre along x and y.
    pub(crate) slope: [f32; 2],
    /// y of the road's middle.
    pub(crate) middle: f32,
    pub(crate) half_width: f32,
    pub(crate) kerb: f32,
    pub(crate) reflectivity: f32,
}

impl Ground {
    pub(crate) fn height(&self, x: f32, y: f32) -> f32 {
        let kerb = if self.on_road(y) { 0.0 } else { self.kerb };
        self.level + self.slope[0] * x + self.slope[1] * y + kerb
    }

    fn on_road(&self, y: f32) -> bool {
        (y - self.middle).abs() < self.half_width
    }

    /// Where a ray from above meets the ground.
    pub(crate) fn meet(&self, origin: [f32; 3], direction: [f32; 3]) -> Option<Contact> {
        let above = origin[2] - self.level - self.slope[0] * origin[0] - self.slope[1] * origin[1];
        let sink = self.slope[0] * direction[0] + self.slope[1] * direction[1] - direction[2];
        let lateral = |distance: f32| origin[1] + direction[1] * distance;
        let flat = |height: f32| {
            let distance = (above - height) / sink;
            (sink > 0.0 && distance > 0.0).then_some(distance)
        };
        let contact = |distance, cosine, reflectivity| Contact {
            distance,
            cosine,
            surface: Surface::matt(reflectivity),
        };
        // A ray that goes down meets the higher pavement first, if it is over it there.
        if let Some(distance) = flat(self.kerb).filter(|&d| !self.on_road(lateral(d))) {
            return Some(contact(distance, sink, self.reflectivity * 1.4));
        }
        let distance = flat(0.0)?;
        if self.on_road(lateral(distance)) {
            return Some(contact(distance, sink, self.reflectivity));
        }
        // It crossed the edge between the two heights: the face of the kerb.
        let edge = self.middle + self.half_width.copysign(direction[1]);
        let distance = (edge - origin[1]) / direction[1];
        (distance > 0.0 && distance.is_finite())
            .then(|| contact(distance, direction[1].abs(), 0.35))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUND: Ground = Ground {
        level: -2.0,
        slope: [0.0, 0.0],
        middle: 0.0,
        half_width: 4.0,
        kerb: 0.1,
        reflectivity: 0.2,
    };

    fn at(direction: [f32; 3]) -> [f32; 3] {
        let distance = GROUND.meet([0.0; 3], direction).unwrap().distance;
        direction.map(|value| value * distance)
    }

    #[test]
    fn rays_meet_road_kerb_and_pavement() {
        assert!((at([1.0, 0.0, -1.0])[2] + 2.0).abs() < 1e-6, "road");
        assert!((at([0.0, 1.0, -0.2])[2] + 1.9).abs() < 1e-6, "pavement");
        let kerb = at([0.0, 4.0, -1.95]);
        assert!(
            (kerb[1] - 4.0).abs() < 1e-6 && (kerb[2] + 1.95).abs() < 1e-6,
            "kerb {kerb:?}"
        );
        assert!(GROUND.meet([0.0; 3], [1.0, 0.0, 0.0]).is_none(), "level");
        assert!(GROUND.meet([0.0; 3], [1.0, 0.0, 0.3]).is_none(), "sky");
    }
}
