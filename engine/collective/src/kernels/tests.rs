//! Every variant against the scalar one, and that one against arithmetic written down anew.

#![expect(unsafe_code, reason = "kernels work on raw memory")]
#![expect(clippy::cast_possible_truncation, reason = "the reference rounds from f64 to f32")]

use proptest::prelude::*;

use super::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use super::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::*;

const OPS: [RedOp; 5] = [RedOp::Sum, RedOp::Prod, RedOp::Max, RedOp::Min, RedOp::Avg];
const SMALL: [DataType; 4] = [DataType::F16, DataType::Bf16, DataType::F8e4m3, DataType::F8e5m2];
const FORMS: [Form; 2] = [Form::Element, Form::Partial];

/// Reproducible bits, a quarter of them such as are special to some type.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn element(&mut self, size_bytes: usize) -> Vec<u8> {
        let (value, choice) = (self.next(), self.next() % 32);
        let top = 1_u64 << (8 * size_bytes - 1);
        let infinity = [0, 0x7c, 0x7c00, 0, 0x7f80_0000, 0, 0, 0, 0x7ff0_0000_0000_0000][size_bytes];
        let special = [0, top, top - 1, u64::MAX, infinity, infinity | top, 1, 1 | top];
        let value =
            usize::try_from(choice).ok().and_then(|choice| special.get(choice).copied()).unwrap_or(value);
        value.to_le_bytes()[..size_bytes].to_vec()
    }

    fn operand(&mut self, size_bytes: usize, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(size_bytes)).collect()
    }
}

fn shapes(reducer: Reducer) -> Vec<Shape> {
    let all = FORMS.into_iter().flat_map(|with| {
        FORMS.into_iter().flat_map(move |data| {
            let partial = Shape { with, data, into: Form::Partial, finish: false };
            [
                partial,
                Shape { into: Form::Element, ..partial },
                Shape { into: Form::Element, finish: true, ..partial },
            ]
        })
    });
    let is_small = SMALL.contains(&reducer.data_type);
    all.filter(|shape| is_small || (shape.with, shape.data) == (Form::Element, Form::Element)).collect()
}

/// All types and operators; small floats with partial results of both widths.
fn reducers() -> impl Iterator<Item = Reducer> {
    let of_type = |data_type| OPS.into_iter().map(move |op| Reducer::new(data_type, op, 3));
    let narrow =
        move |data_type| of_type(data_type).map(|reducer| Reducer { width: Width::Element, ..reducer });
    DataType::ALL.into_iter().flat_map(of_type).chain(SMALL.into_iter().flat_map(narrow))
}

/// The memory of one target and its sources, at the same odd offset, and the guards around the target.
fn reduce_at(
    kernel: Kernel,
    sizes: (usize, usize),
    sources: &[&[u8]],
    count: usize,
    offset: usize,
) -> Vec<u8> {
    let (into_bytes, alias) = sizes;
    let mut memory: Vec<Vec<u8>> =
        sources.iter().map(|source| [&vec![0xa5; offset], *source].concat()).collect();
    let mut target = vec![0x5a; offset + into_bytes * count + 7];
    let mut pointers: Vec<*const u8> = memory.iter().map(|bytes| bytes[offset..].as_ptr()).collect();
    let into = if let Some(bytes) = memory.get_mut(alias) {
        let into = bytes[offset..].as_mut_ptr();
        pointers[alias] = into;
        into
    } else {
        target[offset..].as_mut_ptr()
    };
    // SAFETY: every operand has `count` elements of its form from `offset` on; an aliased target is of the same form.
    unsafe { kernel.run(into, &pointers, count) };
    let intact = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0x5a);
    if let Some(bytes) = memory.get(alias) {
        return bytes[offset..].to_vec();
    }
    assert!(intact(&target[..offset]) && intact(&target[offset + into_bytes * count..]), "written outside");
    target[offset..offset + into_bytes * count].to_vec()
}

fn to_f64(reducer: Reducer, form: Form, bytes: &[u8]) -> f64 {
    let data_type =
        if form == Form::Partial && reducer.is_wide() { DataType::F32 } else { reducer.data_type };
    match data_type {
        DataType::F16 => f64::from(f16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap()))),
        DataType::Bf16 => f64::from(bf16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap()))),
        DataType::F8e4m3 => f64::from(e4m3_to_f32(bytes[0])),
        DataType::F8e5m2 => f64::from(e5m2_to_f32(bytes[0])),
        DataType::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DataType::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        _ => 0.0,
    }
}

