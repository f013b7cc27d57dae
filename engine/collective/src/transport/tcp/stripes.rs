//! How a part is cut over the sockets of a connection: both ends cut alike, by its length alone.
//!
//! The header and the first stripe take the first socket, so a small part is one message on one socket; a large one
//! fills all of them at once.

use std::ops::Range;

/// Smaller stripes cost more calls of the kernel than a second socket wins; NCCL's value (`MIN_CHUNKSIZE` in
/// `net_socket.cc`).
const MIN_STRIPE_BYTES: usize = 64 * 1024;
/// Stripes begin at whole elements of any type, and at whole cache lines of the part.
const ALIGN_BYTES: usize = 64;

/// Stripes of a payload of `len_bytes` over so many sockets.
pub(super) fn count(len_bytes: usize, n_sockets: usize) -> usize {
    (len_bytes / MIN_STRIPE_BYTES).clamp(1, n_sockets.max(1))
}

/// The bytes of the stripe `index` among `n`.
pub(super) fn stripe(len_bytes: usize, n: usize, index: usize) -> Range<usize> {
    let size = len_bytes.div_ceil(n).next_multiple_of(ALIGN_BYTES);
    (index * size).min(len_bytes)..((index + 1) * size).min(len_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_cover_a_part_once() {
        for len in [1, 63, 64, 65_535, 131_072, 131_073, 524_288, 524_287] {
            for n_sockets in 1..9 {
                let n = count(len, n_sockets);
                let ends: Vec<_> = (0..n).map(|index| stripe(len, n, index)).collect();
                assert_eq!((ends[0].start, ends[n - 1].end), (0, len));
                assert!(ends.windows(2).all(|pair| pair[0].end == pair[1].start && pair[1].start % 64 == 0));
            }
        }
    }

    #[test]
    fn a_small_part_stays_on_one_socket() {
        assert_eq!([0, 1, 131_071, 131_072, 524_288].map(|len| count(len, 4)), [1, 1, 1, 2, 4]);
    }
}
