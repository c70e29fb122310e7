use serde::Serialize;

use crate::bootstrap::{Estimate, intervals};
use crate::cuboid::Cuboid;
use crate::tally::{Found, Frame, Operation, Ranked, Score, Tally, Truth};

/// Matching distances in metres; the average precision of a class is the mean over them.
pub const DISTANCES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Place in [`DISTANCES`] of the one at which errors and mistakes are counted: 2 m.
pub const MATCHED: usize = 2;

/// An object that is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Object<C> {
    /// What it is; `None`: something that is not to be judged, whatever it is taken for.
    pub class: Option<C>,
    /// Its box in the sensor frame.
    pub cuboid: Cuboid,
    /// Points of the cloud on it.
    pub points: u32,
}

/// A detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding<C> {
    /// What it is said to be.
    pub class: C,
    /// Its box in the sensor frame.
    pub cuboid: Cuboid,
    /// Confidence, 0 to 1.
    pub score: f64,
}

/// What is counted, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Objects and detections farther away are left out, in metres.
    pub range: f64,
    /// Ends of the bands of range that are looked at for themselves, ascending and below `range`; the
    /// first band starts at 0, and the last ends at `range`.
    pub bands: Vec<f64>,
    /// Points that an object needs in order to count. Those with fewer may be found or not; those
    /// without any are as if they were not there.
    pub points: u32,
    /// Score from which on a detection is believed.
    pub threshold: f64,
    /// Draws of scenes that intervals are made of; 0 for none.
    pub resamples: u32,
    /// Seed of these.
    pub seed: u64,
}

impl Default for Settings {
    /// As nuScenes has it for cars: 50 m, one point. Bands of 0 to 20, 40 and 50 m; 1,000 draws.
    fn default() -> Self {
        Self {
            range: 50.0,
            bands: vec![20.0, 40.0],
            points: 1,
            threshold: 0.5,
            resamples: 1_000,
            seed: 1,
        }
    }
}

/// The scores of object lists, class by class.
#[derive(Debug)]
pub struct Evaluation<C> {
    settings: Settings,
    rows: Vec<Row<C>>,
    /// How many of each scene.
    scans: Vec<u32>,
}

/// One class within one band of range, at every matching distance.
#[derive(Debug)]
struct Row<C> {
    class: C,
    band: [f64; 2],
    tallies: [Tally; DISTANCES.len()],
}

/// What an evaluation found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report<C> {
    /// Scenes, which are what intervals draw.
    pub scenes: usize,
    /// Scans of these.
    pub scans: u64,
    /// Mean over the classes that there are objects of.
    pub mean_average_precision: Option<Estimate>,
    /// Detections of nothing in a scan, of all classes together, at the threshold.
    pub invented: Estimate,
    /// Each class over the whole range, and in its bands.
    pub classes: Vec<ClassReport<C>>,
}

/// One class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClassReport<C> {
    /// Which.
    pub class: C,
    /// Over the whole range.
    #[serde(flatten)]
    pub whole: BandReport,
    /// Each band for itself.
    pub bands: Vec<BandReport>,
}

/// One class within a band of range. What would be divided by no object is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BandReport {
    /// From and to, in metres.
    pub range: [f64; 2],
    /// Objects that have to be found.
    pub objects: u32,
    /// At each of [`DISTANCES`].
    pub average_precision: Option<[Estimate; DISTANCES.len()]>,
    /// Mean over these.
    pub mean_average_precision: Option<Estimate>,
    /// Errors of the found.
    pub score: Option<Score>,
    /// At the threshold.
    pub operation: Operation,
    /// Share of the objects that is found at the threshold.
    pub recall: Option<f64>,
    /// Detections of nothing in a scan, at the threshold.
    pub invented: Estimate,
}

impl<C: Copy + PartialEq> Evaluation<C> {
    /// An empty one.
    pub fn new(classes: Vec<C>, settings: Settings) -> Self {
        let mut starts = vec![0.0];
        starts.extend(settings.bands.iter().copied());
        let ends = starts[1..].iter().copied().chain([settings.range]);
        let mut bands = vec![[0.0, settings.range]];
        // A single band would say the same again.
        if starts.len() > 1 {
            bands.extend(starts.iter().copied().zip(ends).map(<[f64; 2]>::from));
        }
        let rows = classes
            .iter()
            .flat_map(|&class| bands.iter().map(move |&band| (class, band)))
            .map(|(class, band)| Row {
                class,
                band,
                tallies: DISTANCES.map(Tally::new),
            })
            .collect();
        Self {
            settings,
            rows,
            scans: Vec::new(),
        }
    }

