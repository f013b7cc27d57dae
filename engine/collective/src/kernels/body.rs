//! The loops: a reduction of one or more sources, and a product with a scalar. Each is compiled once per instruction set.
//!
//! Memory may have any alignment. The target may be exactly one of the sources: every element is read before it is
//! written.

#![expect(
    unsafe_code,
    reason = "raw memory of any alignment, and vectors of features that were checked before"
)]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "one promise covers a whole step of a loop")]

use std::marker::PhantomData;

use crate::kernels::vector::{Codec, Number, Operator, Vector};

/// What a kernel works on.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// `count` elements in the form of the target.
    pub(super) into: *mut u8,
    /// At least one; each of `count` elements.
    pub(super) sources: &'a [*const u8],
    /// Elements.
    pub(super) count: usize,
    /// What an average is divided by.
    pub(super) divisor: usize,
    /// One element: what a product is taken with. Unused by reductions.
    pub(super) scalar: *const u8,
}

/// One loop over vectors of type `V`.
pub(super) trait Body<V> {
    /// # Safety
    ///
    /// The job's memory is valid, its target overlaps no source but exactly, and the processor has the features of `V`.
    unsafe fn run(job: &Job);
}

/// Vectors that one step of a loop takes: enough to hide the latency of an addition.
const UNROLL: usize = 4;

/// No division.
pub(super) const NEVER: u8 = 0;
/// The outcome is divided.
pub(super) const LAST: u8 = 1;
/// The first source is divided before it is reduced.
pub(super) const FIRST: u8 = 2;
/// All sources but the first are divided before they are reduced.
pub(super) const REST: u8 = 4;

/// `into = first op rest[0] op rest[1] …` in `f32`, left to right; `DIVIDE` says what is divided by the divisor.
pub(super) struct Reduced<First, Rest, Into, O, const DIVIDE: u8>(PhantomData<(First, Rest, Into, O)>);

impl<V, First, Rest, Into, O, const DIVIDE: u8> Body<V> for Reduced<First, Rest, Into, O, DIVIDE>
where
    V: Vector,
    First: Codec<V> + Codec<f32>,
    Rest: Codec<V> + Codec<f32>,
    Into: Codec<V> + Codec<f32>,
    O: Operator,
{
    #[inline(always)]
    unsafe fn run(job: &Job) {
        let mut at = 0;
        // SAFETY: each step stays below `count`; the rest is the caller's promise.
        unsafe {
            let aligned = <Into as Codec<V>>::ALIGN_BYTES;
            while at < job.count
                && !(job.into.addr() + at * <Into as Codec<V>>::SIZE_BYTES).is_multiple_of(aligned)
            {
                Self::step::<f32, 1>(job, at);
                at += 1;
            }
            while at + UNROLL * V::LANES <= job.count {
                Self::step::<V, UNROLL>(job, at);
                at += UNROLL * V::LANES;
            }
            while at + V::LANES <= job.count {
                Self::step::<V, 1>(job, at);
                at += V::LANES;
            }
            while at < job.count {
                Self::step::<f32, 1>(job, at);
                at += 1;
            }
        }
    }
}

impl<First, Rest, Into, O: Operator, const DIVIDE: u8> Reduced<First, Rest, Into, O, DIVIDE> {
    /// `N` vectors from element `at` on.
    #[inline(always)]
    unsafe fn step<V: Vector, const N: usize>(job: &Job, at: usize)
    where
        First: Codec<V>,
        Rest: Codec<V>,
        Into: Codec<V>,
    {
        let [first, rest @ ..] = job.sources else { return };
        // SAFETY: the caller keeps `at + N * LANES` below `count`, and has the features of `V`.
        unsafe {
            // Loops, not closures: those are not always inlined into code of this instruction set.
            let mut sums = [V::splat(0.0); N];
            // A product costs a fraction of a quotient, and is off by one more half unit of an `f32`.
            let inverse = V::splat(1.0 / job.divisor as f32);
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = First::load(first.add((at + lane * V::LANES) * First::SIZE_BYTES));
                if DIVIDE & FIRST != 0 {
                    *sum = sum.mul(inverse);
                }
            }
            for source in rest {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let mut other = Rest::load(source.add((at + lane * V::LANES) * Rest::SIZE_BYTES));
                    if DIVIDE & REST != 0 {
                        other = other.mul(inverse);
                    }
                    *sum = O::vector(*sum, other);
                }
            }
            for (lane, mut sum) in sums.into_iter().enumerate() {
                if DIVIDE & LAST != 0 {
                    sum = sum.div(V::splat(job.divisor as f32));
                }
                Into::store(job.into.add((at + lane * V::LANES) * Into::SIZE_BYTES), sum);
            }
        }
    }
}

