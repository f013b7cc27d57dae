//! What is known of a communicator when the call that makes it arrives: by the call itself, its configuration and its parent.

#![expect(unsafe_code, reason = "reads the caller's structures")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::comm_hash::{Scheme, magic_of_grow, of_grow};
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{MADE_BY_GROW, MADE_BY_INIT, MADE_BY_SPLIT};

use crate::abi::nccl;
use crate::abi::nccl::UniqueId;
use crate::calls::resolve;
use crate::segment::communicators::Birth;
use crate::segment::lineage::{Descent, Settings};
use crate::segment::names::{Name, name_of_c};
use crate::segment::{communicators, lineage};

/// What the caller's configuration says.
#[derive(Clone, Copy, Default)]
pub(super) struct Given {
    name: Name,
    settings: Settings,
}

/// Reads a configuration; none if the caller gave none, or something else.
///
/// # Safety
/// NULL or a `ncclConfig_t` as its own `size` says.
pub(super) unsafe fn read_config(config: *const c_void) -> Option<Given> {
    // SAFETY: the caller's promise.
    let said = unsafe { nccl::read_config(config) }?;
    let settings = Settings {
        min_ctas: said.min_ctas,
        max_ctas: said.max_ctas,
        split_share: said.split_share,
        shrink_share: said.shrink_share,
    };
    // SAFETY: NULL or a terminated text, says nccl.h of the field.
    Some(Given { name: unsafe { name_of_c(said.name) }, settings })
}

/// What is known of a communicator when the call that makes it arrives.
pub(super) struct Making {
    pub(super) birth: Birth,
    pub(super) settings: Settings,
    /// NCCL's `magic`, 0 if not known.
    pub(super) magic: u64,
    /// `Communicator::shares_resources`.
    pub(super) shares: u32,
    pub(super) parent: Option<usize>,
}

impl Making {
    pub(super) fn init(
        library: usize,
        id: Option<&UniqueId>,
        rank: c_int,
        n_ranks: c_int,
        given: Option<Given>,
    ) -> Self {
        let given = given.unwrap_or_default();
        let scheme = Scheme::of_version(resolve::version(library));
        Self {
            birth: Birth {
                made_by: MADE_BY_INIT,
                rank,
                n_ranks,
                comm_hash: id.map_or(0, |id| scheme.of_unique_id(&id.internal)),
                parent_hash: 0,
                name: given.name,
            },
            settings: given.settings,
            magic: id.map_or(0, magic_of),
            shares: 0,
            parent: None,
        }
    }

    /// `nth` is which child of the parent it is, and the colour.
    pub(super) fn split(
        segment: &Segment,
        library: usize,
        parent: usize,
        (child, colour): (i32, i32),
        given: Option<Given>,
    ) -> Self {
        let parent_hash = communicators::at(segment, parent).comm_hash.load(Relaxed);
        let scheme = Scheme::of_version(resolve::version(library));
        // Without the parent's hash there is none of the child.
        let comm_hash = if parent_hash == 0 { 0 } else { scheme.of_split(parent_hash, child, colour) };
        let name = given.map_or(Name::default(), |given| given.name);
        Self {
            birth: Birth { made_by: MADE_BY_SPLIT, rank: -1, n_ranks: 0, comm_hash, parent_hash, name },
            settings: given.map_or_else(|| lineage::settings(segment, parent), |given| given.settings),
            magic: comm_hash,
            shares: 0,
            parent: Some(parent),
        }
    }

    pub(super) fn grow(id: Option<&UniqueId>, n_ranks: c_int, given: Option<Given>) -> Self {
        let magic = id.map_or(0, magic_of);
        let comm_hash = if magic == 0 { 0 } else { of_grow(magic, n_ranks) };
        let Given { name, settings } = given.unwrap_or_default();
        Self {
            birth: Birth { made_by: MADE_BY_GROW, rank: -1, n_ranks, comm_hash, parent_hash: 0, name },
            settings,
            magic,
            shares: 0,
            parent: None,
        }
    }

    /// A grown communicator on a rank that was in the parent and keeps its number. It has resources of its own.
    pub(super) fn of_parent(self, segment: &Segment, parent: usize, child: i32, inherits: bool) -> Self {
        let communicator = communicators::at(segment, parent);
        let parent_magic = lineage::magic(parent);
        let magic = match (self.magic, parent_magic) {
            (0, 0) => 0,
            (0, _) => magic_of_grow(parent_magic, child),
            (given, _) => given,
        };
        let birth = Birth {
            rank: communicator.rank.load(Relaxed),
            comm_hash: if magic == 0 { 0 } else { of_grow(magic, self.birth.n_ranks) },
            parent_hash: communicator.comm_hash.load(Relaxed),
            ..self.birth
        };
        let settings = if inherits { lineage::settings(segment, parent) } else { self.settings };
        Self { birth, settings, magic, shares: 1, parent: Some(parent) }
    }

    pub(super) fn with_descent(self, segment: &Segment, descent: Descent) -> Self {
        let shares = self.parent.map_or(0, |parent| lineage::shares_resources(segment, parent, descent));
        Self { shares, ..self }
    }
}

/// What the library calls `magic` is the first word of a unique id.
fn magic_of(id: &UniqueId) -> u64 {
    id.internal.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}
