//! A fingerprint of a result, which workers and services compare: torn, stale or reordered sums show as others.
//!
//! Four lanes take the 64-bit words by turns, l ← m ⊕ (m ≫ 32) with m = (l ⊕ word)·φ, so that the processor works on four
//! products at once; NCCL's hash joins the lanes and the length. Each step is a bijection, so one changed word always
//! changes its lane. It guards against faults, not against forgers.

use crate::hash::hash;

/// The fingerprint of a part's bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut lanes = SEEDS;
    let mut blocks = bytes.chunks_exact(BLOCK_BYTES);
    for block in &mut blocks {
        eat(&mut lanes, block);
    }
    let mut last = [0; BLOCK_BYTES];
    let rest = blocks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    eat(&mut lanes, &last);
    let [a, b, c, d] = lanes;
    hash([a, b, c, d, bytes.len() as u64].map(u64::to_le_bytes).as_flattened())
}

fn eat(lanes: &mut [u64; N_LANES], block: &[u8]) {
    let (words, _) = block.as_chunks();
    for (lane, word) in lanes.iter_mut().zip(words) {
        let mixed = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(GOLDEN_RATIO);
        *lane = mixed ^ (mixed >> 32);
    }
}

const N_LANES: usize = 4;
const BLOCK_BYTES: usize = N_LANES * size_of::<u64>();
/// 2^64/φ, made odd (Knuth, "The Art of Computer Programming" 3, §6.4).
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
/// The first digits of π's fraction in base 16: different, so that lanes that swap their words differ.
const SEEDS: [u64; N_LANES] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_changed_bit_length_and_order_shows() {
        let bytes: Vec<u8> = (0..77).collect();
        let mut seen = BTreeSet::from([fingerprint(&bytes)]);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(fingerprint(&changed)), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(seen.insert(fingerprint(&bytes[..len])), "length {len}");
        }
        for by in 1..8 {
            let mut turned = bytes.clone();
            turned.rotate_left(8 * by);
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
