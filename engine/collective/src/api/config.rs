//! Fence: reading the caller's `ncclConfig_t`, of whatever version.

#![expect(unsafe_code, reason = "the structure is as long as its first member says")]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem::offset_of;

use crate::comm::CommConfig;
use crate::error::{Error, Result};

/// `ncclConfig_t` of NCCL 2.28. Older ones are prefixes of it, and a newer one begins with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub struct Config {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub blocking: c_int,
    pub cga_cluster_size: c_int,
    pub min_ctas: c_int,
    pub max_ctas: c_int,
    pub net_name: *const c_char,
    pub split_share: c_int,
    pub traffic_class: c_int,
    pub comm_name: *const c_char,
    pub collnet_enable: c_int,
    pub cta_policy: c_int,
    pub shrink_share: c_int,
    pub nvls_ctas: c_int,
    pub n_channels_per_net_peer: c_int,
    pub nvlink_centric_sched: c_int,
}

/// What `NCCL_CONFIG_INITIALIZER` writes.
const MAGIC: c_uint = 0xcafe_beef;
/// `NCCL_CONFIG_UNDEF_INT`
const UNDEFINED: c_int = c_int::MIN;

const _: () = {
    assert!(offset_of!(Config, blocking) == 16 && offset_of!(Config, max_ctas) == 28);
    assert!(offset_of!(Config, net_name) == 32 && offset_of!(Config, traffic_class) == 44);
    assert!(offset_of!(Config, comm_name) == 48 && offset_of!(Config, nvlink_centric_sched) == 76);
    assert!(size_of::<Config>() == 80);
};

impl Config {
    const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        magic: MAGIC,
        version: 0,
        blocking: UNDEFINED,
        cga_cluster_size: UNDEFINED,
        min_ctas: UNDEFINED,
        max_ctas: UNDEFINED,
        net_name: std::ptr::null(),
        split_share: UNDEFINED,
        traffic_class: UNDEFINED,
        comm_name: std::ptr::null(),
        collnet_enable: UNDEFINED,
        cta_policy: UNDEFINED,
        shrink_share: UNDEFINED,
        nvls_ctas: UNDEFINED,
        n_channels_per_net_peer: UNDEFINED,
        nvlink_centric_sched: UNDEFINED,
    };
}

/// What the caller's configuration asks for; nothing for NULL.
///
/// # Safety
/// `config` is NULL, or points to an `ncclConfig_t` as long as its `size` says, with valid strings.
pub(crate) unsafe fn read(config: *const Config) -> Result<Option<CommConfig>> {
    if config.is_null() {
        return Ok(None);
    }
    // SAFETY: every version begins with the size.
    let size = unsafe { config.cast::<usize>().read() };
    if size < offset_of!(Config, cga_cluster_size) || size > 4096 {
        return Err(Error::InvalidArgument(format!(
            "ncclConfig_t: {size} bytes; use NCCL_CONFIG_INITIALIZER"
        )));
    }
    let mut own = Config::DEFAULT;
    let len = size.min(size_of::<Config>());
    // SAFETY: both are valid for `len` bytes, and any bytes are a `Config`.
    unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut own).cast::<u8>(), len) };
    if own.magic != MAGIC {
        return Err(Error::InvalidArgument("ncclConfig_t: no magic; use NCCL_CONFIG_INITIALIZER".to_owned()));
    }
    let name = (!own.comm_name.is_null()).then(|| {
        // SAFETY: the caller's string.
        unsafe { CStr::from_ptr(own.comm_name) }.to_string_lossy().into_owned()
    });
    let (min_ctas, max_ctas) = (count("minCTAs", own.min_ctas)?, count("maxCTAs", own.max_ctas)?);
    if min_ctas.zip(max_ctas).is_some_and(|(min, max)| min > max) {
        return Err(Error::InvalidArgument("ncclConfig_t: minCTAs is above maxCTAs".to_owned()));
    }
    let blocking = match own.blocking {
        UNDEFINED => None,
        0 => Some(false),
        1 => Some(true),
        other => {
            return Err(Error::InvalidArgument(format!("ncclConfig_t: blocking is {other}, not 0 or 1")));
        }
    };
    Ok(Some(CommConfig { name, min_ctas, max_ctas, blocking }))
}

fn count(name: &str, value: c_int) -> Result<Option<usize>> {
    match usize::try_from(value) {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ if value == UNDEFINED => Ok(None),
        _ => Err(Error::InvalidArgument(format!("ncclConfig_t: {name} is {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_members_ask_for_nothing() {
        let whole = Config::DEFAULT;
        // SAFETY: a whole structure.
        let read = unsafe { read(&raw const whole) };
        assert_eq!(read, Ok(Some(CommConfig::default())));
    }

    #[test]
    fn an_older_structure_is_read_as_far_as_it_goes() {
        let name = c"job".as_ptr();
        let old = Config { size: 48, max_ctas: 4, comm_name: name, ..Config::DEFAULT };
        // SAFETY: longer than its size says.
        let read = unsafe { read(&raw const old) };
        assert_eq!(read, Ok(Some(CommConfig { max_ctas: Some(4), ..CommConfig::default() })));
    }

    #[test]
    fn garbage_is_refused() {
        for garbage in [Config { magic: 1, ..Config::DEFAULT }, Config { size: 1 << 20, ..Config::DEFAULT }] {
            // SAFETY: a whole structure; a wrong size is refused before it is used.
            assert!(unsafe { read(&raw const garbage) }.is_err());
        }
    }
}
