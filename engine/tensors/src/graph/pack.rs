//! Places in an arena for blocks of which some are never alive at the same time.
//!
//! Largest first, each at the lowest place where no block that it conflicts with lies.

use crate::memory::PAGE_BYTES;
use crate::memory::arena::LINE_BYTES;

/// A block that wants a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its bytes.
    pub size_bytes: u64,
    /// The blocks, by their place in the list, that may be alive when it is.
    pub conflicts: Vec<usize>,
}

/// Where each block begins, and the bytes of all.
pub fn pack(requests: &[Request]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    let size = |block: usize| requests.get(block).map_or(0, |request| request.size_bytes);
    order.sort_by_key(|block| (std::cmp::Reverse(size(*block)), *block));
    let mut places: Vec<Option<u64>> = vec![None; requests.len()];
    let mut whole = 0;
    for block in order {
        let Some(request) = requests.get(block) else { continue };
        let placed = request.conflicts.iter().filter_map(|other| {
            let start = places.get(*other).copied()??;
            Some((start, start + size(*other).max(1)))
        });
        let mut taken: Vec<(u64, u64)> = placed.collect();
        taken.sort_unstable();
        let bytes = request.size_bytes.max(1);
        let align = if bytes >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
        let mut start = 0_u64;
        for (from, to) in taken {
            if start + bytes <= from {
                break;
            }
            start = start.max(to).next_multiple_of(align);
        }
        if let Some(place) = places.get_mut(block) {
            *place = Some(start);
        }
        whole = whole.max(start + bytes);
    }
    (places.into_iter().map(Option::unwrap_or_default).collect(), whole.next_multiple_of(LINE_BYTES))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_that_never_meet_share_a_place() {
        let block = |size_bytes, conflicts: &[usize]| Request { size_bytes, conflicts: conflicts.to_vec() };
        let (places, whole) = pack(&[block(64, &[1]), block(8192, &[0]), block(4096, &[])]);
        assert_eq!((places, whole), (vec![8192, 0, 0], 8256));
    }

    proptest! {
        #[test]
        fn blocks_in_conflict_never_overlap(
            sizes in prop::collection::vec(0..20_000_u64, 1..40), pairs in prop::collection::vec((0..40_usize, 0..40_usize), 0..300),
        ) {
            let conflicts = |one: usize| (0..sizes.len()).filter(|other| {
                *other != one && (pairs.contains(&(one, *other)) || pairs.contains(&(*other, one)))
            }).collect();
            let requests: Vec<Request> =
                sizes.iter().enumerate().map(|(one, size)| Request { size_bytes: *size, conflicts: conflicts(one) }).collect();
            let (places, whole) = pack(&requests);
            for (one, start) in places.iter().enumerate() {
                let align = if sizes[one] >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
                prop_assert!(start + sizes[one] <= whole && start % align == 0);
                for other in &requests[one].conflicts {
                    prop_assert!(start + sizes[one] <= places[*other] || places[*other] + sizes[*other] <= *start);
                }
            }
        }
    }
}
