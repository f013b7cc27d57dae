//! The real library's functions, found once and kept.
//!
//! In this order: `dlsym(RTLD_NEXT, "ncclX")` (the library was linked or loaded globally; another interposer may come
//! first, as it should); the known sonames, if loaded (after `dlopen(RTLD_LOCAL)`, as `import torch` does);
//! any loaded object that exports `pncclX` (renamed, or linked into a framework statically).

#![expect(unsafe_code, reason = "asks the dynamic linker")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

macro_rules! functions {
    ($($name:ident)*) => {
        /// A function of the library.
        #[derive(Clone, Copy)]
        #[expect(non_camel_case_types, reason = "the names of nccl.h")]
        #[expect(clippy::enum_variant_names, reason = "the names of nccl.h")]
        pub(super) enum Function { $($name),* }

        impl Function {
            const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name with the `p` that profilers may call it by.
            fn profiled_name(self) -> &'static CStr {
                const NAMES: &[&str] = &[$(concat!("p", stringify!($name), "\0")),*];
                NAMES
                    .get(self as usize)
                    .and_then(|name| CStr::from_bytes_with_nul(name.as_bytes()).ok())
                    .unwrap_or_default()
            }
        }
    };
}

functions! {
    ncclCommInitRank ncclCommInitRankConfig ncclCommInitAll ncclCommSplit
    ncclCommDestroy ncclCommAbort ncclCommFinalize ncclCommGetAsyncError ncclGroupStart ncclGroupEnd
    ncclAllReduce ncclBroadcast ncclBcast ncclReduce ncclAllGather ncclReduceScatter ncclSend ncclRecv
    ncclGetVersion ncclCommCount ncclCommUserRank ncclCommCuDevice
}

const N_FUNCTIONS: usize = Function::ALL.len();

static REAL: [AtomicPtr<c_void>; N_FUNCTIONS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; N_FUNCTIONS];

/// Libraries that speak the API, in the order in which they are asked.
const SONAMES: [&CStr; 4] = [c"libnccl.so.2", c"libnccl.so", c"librccl.so.1", c"librsccl.so"];

impl Function {
    /// Its name.
    fn name(self) -> &'static CStr {
        CStr::from_bytes_with_nul(&self.profiled_name().to_bytes_with_nul()[1..]).unwrap_or_default()
    }
}

/// The library's own function; null if no loaded object has it. Never one of ours.
#[inline(always)]
pub(super) fn real(function: Function) -> *mut c_void {
    let known = REAL[function as usize].load(Acquire);
    if known.is_null() { resolve(function) } else { known }
}

/// Finds all functions now, so that no call on the record path has to.
pub(super) fn resolve_all() {
    for function in Function::ALL {
        if REAL[*function as usize].load(Relaxed).is_null() {
            resolve(*function);
        }
    }
}

/// `ncclGetVersion` of the real library, 0 if it does not say.
pub(super) fn library_version() -> u32 {
    let real = real(Function::ncclGetVersion);
    if real.is_null() {
        return 0;
    }
    // SAFETY: the signature of `ncclGetVersion` since 2.3.
    let real: unsafe extern "C-unwind" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(real) };
    let mut version = 0;
    // SAFETY: `version` is a valid place for the answer.
    let result = unsafe { real(&raw mut version) };
    if result == 0 { u32::try_from(version).unwrap_or_default() } else { 0 }
}

#[cold]
fn resolve(function: Function) -> *mut c_void {
    let found = super::guard(|| {
        lookup(libc::RTLD_NEXT, function.name())
            .or_else(|| SONAMES.iter().find_map(|soname| in_object(soname, function)))
            .or_else(|| loaded_objects().iter().find_map(|object| in_object(object, function)))
    });
    let found = found.flatten().unwrap_or(std::ptr::null_mut());
    REAL[function as usize].store(found, Release);
    found
}

/// The function in an object, if it is loaded.
fn in_object(object: &CStr, function: Function) -> Option<*mut c_void> {
    // SAFETY: with RTLD_NOLOAD nothing is loaded, no code of others runs.
    let handle = unsafe { libc::dlopen(object.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    let found = lookup(handle, function.profiled_name()).or_else(|| lookup(handle, function.name()));
    if found.is_none() {
        // SAFETY: gives back the reference just taken. Where something was found it is kept: the object must stay.
        unsafe { libc::dlclose(handle) };
    }
    found
}

fn lookup(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a pseudo-handle or one from dlopen, and a terminated name.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!found.is_null() && !is_ours(found)).then_some(found)
}

pub(super) fn is_ours(address: *mut c_void) -> bool {
    let own: fn(*mut c_void) -> bool = is_ours;
    object_of(address).is_some_and(|base| Some(base) == object_of(own as *mut c_void))
}

/// Where the object that holds an address is loaded.
fn object_of(address: *mut c_void) -> Option<*mut c_void> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is a valid place for the answer; any address may be asked for.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all zero is a valid Dl_info.
    let info = unsafe { info.assume_init() };
    (found != 0).then_some(info.dli_fbase)
}

/// Names of all loaded objects but the program itself. They are only listed under the linker's lock, and asked later.
fn loaded_objects() -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `list` is called with the pointer given here, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut names).cast()) };
    names
}

unsafe extern "C" fn list(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
    // SAFETY: the linker passes a valid record ...
    let name = unsafe { (*info).dlpi_name };
    if !name.is_null() {
        // SAFETY: ... with a terminated name, valid during the call.
        let name = unsafe { CStr::from_ptr(name) };
        // SAFETY: `loaded_objects` passes its Vec, which nothing else uses meanwhile.
        let names = unsafe { &mut *names.cast::<Vec<CString>>() };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}
