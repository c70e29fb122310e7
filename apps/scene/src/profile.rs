use crate::random::{Random, mix};
use crate::scene::Scene;
use crate::street::Street;

/// Which streets a network learns from, is tuned by, and is judged by.
///
/// No seed, no mount height and no density of one is one of another: densities of
/// [`HeldOut`](Self::HeldOut) streets lie in 0.45 to 0.75 and their sensors 1.7 to 2.1 m high, both
/// around the values of [`Street::default`], and the others outside of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// To learn from: everything from empty roads to crowded ones, more lorries and cyclists than
    /// usual, sensors 0.5 to 3 m high.
    Training,
    /// To choose thresholds by: an ordinary share of everything.
    Validation,
    /// To judge by, and for nothing else.
    HeldOut,
}

/// Densities of held-out streets.
const HELD_OUT: [f32; 2] = [0.45, 0.75];
/// Mount heights of held-out streets, in metres.
const HELD_OUT_MOUNT: [f32; 2] = [1.7, 2.1];

impl Profile {
    /// The street at `index`, at some moment of its traffic.
    pub fn scene(self, index: u64) -> Scene {
        let seed = self.first_seed() + index;
        let mut random = Random::new(mix(seed ^ 0x0070_726f_6669_6c65));
        let street = self.street(&mut random);
        let mut scene = street.build(seed);
        scene.advance(random.range(0.0, 20.0));
        scene
    }

    fn first_seed(self) -> u64 {
        match self {
            Self::HeldOut => 100_000,
            Self::Validation => 500_000,
            Self::Training => 1_000_000,
        }
    }

    fn street(self, random: &mut Random) -> Street {
        let rise = match self {
            Self::Training => 0.04,
            Self::Validation | Self::HeldOut => 0.02,
        };
        let usual = Street::default();
        let ([low, high], mount) = match self {
            // Most sensors are on cars.
            Self::Training if random.chance(0.6) => ([0.05, 1.0], [1.3, 2.5]),
            Self::Training => ([0.05, 1.0], [0.5, 3.0]),
            Self::Validation => ([0.25, 0.9], [1.4, 2.4]),
            Self::HeldOut => (HELD_OUT, HELD_OUT_MOUNT),
        };
        let density = |random: &mut Random| self.draw(random, [low, high], HELD_OUT);
        Street {
            mount_height: self.draw(random, mount, HELD_OUT_MOUNT),
            slope: [random.range(-rise, rise), random.range(-rise, rise)],
            built_up: density(random),
            traffic: density(random),
            parked: density(random),
            people: density(random),
            clutter: density(random),
            lorries: match self {
                Self::Training => random.range(0.05, 0.6),
                _ => usual.lorries,
            },
            cyclists: match self {
                Self::Training => random.range(0.1, 1.0),
                _ => usual.cyclists,
            },
        }
    }

    /// Uniform in `all`; outside of `held_out` unless this is that profile.
    fn draw(self, random: &mut Random, all: [f32; 2], held_out: [f32; 2]) -> f32 {
        if self == Self::HeldOut {
            return random.range(held_out[0], held_out[1]);
        }
        let gap = held_out[1] - held_out[0];
        let value = random.range(all[0], all[1] - gap);
        if value < held_out[0] {
            value
        } else {
            value + gap
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Profile; 3] = [Profile::Training, Profile::Validation, Profile::HeldOut];

    #[test]
    fn profiles_share_no_parameters() {
        for profile in ALL {
            for seed in 0..200 {
                let street = profile.street(&mut Random::new(seed));
                let held_out = |value: f32, [low, high]: [f32; 2]| (low..high).contains(&value);
                let densities = [
                    street.built_up,
                    street.traffic,
                    street.parked,
                    street.people,
                    street.clutter,
                ];
                for density in densities {
                    assert_eq!(held_out(density, HELD_OUT), profile == Profile::HeldOut);
                    assert!((0.0..=1.0).contains(&density), "{density}");
                }
                let mount = held_out(street.mount_height, HELD_OUT_MOUNT);
                assert_eq!(mount, profile == Profile::HeldOut);
            }
        }
    }

    #[test]
    fn the_index_decides_the_scene() {
        for profile in ALL {
            assert_eq!(profile.scene(3).truth(), profile.scene(3).truth());
            assert_ne!(profile.scene(3).truth(), profile.scene(4).truth());
        }
    }
}
