//! A segment's file: made without a name, filled, then given its name.

#![expect(unsafe_code, reason = "maps a file")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::Fixed;

/// Lowest number for our descriptor: out of the way of programs that count on small ones.
const LOWEST_FD: libc::c_int = 500;
/// As `/tmp`: whoever makes the folder, all users' jobs write into it, and none removes what another left.
const DIR_MODE: u32 = 0o1777;
/// Names tried. After an `exec` the process has the same id and start time, but it needs a segment of its own.
const MAX_NAMES: u64 = 16;

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
pub(super) struct Unnamed {
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
    pub(super) fn create(dir: &Path, fixed: &Fixed) -> io::Result<Self> {
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
    pub(super) fn map(&self) -> io::Result<NonNull<Segment>> {
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
    pub(super) fn publish(
        self,
        dir: &Path,
        memory: NonNull<Segment>,
        mut fixed: Fixed,
    ) -> io::Result<OwnedFd> {
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
