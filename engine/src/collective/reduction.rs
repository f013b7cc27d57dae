//! An operation's element arithmetic, `accumulator = accumulator op other`, by way of [`crate::kernels`].

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use crate::kernels::{Fold, Form, Shape};
use crate::types::{DataType, RedOp};

/// How an operation's elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Element type.
    pub(crate) data_type: DataType,
    /// Operator.
    pub(crate) op: RedOp,
    /// Ranks, for an average.
    pub(crate) n_ranks: usize,
}

impl Reduction {
    /// `accumulator = accumulator op other`; with `last`, an average is divided.
    pub(crate) fn apply(self, accumulator: &mut [u8], other: &[u8], last: bool) {
        let fold = Fold { data_type: self.data_type, op: self.op, n_ranks: self.n_ranks };
        let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: last };
        let count = accumulator.len().min(other.len()) / self.data_type.size_bytes();
        let into = accumulator.as_mut_ptr();
        // SAFETY: both slices have `count` elements, and they do not overlap; the target is the first source.
        unsafe { fold.run(shape, into, into, other.as_ptr(), count) }
    }
}
