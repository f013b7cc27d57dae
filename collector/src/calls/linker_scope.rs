//! What the dynamic linker knows: who called, and which copy of the library the caller would have got without us.
//!
//! The copies are looked for where the linker would have looked for the caller, in this order:
//!
//! 1. what is loaded for everybody, behind us (`RTLD_NEXT`) or behind the preloaded object that opened us. Another
//!    interposer may come first there, as it would without us;
//! 2. the caller's own object and those it needs: a library opened with `dlopen(RTLD_LOCAL)`, as `import torch` does, or a
//!    copy that is linked into the caller statically;
//! 3. the known sonames;
//! 4. any loaded object that exports `pncclX`.
//!
//! Where a scope was opened with several copies, their order is taken to be the caller's own.

#![expect(unsafe_code, reason = "asks the dynamic linker and the unwinder")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use crate::segment::forks::{is_linker_stuck, unstick_linker};

/// Libraries that speak the API, in the order in which they are asked.
const SONAMES: [&CStr; 4] = [c"libnccl.so.2", c"libnccl.so", c"librccl.so.1", c"librsccl.so"];

/// Where a caller finds the library.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// Behind us in the order in which everybody looks.
    Next,
    /// In an object and what it needs: a handle of `dlopen`, which keeps it loaded until [`Scope::close`].
    Object(*mut c_void),
}

impl Scope {
    /// The function of this name, of which `profiled` is the other name; never one of ours.
    pub(crate) fn find(self, name: &CStr, profiled: &CStr) -> Option<*mut c_void> {
        match self {
            Self::Next => lookup(libc::RTLD_NEXT, name).or_else(|| behind_preload(name)),
            Self::Object(handle) => lookup(handle, profiled).or_else(|| lookup(handle, name)),
        }
    }

    /// The object may be unloaded from now on, as far as others do not keep it.
    pub(crate) fn close(self) {
        // In a child with half of the linker's tables it stays: the last close looks through all that is loaded, and frees what
        // another thread of the parent had begun to free.
        if let Self::Object(handle) = self
            && !is_linker_stuck()
        {
            // SAFETY: a handle of `open`, which nobody uses any more.
            unsafe { libc::dlclose(handle) };
        }
    }
}

/// The first scope that has a function called `name` and `profiled`, for a caller at this address (0: nobody).
pub(crate) fn of_caller(caller: usize, name: &CStr, profiled: &CStr) -> Option<Scope> {
    let has = |scope: &Scope| scope.find(name, profiled).is_some();
    if has(&Scope::Next) {
        return Some(Scope::Next);
    }
    object_at(caller)
        .and_then(|object| open(&object.name, has))
        .or_else(|| SONAMES.iter().find_map(|soname| open(soname, has)))
        .or_else(|| all_objects().iter().find_map(|object| open(object, has)))
}

/// A loaded object as a scope, if it passes the test.
pub(crate) fn open(object: &CStr, has: impl Fn(&Scope) -> bool) -> Option<Scope> {
    unstick_linker();
    // The program itself has no name.
    let name = if object.is_empty() { std::ptr::null() } else { object.as_ptr() };
    // SAFETY: with RTLD_NOLOAD nothing is loaded, no code of others runs.
    let handle = unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    let scope = Scope::Object(handle);
    if has(&scope) {
        return Some(scope);
    }
    scope.close();
    None
}

/// Keeps the objects loaded in which functions were found.
#[derive(Default)]
pub(crate) struct Kept(Vec<*mut c_void>);

impl Kept {
    /// Keeps the object that holds the function; false if it cannot be named to the linker, or the linker is better not asked.
    pub(crate) fn keep(&mut self, function: *mut c_void) -> bool {
        if is_linker_stuck() {
            return false;
        }
        let Some((base, path)) = base_of(function) else { return false };
        if self.0.contains(&base) {
            return true;
        }
        let is_kept = open(&path, |_| true).is_some();
        if is_kept {
            self.0.push(base);
        }
        is_kept
    }
}

