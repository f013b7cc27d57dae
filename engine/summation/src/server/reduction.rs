//! What becomes of the contributions to a round.

/// What contributions become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their sum, divided by how many there are.
    Average,
}
