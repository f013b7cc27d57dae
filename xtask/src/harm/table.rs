//! The rows.

mod room;

use super::case::{CASE, Case, Leaves, Limit, Place, Program, Row, Test};
use super::{debian, facts, special};

/// Rows that are known not to be as bare: `--quick` leaves them out. It is to become empty.
pub(super) const NOT_YET: &[&str] = &[];

/// All of them, in the order in which they run.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    [WATCHDOG, MEMORY, CHILDREN, SYSTEM, room::ROOM, FACTS].into_iter().flatten()
}

const fn quick(name: &'static str, about: &'static str, case: Case) -> Row {
    Row { name, about, is_quick: true, test: Test::Program(case) }
}

const fn slow(name: &'static str, about: &'static str, case: Case) -> Row {
    Row { name, about, is_quick: false, test: Test::Program(case) }
}

/// A watchdog on a GPU whose launch queue is full.
const HUNG: Case =
    Case { program: Program::Gpu("queue"), settings: &[("STUB_HUNG", "1")], limit_s: 8.0, ..CASE };
/// The library's own push meets the full queue last: the collector's event comes before it.
const SHORT: &[(&str, &str)] = &[("STUB_HUNG", "1"), ("STUB_DEPTH", "1023")];
/// The waiting launch holds the driver's lock.
const HELD: &[(&str, &str)] = &[("STUB_HUNG", "1"), ("STUB_HELD_LOCK", "1")];
/// Abort and revoke return as fast as bare.
const AT_ONCE: &[(&str, Limit)] = &[("seconds", Limit::More(0.1))];

