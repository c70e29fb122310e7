use crate::plane::Plane;
use crate::squares::{COUNT, EDGE as CELL, REACH, SIDE as CELLS, Squares, middle};

/// Heights above the plane that the ground of a cell can have, in metres.
const LOWEST: f32 = -2.0;
const BINS: usize = 40;
/// Ground rises from cell to cell by less than this, in metres: a step is a roof or a wall.
const STEP: f32 = 0.35;
/// How often the known ground is carried on into cells that show none.
const SPREADS: usize = 4;

/// The ground around the sensor: a plane, and what each square of 6.4 m deviates from it.
///
/// Mount height, pitch and roll of the sensor need not be known, and hills, ramps and embankments
/// are followed. Reused from cloud to cloud.
#[derive(Debug, Clone)]
pub struct Ground {
    plane: Plane,
    votes: Squares<BINS>,
    /// Height above the plane in the middle of each cell, row-major, in metres.
    above: Vec<f32>,
    known: Vec<Option<f32>>,
    kept: Vec<Option<f32>>,
}

impl Default for Ground {
    fn default() -> Self {
        Self::new()
    }
}

impl Ground {
    /// Level ground 1.9 m below the sensor.
    pub fn new() -> Self {
        Self {
            plane: Plane::ASSUMED,
            votes: Squares::new(LOWEST),
            above: vec![0.0; COUNT],
            known: vec![None; COUNT],
            kept: vec![None; COUNT],
        }
    }

    #[cfg(test)]
    pub(crate) fn level(plane: Plane) -> Self {
        Self {
            plane,
            ..Self::new()
        }
    }

    /// Height of the ground at a place, in the frame of the cloud, in metres.
    pub fn height(&self, x: f32, y: f32) -> f32 {
        let at = |value: f32| {
            let place = ((value + REACH) / CELL - 0.5).clamp(0.0, (CELLS - 1) as f32);
            let cell = (place as usize).min(CELLS - 2);
            (cell, place - cell as f32)
        };
        let ((column, right), (row, up)) = (at(x), at(y));
        let cell = row * CELLS + column;
        let mix = |a: f32, b: f32, share: f32| a + (b - a) * share;
        let near = mix(self.above[cell], self.above[cell + 1], right);
        let far = mix(
            self.above[cell + CELLS],
            self.above[cell + CELLS + 1],
            right,
        );
        self.plane.height(x, y) + mix(near, far, up)
    }

    /// Fits the ground below `points`; non-finite points are ignored.
    pub fn fit(&mut self, points: &[[f32; 3]]) {
        self.plane = Plane::fit(points);
        self.vote(points);
        self.refuse_steps();
        for _ in 0..SPREADS {
            self.spread();
        }
        self.smooth();
    }

    /// The lowest points of each cell, relative to the plane.
    fn vote(&mut self, points: &[[f32; 3]]) {
        let plane = self.plane;
        self.votes.count(points, |[x, y, z]| z - plane.height(x, y));
        for (cell, (known, lowest)) in self.known.iter_mut().zip(self.votes.lows()).enumerate() {
            let distance = middle(cell % CELLS).hypot(middle(cell / CELLS));
            // Slopes change with the distance.
            let most = 0.3 + 0.03 * distance;
            *known = lowest.filter(|height| height.abs() < most);
        }
    }

    /// A cell that is a step above its neighbours sees only what stands in it.
    fn refuse_steps(&mut self) {
        for cell in 0..self.known.len() {
            let mut around = [0.0; 9];
            let mut count = 0;
            for other in neighbours(cell) {
                if let Some(height) = self.known[other] {
                    around[count] = height;
                    count += 1;
                }
            }
            let around = &mut around[..count];
            around.sort_unstable_by(f32::total_cmp);
            self.kept[cell] = self.known[cell].filter(|height| {
                around
                    .get(count / 2)
                    .is_none_or(|middle| height - middle < STEP)
            });
        }
        std::mem::swap(&mut self.known, &mut self.kept);
    }

    /// Unknown cells take over from known neighbours, each time nearer to the plane.
    fn spread(&mut self) {
        for cell in 0..self.known.len() {
            let (sum, count) = neighbours(cell)
                .filter_map(|other| self.known[other])
                .fold((0.0, 0), |(sum, count), height| (sum + height, count + 1));
            let taken = (count > 0).then(|| 0.8 * sum / count as f32);
            self.kept[cell] = self.known[cell].or(taken);
        }
        std::mem::swap(&mut self.known, &mut self.kept);
    }

    fn smooth(&mut self) {
        for cell in 0..self.above.len() {
            let (mut sum, mut weights) = (0.0, 0.0);
            for other in neighbours(cell) {
                let steps =
                    (other % CELLS).abs_diff(cell % CELLS) + (other / CELLS).abs_diff(cell / CELLS);
                let weight = [4.0, 1.0, 0.5][steps];
                sum += weight * self.known[other].unwrap_or(0.0);
                weights += weight;
            }
            self.above[cell] = sum / weights;
        }
    }
}

/// The cell itself and the up to eight around it.
fn neighbours(cell: usize) -> impl Iterator<Item = usize> {
    let span = |index: usize| index.saturating_sub(1)..(index + 2).min(CELLS);
    let columns = span(cell % CELLS);
    span(cell / CELLS).flat_map(move |row| columns.clone().map(move |column| row * CELLS + column))
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

    fn worst(ground: &Ground, truth: impl Fn(f32, f32) -> f32) -> f32 {
        let steps = || (-9..10).map(|step| step as f32 * 5.0);
        steps()
            .flat_map(|x| steps().map(move |y| [x, y]))
            .map(|[x, y]| (ground.height(x, y) - truth(x, y)).abs())
            .fold(0.0, f32::max)
    }

    #[test]
    fn a_hill_is_followed() {
        let hill = |x: f32, y: f32| -1.8 + 0.02 * x + 0.8 * (x * 0.07).sin() * (y * 0.05).cos();
        let mut ground = Ground::new();
        ground.fit(&floor(hill));
        assert!(worst(&ground, hill) < 0.3, "{}", worst(&ground, hill));
        // The plane alone is no ground here.
        let plane = |x: f32, y: f32| ground.plane.height(x, y);
        assert!(worst(&ground, plane) > 0.4);
    }

    #[test]
    fn a_lorry_that_hides_its_ground_is_none() {
        let level = |_: f32, _: f32| -1.8;
        let mut points = floor(level);
        points.retain(|[x, y, _]| !(6.0..21.0).contains(x) || !(6.0..13.0).contains(y));
        points.extend(
            (0..5_000).map(|k| [6.0 + (k % 150) as f32 * 0.1, 9.0, -0.9 + k as f32 * 5e-4]),
        );
        points.extend([[30.0, 30.0, -3.0], [f32::NAN, 0.0, 0.0], [1e30, 0.0, -2.0]]);
        let mut ground = Ground::new();
        ground.fit(&points);
        assert!(worst(&ground, level) < 0.12, "{}", worst(&ground, level));
    }

    #[test]
    fn nothing_of_the_last_cloud_remains() {
        let mut ground = Ground::new();
        ground.fit(&floor(|x, _| -1.0 + 0.5 * (x * 0.1).sin()));
        ground.fit(&[]);
        let assumed = |x: f32, y: f32| Plane::ASSUMED.height(x, y);
        assert_eq!(worst(&ground, assumed), 0.0);
    }
}
