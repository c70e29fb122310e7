use serde::Serialize;

use crate::cuboid::Cuboid;
use crate::curve::Curve;

/// Errors of translation, scale and orientation.
pub(crate) type Errors = [f64; 3];

/// Objects and detections of one class in one scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// What is there.
    pub truth: Vec<Truth>,
    /// What was found, in any order.
    pub found: Vec<Found>,
}

/// An object that is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// Its box.
    pub cuboid: Cuboid,
    /// Whether it has to be found. If not, finding it is neither right nor wrong.
    pub counts: bool,
}

/// A detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Its box.
    pub cuboid: Cuboid,
    /// Confidence; not a NaN.
    pub score: f64,
}

/// Matched scans of one class at one distance.
///
/// Detections choose, the one with the highest score first: each takes the nearest object of its scan
/// that is not taken, if that is nearer than the distance, and is right; else it is wrong. One that
/// takes an object that does not count is left out. Of equal scores the later one comes first.
#[derive(Debug, Clone)]
pub struct Tally {
    distance: f64,
    claims: Vec<Claim>,
    /// Objects that count, for each scene.
    objects: Vec<u32>,
}

/// A detection that is right or wrong.
#[derive(Debug, Clone, Copy)]
struct Claim {
    score: f64,
    scene: u32,
    /// `None`: there is no such object.
    errors: Option<Errors>,
}

/// The nuScenes numbers of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// Area under the curve of precision over recall, without recalls and precisions below 0.1; 0 to 1.
    pub average_precision: f64,
    /// Mean distance of the found from the truth in metres, over recalls above 0.1; 1 if no more are
    /// found, like the following.
    pub translation: f64,
    /// The same of 1 less the intersection over union of the sizes.
    pub scale: f64,
    /// The same of the angle between the headings, in radians.
    pub orientation: f64,
}

/// What happens if detections with at least some score are believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Objects that were found.
    pub found: u64,
    /// Detections of nothing.
    pub invented: u64,
}

impl Tally {
    /// An empty one. Detections match at less than `distance` metres.
    pub fn new(distance: f64) -> Self {
        Self {
            distance,
            claims: Vec::new(),
            objects: Vec::new(),
        }
    }

    /// Adds a scan of scene number `scene`; scenes are numbered from 0 without large gaps.
    pub fn add(&mut self, scene: u32, frame: &Frame) {
        let place = scene as usize;
        if self.objects.len() <= place {
            self.objects.resize(place + 1, 0);
        }
        let count = frame.truth.iter().filter(|truth| truth.counts).count();
        // A scan has far fewer.
        self.objects[place] += count as u32;
        let mut order: Vec<usize> = (0..frame.found.len()).rev().collect();
        order.sort_by(|&a, &b| frame.found[b].score.total_cmp(&frame.found[a].score));
        // In the order they came in, for those of equal scores in other scans.
        let mut claims = vec![None; frame.found.len()];
        let mut taken = vec![false; frame.truth.len()];
        for place in order {
            let Found { cuboid, score } = &frame.found[place];
            let nearest = |counts| {
                let left = frame.truth.iter().enumerate();
                left.filter(|(n, truth)| truth.counts == counts && !taken[*n])
                    .map(|(n, truth)| (n, truth.cuboid.distance(cuboid)))
                    .min_by(|a, b| a.1.total_cmp(&b.1))
                    .filter(|(_, distance)| *distance < self.distance)
            };
            let errors = match nearest(true) {
                Some((n, distance)) => {
                    taken[n] = true;
                    let truth = &frame.truth[n].cuboid;
                    let [scale, orientation] =
                        [truth.scale_error(cuboid), truth.orientation_error(cuboid)];
                    Some([distance, scale, orientation])
                }
                None => match nearest(false) {
                    Some((n, _)) => {
                        taken[n] = true;
                        continue;
                    }
                    None => None,
                },
            };
            claims[place] = Some(Claim {
                score: *score,
                scene,
                errors,
            });
        }
        self.claims.extend(claims.into_iter().flatten());
    }

    /// Objects that have to be found.
    pub fn objects(&self) -> u32 {
        self.objects.iter().sum()
    }

    /// `None` if there is nothing to be found.
    pub fn score(&self) -> Option<Score> {
        let objects = self.objects();
        (objects > 0).then(|| self.ranked().curve(objects, |_| 1).score())
    }

    /// Believing detections with at least this score.
    pub fn at(&self, threshold: f64) -> Operation {
        self.weighted_at(threshold, |_| 1)
    }