/// Equal bits, or both a NaN.
fn assert_same(reducer: Reducer, form: Form, got: &[u8], want: &[u8], context: &dyn std::fmt::Debug) {
    assert_eq!(got.len(), want.len());
    let size = reducer.bytes(form);
    for (index, (got, want)) in got.chunks(size).zip(want.chunks(size)).enumerate() {
        let nan = |bytes| reducer.data_type.is_float() && to_f64(reducer, form, bytes).is_nan();
        assert!(
            got == want || (nan(got) && nan(want)),
            "{reducer:?} {context:?} [{index}]: {got:x?}, not {want:x?}"
        );
    }
}

fn narrowed(reducer: Reducer, form: Form, value: f32) -> Vec<u8> {
    let data_type =
        if form == Form::Partial && reducer.is_wide() { DataType::F32 } else { reducer.data_type };
    match data_type {
        DataType::F16 => f32_to_f16(value).to_ne_bytes().to_vec(),
        DataType::Bf16 => f32_to_bf16(value).to_ne_bytes().to_vec(),
        DataType::F8e4m3 => vec![f32_to_e4m3(value)],
        DataType::F8e5m2 => vec![f32_to_e5m2(value)],
        _ => value.to_ne_bytes().to_vec(),
    }
}

fn number_of(left: f64, right: f64, least: bool) -> f64 {
    match (left.is_nan(), right.is_nan()) {
        (true, _) => right,
        (_, true) => left,
        _ if left.total_cmp(&right).is_lt() == least => left,
        _ => right,
    }
}

fn float_reference(reducer: Reducer, shape: Shape, left: &[u8], right: &[u8]) -> Vec<u8> {
    let forms = [shape.with, shape.data];
    let has_partials = [forms[0], forms[1], shape.into].contains(&Form::Partial);
    let divides_first = has_partials && reducer.width == Width::Element && reducer.op == RedOp::Avg;
    let operand = |form, bytes| {
        let value = to_f64(reducer, form, bytes);
        if divides_first && form == Form::Element {
            f64::from((value * f64::from(1.0 / reducer.n_ranks as f32)) as f32)
        } else {
            value
        }
    };
    let (left, right) = (operand(forms[0], left), operand(forms[1], right));
    let divides = shape.finish && reducer.op == RedOp::Avg && !divides_first;
    let divisor = if divides { reducer.n_ranks as f64 } else { 1.0 };
    let double = match reducer.op {
        RedOp::Sum | RedOp::Avg => (left + right) / divisor,
        RedOp::Prod => left * right,
        RedOp::Max => number_of(left, right, false),
        RedOp::Min => number_of(left, right, true),
    };
    if reducer.data_type == DataType::F64 {
        return double.to_ne_bytes().to_vec();
    }
    // A sum, product or quotient of `f32` is the same when it is rounded from the one in `f64`; two of them are not.
    let single = if divisor > 1.0 { f64::from((left + right) as f32) / divisor } else { double };
    narrowed(reducer, shape.into, single as f32)
}

fn integer_reference(reducer: Reducer, finish: bool, left: &[u8], right: &[u8]) -> Vec<u8> {
    let size = left.len();
    let signed = matches!(reducer.data_type, DataType::I8 | DataType::I32 | DataType::I64);
    let value = |bytes: &[u8]| {
        let fill = if signed && bytes[size - 1] & 0x80 != 0 { 0xff } else { 0 };
        let mut wide = [fill; 16];
        wide[..size].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    };
    let (left, right) = (value(left), value(right));
    let result = match reducer.op {
        RedOp::Sum => left + right,
        RedOp::Avg if finish => value(&(left + right).to_le_bytes()[..size]) / reducer.n_ranks as i128,
        RedOp::Avg => left + right,
        RedOp::Prod => left.wrapping_mul(right),
        RedOp::Max => left.max(right),
        RedOp::Min => left.min(right),
    };
    result.to_le_bytes()[..size].to_vec()
}

#[test]
fn the_scalar_kernels_are_the_arithmetic_of_the_types() {
    let count = 400;
    for reducer in reducers() {
        for shape in shapes(reducer) {
            let mut bits = Bits(7);
            let (left_size, right_size) = (reducer.bytes(shape.with), reducer.bytes(shape.data));
            let (left, right) = (bits.operand(left_size, count), bits.operand(right_size, count));
            let kernel = reducer.kernel_of(Variant::Scalar, shape);
            let sizes = (reducer.bytes(shape.into), usize::MAX);
            let got = reduce_at(kernel, sizes, &[&left, &right], count, 0);
            let pairs = left.chunks(left_size).zip(right.chunks(right_size));
            let want = pairs.flat_map(|(left, right)| {
                if reducer.data_type.is_float() {
                    float_reference(reducer, shape, left, right)
                } else {
                    integer_reference(reducer, shape.finish, left, right)
                }
            });
            assert_same(reducer, shape.into, &got, &want.collect::<Vec<_>>(), &shape);
        }
    }
}

