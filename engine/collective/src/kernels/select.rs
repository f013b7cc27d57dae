//! From a reduction and its forms to the one function that does it.

use crate::kernels::body::{FIRST, Job, LAST, NEVER, REST, Reduced, ReducedNumbers, Scaled, ScaledNumbers};
use crate::kernels::isa::{Isa, Variant};
use crate::kernels::scalar::Scalar;
use crate::kernels::vector::{Bf16, Codec, E4m3, E5m2, F16, F32, Max, Min, Number, Prod, Sum};
use crate::kernels::{Form, Reducer, Shape};
#[cfg(target_arch = "x86_64")]
use crate::kernels::{avx2::Avx2, avx512::Avx512, vector::StreamedF32};
use crate::types::{DataType, RedOp};

/// A kernel, as [`Isa::enter`] has it.
pub(super) type Function = unsafe fn(&Job);

/// The function for a reduction of these forms.
pub(super) fn reduce(variant: Variant, reducer: Reducer, shape: Shape) -> Function {
    match variant {
        #[cfg(target_arch = "x86_64")]
        Variant::Avx512 => reduce_with::<Avx512>(reducer, shape),
        #[cfg(target_arch = "x86_64")]
        Variant::Avx2 => reduce_with::<Avx2>(reducer, shape),
        _ => reduce_with::<Scalar>(reducer, shape),
    }
}

/// The function for a reduction of these forms that stores past the caches, for the type that has one.
#[cfg(target_arch = "x86_64")]
pub(super) fn streamed(variant: Variant, reducer: Reducer, shape: Shape) -> Option<Function> {
    let divide = shape.finish && reducer.op == RedOp::Avg;
    match (variant, reducer.data_type) {
        (Variant::Avx512, DataType::F32) => Some(streamed_with::<Avx512>(reducer.op, divide)),
        (Variant::Avx2, DataType::F32) => Some(streamed_with::<Avx2>(reducer.op, divide)),
        _ => None,
    }
}

/// None stores past the caches.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn streamed(_: Variant, _: Reducer, _: Shape) -> Option<Function> {
    None
}

#[cfg(target_arch = "x86_64")]
fn streamed_with<I: Isa>(op: RedOp, divide: bool) -> Function
where
    F32: Codec<I::Lanes>,
    StreamedF32: Codec<I::Lanes>,
{
    match op {
        RedOp::Avg if divide => I::enter::<Reduced<F32, F32, StreamedF32, Sum, LAST>>,
        RedOp::Sum | RedOp::Avg => I::enter::<Reduced<F32, F32, StreamedF32, Sum, NEVER>>,
        RedOp::Prod => I::enter::<Reduced<F32, F32, StreamedF32, Prod, NEVER>>,
        RedOp::Min => I::enter::<Reduced<F32, F32, StreamedF32, Min, NEVER>>,
        RedOp::Max => I::enter::<Reduced<F32, F32, StreamedF32, Max, NEVER>>,
    }
}

/// The function for a product with a scalar.
pub(super) fn scale(variant: Variant, data_type: DataType) -> Function {
    match variant {
        #[cfg(target_arch = "x86_64")]
        Variant::Avx512 => scale_with::<Avx512>(data_type),
        #[cfg(target_arch = "x86_64")]
        Variant::Avx2 => scale_with::<Avx2>(data_type),
        _ => scale_with::<Scalar>(data_type),
    }
}

fn reduce_with<I: Isa>(reducer: Reducer, shape: Shape) -> Function
where
    F32: Codec<I::Lanes>,
    F16: Codec<I::Lanes>,
    Bf16: Codec<I::Lanes>,
    E4m3: Codec<I::Lanes>,
    E5m2: Codec<I::Lanes>,
{
    let divide = shape.finish && reducer.op == RedOp::Avg;
    match reducer.data_type {
        DataType::I8 => numbers::<I, i8>(reducer.op, divide),
        DataType::U8 => numbers::<I, u8>(reducer.op, divide),
        DataType::I32 => numbers::<I, i32>(reducer.op, divide),
        DataType::U32 => numbers::<I, u32>(reducer.op, divide),
        DataType::I64 => numbers::<I, i64>(reducer.op, divide),
        DataType::U64 => numbers::<I, u64>(reducer.op, divide),
        DataType::F64 => numbers::<I, f64>(reducer.op, divide),
        DataType::F32 => elements::<I, F32>(reducer.op, divide),
        DataType::F16 => floats::<I, F16>(reducer, shape, divide),
        DataType::Bf16 => floats::<I, Bf16>(reducer, shape, divide),
        DataType::F8e4m3 => floats::<I, E4m3>(reducer, shape, divide),
        DataType::F8e5m2 => floats::<I, E5m2>(reducer, shape, divide),
    }
}

