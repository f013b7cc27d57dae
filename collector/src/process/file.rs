//! A segment's file: made without a name, filled, then given its name.
//!
//! The file is closed as soon as it is mapped and locked: the mapping keeps it open, and so its lock, for as long as the
//! process lives. There is no descriptor that a program could close or a child inherit, and children do not get the
//! mapping.

#![expect(unsafe_code, reason = "maps a file")]

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{Fixed, Scheduled};

use super::fork;
use crate::segment::{places, room};

/// As `/tmp`: whoever makes the folder, all users' jobs write into it, and none removes what another left.
const DIR_MODE: u32 = 0o1777;
/// Names tried. After an `exec` the process has the same id and start time, but it needs a segment of its own.
const MAX_NAMES: u64 = 16;

/// Makes the folder, unless it is there: one that somebody else made keeps the mode that he gave it.
pub(super) fn make_shared(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        // Afterwards: what `mkdir` is given is cut by the umask. Where that is not allowed, the folder is still good for us.
        Ok(()) => drop(open_to_all(dir)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Gives the folder itself the mode: the name may be a link of another user's by now.
fn open_to_all(dir: &Path) -> io::Result<()> {
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(dir)?;
    folder.set_permissions(Permissions::from_mode(DIR_MODE))
}

/// A segment's file under a name that no reader looks at, mapped and locked. Dropped before it is published, it is
/// deleted.
pub(super) struct Unnamed {
    path: PathBuf,
    memory: NonNull<Segment>,
    is_published: bool,
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if !self.is_published {
            // SAFETY: our own mapping, of that length; nobody has got it, and who filled it refers to it no more.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), size_of::<Segment>()) };
        }
    }
}

impl Unnamed {
    /// Makes a file as long as a segment, which has but the pages that every process needs ([`room`]).
    pub(super) fn create(dir: &Path, fixed: &Fixed) -> io::Result<Self> {
        // The ticks tell apart processes of one id in several containers that share the folder.
        let path = dir.join(format!(".{}-{}.new", fixed.pid, fixed.anchor_ticks));
        // A child that is forked meanwhile has the open file too, and would keep it locked after our end.
        fork::undisturbed(|| Self::make(path.clone()))
    }

    fn make(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC)
            .open(&path)?;
        match map_locked(&file) {
            Ok(memory) => Ok(Self { path, memory, is_published: false }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// The segment, all zeros.
    pub(super) const fn memory(&self) -> NonNull<Segment> {
        self.memory
    }

    /// Writes where a scheduler has put the process.
    pub(super) fn write_scheduled(&self, scheduled: Scheduled) {
        // SAFETY: `scheduled` lies in the mapping.
        let place = unsafe { &raw mut (*self.memory.as_ptr()).live.scheduled };
        // SAFETY: writable, aligned by its type, and nobody else refers to it yet.
        unsafe { place.write(scheduled) };
    }

    /// Writes the fixed part and gives the file its name, `<pid>-<start_time_ns>.seg`, without replacing another.
    pub(super) fn publish(mut self, dir: &Path, mut fixed: Fixed) -> io::Result<()> {
        fixed.user = fs::symlink_metadata(&self.path).map_or(0, |file| u64::from(file.uid()) + 1);
        for _ in 0..MAX_NAMES {
            // SAFETY: `fixed` lies in the mapping.
            let place = unsafe { &raw mut (*self.memory.as_ptr()).fixed };
            // SAFETY: writable, aligned as a page is, and nobody else refers to it yet.
            unsafe { place.write(fixed.clone()) };
            match fs::hard_link(&self.path, dir.join(format!("{}-{}.seg", fixed.pid, fixed.start_time_ns))) {
                Ok(()) => {
                    self.is_published = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fixed.start_time_ns += 1,
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Gives the file its length and its first pages, maps it for this process alone, and locks it.
fn map_locked(file: &File) -> io::Result<NonNull<Segment>> {
    let length = libc::off_t::try_from(size_of::<Segment>()).map_err(io::Error::other)?;
    // SAFETY: an open file.
    checked(unsafe { libc::ftruncate(file.as_raw_fd(), length) })?;
    let fd = file.as_raw_fd();
    // Without access at first: a process that locks its memory (`MCL_FUTURE`) is given each page of what it maps, if it can be
    // read, and the file would take all that it is long.
    // SAFETY: a new mapping, at a place of the kernel's choice, of a file as long as that.
    let memory =
        unsafe { libc::mmap(null_mut(), size_of::<Segment>(), libc::PROT_NONE, libc::MAP_SHARED, fd, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let alone = open_alone(memory);
    // SAFETY: the whole mapping, in which zeros are valid.
    let filled = alone.and_then(|()| fill(unsafe { &*memory.cast::<Segment>() }));
    // SAFETY: an open file.
    let locked = filled.and_then(|()| checked(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) }));
    if let Err(error) = locked {
        // SAFETY: the mapping just made, which nobody refers to.
        unsafe { libc::munmap(memory, size_of::<Segment>()) };
        return Err(error);
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Makes the mapping accessible to this process alone. What it has in memory is what is in use.
fn open_alone(memory: *mut c_void) -> io::Result<()> {
    let length = size_of::<Segment>();
    // SAFETY: a mapping of our own, which need not stay in memory.
    unsafe { libc::munlock(memory, length) };
    // Where the file system gives huge pages, each part in use would take one. A kernel without them refuses.
    // SAFETY: as above.
    unsafe { libc::madvise(memory, length, libc::MADV_NOHUGEPAGE) };
    // SAFETY: a mapping of our own, which only children lose.
    checked(unsafe { libc::madvise(memory, length, libc::MADV_DONTFORK) })?;
    // SAFETY: a mapping of our own, of a file that was opened for both.
    checked(unsafe { libc::mprotect(memory, length, libc::PROT_READ | libc::PROT_WRITE) })
}

/// Has the pages given that every process needs: the head, the first threads, a communicator, the first records. In this
/// order, so that a file system with room for little holds what tells most.
fn fill(segment: &Segment) -> io::Result<()> {
    room::begin();
    let is_given = room::ensure(segment, &segment.fixed)
        && room::ensure(segment, &segment.live)
        && room::ensure(segment, &segment.calls.threads[0])
        && room::ensure(segment, &segment.communicators[0])
        && room::ensure(segment, &segment.calls.marks[0])
        && places::begin(segment);
    if is_given { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
