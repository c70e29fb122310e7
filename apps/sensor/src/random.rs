/// SplitMix64: small, and the same numbers for a seed on every platform and in every version.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `limit`; 0 if that is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // The high half of the product; its bias is under 2^-32 for limits of this crate.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Roughly normal with mean 0 and deviation 1: the sum of four uniform numbers.
    pub(crate) fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u32 = (0..4)
            .map(|part| u32::from((bits >> (16 * part)) as u16))
            .sum();
        // Four uniform numbers from 0 to 1 have mean 2 and variance 1/3.
        (sum as f32 / 65_536.0 - 2.0) * 3.0_f32.sqrt()
    }
}
