use crate::detection::{Class, Detection};

/// Scans in a row in which an object may be missing before it is forgotten.
const MISSES: u32 = 5;

/// After a longer pause nothing that was there is looked for, in seconds.
const PAUSE: f64 = 2.0;

/// Gives objects identities that last from scan to scan.
///
/// A simple association: among objects of one class, pairs of a known one and a found one are taken in
/// the order of their distance, each once, as long as the found one is near the place where the known
/// one is expected by its last movement. Over up to five scans in which it is not found an
/// object keeps its identity. None is given twice.
#[derive(Debug, Clone)]
pub struct Tracker {
    tracks: Vec<Track>,
    /// The identity of the next new object.
    next: u64,
    /// When the last scan was taken, in nanoseconds.
    last: u64,
}

/// An object that was found.
#[derive(Debug, Clone, Copy)]
struct Track {
    id: u64,
    class: Class,
    /// Where it was found last or is expected by now, in metres.
    place: [f64; 2],
    /// In metres a second.
    velocity: [f64; 2],
    /// Seconds since it was found.
    age: f64,
    missed: u32,
}

impl From<u64> for Tracker {
    /// Identities count from `first`.
    fn from(first: u64) -> Self {
        Self {
            tracks: Vec::new(),
            next: first,
            last: 0,
        }
    }
}

impl Tracker {
    /// The identities of the `detections` in a scan that was taken at `stamp`, in nanoseconds; in their
    /// order. Stamps that do not go on, such as zeros, give no movement to expect.
    pub fn follow(&mut self, stamp: u64, detections: &[Detection]) -> Vec<u64> {
        let seconds = stamp.saturating_sub(self.last) as f64 / 1e9;
        self.last = stamp;
        if seconds > PAUSE {
            self.tracks.clear();
        }
        for track in &mut self.tracks {
            track.age += seconds;
            track.missed += 1;
            for (place, velocity) in track.place.iter_mut().zip(track.velocity) {
                *place += velocity * seconds;
            }
        }
        let places = detections.iter().map(|detection| {
            let [x, y, _] = detection.center.map(f64::from);
            [x, y]
        });
        let places: Vec<[f64; 2]> = places.collect();
        let mut pairs = Vec::new();
        for (known, track) in self.tracks.iter().enumerate() {
            for (found, place) in places.iter().enumerate() {
                let distance = distance(track.place, *place);
                if detections[found].class == track.class && distance < gate(track.class) {
                    pairs.push((distance, known, found));
                }
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ids = vec![None; detections.len()];
        for (_, known, found) in pairs {
            let track = &mut self.tracks[known];
            if track.missed > 0 && ids[found].is_none() {
                track.find(places[found]);
                ids[found] = Some(track.id);
            }
        }
        self.tracks.retain(|track| track.missed <= MISSES);
        let given = detections.iter().zip(places).zip(ids);
        let given = given.map(|((detection, place), id)| {
            id.unwrap_or_else(|| {
                let id = self.next;
                self.next += 1;
                self.tracks.push(Track {
                    id,
                    class: detection.class,
                    place,
                    velocity: [0.0; 2],
                    age: 0.0,
                    missed: 0,
                });
                id
            })
        });
        given.collect()
    }
}

impl Track {
    fn find(&mut self, place: [f64; 2]) {
        if self.age > 0.0 {
            let expected = self.place.iter().zip(place);
            for (velocity, (expected, found)) in self.velocity.iter_mut().zip(expected) {
                // The expected place is off by what the velocity was wrong by.
                *velocity += SMOOTHING * (found - expected) / self.age;
            }
        }
        self.place = place;
        self.age = 0.0;
        self.missed = 0;
    }
}

/// Share of a wrong velocity that is corrected at once.
const SMOOTHING: f64 = 0.5;

/// How far from where it is expected an object may be found, in metres: what a new one moves within a
/// tenth of a second, seen from a moving sensor, and the error of its place.
fn gate(class: Class) -> f64 {
    match class {
        Class::Car | Class::Truck => 3.5,
        Class::Pedestrian => 1.5,
        Class::Cyclist => 2.5,
    }
}

fn distance([x, y]: [f64; 2], [other_x, other_y]: [f64; 2]) -> f64 {
    (x - other_x).hypot(y - other_y)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(class: Class, x: f32, y: f32) -> Detection {
        Detection {
            class,
            score: 0.9,
            center: [x, y, 0.0],
            size: [4.0, 2.0, 1.5],
            yaw: 0.0,
        }
    }

    /// Stamps of a sensor that turns ten times a second.
    fn stamp(n: u64) -> u64 {
        1_000_000_000_000 + n * 100_000_000
    }

    #[test]
    fn an_object_keeps_its_identity_while_it_moves_and_is_missed() {
        let mut tracker = Tracker::from(1);
        for n in 0..40 {
            // 20 m/s against a parked one; both are hidden now and then.
            let moving = at(Class::Car, -40.0 + 2.0 * n as f32, 3.0);
            let parked = at(Class::Car, 10.0, -3.0);
            let hidden = n % 13;
            let (seen, expected) = match hidden {
                4..=7 if n > 13 => (vec![parked], vec![2]),
                9 | 10 => (vec![moving], vec![1]),
                _ => (vec![moving, parked], vec![1, 2]),
            };
            assert_eq!(tracker.follow(stamp(n), &seen), expected, "scan {n}");
        }
    }

    #[test]
    fn the_nearest_pairs_come_first_and_classes_stay_apart() {
        let mut tracker = Tracker::from(1);
        let first = [at(Class::Car, 0.0, 0.0), at(Class::Car, 2.0, 0.0)];
        assert_eq!(tracker.follow(stamp(0), &first), [1, 2]);
        // In another order, and a truck where the first car was.
        let second = [
            at(Class::Car, 2.1, 0.0),
            at(Class::Truck, 0.0, 0.0),
            at(Class::Car, 0.2, 0.0),
        ];
        assert_eq!(tracker.follow(stamp(1), &second), [2, 3, 1]);
    }

    #[test]
    fn what_was_forgotten_gets_a_new_identity() {
        let mut tracker = Tracker::from(1);
        let person = [at(Class::Pedestrian, 5.0, 5.0)];
        assert_eq!(tracker.follow(stamp(0), &person), [1]);
        for n in 1..=u64::from(MISSES) {
            assert!(tracker.follow(stamp(n), &[]).is_empty());
        }
        assert_eq!(tracker.follow(stamp(6), &person), [1], "missed five times");
        for n in 7..=7 + u64::from(MISSES) {
            tracker.follow(stamp(n), &[]);
        }
        assert_eq!(tracker.follow(stamp(13), &person), [2], "missed six times");
        assert_eq!(tracker.follow(stamp(40), &person), [3], "after a pause");
    }

    #[test]
    fn identities_are_never_given_twice() {
        let mut tracker = Tracker::from(1);
        let mut seen = BTreeSet::new();
        for n in 0..50 {
            // Far from everything before.
            let found: Vec<_> = (0..5)
                .map(|k| at(Class::Car, 100.0 * n as f32, 10.0 * k as f32))
                .collect();
            for id in tracker.follow(stamp(n), &found) {
                assert!(seen.insert(id), "{id} again");
            }
        }
        assert_eq!(seen.len(), 250);
    }

    #[test]
    fn stamps_that_stand_still_or_go_back_do_no_harm() {
        let mut tracker = Tracker::from(1);
        let car = [at(Class::Car, 1.0, 1.0)];
        for stamp in [0, 0, 5, 3, 0] {
            assert_eq!(tracker.follow(stamp, &car), [1]);
        }
    }
}
