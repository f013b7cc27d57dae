//! Many small arrays in one and back, for those who push many small tensors as one.

#![expect(unsafe_code, reason = "copies of a caller's memory")]

use rsccl_collective::error::{Error, Result};

/// Copies `n` arrays into one, one behind the other.
///
/// # Errors
/// A pointer that is NULL; more bytes than there can be.
///
/// # Safety
/// `arrays` and `lengths` are NULL or of `n`; each array is NULL or has as many elements as its length says, `into` is NULL or has
/// as many as all together, and no array overlaps it.
pub(crate) unsafe fn gather(
    into: *mut u8,
    n: usize,
    arrays: *const *const u8,
    lengths: *const usize,
    element_bytes: usize,
) -> Result<()> {
    // SAFETY: by this function's contract.
    let pieces = unsafe { pieces(into, n, arrays, lengths, element_bytes) }?;
    for Piece { at, array, size_bytes } in pieces {
        // SAFETY: by this function's contract; `at` bytes of `into` are those of the arrays before.
        unsafe { std::ptr::copy_nonoverlapping(array, into.wrapping_add(at), size_bytes) };
    }
    Ok(())
}

/// Copies an array into `n`, which lie in it one behind the other.
///
/// # Errors
/// As [`gather`].
///
/// # Safety
/// As [`gather`].
pub(crate) unsafe fn scatter(
    from: *const u8,
    n: usize,
    arrays: *const *mut u8,
    lengths: *const usize,
    element_bytes: usize,
) -> Result<()> {
    // SAFETY: by this function's contract.
    let pieces = unsafe { pieces(from, n, arrays.cast(), lengths, element_bytes) }?;
    for Piece { at, array, size_bytes } in pieces {
        // SAFETY: by this function's contract; `at` bytes of `from` are those of the arrays before.
        unsafe { std::ptr::copy_nonoverlapping(from.wrapping_add(at), array.cast_mut(), size_bytes) };
    }
    Ok(())
}

/// An array that is not empty.
#[derive(Clone, Copy)]
struct Piece {
    /// Its place in the whole, in bytes.
    at: usize,
    array: *const u8,
    size_bytes: usize,
}

/// # Safety
/// `arrays` and `lengths` are NULL or of `n`.
unsafe fn pieces(
    whole: *const u8,
    n: usize,
    arrays: *const *const u8,
    lengths: *const usize,
    element_bytes: usize,
) -> Result<Vec<Piece>> {
    let wrong = |text: String| Err(Error::InvalidArgument(text));
    if n == 0 {
        return Ok(Vec::new());
    }
    if arrays.is_null() || lengths.is_null() {
        return wrong(format!("{} is NULL", if arrays.is_null() { "arrays" } else { "lengths" }));
    }
    // SAFETY: by this function's contract.
    let arrays = unsafe { std::slice::from_raw_parts(arrays, n) };
    // SAFETY: by this function's contract.
    let lengths = unsafe { std::slice::from_raw_parts(lengths, n) };
    let (mut at, mut pieces) = (0_usize, Vec::with_capacity(n));
    for (number, (&array, &length)) in arrays.iter().zip(lengths).enumerate() {
        let size_bytes = length.checked_mul(element_bytes);
        let Some((size_bytes, end)) = size_bytes.and_then(|size| Some((size, at.checked_add(size)?))) else {
            return wrong(format!("array {number} has {length} elements of {element_bytes} bytes"));
        };
        if size_bytes > 0 {
            if array.is_null() || whole.is_null() {
                let what =
                    if array.is_null() { format!("array {number} of {n}") } else { "the whole".to_owned() };
                return wrong(format!("{what} is NULL"));
            }
            pieces.push(Piece { at, array, size_bytes });
        }
        at = end;
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_go_into_one_and_back() {
        let sources: [&[u16]; 3] = [&[1, 2, 3], &[], &[4, 5]];
        let mut whole = [0_u16; 5];
        let arrays = [sources[0].as_ptr().cast(), std::ptr::null(), sources[2].as_ptr().cast()];
        let lengths = sources.map(<[u16]>::len);
        // SAFETY: of these lengths.
        unsafe { gather(whole.as_mut_ptr().cast(), 3, arrays.as_ptr(), lengths.as_ptr(), 2) }.unwrap();
        assert_eq!(whole, [1, 2, 3, 4, 5]);
        let (mut first, mut last) = ([0_u16; 3], [0_u16; 2]);
        let arrays = [first.as_mut_ptr().cast(), std::ptr::null_mut(), last.as_mut_ptr().cast()];
        // SAFETY: of these lengths.
        unsafe { scatter(whole.as_ptr().cast(), 3, arrays.as_ptr(), lengths.as_ptr(), 2) }.unwrap();
        assert_eq!((first, last), ([1, 2, 3], [4, 5]));
    }

    #[test]
    fn what_makes_no_sense_is_named_and_nothing_is_copied() {
        let (mut whole, lengths, huge) = ([7; 5], [3, 2], [usize::MAX, 2]);
        let arrays = [[1; 3].as_ptr(), std::ptr::null()];
        let into = whole.as_mut_ptr();
        let refused = |into, arrays, lengths, element_bytes| {
            // SAFETY: nothing is copied where anything is wrong.
            unsafe { gather(into, 2, arrays, lengths, element_bytes) }
        };
        let said = [
            refused(into, arrays.as_ptr(), lengths.as_ptr(), 1),
            refused(std::ptr::null_mut(), arrays.as_ptr(), lengths.as_ptr(), 1),
            refused(into, std::ptr::null(), lengths.as_ptr(), 1),
            refused(into, arrays.as_ptr(), std::ptr::null(), 1),
            refused(into, arrays.as_ptr(), huge.as_ptr(), 2),
        ];
        let said = said.map(|outcome| outcome.unwrap_err().to_string());
        let expected =
            ["array 1 of 2 is NULL", "the whole is NULL", "arrays is NULL", "lengths is NULL", "array 0 has"];
        for (text, what) in said.iter().zip(expected) {
            assert!(text.contains(what), "{text}");
        }
        assert_eq!(whole, [7; 5]);
    }
}
