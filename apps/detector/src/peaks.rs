use std::f32::consts::PI;

use crate::detection::{Class, Detection};
use crate::ground::Ground;
use crate::overlap::suppress;
use crate::raster::{CELL, GRID, REACH};

/// Output cells along one edge: the network halves the grid.
pub(crate) const OUT: usize = GRID / 2;
const OUT_CELL: f32 = 2.0 * CELL;
const AREA: usize = OUT * OUT;

/// Channels of the box output: offset x and y in output cells, height of the middle above ground,
/// logarithms of length, width and height, sine and cosine of yaw and of twice yaw.
pub(crate) const BOX_CHANNELS: usize = 10;

/// More peaks than this are not objects.
const MOST: usize = 200;

/// What the network answers, as row-major planes.
#[derive(Debug)]
pub(crate) struct Heads {
    /// One plane per class, 0 to 1.
    pub(crate) heat: Vec<f32>,
    /// [`BOX_CHANNELS`] planes.
    pub(crate) boxes: Vec<f32>,
}

/// The boxes at the local maxima of the heat above `threshold`, best first.
pub(crate) fn detections(heads: &Heads, threshold: f32, ground: &Ground) -> Vec<Detection> {
    let mut found = Vec::new();
    for (class, heat) in Class::ALL.into_iter().zip(heads.heat.chunks_exact(AREA)) {
        for (cell, &score) in heat.iter().enumerate() {
            if score > threshold
                && is_peak(heat, cell)
                && let Some(detection) =
                    decode(values(heat, &heads.boxes, cell), cell, class, score, ground)
            {
                found.push(detection);
            }
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(MOST);
    suppress(found)
}

/// The cell and the up to eight around it.
fn around(cell: usize) -> impl Iterator<Item = usize> {
    let span = |index: usize| index.saturating_sub(1)..(index + 2).min(OUT);
    let columns = span(cell % OUT);
    span(cell / OUT).flat_map(move |row| columns.clone().map(move |column| row * OUT + column))
}

/// The box of a peak: the mean of what the cells around say of it, weighted by their heat. That is
/// less noisy than what the peak alone says.
fn values(heat: &[f32], boxes: &[f32], cell: usize) -> [f32; BOX_CHANNELS] {
    let mut sums = [0.0; BOX_CHANNELS];
    let mut weights = 0.0;
    for other in around(cell) {
        let weight = heat[other] * heat[other];
        weights += weight;
        for (channel, sum) in sums.iter_mut().enumerate() {
            *sum += weight * boxes[channel * AREA + other];
        }
        sums[0] += weight * ((other % OUT) as f32 - (cell % OUT) as f32);
        sums[1] += weight * ((other / OUT) as f32 - (cell / OUT) as f32);
    }
    sums.map(|sum| sum / weights)
}

/// Whether no neighbour is hotter, and no earlier one as hot: of a plateau one cell remains.
fn is_peak(heat: &[f32], cell: usize) -> bool {
    around(cell)
        .all(|other| heat[other] < heat[cell] || (heat[other] == heat[cell] && other >= cell))
}

fn decode(
    values: [f32; BOX_CHANNELS],
    cell: usize,
    class: Class,
    score: f32,
    ground: &Ground,
) -> Option<Detection> {
    let value = |channel: usize| values[channel];
    let x = ((cell % OUT) as f32 + value(0)) * OUT_CELL - REACH;
    let y = ((cell / OUT) as f32 + value(1)) * OUT_CELL - REACH;
    // Twice the yaw tells the axis without a jump at pi; the yaw itself only which end is front.
    let mut yaw = value(8).atan2(value(9)) / 2.0;
    if yaw.cos() * value(7) + yaw.sin() * value(6) < 0.0 {
        yaw += if yaw > 0.0 { -PI } else { PI };
    }
    let detection = Detection {
        class,
        score,
        center: [x, y, ground.height(x, y) + value(2)],
        size: [value(3).exp(), value(4).exp(), value(5).exp()],
        yaw,
    };
    let mut numbers = detection
        .center
        .iter()
        .chain(&detection.size)
        .chain([&yaw, &score]);
    numbers
        .all(|number| number.is_finite())
        .then_some(detection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Plane;

    impl Heads {
        fn cold() -> Self {
            let classes = Class::ALL.len();
            Self {
                heat: vec![0.0; classes * AREA],
                boxes: vec![0.0; BOX_CHANNELS * AREA],
            }
        }

        fn set(
            &mut self,
            class: usize,
            row: usize,
            column: usize,
            score: f32,
            values: [f32; BOX_CHANNELS],
        ) {
            let cell = row * OUT + column;
            self.heat[class * AREA + cell] = score;
            for (channel, value) in values.into_iter().enumerate() {
                self.boxes[channel * AREA + cell] = value;
            }
        }

        fn detections(&self) -> Vec<Detection> {
            let ground = Ground::level(Plane {
                level: -2.0,
                rise_x: 0.01,
                rise_y: 0.0,
            });
            detections(self, 0.3, &ground)
        }
    }

    fn values(yaw: f32) -> [f32; BOX_CHANNELS] {
        let (sin, cos) = yaw.sin_cos();
        let (sin2, cos2) = (2.0 * yaw).sin_cos();
        let [l, w, h] = [4.5_f32.ln(), 1.8_f32.ln(), 1.5_f32.ln()];
        [0.25, 0.75, 0.8, l, w, h, sin, cos, sin2, cos2]
    }

    #[test]
    fn a_peak_becomes_its_box() {
        for step in -31..=31 {
            let yaw = step as f32 * 0.1;
            let mut heads = Heads::cold();
            heads.set(0, 64, 89, 0.9, values(yaw));
            let [found] = heads.detections()[..] else {
                panic!("one peak")
            };
            assert_eq!((found.class, found.score), (Class::Car, 0.9));
            let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-4, "{a} {b}");
            close(found.center[0], 20.2);
            close(found.center[1], 0.6);
            close(found.center[2], -2.0 + 0.202 + 0.8);
            close(found.size[0], 4.5);
            close(found.yaw, yaw);
        }
    }

    #[test]
    fn slopes_plateaus_and_faint_heat_are_no_more_peaks() {
        let mut heads = Heads::cold();
        for (row, column, score) in [
            (0, 0, 0.8),
            (0, 1, 0.7),
            (60, 60, 0.5),
            (60, 61, 0.5),
            (100, 100, 0.2),
        ] {
            heads.set(2, row, column, score, values(0.0));
        }
        let scores: Vec<f32> = heads.detections().iter().map(|found| found.score).collect();
        assert_eq!(scores, [0.8, 0.5]);
    }

    #[test]
    fn numbers_that_are_none_are_left_out() {
        let mut heads = Heads::cold();
        heads.set(0, 10, 10, f32::NAN, values(0.0));
        heads.set(0, 20, 20, 0.9, [f32::NAN; BOX_CHANNELS]);
        heads.set(0, 30, 30, 0.9, [1e4; BOX_CHANNELS]);
        heads.set(0, 40, 40, f32::INFINITY, values(0.0));
        assert_eq!(heads.detections(), []);
    }

    #[test]
    fn a_heat_full_of_peaks_is_cut() {
        let mut heads = Heads::cold();
        for row in (0..OUT).step_by(2) {
            for column in (0..OUT).step_by(2) {
                heads.set(2, row, column, 0.5, values(0.0));
            }
        }
        assert!(heads.detections().len() <= MOST);
    }
}
