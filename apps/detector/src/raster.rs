use crate::ego::Ego;
use crate::ground::Ground;

/// Cells along one edge of the square grid.
pub const GRID: usize = 256;
/// Edge of a cell, in metres.
pub const CELL: f32 = 0.4;
/// The grid covers |x| and |y| below this, in metres.
pub const REACH: f32 = CELL * GRID as f32 / 2.0;
/// Numbers per cell.
pub const CHANNELS: usize = 16;

const AREA: usize = GRID * GRID;

/// Upper ends of the height slices above ground, in metres. The last slice ends at `CEILING`.
const SLICES: [f32; 8] = [0.2, 0.5, 0.8, 1.1, 1.4, 1.7, 2.1, 2.8];
const FLOOR: f32 = -1.0;
const CEILING: f32 = 4.5;

/// Heights are divided by this, in metres, to be of the order of 1.
const HEIGHT_SCALE: f32 = 3.0;

/// A bird's-eye view of a cloud: what the network sees.
///
/// Channels, each a row-major `GRID` x `GRID` plane with y as row and x as column:
///
/// | channel | content, 0 in an empty cell |
/// |---|---|
/// | 0 to 8 | ln(1 + points) / 3 in each height slice |
/// | 9, 10, 14 | greatest, least and mean height above ground, in units of 3 m |
/// | 11 | ln(1 + points) / 4 |
/// | 12, 13 | mean offset from the cell's middle along x and y, in cells |
/// | 15 | distance of the cell from the sensor / `REACH`, in every cell |
///
/// Reflectivity is left out: its scale differs between sensors.
#[derive(Debug)]
pub struct Raster {
    cells: Vec<Cell>,
    occupied: Vec<u32>,
    features: Vec<f32>,
    logarithms: Vec<f32>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    slices: [u16; SLICES.len() + 1],
    points: u16,
    greatest: f32,
    least: f32,
    x: f32,
    y: f32,
    z: f32,
}

impl Cell {
    const EMPTY: Self = Self {
        slices: [0; SLICES.len() + 1],
        points: 0,
        greatest: f32::NEG_INFINITY,
        least: f32::INFINITY,
        x: 0.0,
        y: 0.0,
        z: 0.0,
    };
}

impl Default for Raster {
    fn default() -> Self {
        Self::new()
    }
}

impl Raster {
    /// An empty raster; about 8 MB, reused for every cloud.
    pub fn new() -> Self {
        let mut features = vec![0.0; CHANNELS * AREA];
        let middle = |index: usize| (index as f32 + 0.5) * CELL - REACH;
        for (cell, distance) in features[15 * AREA..].iter_mut().enumerate() {
            *distance = middle(cell % GRID).hypot(middle(cell / GRID)) / REACH;
        }
        Self {
            cells: vec![Cell::EMPTY; AREA],
            occupied: Vec::new(),
            features,
            logarithms: (0..=u16::MAX)
                .map(|count| f32::from(count).ln_1p())
                .collect(),
        }
    }

    /// Replaces the content. Points that are not finite, outside the grid, the `ego` vehicle's, or too
    /// low or high above `ground` are left out.
    pub fn fill(&mut self, points: &[[f32; 3]], ground: &Ground, ego: &Ego) {
        self.clear();
        for &[x, y, z] in points {
            // Every comparison with NaN is false. The margin keeps a rounded-up index inside.
            let inside = x.abs() < REACH - 1e-3 && y.abs() < REACH - 1e-3;
            if !inside || ego.covers(x, y) {
                continue;
            }
            let z = z - ground.height(x, y);
            if !(z > FLOOR && z < CEILING) {
                continue;
            }
            let (column, row) = ((x + REACH) / CELL, (y + REACH) / CELL);
            let index = row as usize * GRID + column as usize;
            let cell = &mut self.cells[index];
            if cell.points == 0 {
                self.occupied.push(index as u32);
            } else if cell.points == u16::MAX {
                continue;
            }
            cell.points += 1;
            let slice: usize = SLICES.iter().map(|&top| usize::from(z >= top)).sum();
            cell.slices[slice] += 1;
            cell.greatest = cell.greatest.max(z);
            cell.least = cell.least.min(z);
            cell.x += column.fract() - 0.5;
            cell.y += row.fract() - 0.5;
            cell.z += z;
        }
        for &index in &self.occupied {
            let index = index as usize;
            let cell = &self.cells[index];
            let mut set =
                |channel: usize, value: f32| self.features[channel * AREA + index] = value;
            for (slice, &count) in cell.slices.iter().enumerate() {
                set(slice, self.logarithms[usize::from(count)] / 3.0);
            }
            let share = 1.0 / f32::from(cell.points);
            set(9, cell.greatest / HEIGHT_SCALE);
            set(10, cell.least / HEIGHT_SCALE);
            set(11, self.logarithms[usize::from(cell.points)] / 4.0);
            set(12, cell.x * share);
            set(13, cell.y * share);
            set(14, cell.z * share / HEIGHT_SCALE);
        }
    }