fn scale_with<I: Isa>(data_type: DataType) -> Function
where
    F32: Codec<I::Lanes>,
    F16: Codec<I::Lanes>,
    Bf16: Codec<I::Lanes>,
    E4m3: Codec<I::Lanes>,
    E5m2: Codec<I::Lanes>,
{
    match data_type {
        DataType::I8 => I::enter::<ScaledNumbers<i8>>,
        DataType::U8 => I::enter::<ScaledNumbers<u8>>,
        DataType::I32 => I::enter::<ScaledNumbers<i32>>,
        DataType::U32 => I::enter::<ScaledNumbers<u32>>,
        DataType::I64 => I::enter::<ScaledNumbers<i64>>,
        DataType::U64 => I::enter::<ScaledNumbers<u64>>,
        DataType::F64 => I::enter::<ScaledNumbers<f64>>,
        DataType::F32 => I::enter::<Scaled<F32>>,
        DataType::F16 => I::enter::<Scaled<F16>>,
        DataType::Bf16 => I::enter::<Scaled<Bf16>>,
        DataType::F8e4m3 => I::enter::<Scaled<E4m3>>,
        DataType::F8e5m2 => I::enter::<Scaled<E5m2>>,
    }
}

fn numbers<I: Isa, T: Number>(op: RedOp, divide: bool) -> Function {
    match op {
        RedOp::Avg if divide => I::enter::<ReducedNumbers<T, Sum, true>>,
        RedOp::Sum | RedOp::Avg => I::enter::<ReducedNumbers<T, Sum, false>>,
        RedOp::Prod => I::enter::<ReducedNumbers<T, Prod, false>>,
        RedOp::Min => I::enter::<ReducedNumbers<T, Min, false>>,
        RedOp::Max => I::enter::<ReducedNumbers<T, Max, false>>,
    }
}

/// Elements in, elements out.
fn elements<I: Isa, E: Codec<I::Lanes> + Codec<f32>>(op: RedOp, divide: bool) -> Function {
    match op {
        RedOp::Avg if divide => I::enter::<Reduced<E, E, E, Sum, LAST>>,
        RedOp::Sum | RedOp::Avg => I::enter::<Reduced<E, E, E, Sum, NEVER>>,
        RedOp::Prod => I::enter::<Reduced<E, E, E, Prod, NEVER>>,
        RedOp::Min => I::enter::<Reduced<E, E, E, Min, NEVER>>,
        RedOp::Max => I::enter::<Reduced<E, E, E, Max, NEVER>>,
    }
}

/// Floats that are accumulated in `f32`, where the operator needs it.
fn floats<I: Isa, E: Codec<I::Lanes> + Codec<f32>>(reducer: Reducer, shape: Shape, divide: bool) -> Function
where
    F32: Codec<I::Lanes>,
{
    let op = reducer.op;
    if reducer.divides_first(shape) {
        return averaged::<I, E>(shape);
    }
    if !reducer.is_wide() {
        return elements::<I, E>(op, divide);
    }
    match (shape.with, shape.data, shape.into) {
        (Form::Element, Form::Element, Form::Element) => elements::<I, E>(op, divide),
        (Form::Element, Form::Element, Form::Partial) => partials::<I, E, E>(op),
        (Form::Element, Form::Partial, Form::Partial) => partials::<I, E, F32>(op),
        (Form::Partial, Form::Element, Form::Partial) => partials::<I, F32, E>(op),
        (Form::Partial, Form::Partial, Form::Partial) => partials::<I, F32, F32>(op),
        (Form::Element, Form::Partial, Form::Element) => finished::<I, E, F32, E>(op, divide),
        (Form::Partial, Form::Element, Form::Element) => finished::<I, F32, E, E>(op, divide),
        (Form::Partial, Form::Partial, Form::Element) => finished::<I, F32, F32, E>(op, divide),
    }
}

/// An average with partial results of the elements' width, which are sums of what was divided before.
fn averaged<I: Isa, E: Codec<I::Lanes> + Codec<f32>>(shape: Shape) -> Function {
    match (shape.with, shape.data) {
        (Form::Element, Form::Element) => I::enter::<Reduced<E, E, E, Sum, { FIRST | REST }>>,
        (Form::Element, Form::Partial) => I::enter::<Reduced<E, E, E, Sum, FIRST>>,
        (Form::Partial, Form::Element) => I::enter::<Reduced<E, E, E, Sum, REST>>,
        (Form::Partial, Form::Partial) => I::enter::<Reduced<E, E, E, Sum, NEVER>>,
    }
}

fn partials<I: Isa, First, Rest>(op: RedOp) -> Function
where
    First: Codec<I::Lanes> + Codec<f32>,
    Rest: Codec<I::Lanes> + Codec<f32>,
    F32: Codec<I::Lanes>,
{
    match op {
        RedOp::Prod => I::enter::<Reduced<First, Rest, F32, Prod, NEVER>>,
        _ => I::enter::<Reduced<First, Rest, F32, Sum, NEVER>>,
    }
}

fn finished<I: Isa, First, Rest, E>(op: RedOp, divide: bool) -> Function
where
    First: Codec<I::Lanes> + Codec<f32>,
    Rest: Codec<I::Lanes> + Codec<f32>,
    E: Codec<I::Lanes> + Codec<f32>,
{
    match op {
        RedOp::Prod => I::enter::<Reduced<First, Rest, E, Prod, NEVER>>,
        _ if divide => I::enter::<Reduced<First, Rest, E, Sum, LAST>>,
        _ => I::enter::<Reduced<First, Rest, E, Sum, NEVER>>,
    }
}
