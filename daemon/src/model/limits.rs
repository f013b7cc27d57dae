//! The bounds of the model: nothing that agents send can make it grow beyond them.

/// Ranks of a communicator. NCCL itself runs on some tens of thousands; more is a corrupt number.
pub const MAX_RANKS: u32 = 65_536;
