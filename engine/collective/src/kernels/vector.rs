//! What a kernel is made of: a register of `f32` lanes, the codecs between it and memory, plain numbers, and operators.
//!
//! Each instruction set implements these once; the loops over them are in [`super::body`]. Methods are unsafe where they
//! need the instruction set that their type stands for, or valid memory.

#![expect(
    unsafe_code,
    reason = "loads and stores at any alignment, and instructions that not every processor has"
)]

/// A register of `f32` lanes. Every method needs the processor's features of the type.
pub(super) trait Vector: Copy {
    /// Elements in it.
    const LANES: usize;
    /// The same value in all lanes.
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// IEEE 754-2019 `minimumNumber`: a number rather than a NaN, and -0 below +0.
    unsafe fn min(self, other: Self) -> Self;
    /// IEEE 754-2019 `maximumNumber`.
    unsafe fn max(self, other: Self) -> Self;
}

/// How elements of a type become lanes of `V`; rounding is to nearest, ties to even.
pub(super) trait Codec<V> {
    /// Bytes of one element.
    const SIZE_BYTES: usize;
    /// What the address of a stored vector is a multiple of.
    const ALIGN_BYTES: usize = 1;
    /// Reads `V::LANES` elements.
    unsafe fn load(from: *const u8) -> V;
    /// Writes `V::LANES` elements.
    unsafe fn store(into: *mut u8, value: V);
}

/// `f32`, which is also the accumulator of the smaller floats.
pub(super) struct F32;
/// `f32` whose stores go past the caches; [`super::copy`] says when that pays.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only there it pays"))]
pub(super) struct StreamedF32;
/// IEEE 754 binary16.
pub(super) struct F16;
/// The upper half of an `f32`.
pub(super) struct Bf16;
/// See [`super::float8`].
pub(super) struct E4m3;
/// See [`super::float8`].
pub(super) struct E5m2;

/// An element that is its own accumulator, and whose arithmetic the compiler vectorises.
pub(super) trait Number: Copy {
    /// As many as a loop takes at once.
    type Block: Copy + AsRef<[Self]> + AsMut<[Self]>;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// Integers truncate.
    fn divided(self, by: usize) -> Self;
}

/// An operator, for both kinds of elements.
pub(super) trait Operator {
    unsafe fn vector<V: Vector>(left: V, right: V) -> V;
    fn number<T: Number>(left: T, right: T) -> T;
}

macro_rules! operators {
    ($($name:ident $method:ident),*) => {$(
        #[doc = concat!("`", stringify!($method), "`")]
        pub(super) struct $name;

        impl Operator for $name {
            #[inline(always)]
            unsafe fn vector<V: Vector>(left: V, right: V) -> V {
                // SAFETY: the caller has the features of `V`.
                unsafe { left.$method(right) }
            }

            #[inline(always)]
            fn number<T: Number>(left: T, right: T) -> T {
                left.$method(right)
            }
        }
    )*};
}

operators!(Sum add, Prod mul, Min min, Max max);
