//! System calls that a thread may be blocked in: their names, and which argument says what they are about.

/// What an argument of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A file descriptor in this argument, counting from 0.
    Descriptor(usize),
    /// The path that this argument points to.
    Path(usize),
    /// An array of `struct pollfd` in argument 0, argument 1 of them.
    Poll,
    /// The process in this argument.
    Process(usize),
    /// Nothing that can be named.
    Nothing,
}

/// Name of a call, and what it is about. `None`: none of those that block.
pub(super) fn known(number: i64) -> Option<(&'static str, About)> {
    CALLS.iter().chain(OLD_CALLS).find(|(known, ..)| *known == number).map(|(_, name, about)| (*name, *about))
}

type Call = (i64, &'static str, About);

macro_rules! calls {
    ($($about:expr => $($number:ident $name:literal),+;)+) => {
        &[$($((libc::$number, $name, $about)),+),+]
    };
}

const CALLS: &[Call] = calls! {
    About::Descriptor(0) =>
        SYS_read "read", SYS_pread64 "pread64", SYS_readv "readv", SYS_preadv "preadv", SYS_preadv2 "preadv2",
        SYS_write "write", SYS_pwrite64 "pwrite64", SYS_writev "writev", SYS_pwritev "pwritev",
        SYS_pwritev2 "pwritev2", SYS_ioctl "ioctl", SYS_recvfrom "recvfrom", SYS_recvmsg "recvmsg",
        SYS_recvmmsg "recvmmsg", SYS_sendto "sendto", SYS_sendmsg "sendmsg", SYS_sendmmsg "sendmmsg",
        SYS_accept "accept", SYS_accept4 "accept4", SYS_connect "connect", SYS_shutdown "shutdown",
        SYS_close "close", SYS_fsync "fsync", SYS_fdatasync "fdatasync", SYS_flock "flock", SYS_fcntl "fcntl",
        SYS_getdents64 "getdents64", SYS_fstat "fstat", SYS_lseek "lseek", SYS_ftruncate "ftruncate",
        SYS_fallocate "fallocate", SYS_splice "splice", SYS_copy_file_range "copy_file_range",
        SYS_sync_file_range "sync_file_range", SYS_syncfs "syncfs", SYS_epoll_pwait "epoll_wait",
        SYS_io_uring_enter "io_uring_enter";
    About::Descriptor(1) => SYS_sendfile "sendfile";
    About::Path(0) =>
        SYS_execve "execve", SYS_statfs "statfs", SYS_truncate "truncate", SYS_chdir "chdir",
        SYS_umount2 "umount";
    About::Path(1) =>
        SYS_openat "openat", SYS_statx "statx", SYS_newfstatat "newfstatat", SYS_faccessat "faccessat",
        SYS_readlinkat "readlinkat", SYS_unlinkat "unlinkat", SYS_mkdirat "mkdirat", SYS_renameat2 "rename",
        SYS_mount "mount";
    About::Poll => SYS_ppoll "ppoll";
    About::Process(0) => SYS_wait4 "wait4";
    About::Process(1) => SYS_waitid "waitid";
    About::Nothing =>
        SYS_futex "futex", SYS_nanosleep "nanosleep", SYS_clock_nanosleep "clock_nanosleep",
        SYS_pselect6 "pselect6", SYS_rt_sigtimedwait "rt_sigtimedwait", SYS_rt_sigsuspend "rt_sigsuspend",
        SYS_sched_yield "sched_yield", SYS_mmap "mmap", SYS_munmap "munmap", SYS_mprotect "mprotect",
        SYS_madvise "madvise", SYS_mremap "mremap", SYS_msync "msync", SYS_brk "brk", SYS_sync "sync",
        SYS_clone "clone", SYS_exit "exit", SYS_exit_group "exit_group", SYS_restart_syscall "restart_syscall",
        SYS_semop "semop", SYS_semtimedop "semtimedop", SYS_msgrcv "msgrcv", SYS_msgsnd "msgsnd",
        SYS_mq_timedreceive "mq_timedreceive", SYS_mq_timedsend "mq_timedsend",
        SYS_io_getevents "io_getevents", SYS_getrandom "getrandom", SYS_process_vm_readv "process_vm_readv",
        SYS_kill "kill", SYS_tkill "tkill", SYS_tgkill "tgkill";
};

/// Those that newer architectures have no more.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[Call] = calls! {
    About::Descriptor(0) => SYS_epoll_wait "epoll_wait", SYS_getdents "getdents";
    About::Path(0) =>
        SYS_open "open", SYS_stat "stat", SYS_lstat "lstat", SYS_access "access", SYS_readlink "readlink",
        SYS_unlink "unlink", SYS_mkdir "mkdir", SYS_rename "rename";
    About::Poll => SYS_poll "poll";
    About::Nothing => SYS_select "select", SYS_pause "pause", SYS_vfork "vfork", SYS_fork "fork";
};
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[Call] = &[];

/// What `/proc/PID/task/TID/syscall` says. Source: proc(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// On a processor, or about to be.
    Running,
    /// Not in a call; waits for something else, as a page.
    Outside { stack: u64, instruction: u64 },
    /// In a call.
    Call { number: i64, arguments: [u64; 6], stack: u64, instruction: u64 },
}

impl At {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Running);
        }
        let number: i64 = first.parse().ok()?;
        let words: Vec<u64> =
            words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
        match words[..] {
            [stack, instruction] if number == -1 => Some(Self::Outside { stack, instruction }),
            [a, b, c, d, e, f, stack, instruction] => {
                Some(Self::Call { number, arguments: [a, b, c, d, e, f], stack, instruction })
            }
            _ => None,
        }
    }

    /// Stack pointer and instruction pointer.
    pub(super) const fn pointers(self) -> Option<(u64, u64)> {
        match self {
            Self::Running => None,
            Self::Outside { stack, instruction } | Self::Call { stack, instruction, .. } => {
                Some((stack, instruction))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_taken_apart() {
        let check = |text: &str, expected: Option<At>| assert_eq!(At::parse(text), expected, "{text}");
        check("running\n", Some(At::Running));
        check("-1 0x7ffd 0x55d0", Some(At::Outside { stack: 0x7ffd, instruction: 0x55d0 }));
        let call =
            At::Call { number: 0, arguments: [3, 0x7f, 4096, 0, 0, 0], stack: 0x7ffc, instruction: 0x7f11 };
        check("0 0x3 0x7f 0x1000 0x0 0x0 0x0 0x7ffc 0x7f11", Some(call));
        for text in ["", "0 0x3", "x", "0 3 4 5 6 7 8 9 10"] {
            check(text, None);
        }
    }

    #[test]
    fn a_call_has_one_name() {
        assert_eq!(known(libc::SYS_read), Some(("read", About::Descriptor(0))));
        assert_eq!(known(libc::SYS_futex), Some(("futex", About::Nothing)));
        assert_eq!(known(-7), None);
        let mut numbers: Vec<i64> = CALLS.iter().chain(OLD_CALLS).map(|(number, ..)| *number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
}
