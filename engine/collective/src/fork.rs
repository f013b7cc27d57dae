//! Fence: what a forked child has of its parent's groups: nothing.
//!
//! A child without `exec`, as a data loader's workers are, inherits every descriptor. While it keeps the engine's sockets
//! open, no peer sees the end of a parent that was killed. So sockets are entered here when they are made, and a handler of
//! `pthread_atfork` takes them out of each child. In the child it calls only what is safe in a signal's handler, takes no
//! lock and allocates nothing; the parent's sockets are untouched.
//!
//! What belongs to a process keeps an [`Owner`], which tells a child that it is none of its own.

#![expect(unsafe_code, reason = "pthread_atfork, and descriptors by their numbers")]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Descriptors from this number on are not entered, and children keep them: no job that was seen has so many. The table's
/// pages exist only once they are written.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// By descriptor: the inode of the socket that was entered under it, which no other file has while that one is open; 0: none
/// was. An entry stays when its socket is closed. Whoever has the number next has another inode, so nothing else is taken.
static SOCKETS: [AtomicU64; MAX_DESCRIPTORS] = [const { AtomicU64::new(0) }; MAX_DESCRIPTORS];
/// Entries from this one on are 0.
static N_ENTRIES: AtomicUsize = AtomicUsize::new(0);
/// Forks between this process and the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    forks: u32,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        watch_forks();
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this process is it, and not a child that was forked from it.
    #[must_use]
    pub fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl From<Owner> for u64 {
    fn from(owner: Owner) -> Self {
        owner.forks.into()
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::this()
    }
}

/// Children do not keep this socket.
pub fn keep_from_children(socket: impl AsFd) {
    watch_forks();
    let descriptor = socket.as_fd().as_raw_fd();
    let (Ok(number), Some(inode)) = (usize::try_from(descriptor), inode(descriptor)) else { return };
    let Some(entry) = SOCKETS.get(number) else { return };
    entry.store(inode, Ordering::Relaxed);
    N_ENTRIES.fetch_max(number + 1, Ordering::Relaxed);
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    // Where it is refused, children keep what they did without it.
    ONCE.call_once(|| {
        // SAFETY: the library is never unmapped (-z nodelete), so the handler exists at every fork.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The numbers stay taken, by a file that leads nowhere: what the child has inherited still names them, and would close or
/// write to whatever the child opened under them next.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a name that ends in NUL; open may be called in a signal's handler.
    let nowhere = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    let entries = SOCKETS.iter().take(N_ENTRIES.load(Ordering::Relaxed));
    for (descriptor, entry) in (0..).zip(entries) {
        let entered = entry.swap(0, Ordering::Relaxed);
        if entered != 0 && inode(descriptor) == Some(entered) {
            take(descriptor, nowhere);
        }
    }
    if nowhere >= 0 {
        // SAFETY: opened above, and nobody else's.
        unsafe { libc::close(nowhere) };
    }
}

fn take(descriptor: RawFd, nowhere: RawFd) {
    // SAFETY: both may be called in a signal's handler; the descriptor is a socket of the engine, which nobody uses here.
    let taken = unsafe { libc::dup3(nowhere, descriptor, libc::O_CLOEXEC) };
    if taken < 0 {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
}

/// Of an open socket; other kinds of files may have the same number.
fn inode(descriptor: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat may be called in a signal's handler, and writes a whole structure where it succeeds.
    let outcome = unsafe { libc::fstat(descriptor, stat.as_mut_ptr()) };
    // SAFETY: filled then.
    let stat = (outcome == 0).then(|| unsafe { stat.assume_init() })?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{FromRawFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Forks a child that runs `body` and then lives until it is dropped.
    struct Child {
        pid: libc::pid_t,
        /// Its end is the child's.
        _held: UnixStream,
        said: UnixStream,
    }

    impl Child {
        fn new(body: impl FnOnce() -> u8) -> Self {
            let ((held, hold), (said, say)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
            // SAFETY: the child calls nothing that locks or allocates.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                drop(held);
                let _ = (&say).write(&[body()]);
                let _ = (&hold).read(&mut [0]);
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(0) };
            }
            assert!(pid > 0, "fork");
            Self { pid, _held: held, said }
        }

        fn word(&self) -> u8 {
            let mut word = [0];
            (&self.said).read_exact(&mut word).unwrap();
            word[0]
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: a child of this process that is not waited for yet.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        }
    }

    #[test]
    fn a_child_keeps_no_socket_that_was_entered_and_all_that_were_not() {
        let ((entered, other), (plain, plain_other)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        keep_from_children(&entered);
        let owner = Owner::this();
        let child = Child::new(|| u8::from(owner.is_this()));
        assert_eq!((child.word(), owner.is_this()), (0, true));
        (&entered).write_all(b"!").unwrap();
        assert_eq!((&other).read(&mut [0; 2]).unwrap(), 1, "the parent's is untouched");
        drop((entered, plain));
        assert_eq!((&other).read(&mut [0]).unwrap(), 0, "nobody has it any more");
        plain_other.set_nonblocking(true).unwrap();
        assert!((&plain_other).read(&mut [0]).is_err(), "the child has this one");
    }

    #[test]
    fn a_file_that_has_the_number_of_a_closed_socket_stays_the_childs() {
        let (entered, _other) = UnixStream::pair().unwrap();
        let number = entered.into_raw_fd();
        // SAFETY: taken from its owner above.
        keep_from_children(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) });
        let zeros = File::open("/dev/zero").unwrap().into_raw_fd();
        // SAFETY: both are this test's; the file now has the socket's number.
        assert_eq!(unsafe { libc::dup3(zeros, number, libc::O_CLOEXEC) }, number);
        // SAFETY: nobody else's.
        let mut file = unsafe { File::from_raw_fd(number) };
        let child = Child::new(|| {
            let mut byte = [1];
            u8::from(file.read(&mut byte).is_ok_and(|count| count == 1) && byte == [0])
        });
        assert_eq!(child.word(), 1, "it reads from /dev/zero, and not from nowhere");
        // SAFETY: this test's.
        unsafe { libc::close(zeros) };
    }
}