#[test]
fn every_variant_gives_the_bits_of_the_scalar_one() {
    let wider: Vec<Variant> = Variant::available().filter(|variant| *variant != Variant::Scalar).collect();
    for reducer in reducers() {
        for shape in shapes(reducer) {
            let (left_size, right_size) = (reducer.bytes(shape.with), reducer.bytes(shape.data));
            let mut bits = Bits(left_size as u64);
            let (left, right) = (bits.operand(left_size, 200), bits.operand(right_size, 200));
            for count in 0..=200 {
                let sources = [&left[..left_size * count], &right[..right_size * count]];
                let oracle = reducer.kernel_of(Variant::Scalar, shape);
                let sizes = (reducer.bytes(shape.into), usize::MAX);
                let want = reduce_at(oracle, sizes, &sources, count, 0);
                for variant in &wider {
                    let kernel = reducer.kernel_of(*variant, shape);
                    let alias = [usize::MAX, 0, 1][count % 3];
                    let same_form = sources.get(alias).is_some_and(|source| source.len() == want.len());
                    let sizes = (sizes.0, if same_form { alias } else { usize::MAX });
                    let got = reduce_at(kernel, sizes, &sources, count, count % 5);
                    assert_same(reducer, shape.into, &got, &want, &(variant, shape, count, sizes.1));
                }
            }
        }
    }
}

#[test]
fn streamed_reductions_give_the_same_bits() {
    let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
    for reducer in reducers().filter(|reducer| matches!(reducer.data_type, DataType::F32 | DataType::F16)) {
        let size = reducer.data_type.size_bytes();
        let mut bits = Bits(11);
        let (left, right) = (bits.operand(size, 200), bits.operand(size, 200));
        for (variant, count) in
            Variant::available().flat_map(|variant| (0..=200).map(move |count| (variant, count)))
        {
            let kernel = reducer.kernel_of(variant, shape);
            let sources = [&left[..size * count], &right[..size * count]];
            let want = reduce_at(kernel, (size, usize::MAX), &sources, count, 0);
            let offset = count % 19;
            let mut memory = vec![0x5a; offset + size * count + 80];
            let into = memory[offset..].as_mut_ptr();
            // SAFETY: `count` elements each.
            unsafe { kernel.run_streamed(into, &sources.map(<[u8]>::as_ptr), count) };
            assert_same(
                reducer,
                Form::Element,
                &memory[offset..offset + size * count],
                &want,
                &(variant, count),
            );
            assert!(memory[offset + size * count..].iter().all(|byte| *byte == 0x5a), "written outside");
        }
    }
}

/// One source, only brought into another form.
fn converted(variant: Variant, data_type: DataType, from: Form, into: Form, bytes: &[u8]) -> Vec<u8> {
    let reducer = Reducer::new(data_type, RedOp::Sum, 1);
    let kernel = reducer.kernel_of(variant, Shape { with: from, data: from, into, finish: false });
    reduce_at(kernel, (reducer.bytes(into), usize::MAX), &[bytes], bytes.len() / reducer.bytes(from), 1)
}

