//! The kernels by name, for `examples/kernels.rs`: no part of the library's interface.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use super::{Form, Reducer, Shape, Variant, Width, copy};
use crate::types::{DataType, RedOp};

/// One kernel, with what it reads and writes per element.
pub struct Case {
    /// Element type, operator and forms.
    pub name: String,
    /// Instruction set; none for copies.
    pub variant: String,
    /// Bytes of one element of each source.
    pub source_bytes: Vec<usize>,
    /// Bytes of one element of the target.
    pub into_bytes: usize,
    /// Bytes of one element of the operation: what a rate counts.
    pub element_bytes: usize,
    /// Whether the first source is the target.
    pub in_place: bool,
    run: Run,
}

type Run = Box<dyn Fn(*mut u8, &[*const u8], usize) + Send>;

impl Case {
    /// # Safety
    ///
    /// `count` elements of the stated sizes are valid at every pointer, and overlap nowhere but as `in_place` says.
    pub unsafe fn run(&self, into: *mut u8, sources: &[*const u8], count: usize) {
        (self.run)(into, sources, count);
    }
}

/// Every kernel worth a figure, on every instruction set that this processor has. The first is the system's copy.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = vec![copying("copy", copy::copy), copying("copy streamed", copy::copy_streamed)];
    for variant in Variant::available() {
        cases.extend(of_variant(variant));
    }
    cases
}

fn copying(name: &str, function: unsafe fn(*mut u8, *const u8, usize)) -> Case {
    Case {
        name: name.to_owned(),
        variant: String::new(),
        source_bytes: vec![4],
        into_bytes: 4,
        element_bytes: 4,
        in_place: false,
        // SAFETY: the caller of `Case::run` promised.
        run: Box::new(move |into, sources, count| unsafe { function(into, sources[0], count * 4) }),
    }
}

fn of_variant(variant: Variant) -> Vec<Case> {
    use Form::{Element, Partial};
    let mut cases = Vec::new();
    for op in [RedOp::Sum, RedOp::Avg, RedOp::Max] {
        let reducer = |data_type| Reducer::new(data_type, op, 3);
        cases.extend(DataType::ALL.map(|data_type| reducing(variant, reducer(data_type), [Element; 3], 2)));
    }
    for data_type in [DataType::F16, DataType::Bf16, DataType::F8e4m3, DataType::F8e5m2] {
        let reducer = Reducer::new(data_type, RedOp::Sum, 3);
        for forms in [[Element, Element, Partial], [Partial, Element, Partial], [Partial, Element, Element]] {
            cases.push(reducing(variant, reducer, forms, 2));
        }
        cases.push(reducing(variant, reducer, [Element; 3], 4));
        let average = Reducer { op: RedOp::Avg, width: Width::Element, ..reducer };
        cases.push(reducing(variant, average, [Element, Partial, Partial], 2));
    }
    let reducer = Reducer::new(DataType::F32, RedOp::Sum, 3);
    cases.extend([4, 8].map(|n_sources| reducing(variant, reducer, [Element; 3], n_sources)));
    cases.push(Case { in_place: true, ..reducing(variant, reducer, [Element; 3], 2) });
    cases.push(one_by_one(variant, reducer, 4));
    cases.push(streaming(variant, reducer));
    cases
}

fn reducing(variant: Variant, reducer: Reducer, forms: [Form; 3], n_sources: usize) -> Case {
    let [with, data, into] = forms;
    let kernel = reducer.kernel_of(variant, Shape { with, data, into, finish: into == Form::Element });
    let partial = if reducer.width == Width::Element { 'r' } else { 'p' };
    let letter = |form| if form == Form::Element { 'e' } else { partial };
    let letters: String = forms.map(letter).iter().collect();
    let mut source_bytes = vec![reducer.bytes(data); n_sources];
    source_bytes[0] = reducer.bytes(with);
    Case {
        name: format!("{:?} {:?} {letters} of {n_sources}", reducer.data_type, reducer.op),
        variant: format!("{variant:?}"),
        source_bytes,
        into_bytes: reducer.bytes(into),
        element_bytes: reducer.data_type.size_bytes(),
        in_place: false,
        // SAFETY: the caller of `Case::run` promised.
        run: Box::new(move |into, sources, count| unsafe { kernel.run(into, sources, count) }),
    }
}

/// What [`reducing`] does in one pass.
fn one_by_one(variant: Variant, reducer: Reducer, n_sources: usize) -> Case {
    let case = reducing(variant, reducer, [Form::Element; 3], n_sources);
    let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: false };
    let kernel = reducer.kernel_of(variant, shape);
    let run = move |into: *mut u8, sources: &[*const u8], count| {
        // SAFETY: the caller of `Case::run` promised.
        unsafe { kernel.run(into, &sources[..2], count) };
        for source in &sources[2..] {
            // SAFETY: as above, in place.
            unsafe { kernel.run(into, &[into, *source], count) };
        }
    };
    Case { name: format!("{} one by one", case.name), run: Box::new(run), ..case }
}

fn streaming(variant: Variant, reducer: Reducer) -> Case {
    let case = reducing(variant, reducer, [Form::Element; 3], 2);
    let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
    let kernel = reducer.kernel_of(variant, shape);
    // SAFETY: the caller of `Case::run` promised.
    let run = move |into: *mut u8, sources: &[*const u8], count| unsafe {
        kernel.run_streamed(into, sources, count)
    };
    Case { name: format!("{} streamed", case.name), run: Box::new(run), ..case }
}
