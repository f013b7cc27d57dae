//! A fingerprint of a result, which workers and services compare: torn, stale or reordered sums show as others.
//!
//! The kernels' [lanes](rsccl_collective::kernels::lanes) take the words by turns, so that it costs little beside the sum itself;
//! NCCL's hash joins the lanes and the length. Each step is a bijection, so one changed word always changes its lane. It
//! guards against faults, not against forgers.

use rsccl_collective::hash::hash;
use rsccl_collective::kernels::lanes::{BLOCK_BYTES, Lanes, N_LANES, mix};

/// The fingerprint of a part's bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut print = Fingerprint::default();
    print.eat(bytes);
    print.finish()
}

/// A fingerprint of bytes that come piece by piece, each but the last one of whole blocks.
#[derive(Debug)]
pub(super) struct Fingerprint {
    lanes: Lanes,
    len: u64,
    /// What makes no whole block.
    last: [u8; BLOCK_BYTES],
}

impl Fingerprint {
    pub(super) fn eat(&mut self, bytes: &[u8]) {
        let n_rest = mix(&mut self.lanes, bytes);
        let rest = bytes.get(bytes.len() - n_rest..).unwrap_or_default();
        if let Some(last) = self.last.get_mut(..n_rest) {
            last.copy_from_slice(rest);
        }
        self.len += bytes.len() as u64;
    }

    pub(super) fn finish(mut self) -> u64 {
        mix(&mut self.lanes, &self.last);
        let mut bytes = self.lanes.map(u32::to_le_bytes).as_flattened().to_vec();
        bytes.extend(self.len.to_le_bytes());
        hash(&bytes)
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        // Different, so that lanes that swap their words differ.
        let seed = |lane: usize| SEED.wrapping_mul(2 * u32::try_from(lane).unwrap_or(0) + 1);
        Self { lanes: std::array::from_fn::<u32, N_LANES, _>(seed), len: 0, last: [0; BLOCK_BYTES] }
    }
}

/// The first digits of π's fraction in base 16, made odd.
const SEED: u32 = 0x243f_6a89;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_changed_bit_length_and_order_shows() {
        let bytes: Vec<u8> = (0..=250).cycle().take(BLOCK_BYTES + 77).collect();
        let mut seen = BTreeSet::from([fingerprint(&bytes)]);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(fingerprint(&changed)), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(seen.insert(fingerprint(&bytes[..len])), "length {len}");
        }
        for by in 1..64 {
            let mut turned = bytes.clone();
            turned.rotate_left(4 * by);
            assert!(seen.insert(fingerprint(&turned)), "by {by} words");
        }
    }

    #[test]
    fn zeros_of_different_length_differ() {
        let zeros = [0; 100];
        let prints: BTreeSet<u64> = (0..=100).map(|len| fingerprint(&zeros[..len])).collect();
        assert_eq!(prints.len(), 101);
    }
}
