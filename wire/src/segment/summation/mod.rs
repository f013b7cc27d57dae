//! What a segment says of the summation service: the group that the process is in, or was in last, and its newest results.
//!
//! One thread writes it, the group's own. [`layout::Area::sequence`] is odd while it does, so a reader never takes half a
//! state for a whole one; results lie in a ring of their own, each with its ticket.

pub mod layout;
pub mod read;
