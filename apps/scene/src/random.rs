use crate::elementary::ln;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
///
/// Integer arithmetic only, so a seed gives the same numbers on every platform and release.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number; all 64 bits are uniform.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        unit(self.bits())
    }

    /// Uniform in `[low, high)`.
    pub(crate) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// Uniform in `0..count`; 0 if that is 0.
    pub fn below(&mut self, count: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(count)) >> 32) as u32
    }

    /// `-1` or `1`.
    pub(crate) fn sign(&mut self) -> f32 {
        if self.chance(0.5) { 1.0 } else { -1.0 }
    }

    /// Mean 0, deviation 1. A sum of uniforms: no transcendental function whose last bit could
    /// differ between platforms.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() - 6.0
    }
}

/// The finaliser of SplitMix64: a bijection that spreads every input bit.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The top 24 bits as a number in `[0, 1)`: every value is exact in an `f32`.
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 / 16_777_216.0
}

/// Chance decisions along one ray: a function of the ray and the scene, not of call order, so
/// casting needs no mutable state and rays can be cast in any order or in parallel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, origin: [f32; 3], direction: [f32; 3]) -> Self {
        let fold = |bits: u64, value: &f32| {
            (bits ^ u64::from(value.to_bits()))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        Self(mix(origin.iter().chain(&direction).fold(seed, fold)))
    }

    /// Uniform in `[0, 1)`, independent for each `event`.
    pub(crate) fn roll(self, event: u64) -> f32 {
        unit(mix(self.0 ^ event.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// Exponentially distributed with mean 1.
    pub(crate) fn exponential(self, event: u64) -> f32 {
        -ln(1.0 - self.roll(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_match_the_published_generator() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_in_their_range_and_spread() {
        let mut random = Random::new(3);
        let mut seen = [0_u32; 5];
        let (mut sum, mut square) = (0.0_f32, 0.0_f32);
        for _ in 0..10_000 {
            seen[random.below(5) as usize] += 1;
            let value = random.normal();
            sum += value;
            square += value * value;
        }
        assert!(
            seen.iter().all(|&count| (1_800..2_200).contains(&count)),
            "{seen:?}"
        );
        assert!((sum / 10_000.0).abs() < 0.05 && (square / 10_000.0 - 1.0).abs() < 0.05);
    }
}
