//! Reduces of slices whose lengths are checked: the way in for code that keeps no raw memory.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use crate::kernels::{Form, Reducer, Shape};

impl Reducer {
    /// `into = sources[0] op sources[1] op …`, as [`crate::kernels::Kernel::run`] has it.
    ///
    /// There is at least one source, and all slices hold equally many elements of their forms: a caller that passes
    /// others is at fault, and stopped.
    pub fn run_slices(self, shape: Shape, into: &mut [u8], sources: &[&[u8]]) {
        let count = into.len() / self.bytes(shape.into);
        let forms = std::iter::once(shape.with).chain(std::iter::repeat(shape.data));
        let fits = |slice: &[u8], form: Form| slice.len() == count * self.bytes(form);
        assert!(fits(into, shape.into), "a target of {} bytes ends inside an element", into.len());
        assert!(!sources.is_empty(), "a reducer of nothing");
        assert!(
            sources.iter().zip(forms).all(|(source, form)| fits(source, form)),
            "a source does not have {count} elements"
        );
        let pointers: Vec<*const u8> = sources.iter().map(|source| source.as_ptr()).collect();
        // SAFETY: every slice has `count` elements of its form, and a unique borrow overlaps no other.
        unsafe { self.kernel(shape).run(into.as_mut_ptr(), &pointers, count) }
    }

    /// `into = into op sources[0] op …`: as [`Self::run_slices`], with the target for the first source, in whose form it stays.
    pub fn run_in_place(self, shape: Shape, into: &mut [u8], sources: &[&[u8]]) {
        let count = into.len() / self.bytes(shape.into);
        let data_bytes = count * self.bytes(shape.data);
        assert_eq!(self.bytes(shape.with), self.bytes(shape.into), "the target has two forms");
        assert!(into.len() == count * self.bytes(shape.into), "{} bytes end inside an element", into.len());
        assert!(sources.iter().all(|source| source.len() == data_bytes), "a source has another length");
        let target = into.as_mut_ptr();
        let others = sources.iter().map(|source| source.as_ptr());
        let pointers: Vec<*const u8> = std::iter::once(target.cast_const()).chain(others).collect();
        // SAFETY: every slice has `count` elements, a unique borrow overlaps no other, and the first source is the target.
        unsafe { self.kernel(shape).run(target, &pointers, count) }
    }
}
