//! System calls that are answered with EPERM, by seccomp: what an agent never asks for, and whoever has taken it over would.
//! Nobody is killed by it.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Who gives them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Agent,
    /// Who starts programs for it. What it denies itself holds for these too.
    Starter,
    /// Who looks at a process.
    Look,
}

/// Denies this thread, and all that it makes from now on, what it never needs.
///
/// # Errors
/// The kernel's words: not all of it is denied.
pub(crate) fn deny_calls(role: Role) -> Result<(), String> {
    let words = |error: seccompiler::Error| error.to_string();
    for (calls, answer) in [(denied(role), libc::EPERM), (unknown(role), libc::ENOSYS)] {
        let program = filter(calls, answer).map_err(|error| words(error.into()))?;
        apply_filter(&program).map_err(words)?;
    }
    Ok(())
}

fn filter(calls: Calls, answer: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let answer = SeccompAction::Errno(answer.unsigned_abs());
    SeccompFilter::new(with_x32(calls), SeccompAction::Allow, answer, arch)?.try_into()
}

/// By number, and when; never and always are an empty list.
type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// What is denied. A call whose arguments cannot be told apart wants conditions in `unknown` too.
fn denied(role: Role) -> Calls {
    let lists: &[&[i64]] = match role {
        Role::Starter => &[NEVER, NEVER_OF_MACHINE],
        Role::Agent => {
            &[NEVER, NEVER_OF_MACHINE, PROGRAMS, OTHERS_MEMORY, RIGHTS_OF_FILES, RIGHTS_OF_FILES_OF_MACHINE]
        }
        Role::Look => &[
            NEVER,
            NEVER_OF_MACHINE,
            PROGRAMS,
            RIGHTS_OF_FILES,
            RIGHTS_OF_FILES_OF_MACHINE,
            CHANGES,
            CHANGES_OF_MACHINE,
        ],
    };
    let mut calls: Calls = lists.iter().copied().flatten().map(|number| (*number, Vec::new())).collect();
    if role == Role::Agent {
        calls.insert(libc::SYS_socket, other_netlink().into_iter().collect());
    }
    calls.insert(libc::SYS_clone, NAMESPACES.iter().filter_map(|flag| has_bits(0, *flag)).collect());
    if role == Role::Look {
        let writes = |at: u8| WRITES.iter().filter_map(|flag| has_bits(at, *flag)).collect();
        calls.insert(libc::SYS_openat, writes(2));
        #[cfg(target_arch = "x86_64")]
        calls.insert(libc::SYS_open, writes(1));
    }
    calls
}

/// What is said not to be there, so that older calls are taken, whose arguments a filter sees.
fn unknown(role: Role) -> Calls {
    let mut calls = Calls::from([(libc::SYS_clone3, Vec::new())]);
    if role == Role::Look {
        calls.insert(libc::SYS_openat2, Vec::new());
    }
    calls
}

/// Netlink, but for the kernel's RDMA: an agent asks it how queue pairs stand.
fn other_netlink() -> Option<SeccompRule> {
    let is = |argument, op, value: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, u64::from(value.cast_unsigned())).ok()
    };
    let family = is(0, SeccompCmpOp::Eq, libc::AF_NETLINK)?;
    let protocol = is(2, SeccompCmpOp::Ne, libc::NETLINK_RDMA)?;
    SeccompRule::new(vec![family, protocol]).ok()
}

/// That an argument has all these bits.
fn has_bits(argument: u8, bits: i32) -> Option<SeccompRule> {
    let bits = u64::from(bits.cast_unsigned());
    let condition =
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits);
    SeccompRule::new(vec![condition.ok()?]).ok()
}

