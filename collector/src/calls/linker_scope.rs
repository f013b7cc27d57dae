//! What the dynamic linker knows: who called, and which copy of the library the caller would have got without us.
//!
//! A caller's own scope is asked in the linker's order: first what is loaded for everybody behind us (`RTLD_NEXT`, or what
//! comes behind the object that was preloaded and opened us; another interposer may come first, as it should); then the caller's object and what it needs (`dlopen(RTLD_LOCAL)`, as
//! `import torch` does; a copy linked into the caller statically); then the known sonames; then any loaded object that
//! exports `pncclX`. The order within a scope that was opened with several copies is taken to be the caller's own.

#![expect(unsafe_code, reason = "asks the dynamic linker and the unwinder")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// Libraries that speak the API, in the order in which they are asked.
const SONAMES: [&CStr; 4] = [c"libnccl.so.2", c"libnccl.so", c"librccl.so.1", c"librsccl.so"];

/// Where a caller finds the library.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// Behind us in the order in which everybody looks.
    Next,
    /// In an object and what it needs: a handle of `dlopen` that is never closed.
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

/// A loaded object as a scope, if it passes the test. Then a reference is kept: the object must stay.
pub(crate) fn open(object: &CStr, has: impl Fn(&Scope) -> bool) -> Option<Scope> {
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
    // SAFETY: gives back the reference just taken.
    unsafe { libc::dlclose(handle) };
    None
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

struct Search {
    address: usize,
    found: Option<Object>,
}

/// The object that has code or data at this address.
pub(crate) fn object_at(address: usize) -> Option<Object> {
    let mut search = Search { address, found: None };
    // SAFETY: `examine` is called with the pointer given here, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(examine), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn examine(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: `object_at` passes its Search, which nothing else uses meanwhile.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the linker passes a valid record ...
    let info = unsafe { &*info };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: ... with as many headers as it says ...
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = usize::try_from(info.dlpi_addr).unwrap_or_default();
    let mut range: Option<(usize, usize)> = None;
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or_default());
        let end = start.wrapping_add(usize::try_from(header.p_memsz).unwrap_or_default());
        range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
    }
    let Some((start, end)) = range.filter(|(start, end)| (*start..*end).contains(&search.address)) else {
        return 0;
    };
    // SAFETY: ... and NULL or a terminated name, valid during the call.
    let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    search.found = Some(Object { start, end, name: name.to_owned() });
    1
}

/// Names of all loaded objects but the program itself. They are only listed under the linker's lock, and asked later.
fn all_objects() -> Vec<CString> {
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
        // SAFETY: `all_objects` passes its Vec, which nothing else uses meanwhile.
        let names = unsafe { &mut *names.cast::<Vec<CString>>() };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    0
}

/// First and last address of our own object, found once.
static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

pub(crate) fn is_ours(address: usize) -> bool {
    let [start, end] = &OWN;
    if end.load(Relaxed) == 0 {
        let own: fn(usize) -> bool = is_ours;
        if let Some(object) = object_at((own as *const ()).addr()) {
            start.store(object.start, Relaxed);
            end.store(object.end, Relaxed);
        }
    }
    (start.load(Relaxed)..end.load(Relaxed)).contains(&address)
}

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The address in the caller's code to which the exported function that this thread is in will return; 0 if there is
/// no telling. About a microsecond: not for the record path.
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