const WATCHDOG: &[Row] = &[
    quick(
        "abort-queue",
        "abort returns while a launch waits in a full queue",
        Case { arguments: &["abort"], settings: SHORT, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "abort-lock",
        "abort returns while a launch holds the driver's lock",
        Case { arguments: &["abort"], settings: HELD, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "revoke-queue",
        "revoke, likewise",
        Case { arguments: &["revoke"], settings: SHORT, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "revoke-lock",
        "revoke, likewise",
        Case { arguments: &["revoke"], settings: HELD, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "destroy-queue",
        "destroy, likewise",
        Case { arguments: &["destroy"], settings: SHORT, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "destroy-lock",
        "destroy, likewise",
        Case { arguments: &["destroy"], settings: HELD, figures: AT_ONCE, ..HUNG },
    ),
    quick(
        "exit-queue",
        "exit, likewise",
        Case { arguments: &["exit"], settings: SHORT, ends: "exit 3", ..HUNG },
    ),
    quick(
        "exit-lock",
        "exit, likewise",
        Case { arguments: &["exit"], settings: HELD, ends: "exit 3", ..HUNG },
    ),
    quick(
        "last-thread",
        "a process whose threads have all ended, the first one by pthread_exit",
        Case { arguments: &["exit"], ..LAST },
    ),
    quick(
        "last-thread-hung",
        "the same, with work on the GPU that never ends",
        Case { arguments: &["exit"], settings: &[("STUB_HUNG", "1")], ..LAST },
    ),
    quick(
        "last-thread-clone",
        "a child of clone(), which ends only its first thread",
        Case { arguments: &["clone"], ..LAST },
    ),
];

/// Without events there is no thread of the collector's to be the last.
const LAST: Case =
    Case { program: Program::Gpu("last"), limit_s: 8.0, figures: &[("events", Limit::AtLeast(1.0))], ..CASE };
const LATE: Case = Case { program: Program::Stub("late"), ..CASE };
const COPIES: Case = Case { program: Program::Stub("copies"), settings: &[("STUB_PROFILER", "1")], ..CASE };

const MEMORY: &[Row] = &[
    quick(
        "split-stack",
        "the place of a split's child was on a stack that is gone",
        Case { arguments: &["stack"], ..LATE },
    ),
    quick("split-heap", "it was on the heap and is freed", Case { arguments: &["heap"], ..LATE }),
    quick("split-unmapped", "it is not even mapped", Case { arguments: &["unmapped"], ..LATE }),
    quick(
        "copies-closed",
        "one of two copies of NCCL is unloaded, then the level changes",
        Case { arguments: &["libfirst.so", "libsecond.so", "close"], ..COPIES },
    ),
    quick(
        "copies-kept",
        "two copies of NCCL, and the level changes",
        Case { arguments: &["libfirst.so", "libsecond.so", "keep"], ..COPIES },
    ),
    quick("null", "arguments that NCCL refuses", Case { program: Program::Stub("null"), ..CASE }),
    quick(
        "null-profiler",
        "the same, with a profiler",
        Case { program: Program::Stub("null"), settings: &[("STUB_PROFILER", "1")], ..CASE },
    ),
    quick(
        "cancel",
        "a cancellation pending at the first init",
        Case { program: Program::Stub("cancel"), ..CASE },
    ),
    quick(
        "stack",
        "how much of a thread's stack of 16 KiB is left",
        Case { program: Program::Stub("stack"), figures: &[("usable_bytes", Limit::Less(512.0))], ..CASE },
    ),
];

const CHILDREN: &[Row] = &[
    Row {
        name: "orphan",
        about: "a killed rank counts as dead while its child lives",
        is_quick: true,
        test: Test::Special(special::orphan),
    },
    quick(
        "descriptors",
        "a program that closes all descriptors and uses their numbers",
        Case { program: Program::Stub("fds"), ..CASE },
    ),
    quick(
        "child-exit-lock",
        "children made while another thread holds the lock of exit functions",
        Case { program: Program::Gpu("exit_lock"), longer_s: 3.0, ..CASE },
    ),
    quick(
        "fork-cost",
        "128 workers of a rank: at most 50 KB each",
        Case {
            program: Program::Stub("forkcost"),
            arguments: &["128"],
            figures: &[("child_dirty_kb", Limit::More(50.0)), ("fork_us", Limit::MoreUs(75.0))],
            ..CASE
        },
    ),
    slow(
        "exit-cost",
        "what the exit of a rank takes, with events in flight",
        Case {
            program: Program::Gpu("exitcost"),
            settings: &[("STUB_BUSY_US", "1500")],
            figures: &[("exit_us", Limit::MoreUs(500.0))],
            ..CASE
        },
    ),
    quick(
        "fork-init",
        "forks in the middle of the first init",
        Case {
            program: Program::Stub("forkstorm"),
            arguments: &["15"],
            limit_s: 60.0,
            longer_s: 10.0,
            ..CASE
        },
    ),
    slow(
        "fork-init-150",
        "the same, 150 times",
        Case {
            program: Program::Stub("forkstorm"),
            arguments: &["150"],
            limit_s: 300.0,
            longer_s: 60.0,
            ..CASE
        },
    ),
    Row {
        name: "kills",
        about: "200 processes killed at random: no lock, no process is left",
        is_quick: false,
        test: Test::Special(special::kills),
    },
];

const JOB: Case = Case { program: Program::Stub("job"), arguments: &["5", "20000"], ..CASE };

const SYSTEM: &[Row] = &[
    quick(
        "exec",
        "what it takes to start /bin/true",
        Case {
            program: Program::Stub("exec"),
            figures: &[("exec_us", Limit::MoreUs(60.0))],
            leaves: Leaves::None,
            ..CASE
        },
    ),
    quick(
        "true",
        "a program without NCCL",
        Case { program: Program::System("/bin/true"), leaves: Leaves::None, ..CASE },
    ),
    quick(
        "musl",
        "a program of another C library",
        Case { program: Program::Musl("hello"), leaves: Leaves::None, ..CASE },
    ),
    quick(
        "setuid",
        "a program with the rights of another user",
        Case {
            program: Program::System("./id"),
            place: Place::Disk,
            shell: "cp /usr/bin/id ./id; chown nobody ./id; chmod u+s ./id",
            leaves: Leaves::None,
            ..CASE
        },
    ),
    Row {
        name: "debian-11",
        about: "programs of Debian 11, with glibc 2.31",
        is_quick: false,
        test: Test::Special(debian::programs),
    },
    quick("nofile", "five descriptors", Case { shell: "ulimit -n 5", ..JOB }),
    quick(
        "address-space",
        "12 MB of address space",
        Case { shell: "ulimit -v 12288", leaves: Leaves::Unseen, ..JOB },
    ),
    quick(
        "file-size",
        "RLIMIT_FSIZE of 500 KiB",
        Case { shell: "ulimit -f 1000", leaves: Leaves::None, ..JOB },
    ),
];

const FACTS: &[Row] = &[
    slow(
        "communicators-10000",
        "10 000 communicators, one after another, without an agent: the last one is seen",
        Case {
            program: Program::Stub("many"),
            arguments: &["10000", "10", "churn"],
            facts: Some(|folder| facts::all_counted(folder, 0, 10, 77)),
            ..CASE
        },
    ),
    quick(
        "communicators-1000",
        "1 000 communicators at once: all are counted",
        Case {
            program: Program::Stub("many"),
            arguments: &["1000", "3"],
            facts: Some(|folder| facts::all_counted(folder, 1000, 3, 77)),
            ..CASE
        },
    ),
    quick(
        "communicators-4500",
        "more at once than a segment has room for, each told by a profiler: none is waited for",
        Case {
            program: Program::Stub("many"),
            arguments: &["4500", "1"],
            settings: &[("STUB_PROFILER", "1")],
            longer_s: 8.0,
            ..CASE
        },
    ),
    quick(
        "same-address",
        "a communicator at the address of one that ended unseen",
        Case { program: Program::Stub("same"), facts: Some(facts::apart), ..CASE },
    ),
    Row {
        name: "split-ranks",
        about: "four ranks of a process split, 20 times: every event finds its communicator",
        is_quick: false,
        test: Test::Special(special::splits),
    },
    quick(
        "split-ranks-once",
        "the same, once",
        Case { program: Program::Engine("split"), facts: Some(facts::split), ..CASE },
    ),
    quick(
        "counters",
        "counters against what the program did",
        Case {
            program: Program::Engine("counters"),
            arguments: &["100"],
            collector_settings: &[("RINGSCOPE_LEVEL", "counters")],
            facts: Some(facts::counted),
            ..CASE
        },
    ),
    slow(
        "storm",
        "threads, aborts, forks, levels: nothing is lost but what nobody reads",
        Case {
            program: Program::Engine("storm"),
            arguments: &["15"],
            limit_s: 60.0,
            facts: Some(facts::nothing_lost),
            ..CASE
        },
    ),
    Row {
        name: "torn",
        about: "records read beside a writer at full speed: none mixes two calls",
        is_quick: false,
        test: Test::Special(special::torn),
    },
    slow(
        "poller",
        "a call each millisecond: at most 0.5 % of a core beside it",
        Case {
            program: Program::Gpu("poller"),
            arguments: &["1", "1000", "5"],
            settings: &[("STUB_BUSY_US", "1500")],
            figures: &[("other_threads_percent", Limit::AtMostOfCore(0.5))],
            ..CASE
        },
    ),
];
