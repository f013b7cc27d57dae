//! The segment as memory: made at the first communicator, dropped by a forked child, marked at exit.

#![expect(unsafe_code, reason = "maps a file and registers handlers")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{Fixed, STATE_ON};

use super::{guard, later, profiler, resolve, ticks};
use crate::config::Config;
use crate::{communicators, completion, contexts, identity, local, replay, seen, steps, summation, switch};

static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(null_mut());
/// Descriptor that holds the lock; -1 if there is none.
static LOCK: AtomicI32 = AtomicI32::new(-1);
/// Some thread is making the segment.
static BUSY: AtomicBool = AtomicBool::new(false);
static HAS_FORK_HANDLER: AtomicBool = AtomicBool::new(false);

/// Lowest number for our descriptor: out of the way of programs that count on small ones.
const LOWEST_FD: libc::c_int = 500;
/// As `/tmp`: whoever makes the folder, all users' jobs write into it, and none removes what another left.
const DIR_MODE: u32 = 0o1777;
/// Names tried. After an `exec` the process has the same id and start time, but it needs a segment of its own.
const MAX_NAMES: u64 = 16;

/// The segment, if this process has one.
#[inline(always)]
pub(crate) fn segment() -> Option<&'static Segment> {
    let segment = SEGMENT.load(Acquire);
    // SAFETY: null, or a whole mapping that is never unmapped; all that changes in it is atomic.
    unsafe { segment.as_ref() }
}

/// The segment; made now if there is none. `None` if that fails: the next communicator tries again.
pub(super) fn segment_or_create() -> Option<&'static Segment> {
    if let Some(segment) = segment() {
        return Some(segment);
    }
    // Not on the record path: another thread's creation may be waited for.
    while BUSY.swap(true, AcqRel) {
        std::thread::yield_now();
    }
    let segment = segment().or_else(|| guard(create).and_then(Result::ok));
    BUSY.store(false, Release);
    segment
}

fn create() -> io::Result<&'static Segment> {
    // The default hook would print to the job's stderr. This is the hook of our own copy of Rust's library alone.
    std::panic::set_hook(Box::new(|_| {}));
    if !HAS_FORK_HANDLER.swap(true, Relaxed) {
        // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete).
        unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
    }
    profiler::note_pid();
    let config = Config::from_env();
    switch::begin(config.level);
    let fixed = identity::fixed(&config, &ticks::anchor());
    let file = Unnamed::create(&config.dir, &fixed)?;
    let memory = file.map()?;
    // SAFETY: `live` lies in the mapping and is atomic; `fixed`, which is written below, lies outside of it.
    let live = unsafe { &(*memory.as_ptr()).live };
    live.library_version.store(resolve::library_version(), Relaxed);
    live.n_libraries.store(resolve::n_libraries(), Relaxed);
    live.state.store(STATE_ON, Relaxed);
    let lock = file.publish(&config.dir, memory, fixed)?;
    LOCK.store(lock.into_raw_fd(), Relaxed);
    SEGMENT.store(memory.as_ptr(), Release);
    // SAFETY: `fixed` is written, all else is atomic and valid as zeros; it is never unmapped.
    let segment = unsafe { memory.as_ref() };
    switch::settle_without_segment(segment);
    Ok(segment)
}

/// Makes the folder, unless it is there: one that somebody else made keeps the mode that he gave it.
fn make_shared(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        // Afterwards: what `mkdir` is given is cut by the umask. Where that is not allowed, the folder is still good for us.
        Ok(()) => drop(fs::set_permissions(dir, Permissions::from_mode(DIR_MODE))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A segment's file under a name that no reader looks at. Dropped before it is published, it is deleted.
struct Unnamed {
    file: File,
    path: std::path::PathBuf,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Unnamed {
    /// Makes a locked file that has all its pages: a page that a full disk could not give later would be a SIGBUS.
    fn create(dir: &Path, fixed: &Fixed) -> io::Result<Self> {
        make_shared(dir)?;
        // The ticks tell apart processes of one id in several containers that share the folder.
        let path = dir.join(format!(".{}-{}.new", fixed.pid, fixed.anchor_ticks));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC)
            .open(&path)?;
        let unnamed = Self { file, path };
        let length = libc::off_t::try_from(size_of::<Segment>()).map_err(io::Error::other)?;
        // SAFETY: an open file.
        match unsafe { libc::posix_fallocate(unnamed.file.as_raw_fd(), 0, length) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // SAFETY: an open file.
        checked(unsafe { libc::flock(unnamed.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
        Ok(unnamed)
    }

    /// Maps it, all zeros.
    fn map(&self) -> io::Result<NonNull<Segment>> {
        let (access, fd) = (libc::PROT_READ | libc::PROT_WRITE, self.file.as_raw_fd());
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping, at a place of the kernel's choice, of a file as long as that.
        let memory = unsafe { libc::mmap(null_mut(), size_of::<Segment>(), access, flags, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Writes the fixed part, gives the file its name, `<pid>-<start_time_ns>.seg`, without replacing another, and
    /// hands out its lock.
    fn publish(self, dir: &Path, memory: NonNull<Segment>, mut fixed: Fixed) -> io::Result<OwnedFd> {
        for _ in 0..MAX_NAMES {
            // SAFETY: `fixed` lies in the mapping.
            let place = unsafe { &raw mut (*memory.as_ptr()).fixed };
            // SAFETY: writable, aligned as a page is, and nobody else refers to it yet.
            unsafe { place.write(fixed.clone()) };
            match fs::hard_link(&self.path, dir.join(format!("{}-{}.seg", fixed.pid, fixed.start_time_ns))) {
                Ok(()) => return move_high(&self.file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fixed.start_time_ns += 1,
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// The same open file under a high number, where that is allowed.
fn move_high(file: &File) -> io::Result<OwnedFd> {
    // SAFETY: an open file; it returns a new descriptor or -1.
    let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LOWEST_FD) };
    if high < 0 {
        return file.try_clone().map(OwnedFd::from);
    }
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(high) })
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In a forked child: the segment, its lock and all that it holds are the parent's. Only stores and a `close`: the
/// child of a process with threads may do no more.
extern "C" fn forget_parent() {
    SEGMENT.store(null_mut(), Release);
    let lock = LOCK.swap(-1, Relaxed);
    if lock >= 0 {
        // SAFETY: our own descriptor. Left open it would hold the parent's lock after the parent is gone.
        unsafe { libc::close(lock) };
    }
    BUSY.store(false, Relaxed);
    communicators::forget();
    completion::forget();
    later::forget();
    contexts::forget();
    profiler::forget();
    replay::forget();
    seen::forget();
    steps::forget();
    summation::group::forget();
    switch::forget();
    local::with(local::Local::forget);
}

/// Says that the process ended in order. Runs after the program's own exit handlers.
extern "C" fn mark_exit() {
    if let Some(segment) = segment() {
        segment.live.exited.store(1, Relaxed);
    }
}

// SAFETY: the section holds pointers to functions without arguments, and this is one.
#[unsafe(link_section = ".fini_array")]
#[used]
static MARK_EXIT: extern "C" fn() = mark_exit;