fn lookup(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a pseudo-handle or one from dlopen, and a terminated name.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!found.is_null() && !is_ours(found.addr()) && !is_preloads(found)).then_some(found)
}

/// A function of the object that is preloaded (`collector/preload`), found once.
struct OfPreload {
    name: &'static CStr,
    place: AtomicPtr<c_void>,
}

impl OfPreload {
    const fn new(name: &'static CStr) -> Self {
        Self { name, place: AtomicPtr::new(null_mut()) }
    }

    fn find(&self) -> Option<*mut c_void> {
        let known = self.place.load(Acquire);
        if !known.is_null() {
            return Some(known);
        }
        // SAFETY: a pseudo-handle and a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr()) };
        self.place.store(found, Release);
        (!found.is_null()).then_some(found)
    }
}

static NEXT: OfPreload = OfPreload::new(c"ringscope_preload_next");
static HOLDS: OfPreload = OfPreload::new(c"ringscope_preload_holds");

/// What comes behind the object that is preloaded: behind us comes nothing, if it has opened us.
fn behind_preload(name: &CStr) -> Option<*mut c_void> {
    let next = NEXT.find()?;
    // SAFETY: its signature in `preload.c`.
    let next: unsafe extern "C" fn(*const c_char) -> *mut c_void = unsafe { std::mem::transmute(next) };
    // SAFETY: a terminated name.
    let found = unsafe { next(name.as_ptr()) };
    (!found.is_null() && !is_ours(found.addr())).then_some(found)
}

/// Whether this is one of the functions that lead to ours.
fn is_preloads(found: *mut c_void) -> bool {
    let Some(holds) = HOLDS.find() else { return false };
    // SAFETY: its signature in `preload.c`.
    let holds: unsafe extern "C" fn(*const c_void) -> c_int = unsafe { std::mem::transmute(holds) };
    // SAFETY: any address may be asked for.
    unsafe { holds(found) != 0 }
}

/// Where the object that holds an address is loaded, and its path.
pub(crate) fn base_of(address: *mut c_void) -> Option<(*mut c_void, CString)> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is a valid place for the answer; any address may be asked for.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: all zero is a valid Dl_info.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own text, which lives as long as the object.
    Some((info.dli_fbase, unsafe { CStr::from_ptr(info.dli_fname) }.to_owned()))
}

/// A loaded object: its name as the linker has it, and the addresses from its first byte to its last.
pub(crate) struct Object {
    pub(crate) start: usize,
    pub(crate) end: usize,
    name: CString,
}

/// What the linker publishes of a loaded object. Source: `link.h`, `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: *mut LinkMap,
    previous: *mut LinkMap,
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        more: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

/// For `dladdr1`: the answer is a [`LinkMap`]. Source: `dlfcn.h`.
const RTLD_DL_LINKMAP: c_int = 2;

/// The object that has code or data at this address. Not by `dl_iterate_phdr`, whose lock a child inherits as it was when
/// another thread of its parent held it; that of `dladdr` a fork makes anew.
pub(crate) fn object_at(address: usize) -> Option<Object> {
    let address: *const c_void = std::ptr::with_exposed_provenance(address);
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut map = null_mut();
    // SAFETY: valid places for the answers; any address may be asked for.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut map, RTLD_DL_LINKMAP) };
    // SAFETY: all zero is a valid Dl_info.
    let info = unsafe { info.assume_init() };
    // SAFETY: NULL, or of the object that the caller is in, which stays loaded meanwhile.
    let name = unsafe { map.cast::<LinkMap>().as_ref() }.filter(|_| found != 0)?.name;
    let (start, end) = range_at(info.dli_fbase)?;
    // SAFETY: NULL or the linker's own text, which lives as long as the object. The program itself has no name.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    Some(Object { start, end, name: name.to_owned() })
}

