//! How much memory the segments of a folder take. A thread of the job's may ask in the middle of a call: nothing is
//! allocated, and the system is called past the C library, in which a thread may be cancelled.

#![expect(unsafe_code, reason = "reads a folder by system calls")]

use std::ffi::{CStr, c_int, c_long};
use std::mem::MaybeUninit;

/// Entries of the folder that are looked at: more than the budget has segments. Everybody may leave something there, and who
/// leaves more takes the room of others, but not their time.
pub(super) const MAX_ENTRIES: usize = 16_384;

/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// What was found.
pub(super) struct Taken {
    pub(super) bytes: u64,
    pub(super) n_segments: u64,
}

/// What the segments take, also those that are just being made, counted no further than to the limit, which a folder that cannot be
/// read or has too many entries has passed.
pub(super) fn in_folder(dir: &CStr, limit_bytes: u64) -> Taken {
    let mut taken = Taken { bytes: 0, n_segments: 0 };
    if look(dir, limit_bytes, &mut taken).is_none() {
        taken.bytes = taken.bytes.max(limit_bytes);
    }
    taken
}

fn look(dir: &CStr, limit_bytes: u64, taken: &mut Taken) -> Option<()> {
    let mut folder = Folder::open(dir)?;
    let mut entries = [0_u8; 4096];
    let mut n_entries = 0;
    loop {
        let filled = folder.read(&mut entries)?;
        if filled == 0 {
            return Some(());
        }
        let mut rest = entries.get(..filled)?;
        while let Some((name, next)) = entry(rest) {
            rest = next;
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return None;
            }
            if let Some(bytes) = name.filter(|name| is_segment(name)).and_then(|name| folder.bytes_of(name)) {
                taken.bytes = taken.bytes.saturating_add(bytes);
                taken.n_segments += 1;
            }
            if taken.bytes >= limit_bytes {
                return Some(());
            }
        }
    }
}

/// By its name, also before it is published.
fn is_segment(name: &CStr) -> bool {
    name.to_bytes().ends_with(b".seg") || name.to_bytes().ends_with(b".new")
}

/// The name of the first entry, and the entries after it. Source: `getdents64(2)`, `struct linux_dirent64`.
fn entry(entries: &[u8]) -> Option<(Option<&CStr>, &[u8])> {
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let length = u16::from_ne_bytes([*entries.get(LENGTH)?, *entries.get(LENGTH + 1)?]);
    let (this, rest) = entries.split_at_checked(length.into())?;
    Some((CStr::from_bytes_until_nul(this.get(NAME..)?).ok(), rest))
}

/// An open folder.
struct Folder(c_int);

impl Folder {
    fn open(dir: &CStr) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: a terminated path.
        let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, dir.as_ptr(), flags, 0) };
        c_int::try_from(fd).ok().filter(|fd| *fd >= 0).map(Self)
    }

    /// Fills in the next entries, and says how many bytes they take: 0 at the end.
    fn read(&mut self, entries: &mut [u8]) -> Option<usize> {
        let (place, length) = (entries.as_mut_ptr(), entries.len());
        // SAFETY: a place of that length.
        let filled = unsafe { libc::syscall(libc::SYS_getdents64, self.0, place, length) };
        if filled < 0 && matches!(last_error(), Some(libc::EBADF | libc::ENOTDIR)) {
            // The program closes all numbers that it finds: by now it is another file's, or nobody's.
            self.0 = -1;
        }
        usize::try_from(filled).ok()
    }

    /// Memory that a file of it takes. `None` for what is none, or is gone.
    fn bytes_of(&self, name: &CStr) -> Option<u64> {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        let (place, flags) = (stat.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW);
        // SAFETY: a terminated name and a valid place for the answer: on 64 bits the C library has the kernel's structure.
        let asked: c_long =
            unsafe { libc::syscall(libc::SYS_newfstatat, self.0, name.as_ptr(), place, flags) };
        if asked != 0 {
            return None;
        }
        // SAFETY: filled by the call that succeeded.
        let stat = unsafe { stat.assume_init() };
        let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        is_file.then(|| u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(BLOCK_BYTES))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: opened above, and nobody else's.
            unsafe { libc::syscall(libc::SYS_close, self.0) };
        }
    }
}

fn last_error() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn segments_count_and_nothing_else() {
        let dir = format!("/dev/shm/ringscope-test-taken-{}", std::process::id());
        fs::create_dir(&dir).unwrap();
        for (name, bytes) in [("1-1.seg", 8192), (".2-2.new", 4096), ("1.log", 4096)] {
            fs::write(format!("{dir}/{name}"), vec![1; bytes]).unwrap();
        }
        File::create(format!("{dir}/3-3.seg")).unwrap().set_len(1 << 20).unwrap();
        fs::create_dir(format!("{dir}/4-4.seg")).unwrap();
        let path = CString::new(dir.as_str()).unwrap();
        let all = in_folder(&path, u64::MAX);
        let some = in_folder(&path, 1);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((all.bytes, all.n_segments), (12_288, 3));
        assert!(some.bytes >= 1 && some.n_segments < 3);
        assert_eq!(in_folder(&path, 7).bytes, 7, "the folder is gone");
    }
}