    /// Adds a scan of scene number `scene`; scenes are numbered from 0 without large gaps.
    pub fn add(&mut self, scene: u32, truth: &[Object<C>], found: &[Finding<C>]) {
        let place = scene as usize;
        if self.scans.len() <= place {
            self.scans.resize(place + 1, 0);
        }
        self.scans[place] += 1;
        for row in &mut self.rows {
            let [from, to] = row.band;
            let within = |cuboid: &Cuboid| (from..to).contains(&cuboid.range());
            let class = Some(row.class);
            let frame = Frame {
                truth: truth
                    .iter()
                    .filter(|object| object.class.is_none_or(|own| own == row.class))
                    .filter(|object| object.points > 0 && within(&object.cuboid))
                    .map(|object| Truth {
                        cuboid: object.cuboid,
                        counts: object.class == class && object.points >= self.settings.points,
                    })
                    .collect(),
                found: found
                    .iter()
                    .filter(|finding| finding.class == row.class && within(&finding.cuboid))
                    .map(|finding| Found {
                        cuboid: finding.cuboid,
                        score: finding.score,
                    })
                    .collect(),
            };
            for tally in &mut row.tallies {
                tally.add(scene, &frame);
            }
        }
    }

    /// What comes out. With intervals it takes seconds for hundreds of scenes.
    pub fn report(&self) -> Report<C> {
        let whole = [0.0, self.settings.range];
        let ranked: Vec<[Ranked; DISTANCES.len()]> = self
            .rows
            .iter()
            .map(|row| row.tallies.each_ref().map(Tally::ranked))
            .collect();
        // Each row gives its precisions, their mean and its mistakes; then come those of all.
        let statistics = |weights: &[u32]| {
            let weight = |scene: u32| weights.get(scene as usize).copied().unwrap_or(0);
            let scans: u32 = self
                .scans
                .iter()
                .zip(0..)
                .map(|(scans, scene)| scans * weight(scene))
                .sum();
            let mut values = Vec::new();
            let (mut means, mut invented) = (Vec::new(), 0.0);
            for (row, ranked) in self.rows.iter().zip(&ranked) {
                let precisions = ranked.each_ref().map(|one| one.average_precision(weight));
                let mean = mean(precisions.into_iter().flatten());
                let operation = row.tallies[MATCHED].weighted_at(self.settings.threshold, weight);
                let mistakes = operation.invented as f64 / f64::from(scans.max(1));
                if row.band == whole {
                    means.extend(mean);
                    invented += mistakes;
                }
                values.extend(precisions);
                values.extend([mean, Some(mistakes)]);
            }
            values.extend([self::mean(means.into_iter()), Some(invented)]);
            values
        };
        let values = statistics(&vec![1; self.scans.len()]);
        let intervals = intervals(
            self.scans.len(),
            self.settings.resamples,
            self.settings.seed,
            statistics,
        );
        let mut estimates = values
            .into_iter()
            .zip(intervals)
            .map(|(value, interval)| value.map(|value| Estimate { value, interval }));
        let mut next = move || estimates.next().flatten();
        let mut classes: Vec<ClassReport<C>> = Vec::new();
        for row in &self.rows {
            let precisions: [Option<Estimate>; DISTANCES.len()] = std::array::from_fn(|_| next());
            let (mean, invented) = (next(), next());
            let matched = &row.tallies[MATCHED];
            let operation = matched.at(self.settings.threshold);
            let objects = matched.objects();
            let [a, b, c, d] = precisions;
            let band = BandReport {
                range: row.band,
                objects,
                average_precision: a.zip(b).zip(c.zip(d)).map(|((a, b), (c, d))| [a, b, c, d]),
                mean_average_precision: mean,
                score: matched.score(),
                operation,
                recall: (objects > 0).then(|| operation.found as f64 / f64::from(objects)),
                invented: invented.unwrap_or(NONE),
            };
            match classes.last_mut() {
                Some(last) if row.band != whole => last.bands.push(band),
                _ => classes.push(ClassReport {
                    class: row.class,
                    whole: band,
                    bands: Vec::new(),
                }),
            }
        }
        Report {
            scenes: self.scans.len(),
            scans: self.scans.iter().map(|&scans| u64::from(scans)).sum(),
            mean_average_precision: next(),
            invented: next().unwrap_or(NONE),
            classes,
        }
    }
}

const NONE: Estimate = Estimate {
    value: 0.0,
    interval: None,
};

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