/// Bytes that are mapped where an object begins, at the least.
const FIRST_PAGE: usize = 4096;

/// From the first byte of an object to its last, by its headers, if they lie where it begins.
fn range_at(start: *mut c_void) -> Option<(usize, usize)> {
    // SAFETY: the linker says that an object is mapped here, and one begins with its first page.
    let file = unsafe { start.cast::<libc::Elf64_Ehdr>().as_ref() }?;
    if file.e_ident[..4] != *b"\x7fELF" {
        return None;
    }
    let (offset, n_headers) = (usize::try_from(file.e_phoff).ok()?, usize::from(file.e_phnum));
    if offset.checked_add(n_headers * size_of::<libc::Elf64_Phdr>())? > FIRST_PAGE {
        return None;
    }
    let headers = start.addr().checked_add(offset)?;
    let headers: *const libc::Elf64_Phdr = std::ptr::with_exposed_provenance(headers);
    // SAFETY: they lie in the object's first page.
    let headers = unsafe { std::slice::from_raw_parts(headers, n_headers) };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let first = loaded().map(|header| header.p_vaddr).min()?;
    let last = loaded().map(|header| header.p_vaddr.saturating_add(header.p_memsz)).max()?;
    let len = usize::try_from(last.saturating_sub(first)).ok()?;
    Some((start.addr(), start.addr().saturating_add(len)))
}

/// This process is a forked child: [`all_objects`] might wait for ever.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// In a forked child: what is asked under a lock that it may have inherited is asked no more.
pub(crate) fn forget() {
    IS_CHILD.store(true, Relaxed);
}

/// Names of all loaded objects but the program itself. They are only listed under the linker's lock, and asked later.
fn all_objects() -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    if IS_CHILD.load(Relaxed) {
        return names;
    }
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
        // SAFETY: `all_objects` passes its Vec, which nothing else uses meanwhile.
        let names = unsafe { &mut *names.cast::<Vec<CString>>() };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}

unsafe extern "C" {
    /// The first byte of our own object, and the one behind its last: the linker that makes it puts them there.
    #[link_name = "__ehdr_start"]
    static OWN_START: u8;
    #[link_name = "_end"]
    static OWN_END: u8;
}

pub(crate) fn is_ours(address: usize) -> bool {
    ((&raw const OWN_START).addr()..(&raw const OWN_END).addr()).contains(&address)
}

thread_local! {
    /// Where the exported function that this thread is in will return to; 0 if it has not said.
    static CALLER: Cell<usize> = const { Cell::new(0) };
}

/// A function says where it will return to.
pub(crate) extern "C" fn remember_caller(address: usize) {
    CALLER.set(address);
}

/// What the function that this thread is in has said: good for once.
pub(crate) fn remembered_caller() -> usize {
    CALLER.take()
}

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The address in the caller's code to which the exported function that this thread is in will return; 0 if there is
/// no telling. About a microsecond: not for the record path. The unwinder may take the linker's lock, which a forked child
/// may have inherited: not for what a first call does.
pub(crate) fn caller() -> usize {
    let mut caller = 0_usize;
    // SAFETY: `visit` is called with the pointer given here, before this returns.
    unsafe { _Unwind_Backtrace(visit, (&raw mut caller).cast()) };
    caller
}

unsafe extern "C-unwind" fn visit(frame: *mut c_void, caller: *mut c_void) -> c_int {
    // `_URC_NO_REASON` goes on, anything else ends.
    const GO_ON: c_int = 0;
    const END: c_int = 4;
    // SAFETY: the unwinder passes a valid frame.
    let address = unsafe { _Unwind_GetIP(frame) };
    if is_ours(address) {
        return GO_ON;
    }
    // SAFETY: `caller` passes its variable, which nothing else uses meanwhile.
    unsafe { *caller.cast::<usize>() = address };
    END
}
