use crate::squares::{SIDE, Squares, middle};

/// The plane nearest to the ground around the sensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plane {
    /// Height of the ground at the sensor, in metres: minus the mount height.
    pub(crate) level: f32,
    /// Rise per metre along x.
    pub(crate) rise_x: f32,
    /// Rise per metre along y.
    pub(crate) rise_y: f32,
}

/// Heights that can be ground, in metres: sensors from 0 to 5 m above it.
const LOWEST: f32 = -5.0;
const BINS: usize = 50;
/// Steeper planes are a wrong fit, not a street.
const STEEPEST: f32 = 0.15;
/// Cells this near, in metres, mostly see ground.
const NEAR: f32 = 18.0;

impl Plane {
    /// What is assumed of a cloud that shows no ground: a sensor 1.9 m above level ground.
    pub(crate) const ASSUMED: Self = Self {
        level: -1.9,
        rise_x: 0.0,
        rise_y: 0.0,
    };

    /// Height of the ground at a place.
    pub(crate) fn height(&self, x: f32, y: f32) -> f32 {
        self.level + self.rise_x * x + self.rise_y * y
    }

    /// Fits the ground below `points`; non-finite points are ignored.
    ///
    /// The lowest points of the cells near the sensor give a first, level guess by their median.
    /// Then all cells are fitted by least squares, again and again without those far from the last
    /// fit. Above it less is far: a cell that sees only a wall or a roof is too high, none too low.
    pub(crate) fn fit(points: &[[f32; 3]]) -> Self {
        let mut squares = Squares::<BINS>::new(LOWEST);
        squares.count(points, |[_, _, z]| z);
        let lows: Vec<[f32; 3]> = squares
            .lows()
            .enumerate()
            .filter_map(|(cell, low)| Some([middle(cell % SIDE), middle(cell / SIDE), low?]))
            .collect();
        let mut near: Vec<f32> = lows
            .iter()
            .filter(|[x, y, _]| x.hypot(*y) < NEAR)
            .map(|low| low[2])
            .collect();
        if near.is_empty() {
            return Self::ASSUMED;
        }
        let middle = near.len() / 2;
        let (_, &mut level, _) = near.select_nth_unstable_by(middle, f32::total_cmp);
        let mut plane = Self {
            level,
            rise_x: 0.0,
            rise_y: 0.0,
        };
        for [above, below] in [[0.05, 0.05], [0.02, 0.03], [0.01, 0.02], [0.01, 0.02]] {
            let fitting = lows.iter().filter(|&&[x, y, z]| {
                let distance = x.hypot(y);
                let error = z - plane.height(x, y);
                error < 0.2 + above * distance && error > -0.3 - below * distance
            });
            match Self::least_squares(fitting) {
                Some(fit) => plane = fit,
                None => break,
            }
        }
        plane
    }

    fn least_squares<'a>(points: impl Iterator<Item = &'a [f32; 3]>) -> Option<Self> {
        // Normal equations of z = level + rise_x x + rise_y y.
        let (mut n, mut sx, mut sy, mut sz) = (0.0_f64, 0.0, 0.0, 0.0);
        let (mut xx, mut xy, mut yy, mut xz, mut yz) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &point in points {
            let [x, y, z] = point.map(f64::from);
            n += 1.0;
            sx += x;
            sy += y;
            sz += z;
            xx += x * x;
            xy += x * y;
            yy += y * y;
            xz += x * z;
            yz += y * z;
        }
        if n < 6.0 {
            return None;
        }
        let (cxx, cxy, cyy) = (xx - sx * sx / n, xy - sx * sy / n, yy - sy * sy / n);
        let (cxz, cyz) = (xz - sx * sz / n, yz - sy * sz / n);
        let determinant = cxx * cyy - cxy * cxy;
        // Cells in one row determine no plane.
        if determinant <= 1e-6 * cxx * cyy {
            return None;
        }
        let rise_x = (cxz * cyy - cyz * cxy) / determinant;
        let rise_y = (cyz * cxx - cxz * cxy) / determinant;
        let plane = Self {
            level: ((sz - rise_x * sx - rise_y * sy) / n) as f32,
            rise_x: rise_x as f32,
            rise_y: rise_y as f32,
        };
        (plane.rise_x.hypot(plane.rise_y) < STEEPEST).then_some(plane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(height: impl Fn(f32, f32) -> f32) -> Vec<[f32; 3]> {
        let steps = || (-100..100).map(|step| step as f32 * 0.5);
        steps()
            .flat_map(|x| steps().map(move |y| [x, y]))
            .map(|[x, y]| [x, y, height(x, y)])
            .collect()
    }

    #[test]
    fn finds_a_tilted_plane_below_walls_and_strays() {
        let truth = |x: f32, y: f32| -1.7 + 0.02 * x - 0.01 * y;
        let mut points = floor(truth);
        points.extend((0..2_000).map(|k| [20.0, k as f32 * 0.01, -1.0 + k as f32 * 0.002]));
        points.extend([[5.0, 5.0, -4.5], [f32::NAN, 0.0, 0.0], [1e30, 0.0, -2.0]]);
        let plane = Plane::fit(&points);
        for (x, y) in [(0.0, 0.0), (40.0, 10.0), (-30.0, -40.0)] {
            let error = plane.height(x, y) - truth(x, y);
            assert!(error.abs() < 0.12, "{error} at {x} {y}: {plane:?}");
        }
    }

    #[test]
    fn without_ground_the_usual_one_is_assumed() {
        assert_eq!(Plane::fit(&[]), Plane::ASSUMED);
        assert_eq!(Plane::fit(&[[f32::NAN; 3]; 50]), Plane::ASSUMED);
        assert_eq!(Plane::fit(&[[1.0, 1.0, 30.0]; 50]), Plane::ASSUMED);
        let one_cell = Plane::fit(&[[1.0, 1.0, -2.02]; 50]);
        assert!(
            (one_cell.level + 2.05).abs() < 0.051 && one_cell.rise_x == 0.0,
            "{one_cell:?}"
        );
    }
}