    /// The same if each scene is there as often as its weight says.
    pub(crate) fn weighted_at(&self, threshold: f64, weight: impl Fn(u32) -> u32) -> Operation {
        let mut operation = Operation::default();
        for claim in self.claims.iter().filter(|claim| claim.score >= threshold) {
            let weight = u64::from(weight(claim.scene));
            match claim.errors {
                Some(_) => operation.found += weight,
                None => operation.invented += weight,
            }
        }
        operation
    }

    /// The tally with its claims in the order of the curve.
    pub(crate) fn ranked(&self) -> Ranked {
        let mut claims: Vec<Claim> = self.claims.iter().rev().copied().collect();
        claims.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ranked {
            claims,
            objects: self.objects.clone(),
        }
    }
}

/// Claims, best first.
#[derive(Debug)]
pub(crate) struct Ranked {
    claims: Vec<Claim>,
    objects: Vec<u32>,
}

impl Ranked {
    /// Average precision if each scene is there as often as its weight says; `None` without objects.
    pub(crate) fn average_precision(&self, weight: impl Fn(u32) -> u32) -> Option<f64> {
        let objects = self.objects.iter().zip(0..);
        let objects = objects.map(|(count, scene)| count * weight(scene)).sum();
        (objects > 0).then(|| self.curve(objects, weight).average_precision())
    }

    fn curve(&self, objects: u32, weight: impl Fn(u32) -> u32) -> Curve {
        let mut curve = Curve::default();
        for claim in &self.claims {
            for _ in 0..weight(claim.scene) {
                curve.push(claim.score, claim.errors, objects);
            }
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64) -> Cuboid {
        Cuboid {
            center: [x, 0.0],
            size: [4.0, 2.0, 1.5],
            yaw: 0.0,
        }
    }

    fn frame(truth: &[(f64, bool)], found: &[(f64, f64)]) -> Frame {
        Frame {
            truth: truth
                .iter()
                .map(|&(x, counts)| Truth {
                    cuboid: at(x),
                    counts,
                })
                .collect(),
            found: found
                .iter()
                .map(|&(x, score)| Found {
                    cuboid: at(x),
                    score,
                })
                .collect(),
        }
    }

    fn operation(truth: &[(f64, bool)], found: &[(f64, f64)]) -> [u64; 2] {
        let mut tally = Tally::new(2.0);
        tally.add(0, &frame(truth, found));
        let Operation { found, invented } = tally.at(0.5);
        [found, invented]
    }

    #[test]
    fn the_better_detection_takes_the_object() {
        assert_eq!(operation(&[(0.0, true)], &[(0.1, 0.6), (1.0, 0.9)]), [1, 1]);
        // The best takes the nearest, which leaves the other one for the next.
        let two = [(0.0, true), (1.5, true)];
        assert_eq!(operation(&two, &[(1.0, 0.9), (1.4, 0.8)]), [2, 0]);
    }

    #[test]
    fn a_match_is_nearer_than_the_distance() {
        assert_eq!(operation(&[(0.0, true)], &[(2.0, 0.9)]), [0, 1]);
        assert_eq!(operation(&[(0.0, true)], &[(1.999, 0.9)]), [1, 0]);
    }

    #[test]
    fn what_does_not_count_is_neither_to_be_found_nor_wrong_to_find() {
        assert_eq!(operation(&[(0.0, false)], &[(0.1, 0.9)]), [0, 0]);
        // Once: a second one there is of nothing.
        assert_eq!(
            operation(&[(0.0, false)], &[(0.1, 0.9), (0.2, 0.8)]),
            [0, 1]
        );
        // One that counts goes first, even if it is farther.
        let both = [(0.0, false), (1.0, true)];
        assert_eq!(operation(&both, &[(0.1, 0.9)]), [1, 0]);
    }

    #[test]
    fn scores_below_the_threshold_are_not_believed() {
        assert_eq!(operation(&[(0.0, true)], &[(0.0, 0.49)]), [0, 0]);
        assert_eq!(operation(&[(0.0, true)], &[(0.0, 0.5)]), [1, 0]);
    }

    #[test]
    fn nothing_to_be_found_has_no_score() {
        let mut tally = Tally::new(2.0);
        tally.add(0, &frame(&[], &[(1.0, 0.9)]));
        assert_eq!(tally.score(), None);
        tally.add(1, &frame(&[(1.0, true)], &[]));
        assert_eq!(
            tally.score().map(|score| score.average_precision),
            Some(0.0)
        );
    }
}
