/// Edge of a square, in metres.
pub(crate) const EDGE: f32 = 6.4;
/// Squares along one edge of the area around the sensor.
pub(crate) const SIDE: usize = 16;
/// Squares in all, row-major with y as row.
pub(crate) const COUNT: usize = SIDE * SIDE;
/// The area covers |x| and |y| below this, in metres.
pub(crate) const REACH: f32 = EDGE * SIDE as f32 / 2.0;
/// Height of a bin, in metres.
const BIN: f32 = 0.1;
/// A lone point below the ground is a reflection in a puddle.
const VOTERS: u16 = 3;

/// The middle of the square at this column or row, in metres.
pub(crate) fn middle(index: usize) -> f32 {
    (index as f32 + 0.5) * EDGE - REACH
}

/// How many points of each square have which height: `BINS` bins of 0.1 m from `lowest` upwards.
#[derive(Debug, Clone)]
pub(crate) struct Squares<const BINS: usize> {
    lowest: f32,
    bins: Vec<[u16; BINS]>,
}

impl<const BINS: usize> Squares<BINS> {
    pub(crate) fn new(lowest: f32) -> Self {
        Self {
            lowest,
            bins: vec![[0; BINS]; COUNT],
        }
    }

    /// Counts `points` by their `height`, instead of those before; non-finite points are ignored.
    pub(crate) fn count(&mut self, points: &[[f32; 3]], height: impl Fn([f32; 3]) -> f32) {
        self.bins.fill([0; BINS]);
        for &[x, y, z] in points {
            let bin = (height([x, y, z]) - self.lowest) / BIN;
            if !(x.abs() < REACH && y.abs() < REACH && bin >= 0.0 && bin < BINS as f32) {
                continue;
            }
            // `min`: x just below `REACH` rounds up to it.
            let at = |value: f32| (((value + REACH) / EDGE) as usize).min(SIDE - 1);
            let count = &mut self.bins[at(y) * SIDE + at(x)][bin as usize];
            *count = count.saturating_add(1);
        }
    }

    /// For each square the height of its lowest points, if it has any, in metres.
    pub(crate) fn lows(&self) -> impl Iterator<Item = Option<f32>> + '_ {
        self.bins.iter().map(|bins| {
            let bin = bins.iter().position(|&count| count >= VOTERS)?;
            Some(self.lowest + (bin as f32 + 0.5) * BIN)
        })
    }
}