    fn clear(&mut self) {
        for index in self.occupied.drain(..) {
            let index = index as usize;
            self.cells[index] = Cell::EMPTY;
            for channel in 0..CHANNELS - 1 {
                self.features[channel * AREA + index] = 0.0;
            }
        }
    }

    /// All channels, `CHANNELS * GRID * GRID` numbers.
    pub fn features(&self) -> &[f32] {
        &self.features
    }

    /// Indices of the cells with points in them, within a channel, in no particular order.
    pub fn occupied(&self) -> &[u32] {
        &self.occupied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Plane;

    fn fill(raster: &mut Raster, points: &[[f32; 3]]) {
        let ground = Ground::level(Plane {
            level: -2.0,
            rise_x: 0.0,
            rise_y: 0.0,
        });
        raster.fill(points, &ground, &Ego::default());
    }

    fn at(raster: &Raster, channel: usize, x: f32, y: f32) -> f32 {
        let index = |value: f32| ((value + REACH) / CELL) as usize;
        raster.features()[channel * AREA + index(y) * GRID + index(x)]
    }

    #[test]
    fn a_cell_describes_its_points() {
        let mut raster = Raster::new();
        fill(&mut raster, &[[10.1, -5.0, -1.9], [10.3, -5.0, -0.5]]);
        assert_eq!(raster.occupied().len(), 1);
        let cell = |channel| at(&raster, channel, 10.2, -5.0);
        let close = |a: f32, b: f32| (a - b).abs() < 1e-5;
        assert!(close(cell(0), 2.0_f32.ln() / 3.0), "lowest slice");
        assert!(close(cell(5), 2.0_f32.ln() / 3.0), "1.4 to 1.7 m");
        assert_eq!(cell(1), 0.0);
        assert!(close(cell(9), 0.5) && close(cell(10), 0.1 / 3.0) && close(cell(14), 0.8 / 3.0));
        assert!(close(cell(11), 3.0_f32.ln() / 4.0));
        assert!(
            (cell(12)).abs() < 1e-3,
            "mean x is the middle of 10.0 to 10.4"
        );
        assert!(close(cell(15), 10.2_f32.hypot(5.0) / REACH));
    }

    #[test]
    fn filling_again_leaves_nothing_behind() {
        let mut raster = Raster::new();
        let fresh = raster.features().to_vec();
        fill(&mut raster, &[[10.0, 5.0, -1.0], [-20.0, 7.0, 0.0]]);
        assert_ne!(raster.features(), fresh);
        fill(&mut raster, &[]);
        assert_eq!(raster.features(), fresh);
    }

    #[test]
    fn foreign_points_are_left_out() {
        let mut raster = Raster::new();
        let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
        let mut points = vec![
            [REACH, 0.0, 0.0],
            [0.0, -REACH, 0.0],
            [5.0, 5.0, 9.0],
            [5.0, 5.0, -4.0],
            [0.5, 0.5, 0.0],
        ];
        for value in bad {
            points.extend([
                [value, 3.0, 0.0],
                [3.0, value, 0.0],
                [3.0, 3.0, value],
                [value; 3],
            ]);
        }
        fill(&mut raster, &points);
        assert!(raster.occupied().is_empty());
        assert!(raster.features().iter().all(|value| value.is_finite()));
        // The outermost cells are reachable.
        let edge = REACH - 2e-3;
        fill(&mut raster, &[[edge, edge, 0.0], [-edge, -edge, 0.0]]);
        assert_eq!(raster.occupied(), [(AREA - 1) as u32, 0]);
    }

    #[test]
    fn a_crowded_cell_does_not_overflow() {
        let mut raster = Raster::new();
        fill(&mut raster, &vec![[10.2, 10.2, 0.0]; 100_000]);
        assert!(raster.features().iter().all(|value| value.is_finite()));
    }
}
