//! Groups of ranks that the program's framework has made, with what it calls them. Which communicator serves which group the
//! library does not say; the ranks do, which whoever knows all ranks of a communicator compares by [`ranks_hash`].

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;

use zerocopy::{FromBytes, KnownLayout};

use super::layout::Segment;
use super::read::{Source, read_one, text};

/// Groups that fit, the first ones; a rank of a job with all kinds of parallelism is in some ten.
pub const MAX_GROUPS: usize = 256;
/// Words of a group's name.
pub const NAME_WORDS: usize = 8;

/// The table. Zeros: there is no group.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Area {
    /// Entries that were taken; of them those are whole that have their ranks.
    pub n_taken: AtomicU64,
    _pad: [AtomicU64; 7],
    /// In the order in which they were told.
    pub groups: [Group; MAX_GROUPS],
}

/// One group. A writer sets `ranks` to 0, fills the rest and stores `ranks` with Release.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Group {
    /// [`ranks_hash`]; 0 while the rest is being written.
    pub ranks: AtomicU64,
    /// The framework's own number of it in this process. A group that is told again has the same.
    pub id: AtomicU64,
    /// Ranks in it.
    pub n_ranks: AtomicU64,
    /// What the framework calls it: little-endian UTF-8, cut to fit, padded with NUL.
    pub name: [AtomicU64; NAME_WORDS],
}

/// A group, as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOfRanks {
    /// [`ranks_hash`] of its ranks of the job.
    pub ranks: u64,
    /// How many these are.
    pub n_ranks: u64,
    /// What the framework calls it.
    pub name: String,
}

/// Of a group's ranks of the job, in whatever order. Never 0.
#[must_use]
pub fn ranks_hash(ranks: impl IntoIterator<Item = u32>) -> u64 {
    // A sum, so that the order does not matter, of numbers that one bit of a rank changes everywhere.
    let mixed = ranks.into_iter().map(|rank| mix(u64::from(rank) + 1));
    mixed.fold(0_u64, u64::wrapping_add).max(1)
}

/// The finaliser of splitmix64.
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Reads those that are whole.
pub(super) fn groups<S: Source>(source: &mut S) -> Result<Vec<GroupOfRanks>, S::Error> {
    let area = offset_of!(Segment, groups);
    let n: AtomicU64 = read_one(source, area + offset_of!(Area, n_taken))?;
    let n = usize::try_from(n.into_inner()).unwrap_or(MAX_GROUPS).min(MAX_GROUPS);
    let mut bytes = vec![0; n * size_of::<Group>()];
    source.read_at((area + offset_of!(Area, groups)) as u64, &mut bytes)?;
    let read = bytes.chunks_exact(size_of::<Group>()).filter_map(|bytes| Group::read_from_bytes(bytes).ok());
    Ok(read.map(group).filter(|group| group.ranks != 0).collect())
}

fn group(raw: Group) -> GroupOfRanks {
    let name = raw.name.map(|word| word.into_inner().to_le_bytes());
    GroupOfRanks {
        ranks: raw.ranks.into_inner(),
        n_ranks: raw.n_ranks.into_inner(),
        name: text(name.as_flattened()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_tell_groups_apart_and_their_order_does_not() {
        assert_eq!(ranks_hash([4, 5, 6, 7]), ranks_hash([7, 5, 4, 6]));
        let mut seen = std::collections::BTreeSet::new();
        // All pairs and all rows and columns of some grids.
        for first in 0..64 {
            for second in 0..first {
                assert!(seen.insert(ranks_hash([first, second])));
            }
        }
        for (side, n) in [(4_u32, 16), (8, 64), (16, 256)] {
            for start in 0..side {
                assert!(seen.insert(ranks_hash(start * side..(start + 1) * side)));
                assert!(seen.insert(ranks_hash((start..n).step_by(side as usize))));
            }
        }
        assert!(!seen.contains(&0) && ranks_hash([]) != 0);
    }
}
