//! Balanced partitions of a number of elements.

use std::ops::Range;

/// Part `index` of `total` elements cut into `parts`: sizes differ by at most one, the larger ones first.
pub(crate) fn part(total: usize, parts: usize, index: usize) -> Range<usize> {
    let (size, larger) = (total / parts, total % parts);
    let start = index * size + index.min(larger);
    start..start + size + usize::from(index < larger)
}

/// How many of `final_channels` an operation that moves `bytes` uses, each for `channel_bytes` unless it is the last one.
pub(crate) fn channels_used(bytes: usize, final_channels: usize, channel_bytes: usize) -> usize {
    bytes.div_ceil(channel_bytes).clamp(1, final_channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_balanced_and_cover_the_whole() {
        for total in 0..40 {
            for parts in 1..9 {
                let ranges: Vec<_> = (0..parts).map(|index| part(total, parts, index)).collect();
                let mut end = 0;
                for range in &ranges {
                    assert_eq!(range.start, end);
                    end = range.end;
                    assert!(range.len() == total / parts || range.len() == total.div_ceil(parts));
                }
                assert_eq!(end, total);
            }
        }
    }

    #[test]
    fn small_operations_use_few_channels() {
        assert_eq!(channels_used(1, 8, 64 * 1024), 1);
        assert_eq!(channels_used(65 * 1024, 8, 64 * 1024), 2);
        assert_eq!(channels_used(1 << 20, 8, 64 * 1024), 8);
    }
}
