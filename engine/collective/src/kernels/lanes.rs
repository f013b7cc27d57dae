//! Words mixed into many lanes side by side: what a fingerprint of much memory is made of.
//!
//! Each lane takes every 64th word w of 32 bits: l ← m ⊕ (m ≫ 15) with m = (l ⊕ w)·φ, which is a bijection of l and of w.
//! So many lanes keep wide registers busy through the latency of a product.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "enters functions of a variant only where the processor has it")
)]

use super::Variant;

/// Lanes there are.
pub const N_LANES: usize = 64;
/// Bytes that all lanes take at once.
pub const BLOCK_BYTES: usize = N_LANES * size_of::<u32>();
/// 2^32/φ, made odd (Knuth, "The Art of Computer Programming" 3, §6.4).
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// The state of a mixture.
pub type Lanes = [u32; N_LANES];

/// Mixes in whole blocks; how many bytes at the end make none.
pub fn mix(lanes: &mut Lanes, bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    match Variant::best() {
        Variant::Scalar => mix_blocks(lanes, blocks),
        // SAFETY: a variant is chosen only where the processor has it.
        #[cfg(target_arch = "x86_64")]
        Variant::Avx2 => unsafe { mix_avx2(lanes, blocks) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Variant::Avx512 => unsafe { mix_avx512(lanes, blocks) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => mix_blocks(lanes, blocks),
    }
    rest.len()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn mix_avx2(lanes: &mut Lanes, blocks: &[[u8; BLOCK_BYTES]]) {
    mix_blocks(lanes, blocks);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn mix_avx512(lanes: &mut Lanes, blocks: &[[u8; BLOCK_BYTES]]) {
    mix_blocks(lanes, blocks);
}

#[inline(always)]
fn mix_blocks(lanes: &mut Lanes, blocks: &[[u8; BLOCK_BYTES]]) {
    let mut mixed = *lanes;
    for block in blocks {
        let (words, _) = block.as_chunks::<{ size_of::<u32>() }>();
        for (lane, word) in mixed.iter_mut().zip(words) {
            let product = (*lane ^ u32::from_le_bytes(*word)).wrapping_mul(GOLDEN_RATIO);
            *lane = product ^ (product >> 15);
        }
    }
    *lanes = mixed;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_gives_the_same_lanes() {
        let bytes: Vec<u8> = (0..=250).cycle().take(5 * BLOCK_BYTES + 7).collect();
        let (mut best, mut plain) = ([7; N_LANES], [7; N_LANES]);
        assert_eq!(mix(&mut best, &bytes), 7);
        mix_blocks(&mut plain, bytes.as_chunks().0);
        assert_eq!(best, plain);
    }
}
