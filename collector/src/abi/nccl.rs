//! The types of `nccl.h`. Enums come in as `c_int`: newer libraries have values that no Rust enum here would know.

#![expect(unsafe_code, reason = "reads the caller's structures")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::null;

/// `ncclComm_t`.
pub(crate) type Comm = *mut c_void;
/// `cudaStream_t`.
pub(crate) type Stream = *mut c_void;

/// `ncclSuccess`.
pub(crate) const SUCCESS: c_int = 0;
/// `ncclSystemError`: what a wrapper returns when there is no library behind it.
pub(crate) const SYSTEM_ERROR: c_int = 2;

/// `ncclInProgress`: the library has taken the call and goes on by itself, of a communicator that does not block.
pub(crate) const IN_PROGRESS: c_int = 7;
/// `NCCL_SPLIT_NOCOLOR`.
pub(crate) const SPLIT_NOCOLOR: c_int = -1;
/// `NCCL_SHRINK_ABORT`.
pub(crate) const SHRINK_ABORT: c_int = 1;

/// `ncclUniqueId`, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId {
    pub(crate) internal: [u8; 128],
}

/// The beginning of `ncclConfig_t`, up to the last field that is wanted. Newer versions only add to the end; how much the
/// caller has, `size` says.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    /// Since 2.18.
    split_share: c_int,
    /// Since 2.26.
    traffic_class: c_int,
    /// Since 2.27, as are those after it.
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
}

/// `NCCL_API_MAGIC`.
const CONFIG_MAGIC: c_uint = 0xcafe_beef;
/// `NCCL_CONFIG_UNDEF_INT`: the program left the default.
const UNDEFINED: c_int = c_int::MIN;

// As compiled from the nccl.h of 2.18.3, 2.27.7, 2.28.9, 2.29.7 and 2.32.3.
const _: () = {
    assert!(offset_of!(Config, version) == 12);
    assert!(offset_of!(Config, min_ctas) == 24);
    assert!(offset_of!(Config, max_ctas) == 28);
    assert!(offset_of!(Config, net_name) == 32);
    assert!(offset_of!(Config, split_share) == 40);
    assert!(offset_of!(Config, comm_name) == 48);
    assert!(offset_of!(Config, shrink_share) == 64);
};

/// What a `ncclConfig_t` says. Zero, NULL and false where the program left the default.
pub(crate) struct Said {
    /// The program's own text.
    pub(crate) name: *const c_char,
    pub(crate) min_ctas: c_int,
    pub(crate) max_ctas: c_int,
    pub(crate) split_share: bool,
    pub(crate) shrink_share: bool,
}

/// Reads a configuration; none if the caller gave none, or something else.
///
/// # Safety
/// NULL or a `ncclConfig_t` as its own `size` says.
pub(crate) unsafe fn read_config(config: *const c_void) -> Option<Said> {
    if config.is_null() {
        return None;
    }
    // SAFETY: every version begins with these.
    let size = unsafe { config.cast::<usize>().read() };
    // SAFETY: as above.
    let magic = unsafe { config.wrapping_byte_add(offset_of!(Config, magic)).cast::<c_uint>().read() };
    if magic != CONFIG_MAGIC {
        return None;
    }
    let int = |offset: usize| {
        // SAFETY: `size` says that the field is there.
        let value = (offset + size_of::<c_int>() <= size)
            .then(|| unsafe { config.wrapping_byte_add(offset).cast::<c_int>().read() });
        value.filter(|value| *value != UNDEFINED).unwrap_or(0)
    };
    let has_name = offset_of!(Config, collnet_enable) <= size;
    // SAFETY: `size` says that the field is there.
    let name = has_name.then(|| unsafe {
        config.wrapping_byte_add(offset_of!(Config, comm_name)).cast::<*const c_char>().read()
    });
    Some(Said {
        name: name.unwrap_or(null()),
        min_ctas: int(offset_of!(Config, min_ctas)),
        max_ctas: int(offset_of!(Config, max_ctas)),
        split_share: int(offset_of!(Config, split_share)) != 0,
        shrink_share: int(offset_of!(Config, shrink_share)) != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration as a program of 2.32 compiles it, of which it claims to have `size` bytes.
    fn read(size: usize, magic: c_uint) -> Option<Said> {
        let config = Config {
            size,
            magic,
            version: 23_203,
            blocking: 0,
            cga_cluster_size: UNDEFINED,
            min_ctas: 3,
            max_ctas: UNDEFINED,
            net_name: null(),
            split_share: 1,
            traffic_class: UNDEFINED,
            comm_name: c"world".as_ptr(),
            collnet_enable: UNDEFINED,
            cta_policy: UNDEFINED,
            shrink_share: 1,
        };
        // SAFETY: a configuration of at least that size.
        unsafe { read_config((&raw const config).cast()) }
    }

    #[test]
    fn only_the_fields_that_a_configuration_has_are_read() {
        // Of 2.14, of 2.17 without and 2.18 with the share, of 2.26, of 2.27, and one cut in the midst of a field.
        let expected = [
            (24, 0, false, false, false),
            (40, 3, false, false, false),
            (48, 3, true, false, false),
            (56, 3, true, true, false),
            (67, 3, true, true, false),
            (72, 3, true, true, true),
        ];
        for (size, min_ctas, split_share, has_name, shrink_share) in expected {
            let said = read(size, CONFIG_MAGIC).unwrap();
            assert_eq!((said.min_ctas, said.max_ctas), (min_ctas, 0), "{size}");
            assert_eq!((said.split_share, said.shrink_share), (split_share, shrink_share), "{size}");
            assert_eq!(!said.name.is_null(), has_name, "{size}");
        }
    }

    #[test]
    fn what_is_no_configuration_says_nothing() {
        assert!(read(72, 0).is_none());
        // SAFETY: NULL.
        assert!(unsafe { read_config(null()) }.is_none());
    }
}
