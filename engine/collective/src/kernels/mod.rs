//! Element arithmetic and copies at memory speed, chosen at run time by what the processor has.
//!
//! The scalar kernels are the oracle: every other one gives the same bits. Sums, averages and products of floats of 16
//! and 8 bits are computed in `f32`, and rounded to the nearest even element where they are stored as one: see [`Width`].
//! Integers wrap; an average divides once, at the end but for those partial results, and integer averages truncate. Memory
//! has no alignment of its own.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bench;
mod body;
pub mod control;
pub(crate) mod copy;
pub mod float16;
pub mod float8;
pub mod gradients;
pub mod halves;
mod isa;
pub mod lanes;
mod scalar;
mod select;
mod slices;
#[cfg(test)]
mod tests;
mod vector;

pub(crate) use isa::Variant;

use crate::kernels::body::Job;
use crate::types::{DataType, RedOp};

/// In which form an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Elements of the operation's type.
    Element,
    /// Partial results: see [`Reducer::is_wide`].
    Partial,
}

/// The forms of one reduction, and whether it is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of the first operand.
    pub with: Form,
    /// Of the second operand.
    pub data: Form,
    /// Of the outcome.
    pub into: Form,
    /// Whether an average is divided now, if it was not before. `into` is then [`Form::Element`].
    pub finish: bool,
}

/// How an operation's elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reducer {
    /// Element type.
    pub(crate) data_type: DataType,
    /// Operator.
    pub(crate) op: RedOp,
    /// Ranks, for an average.
    pub(crate) n_ranks: usize,
    /// Of partial results of floats of 16 and 8 bits.
    pub(crate) width: Width,
}

/// How wide partial results of floats of 16 and 8 bits are. All others have the width of their elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// As their elements: each is rounded. Those of an average are sums of contributions that were divided before, so that
    /// no sum is beyond the type where the average is not: NCCL multiplies by 1/n first too (`src/enqueue.cc`,
    /// `hostToDevRedOp`), rounded to the type, which the factor is not here.
    Element,
    /// As the `f32` in which they are computed, so that only the result is rounded.
    F32,
}

impl Reducer {
    /// With partial results as precise as they are computed.
    pub fn new(data_type: DataType, op: RedOp, n_ranks: usize) -> Self {
        Self { data_type, op, n_ranks, width: Width::F32 }
    }

    /// Whether partial results need accumulators wider than elements.
    pub(crate) fn is_wide(self) -> bool {
        self.width == Width::F32
            && self.is_small()
            && matches!(self.op, RedOp::Sum | RedOp::Avg | RedOp::Prod)
    }

    fn is_small(self) -> bool {
        matches!(self.data_type, DataType::F16 | DataType::Bf16 | DataType::F8e4m3 | DataType::F8e5m2)
    }

    /// Whether elements are divided before they are reduced, as partial results in this reduction were. A reduction of
    /// elements alone is not: what is finished at once is divided once.
    fn divides_first(self, shape: Shape) -> bool {
        let has_partials = [shape.with, shape.data, shape.into].contains(&Form::Partial);
        self.op == RedOp::Avg && self.width == Width::Element && self.is_small() && has_partials
    }

    /// Bytes of one element in a form.
    pub fn bytes(self, form: Form) -> usize {
        if form == Form::Partial && self.is_wide() { 4 } else { self.data_type.size_bytes() }
    }

    /// The kernel for operands of these forms, to be kept for as many calls as there are.
    pub(crate) fn kernel(self, shape: Shape) -> Kernel {
        self.kernel_of(Variant::best(), shape)
    }

    /// The kernel of one variant, which the processor must have.
    pub(crate) fn kernel_of(self, variant: Variant, shape: Shape) -> Kernel {
        Kernel {
            function: select::reduce(variant, self, shape),
            streamed: select::streamed(variant, self, shape),
            divisor: self.n_ranks,
        }
    }

    /// `into = with op data`.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    pub(crate) unsafe fn run(
        self,
        shape: Shape,
        into: *mut u8,
        with: *const u8,
        data: *const u8,
        count: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.kernel(shape).run(into, &[with, data], count) }
    }

    /// `into = from × scalar`, elements all, the scalar one too: rounded once. `into` may be `from`.
    ///
    /// # Safety
    ///
    /// `count` elements are valid at `into` and `from`, and one at `scalar`; they overlap exactly or not at all.
    pub(crate) unsafe fn scale(self, into: *mut u8, from: *const u8, scalar: *const u8, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.scale_with(Variant::best(), into, from, scalar, count) }
    }

    unsafe fn scale_with(
        self,
        variant: Variant,
        into: *mut u8,
        from: *const u8,
        scalar: *const u8,
        count: usize,
    ) {
        let job = Job { into, sources: &[from], count, divisor: 1, scalar };
        // SAFETY: the caller's promise.
        unsafe { select::scale(variant, self.data_type)(&job) }
    }
}

/// One reduction over operands of known forms, chosen once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    function: select::Function,
    streamed: Option<select::Function>,
    divisor: usize,
}

impl Kernel {
    /// `into = sources[0] op sources[1] op …`, left to right; the first source has the shape's form `with`, all others
    /// `data`. One source is only brought into the form of `into`. The result has the bits of a reduction source by source
    /// with partial results between.
    ///
    /// # Safety
    ///
    /// `count` elements of their form are valid at `into` and at every source. `into` may be one of the sources, if of
    /// the same form; it overlaps none otherwise.
    pub(crate) unsafe fn run(&self, into: *mut u8, sources: &[*const u8], count: usize) {
        let job = Job { into, sources, count, divisor: self.divisor, scalar: std::ptr::null() };
        // SAFETY: the caller's promise; a variant is chosen only where the processor has it.
        unsafe { (self.function)(&job) }
    }

    /// The same, past the caches where there is a kernel for it: see [`copy`]. What was written is visible to whoever
    /// sees a later store of this thread.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    pub(crate) unsafe fn run_streamed(&self, into: *mut u8, sources: &[*const u8], count: usize) {
        let job = Job { into, sources, count, divisor: self.divisor, scalar: std::ptr::null() };
        // An address between elements never gets to the alignment that such stores need.
        let streamed = self.streamed.filter(|_| into.addr().is_multiple_of(size_of::<f32>()));
        // SAFETY: the caller's promise; a variant is chosen only where the processor has it.
        unsafe { streamed.unwrap_or(self.function)(&job) }
        copy::fence();
    }
}
