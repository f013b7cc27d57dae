//! Names of communicators, as the segment holds them.

#![expect(unsafe_code, reason = "reads C texts")]

use std::ffi::{CStr, c_char};

/// A name as the segment holds it; zeros where there is none.
pub(crate) type Name = [u64; 8];

/// A text as the segment holds names: cut to 64 bytes, NUL-padded, little-endian words.
pub(crate) fn name_of(text: &[u8]) -> Name {
    let mut name = Name::default();
    let text = &text[..text.len().min(size_of::<Name>())];
    for (word, chunk) in name.iter_mut().zip(text.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(padded);
    }
    name
}

/// The same of a C text; no name for NULL.
///
/// # Safety
/// NULL or a terminated text.
pub(crate) unsafe fn name_of_c(text: *const c_char) -> Name {
    if text.is_null() {
        return Name::default();
    }
    // SAFETY: the caller's promise.
    name_of(unsafe { CStr::from_ptr(text) }.to_bytes())
}