#[test]
fn every_variant_widens_every_small_float_alike() {
    for data_type in SMALL {
        let reducer = Reducer::new(data_type, RedOp::Sum, 1);
        let elements: Vec<u8> = match data_type.size_bytes() {
            1 => (0..=u8::MAX).collect(),
            _ => (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect(),
        };
        let want =
            elements.chunks(data_type.size_bytes()).map(|bits| to_f64(reducer, Form::Element, bits) as f32);
        let want: Vec<u8> = want.flat_map(f32::to_ne_bytes).collect();
        for variant in Variant::available() {
            let got = converted(variant, data_type, Form::Element, Form::Partial, &elements);
            assert_same(reducer, Form::Partial, &got, &want, &variant);
        }
    }
}

#[test]
fn every_variant_narrows_alike() {
    // Each upper half, with lower halves on both sides of every tie and bit that the formats round at.
    let lower = [0, 1, 0x7fff, 0x8000, 0x8001, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0xffff];
    let values =
        lower.into_iter().flat_map(|low| (0..=u16::MAX).map(move |high| (u32::from(high) << 16) | low));
    let partials: Vec<u8> = values.flat_map(u32::to_ne_bytes).collect();
    for data_type in SMALL {
        let reducer = Reducer::new(data_type, RedOp::Sum, 1);
        let want = converted(Variant::Scalar, data_type, Form::Partial, Form::Element, &partials);
        for variant in Variant::available() {
            let got = converted(variant, data_type, Form::Partial, Form::Element, &partials);
            assert_same(reducer, Form::Element, &got, &want, &variant);
        }
    }
}

#[test]
fn small_floats_are_rounded_once_however_many_are_added() {
    // 1 and 2047 halves of its unit in the last place: rounded at each addition, f16 would stay at 1.
    let half_unit = 2_f32.powi(-11);
    let sources: Vec<Vec<u8>> = std::iter::once(1.0)
        .chain(std::iter::repeat_n(half_unit, 2047))
        .map(|value| f32_to_f16(value).to_ne_bytes().repeat(37))
        .collect();
    let views: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let reducer = Reducer::new(DataType::F16, RedOp::Sum, sources.len());
    let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
    let want = f32_to_f16((half_unit * 2047.0) + 1.0).to_ne_bytes().repeat(37);
    for variant in Variant::available() {
        assert_eq!(
            reduce_at(reducer.kernel_of(variant, shape), (2, usize::MAX), &views, 37, 0),
            want,
            "{variant:?}"
        );
    }
}

#[test]
fn an_average_of_f16_does_not_overflow_in_its_last_sum() {
    let max = f32_to_f16(65504.0).to_ne_bytes();
    let reducer = Reducer::new(DataType::F16, RedOp::Avg, 2);
    let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
    for variant in Variant::available() {
        assert_eq!(reduce_at(reducer.kernel_of(variant, shape), (2, 0), &[&max, &max], 1, 0), max);
    }
}

/// Of more ranks than a sum of theirs would fit for, hop by hop.
#[test]
fn an_average_of_rounded_sums_does_not_overflow_on_its_way() {
    let reducer = Reducer { width: Width::Element, ..Reducer::new(DataType::F16, RedOp::Avg, 4) };
    let max = f32_to_f16(65504.0).to_ne_bytes();
    let (element, rounded) = (Form::Element, Form::Partial);
    let first = Shape { with: element, data: element, into: rounded, finish: false };
    let next = Shape { data: rounded, ..first };
    let last = Shape { into: element, finish: true, ..next };
    for variant in Variant::available() {
        let mut sum = max.to_vec();
        for shape in [first, next, last] {
            sum = reduce_at(reducer.kernel_of(variant, shape), (2, usize::MAX), &[&max, &sum], 1, 0);
        }
        assert_eq!(sum, max);
    }
}

#[test]
fn a_product_with_a_scalar_is_rounded_once() {
    for data_type in DataType::ALL {
        let size = data_type.size_bytes();
        let reducer = Reducer::new(data_type, RedOp::Prod, 1);
        let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: false };
        let mut bits = Bits(3);
        for count in 0..100 {
            let (values, scalar) = (bits.operand(size, count), bits.element(size));
            let scalars = scalar.repeat(count);
            let oracle = reducer.kernel_of(Variant::Scalar, shape);
            let want = reduce_at(oracle, (size, usize::MAX), &[&values, &scalars], count, 0);
            for variant in Variant::available() {
                let mut into = values.clone();
                let target = into.as_mut_ptr();
                // SAFETY: `count` elements, in place, and one scalar.
                unsafe { reducer.scale_with(variant, target, target, scalar.as_ptr(), count) };
                assert_same(reducer, Form::Element, &into, &want, &(variant, count));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn many_sources_at_once_are_one_after_the_other(
        seed: u64,
        n_sources in 1_usize..9,
        count in 0_usize..700,
        offset in 0_usize..64,
        data_type in prop::sample::select(DataType::ALL.to_vec()),
        op in prop::sample::select(OPS.to_vec()),
        in_place: bool,
    ) {
        let reducer = Reducer::new(data_type, op, n_sources);
        let (size, wide) = (data_type.size_bytes(), reducer.bytes(Form::Partial));
        let mut bits = Bits(seed);
        let sources: Vec<Vec<u8>> = (0..n_sources).map(|_| bits.operand(size, count)).collect();
        let views: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let whole = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
        let step = Shape { with: Form::Partial, data: Form::Element, into: Form::Partial, finish: false };
        let last = Shape { with: Form::Partial, data: Form::Partial, into: Form::Element, finish: true };
        let first = Shape { with: Form::Element, ..step };
        for variant in Variant::available() {
            let mut partial = reduce_at(reducer.kernel_of(variant, first), (wide, usize::MAX), &views[..1], count, offset);
            for source in &views[1..] {
                partial = reduce_at(reducer.kernel_of(variant, step), (wide, 0), &[&partial, source], count, offset);
            }
            let want = reduce_at(reducer.kernel_of(variant, last), (size, usize::MAX), &[&partial], count, offset);
            let alias = if in_place { n_sources - 1 } else { usize::MAX };
            let got = reduce_at(reducer.kernel_of(variant, whole), (size, alias), &views, count, offset);
            assert_same(reducer, Form::Element, &got, &want, &(variant, n_sources, count));
        }
    }
}
