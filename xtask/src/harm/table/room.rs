//! Folders of segments without room, or that a segment must not lie in.

use super::super::case::{CASE, Case, Leaves, Limit, Place, Program, Row, Test};
use super::super::special;
use super::{JOB, quick, slow};

/// A folder of segments with a file system of its own.
const fn tmpfs(shell: &'static str) -> Case {
    Case { shell, leaves: Leaves::Unseen, ..JOB }
}

/// A file system that nobody serves: whoever asks anything of it waits for ever.
const GONE: &str = "mkdir $HARM_DIR; exec 3<>/dev/fuse; \
    mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 gone $HARM_DIR";

pub(super) const ROOM: &[Row] = &[
    quick(
        "tmpfs-tiny",
        "a tmpfs of 64 KiB",
        tmpfs("mkdir $HARM_DIR; mount -t tmpfs -o size=64k none $HARM_DIR"),
    ),
    quick(
        "tmpfs-full",
        "a full tmpfs",
        tmpfs(
            "mkdir $HARM_DIR; mount -t tmpfs -o size=4m none $HARM_DIR; cat /dev/zero >$HARM_DIR/full 2>/dev/null || true",
        ),
    ),
    quick(
        "tmpfs-fills",
        "a tmpfs that becomes full while the job runs",
        tmpfs(
            "mkdir $HARM_DIR; mount -t tmpfs -o size=4m none $HARM_DIR; (sleep 0.02; cat /dev/zero >$HARM_DIR/full 2>/dev/null) &",
        ),
    ),
    quick(
        "budget",
        "eight ranks with 3000 communicators each leave three quarters of a tmpfs to the job",
        Case {
            program: Program::Stub("crowd"),
            arguments: &["3000"],
            shell: "mkdir $HARM_DIR; mount -t tmpfs -o size=64m none $HARM_DIR",
            figures: &[("used_percent", Limit::AtMost(25.0))],
            leaves: Leaves::Unseen,
            longer_s: 8.0,
            ..CASE
        },
    ),
    quick(
        "tmpfs-read-only",
        "a read-only tmpfs",
        tmpfs("mkdir $HARM_DIR; mount -t tmpfs -o ro none $HARM_DIR"),
    ),
    quick(
        "tmpfs-no-inodes",
        "a tmpfs without inodes",
        tmpfs("mkdir $HARM_DIR; mount -t tmpfs -o nr_inodes=1 none $HARM_DIR"),
    ),
    quick(
        "cut",
        "a live segment is cut to nothing",
        Case { program: Program::Stub("truncated"), arguments: &["cut"], ..CASE },
    ),
    quick(
        "removed",
        "the folder of a live segment is removed",
        Case { program: Program::Stub("truncated"), arguments: &["remove"], leaves: Leaves::Unseen, ..CASE },
    ),
    quick(
        "disk",
        "a folder on a disk is not mapped",
        Case { program: Program::Stub("maps"), place: Place::Disk, leaves: Leaves::None, ..CASE },
    ),
    slow(
        "frozen",
        "the folder's disk stands still for two seconds",
        Case {
            program: Program::Stub("pace"),
            arguments: &["4"],
            place: Place::Disk,
            shell: "truncate -s 64m disk; mkfs.ext4 -q disk; mkdir $HARM_DIR; mount -o loop disk $HARM_DIR; \
                    (sleep 1; fsfreeze -f $HARM_DIR; sleep 2; fsfreeze -u $HARM_DIR) &",
            figures: &[("slowest_ms", Limit::More(100.0))],
            leaves: Leaves::Unseen,
            ..CASE
        },
    ),
    quick(
        "server-gone",
        "the folder's file server answers nobody",
        Case { shell: GONE, leaves: Leaves::None, limit_s: 10.0, ..JOB },
    ),
    Row {
        name: "short-jobs",
        about: "what 60 short jobs leave, at most 512 KiB each",
        is_quick: false,
        test: Test::Special(special::short_jobs),
    },
];