/// The same over numbers that are their own accumulators.
pub(super) struct ReducedNumbers<T, O, const DIVIDE: bool>(PhantomData<(T, O)>);

impl<V, T: Number, O: Operator, const DIVIDE: bool> Body<V> for ReducedNumbers<T, O, DIVIDE> {
    #[inline(always)]
    unsafe fn run(job: &Job) {
        let [first, rest @ ..] = job.sources else { return };
        let block = size_of::<T::Block>() / size_of::<T>();
        let mut at = 0;
        while at + block <= job.count {
            let offset = at * size_of::<T>();
            // SAFETY: a block from `at` on is within `count`.
            unsafe {
                let mut sums = first.add(offset).cast::<T::Block>().read_unaligned();
                for source in rest {
                    let others = source.add(offset).cast::<T::Block>().read_unaligned();
                    for (sum, other) in sums.as_mut().iter_mut().zip(others.as_ref()) {
                        *sum = O::number(*sum, *other);
                    }
                }
                if DIVIDE {
                    for sum in sums.as_mut() {
                        *sum = sum.divided(job.divisor);
                    }
                }
                job.into.add(offset).cast::<T::Block>().write_unaligned(sums);
            }
            at += block;
        }
        while at < job.count {
            // SAFETY: `at` is below `count`.
            unsafe { Self::one(job, *first, rest, at * size_of::<T>()) };
            at += 1;
        }
    }
}

impl<T: Number, O: Operator, const DIVIDE: bool> ReducedNumbers<T, O, DIVIDE> {
    #[inline(always)]
    unsafe fn one(job: &Job, first: *const u8, rest: &[*const u8], offset: usize) {
        // SAFETY: the caller's offset is of an element.
        unsafe {
            let mut sum = first.add(offset).cast::<T>().read_unaligned();
            for source in rest {
                sum = O::number(sum, source.add(offset).cast::<T>().read_unaligned());
            }
            let sum = if DIVIDE { sum.divided(job.divisor) } else { sum };
            job.into.add(offset).cast::<T>().write_unaligned(sum);
        }
    }
}

/// `into = source × scalar`, rounded to the element's type.
pub(super) struct Scaled<C>(PhantomData<C>);

impl<V: Vector, C: Codec<V> + Codec<f32>> Body<V> for Scaled<C> {
    #[inline(always)]
    unsafe fn run(job: &Job) {
        let Some(source) = job.sources.first() else { return };
        let size_bytes = <C as Codec<f32>>::SIZE_BYTES;
        let mut at = 0;
        // SAFETY: each step stays below `count`; the scalar is one element.
        unsafe {
            let scalar: f32 = C::load(job.scalar);
            while at + V::LANES <= job.count {
                let product = <C as Codec<V>>::load(source.add(at * size_bytes)).mul(V::splat(scalar));
                C::store(job.into.add(at * size_bytes), product);
                at += V::LANES;
            }
            while at < job.count {
                let value: f32 = C::load(source.add(at * size_bytes));
                C::store(job.into.add(at * size_bytes), value * scalar);
                at += 1;
            }
        }
    }
}

/// The same over numbers.
pub(super) struct ScaledNumbers<T>(PhantomData<T>);

impl<V, T: Number> Body<V> for ScaledNumbers<T> {
    #[inline(always)]
    unsafe fn run(job: &Job) {
        let Some(source) = job.sources.first() else { return };
        // SAFETY: the scalar is one element, and every index is below `count`.
        unsafe {
            let scalar = job.scalar.cast::<T>().read_unaligned();
            for at in 0..job.count {
                let value = source.cast::<T>().add(at).read_unaligned();
                job.into.cast::<T>().add(at).write_unaligned(value.mul(scalar));
            }
        }
    }
}
