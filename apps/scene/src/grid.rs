/// Which objects stand in which square of the street, and the walk of a ray over the squares.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    /// Start of each cell's run in `members`, and one past the last.
    starts: Vec<u32>,
    members: Vec<u32>,
}

/// Edge of a square cell, in metres.
const CELL: f32 = 4.0;
const COLUMNS: usize = 72;
const ROWS: usize = 36;
/// Objects live in |x| < `REACH[0]`, |y| < `REACH[1]`.
const REACH: [f32; 2] = [COLUMNS as f32 * CELL / 2.0, ROWS as f32 * CELL / 2.0];

/// An object's extent seen from above: `[x, y]` of two corners.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    pub(crate) low: [f32; 2],
    pub(crate) high: [f32; 2],
}

impl Grid {
    pub(crate) fn new(footprints: impl Iterator<Item = Footprint> + Clone) -> Self {
        let mut starts = vec![0_u32; COLUMNS * ROWS + 1];
        for footprint in footprints.clone() {
            cells(footprint).for_each(|cell| starts[cell + 1] += 1);
        }
        for cell in 0..COLUMNS * ROWS {
            starts[cell + 1] += starts[cell];
        }
        let mut next = starts.clone();
        let mut members = vec![0; starts[COLUMNS * ROWS] as usize];
        for (object, footprint) in footprints.enumerate() {
            for cell in cells(footprint) {
                members[next[cell] as usize] = object as u32;
                next[cell] += 1;
            }
        }
        Self { starts, members }
    }

    /// Calls `visit` with each object whose cell the ray crosses, near cells first. `visit`
    /// returns the distance beyond which nothing matters any more.
    pub(crate) fn walk(
        &self,
        origin: [f32; 3],
        direction: [f32; 3],
        limit: f32,
        mut visit: impl FnMut(u32) -> f32,
    ) {
        let mut limit = limit;
        let inverse = [1.0 / direction[0], 1.0 / direction[1]];
        let (mut near, mut far) = (0.0_f32, limit);
        for axis in 0..2 {
            let a = (-REACH[axis] - origin[axis]) * inverse[axis];
            let b = (REACH[axis] - origin[axis]) * inverse[axis];
            near = near.max(a.min(b));
            far = far.min(a.max(b));
        }
        if near >= far {
            return;
        }
        let sizes = [COLUMNS as i32, ROWS as i32];
        let mut cell = [0_i32; 2];
        let mut step = [0_i32; 2];
        let mut crossing = [f32::INFINITY; 2];
        for axis in 0..2 {
            let position = (origin[axis] + direction[axis] * near + REACH[axis]) / CELL;
            cell[axis] = (position as i32).clamp(0, sizes[axis] - 1);
            if direction[axis] == 0.0 {
                continue;
            }
            step[axis] = if direction[axis] > 0.0 { 1 } else { -1 };
            let edge = (cell[axis] + i32::from(step[axis] > 0)) as f32 * CELL - REACH[axis];
            crossing[axis] = (edge - origin[axis]) * inverse[axis];
        }
        loop {
            let index = cell[1] as usize * COLUMNS + cell[0] as usize;
            let run = self.starts[index] as usize..self.starts[index + 1] as usize;
            for &object in &self.members[run] {
                limit = visit(object);
            }
            let axis = usize::from(crossing[1] < crossing[0]);
            if crossing[axis] >= limit.min(far) {
                return;
            }
            cell[axis] += step[axis];
            if !(0..sizes[axis]).contains(&cell[axis]) {
                return;
            }
            crossing[axis] += CELL * inverse[axis].abs();
        }
    }
}

fn cells(footprint: Footprint) -> impl Iterator<Item = usize> {
    let span = |axis: usize, size: usize| {
        let at = |value: f32| ((value + REACH[axis]) / CELL) as usize;
        at(footprint.low[axis]).min(size)..(at(footprint.high[axis]) + 1).min(size)
    };
    let columns = span(0, COLUMNS);
    span(1, ROWS).flat_map(move |row| columns.clone().map(move |column| row * COLUMNS + column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(origin: [f32; 3], direction: [f32; 3]) -> Vec<u32> {
        let at = |x: f32, y: f32| Footprint {
            low: [x, y],
            high: [x + 1.0, y + 1.0],
        };
        let grid = Grid::new([at(10.0, 1.0), at(50.0, 1.0), at(10.0, 30.0)].into_iter());
        let mut seen = Vec::new();
        grid.walk(origin, direction, 200.0, |object| {
            seen.push(object);
            200.0
        });
        seen
    }

    #[test]
    fn a_ray_sees_the_cells_it_crosses_in_order() {
        assert_eq!(visited([0.0; 3], [1.0, 0.0, 0.0]), [0, 1]);
        assert_eq!(visited([100.0, 0.0, 0.0], [-1.0, 0.0, 0.0]), [1, 0]);
        assert_eq!(
            visited([-500.0, 1.0, 0.0], [1.0, 0.0, 0.0]),
            [] as [u32; 0],
            "out of range"
        );
        assert_eq!(visited([11.0, 0.0, 0.0], [0.0, 1.0, 0.0]), [0, 2]);
        assert_eq!(
            visited([0.0; 3], [0.0, 0.0, 1.0]),
            [] as [u32; 0],
            "straight up"
        );
    }

    #[test]
    fn a_hit_ends_the_walk() {
        let cell = Footprint {
            low: [10.0, 1.0],
            high: [11.0, 2.0],
        };
        let far = Footprint {
            low: [50.0, 1.0],
            high: [51.0, 2.0],
        };
        let grid = Grid::new([cell, far].into_iter());
        let mut seen = Vec::new();
        grid.walk([0.0; 3], [1.0, 0.0, 0.0], 200.0, |object| {
            seen.push(object);
            10.0
        });
        assert_eq!(seen, [0]);
    }
}
