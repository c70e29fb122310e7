/// How a surface treats a laser pulse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surface {
    /// Diffuse reflectivity, 0 to 1.
    pub(crate) reflectivity: f32,
    /// Share of rays that pass through: window glass, spokes.
    pub(crate) through: f32,
    /// Share of rays that are reflected away and never return: glazed facades.
    pub(crate) mirror: f32,
}

impl Surface {
    pub(crate) fn matt(reflectivity: f32) -> Self {
        Self {
            reflectivity,
            through: 0.0,
            mirror: 0.0,
        }
    }

    pub(crate) fn glass(self, share: f32) -> Self {
        Self {
            through: 0.7 * share,
            mirror: 0.15 * share,
            ..self
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Face {
    normal: [f32; 3],
    offset: f32,
}

/// An axis-aligned box in an object's frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) low: [f32; 3],
    pub(crate) high: [f32; 3],
}

impl Bounds {
    pub(crate) fn union(self, other: Self) -> Self {
        let pick = |f: fn(f32, f32) -> f32, a: [f32; 3], b: [f32; 3]| {
            [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2])]
        };
        Self {
            low: pick(f32::min, self.low, other.low),
            high: pick(f32::max, self.high, other.high),
        }
    }

    /// Whether the ray meets the box before `limit`.
    pub(crate) fn meets(&self, origin: [f32; 3], direction: [f32; 3], limit: f32) -> bool {
        let (mut near, mut far) = (0.0_f32, limit);
        for axis in 0..3 {
            let inverse = 1.0 / direction[axis];
            let a = (self.low[axis] - origin[axis]) * inverse;
            let b = (self.high[axis] - origin[axis]) * inverse;
            // `max` and `min` drop the NaN of a ray inside the plane of a face.
            near = near.max(a.min(b));
            far = far.min(a.max(b));
        }
        near <= far
    }
}

/// A convex body: the intersection of half-spaces.
#[derive(Debug, Clone)]
pub(crate) struct Solid {
    faces: Vec<Face>,
    pub(crate) bounds: Bounds,
    pub(crate) surface: Surface,
}

impl Solid {
    pub(crate) fn cuboid(low: [f32; 3], high: [f32; 3], surface: Surface) -> Self {
        let mut faces = Vec::with_capacity(6);
        for axis in 0..3 {
            let mut normal = [0.0; 3];
            normal[axis] = 1.0;
            faces.push(Face {
                normal,
                offset: high[axis],
            });
            normal[axis] = -1.0;
            faces.push(Face {
                normal,
                offset: -low[axis],
            });
        }
        Self {
            faces,
            bounds: Bounds { low, high },
            surface,
        }
    }

    /// An upright eight-sided column around `(x, y)`.
    pub(crate) fn column(
        [x, y]: [f32; 2],
        radius: f32,
        [bottom, top]: [f32; 2],
        surface: Surface,
    ) -> Self {
        let low = [x - radius, y - radius, bottom];
        let high = [x + radius, y + radius, top];
        let mut column = Self::cuboid(low, high, surface);
        for corner in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
            let [a, b] = corner.map(|sign: f32| sign * std::f32::consts::FRAC_1_SQRT_2);
            column = column.cut([a, b, 0.0], [x + a * radius, y + b * radius, 0.0]);
        }
        column
    }

    /// Cuts away everything on the side `normal` points to of the plane through `point`.
    pub(crate) fn cut(mut self, normal: [f32; 3], point: [f32; 3]) -> Self {
        let length = dot(normal, normal).sqrt();
        let normal = normal.map(|value| value / length);
        self.faces.push(Face {
            normal,
            offset: dot(normal, point),
        });
        self
    }

    /// Distance at which the ray enters, if that is in `0..limit`, and the cosine of incidence.
    pub(crate) fn enter(
        &self,
        origin: [f32; 3],
        direction: [f32; 3],
        limit: f32,
    ) -> Option<(f32, f32)> {
        let (mut near, mut far, mut cosine) = (0.0_f32, limit, 0.0);
        for face in &self.faces {
            let toward = dot(face.normal, direction);
            let gap = face.offset - dot(face.normal, origin);
            if toward < 0.0 {
                let distance = gap / toward;
                if distance > near {
                    near = distance;
                    cosine = -toward;
                }
            } else if toward > 0.0 {
                far = far.min(gap / toward);
            } else if gap < 0.0 {
                return None;
            }
            if near > far {
                return None;
            }
        }
        // Cosine 0: the ray starts inside.
        (cosine > 0.0 && near < limit).then_some((near, cosine))
    }
}

pub(crate) fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ray_enters_a_cuboid_at_its_front() {
        let cube = Solid::cuboid([2.0, -1.0, -1.0], [4.0, 1.0, 1.0], Surface::matt(0.5));
        let (distance, cosine) = cube.enter([0.0; 3], [1.0, 0.0, 0.0], 100.0).unwrap();
        assert!((distance - 2.0).abs() < 1e-6 && (cosine - 1.0).abs() < 1e-6);
        assert!(
            cube.enter([0.0; 3], [-1.0, 0.0, 0.0], 100.0).is_none(),
            "behind"
        );
        assert!(
            cube.enter([0.0, 1.5, 0.0], [1.0, 0.0, 0.0], 100.0)
                .is_none(),
            "beside"
        );
        assert!(
            cube.enter([3.0, 0.0, 0.0], [1.0, 0.0, 0.0], 100.0)
                .is_none(),
            "inside"
        );
        assert!(
            cube.enter([0.0; 3], [1.0, 0.0, 0.0], 1.5).is_none(),
            "beyond the limit"
        );
        assert!(cube.bounds.meets([0.0; 3], [1.0, 0.0, 0.0], 100.0));
        assert!(!cube.bounds.meets([0.0, 1.5, 0.0], [1.0, 0.0, 0.0], 100.0));
    }

    #[test]
    fn a_cut_moves_the_surface() {
        let wedge = Solid::cuboid([2.0, -1.0, -1.0], [4.0, 1.0, 1.0], Surface::matt(0.5))
            .cut([-1.0, 0.0, 0.0], [3.0, 0.0, 0.0]);
        let (distance, _) = wedge.enter([0.0; 3], [1.0, 0.0, 0.0], 100.0).unwrap();
        assert!((distance - 3.0).abs() < 1e-6);
    }
}
