//! What workers contribute, reproducible on every process, so that each can check sums alone.

/// Which numbers.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Values {
    /// With long fractions: sums depend on the order of addition in their last bits.
    #[default]
    Fractions,
    /// Whole numbers, of which every sum is exact in any order.
    Whole,
}

/// A tensor's round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) values: Values,
    pub(crate) tensor: usize,
    /// The same number means the same values.
    pub(crate) round: u64,
}

impl Input {
    /// What a worker contributes.
    pub(crate) fn contribution(self, worker: usize, elements: usize) -> impl Iterator<Item = f32> {
        let seed = mix(mix(mix(self.tensor as u64) ^ self.round) ^ worker as u64);
        let step = match self.values {
            Values::Fractions => 1e-4,
            Values::Whole => 1.0,
        };
        (0..elements as u64).map(move |index| small(seed, index) * step)
    }

    /// All contributions, added in the order of the workers.
    pub(crate) fn sum(self, n_workers: usize, elements: usize) -> Vec<f32> {
        let mut sum: Vec<f32> = self.contribution(0, elements).collect();
        for worker in 1..n_workers {
            for (into, value) in sum.iter_mut().zip(self.contribution(worker, elements)) {
                *into += value;
            }
        }
        sum
    }
}

/// From -32768 to 32767.
fn small(seed: u64, index: u64) -> f32 {
    // A multiplication for each element and no more: models have many millions of them.
    let [high, low, ..] = (seed ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    f32::from(i16::from_be_bytes([high, low]))
}

/// Reproducible numbers (Steele, Lea and Flood, "splitmix", 2014).
pub(crate) fn mix(input: u64) -> u64 {
    let mut mixed = input.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// As a buffer has them.
pub(crate) fn write(values: impl Iterator<Item = f32>, bytes: &mut [u8]) {
    for (into, value) in bytes.chunks_exact_mut(size_of::<f32>()).zip(values) {
        into.copy_from_slice(&value.to_ne_bytes());
    }
}

/// Whether these bytes are these values, to the bit.
pub(crate) fn are(values: &[f32], bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(size_of::<f32>());
    words.len() == values.len() && words.zip(values).all(|(word, value)| word == value.to_ne_bytes())
}
