//! What communicators that cannot be told apart by name have in common, and who claims which of their ranks.

use super::names::Name;

/// What communicators that cannot be told apart by name have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FamilyKey {
    pub(super) job: Name,
    pub(super) comm_hash: u64,
    pub(super) n_ranks: u32,
}

/// Which rank of which family a process claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) key: FamilyKey,
    pub(super) rank: u32,
}
