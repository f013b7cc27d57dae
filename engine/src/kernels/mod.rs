//! Element arithmetic and copies at memory speed, chosen at run time by what the processor has.
//!
//! The scalar kernels are the oracle: every other one gives the same bits. Sums, averages and products of floats of 16
//! and 8 bits are accumulated in `f32` and rounded once, when they are finished. Integers wrap; an average divides once,
//! at the end, and integer averages truncate. Memory has no alignment of its own.

#![allow(dead_code, reason = "the contract stands before its users")]

use crate::types::{DataType, RedOp};

/// In which form an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Elements of the operation's type.
    Element,
    /// Accumulators: see [`Fold::partial_bytes`].
    Partial,
}

/// The forms of one fold, and whether it is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Of the first operand.
    pub(crate) with: Form,
    /// Of the second operand.
    pub(crate) data: Form,
    /// Of the outcome.
    pub(crate) into: Form,
    /// Whether an average is divided now. `into` is then [`Form::Element`].
    pub(crate) finish: bool,
}

/// How an operation's elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Element type.
    pub(crate) data_type: DataType,
    /// Operator.
    pub(crate) op: RedOp,
    /// Ranks, for an average.
    pub(crate) n_ranks: usize,
}

impl Fold {
    /// Whether partial results need accumulators wider than elements.
    pub(crate) fn is_wide(self) -> bool {
        let small = matches!(self.data_type, DataType::F16 | DataType::Bf16);
        small && matches!(self.op, RedOp::Sum | RedOp::Avg | RedOp::Prod)
    }

    /// Bytes of one element in a form.
    pub(crate) fn bytes(self, form: Form) -> usize {
        if form == Form::Partial && self.is_wide() { 4 } else { self.data_type.size_bytes() }
    }
}