/// On x86-64 some kernels take the same calls by other numbers (x32). Source: `arch/x86/entry/syscalls/syscall_64.tbl`.
fn with_x32(calls: Calls) -> Calls {
    const X32: i64 = 0x4000_0000;
    /// Those whose number differs.
    const OTHERS: [(i64, i64); 8] = [
        (libc::SYS_execve, 520),
        (libc::SYS_ptrace, 521),
        (libc::SYS_rt_sigqueueinfo, 524),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_rt_tgsigqueueinfo, 536),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
        (libc::SYS_execveat, 545),
    ];
    if cfg!(not(target_arch = "x86_64")) {
        return calls;
    }
    let other = |number: &i64| OTHERS.iter().find(|(known, _)| known == number).map(|(_, other)| *other);
    let all = calls.into_iter().flat_map(|(number, rules)| {
        let other = other(&number).unwrap_or(number);
        [(number, rules.clone()), (X32 | other, rules)]
    });
    all.collect()
}

/// Mounts, modules, kernels, keys, tracing, time, users, and ways around what files are asked for by.
const NEVER: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
];

#[cfg(target_arch = "x86_64")]
const NEVER_OF_MACHINE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_mknod];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OF_MACHINE: &[i64] = &[];

/// No program, and nothing that others could connect to.
const PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat, libc::SYS_listen];

/// Memory and descriptors of other processes: who looks is a program of its own.
const OTHERS_MEMORY: &[i64] = &[libc::SYS_process_vm_readv, libc::SYS_pidfd_getfd, libc::SYS_kcmp];

/// Of Linux 6.6 to 6.17, which libc does not name on all machines yet; the same on every one.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Landlock knows nothing of these, and `truncate` only later.
const RIGHTS_OF_FILES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_truncate,
];

#[cfg(target_arch = "x86_64")]
const RIGHTS_OF_FILES_OF_MACHINE: &[i64] = &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const RIGHTS_OF_FILES_OF_MACHINE: &[i64] = &[];

/// Who looks changes no file, speaks to nobody and ends nobody. It cannot be under Landlock, which lets nobody see processes
/// outside.
const CHANGES: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    // Not tgkill, by which a process ends itself.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_utimensat,
];

#[cfg(target_arch = "x86_64")]
const CHANGES_OF_MACHINE: &[i64] = &[
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const CHANGES_OF_MACHINE: &[i64] = &[];

/// Flags with which a file is opened to be changed, or made.
const WRITES: [i32; 4] = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_fit_and_a_starter_may_start() {
        for role in [Role::Agent, Role::Starter, Role::Look] {
            for calls in [denied(role), unknown(role)] {
                let n_calls = calls.len();
                let program = filter(calls, libc::EPERM).unwrap();
                assert!(program.len() > n_calls && program.len() < 4096, "{role:?}: {}", program.len());
            }
        }
        let starts = |role| !denied(role).contains_key(&libc::SYS_execve);
        assert_eq!([Role::Agent, Role::Starter, Role::Look].map(starts), [false, true, false]);
        let reads_memory = |role| !denied(role).contains_key(&libc::SYS_process_vm_readv);
        assert_eq!([Role::Agent, Role::Starter, Role::Look].map(reads_memory), [false, true, true]);
    }

    #[test]
    fn of_netlink_an_agent_has_the_kernels_rdma_alone() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

        let confined = std::thread::spawn(|| {
            deny_calls(Role::Agent).unwrap();
            // That of routes is 0.
            [None, Some(netlink::RDMA)].map(|protocol| {
                let flags = SocketFlags::CLOEXEC;
                socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol).err()
            })
        });
        let [route, rdma] = confined.join().unwrap();
        assert_eq!(route, Some(rustix::io::Errno::PERM));
        assert!(matches!(rdma, None | Some(rustix::io::Errno::PROTONOSUPPORT)), "{rdma:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn no_call_is_left_by_its_other_number() {
        let calls = with_x32(denied(Role::Agent));
        for number in [0x4000_0000 | 520, 0x4000_0000 | 545, 0x4000_0000 | libc::SYS_mount] {
            assert!(calls.contains_key(&number), "{number:#x}");
        }
    }
}
