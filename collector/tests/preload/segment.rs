//! The segment's file and its lock: what forks, closed descriptors and a death do to them.

use std::path::Path;

use ringscope_wire::Primitive::AllReduce;
use ringscope_wire::segment::groups::{GroupOfRanks, MAX_GROUPS, ranks_hash};
use ringscope_wire::segment::layout::{DropReason, Record};

use crate::harness::{Job, job, programs, segment_job};

/// What lies in the folder, without what tells one process from another.
fn left_in(dir: &Path) -> Vec<String> {
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = (std::fs::read_dir(dir).unwrap())
        .map(|entry| without_numbers(&name(entry.unwrap())).to_owned())
        .collect();
    names.sort();
    names
}

fn without_numbers(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
}

#[test]
fn a_segment_takes_as_much_memory_as_is_in_use() {
    let job = segment_job("one_call").succeed();
    let taken = job.taken_bytes();
    assert!(taken <= 320 << 10, "{taken} bytes for a communicator with one call");
    job.only_segment().expect(0, AllReduce, (1, 4), (1, 4), 0);
    let taken = segment_job("many_calls").succeed().taken_bytes();
    assert!(taken <= MAX_FEW_COMMUNICATORS, "{taken} bytes for four communicators with 100 000 calls");
}

/// The records whose places are in use where few operations are in flight, and what else few communicators use.
const MAX_FEW_COMMUNICATORS: u64 = (size_of::<Record>() * 4096) as u64 + (128 << 10);

#[test]
fn a_segment_that_is_cut_ends_nothing() {
    segment_job("cut_segment").succeed();
}

#[test]
fn bus_errors_of_the_program_are_its_own() {
    segment_job("own_bus_error").succeed();
}

#[test]
fn a_process_that_may_not_have_long_files_goes_on_without_a_segment() {
    let job = segment_job("short_files").succeed();
    assert_eq!(left_in(&job.dir), [".refused-file-size"]);
}

#[test]
fn no_segment_lies_on_a_disk() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{}", std::process::id()));
    segment_job("one_call").env("RINGSCOPE_DIR", &dir).succeed();
    assert!(!dir.exists(), "the build folder is expected to lie on a disk");
}

#[test]
fn nothing_is_asked_of_a_file_server_that_is_gone() {
    let mut job = Job::of(Path::new("unshare"), "gone");
    let own_mounts = if can_be_root_of_namespace() { "-rm" } else { "-m" };
    let program = programs().join("driver_segment");
    job.command().args([own_mounts, "sh", "-c", GONE, "sh"]).arg(program);
    let output = job.command().output().unwrap();
    let (left, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && words.is_empty(), "{}: {words}", output.status);
    let left: Vec<_> = left.lines().map(without_numbers).collect();
    assert_eq!(left, [".refused-on-disk"; 5], "told where an agent is expected");
}

/// In mounts of its own, a file system that never answers: whoever asks anything of it waits for ever. It is as deep as others,
/// below a link, on the way to memory.
const GONE: &str = r#"set -e
mount -t tmpfs none /dev/shm
cd /dev/shm
mkdir gone memory ringscope
ln -s gone link
exec 3<>/dev/fuse
mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 gone gone
if LD_PRELOAD= timeout -s KILL 0.3 ls gone; then echo "the file system answers" >&2; exit 1; fi 2>/dev/null
for dir in /dev/shm/gone /dev/shm/gone/a/b /dev/shm/link/a gone /dev/shm/gone/../memory; do
  RINGSCOPE_DIR=$dir timeout -s KILL 20 "$1" one_call || { echo "$dir holds it up" >&2; exit 1; }
done
ls -A ringscope"#;

fn can_be_root_of_namespace() -> bool {
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["-rm", "true"]).status().expect("unshare: apt-get install util-linux").success()
}

#[test]
fn segments_have_a_budget() {
    let job = segment_job("one_call").env("RINGSCOPE_BUDGET_MIB", "0").succeed();
    assert_eq!(left_in(&job.dir), [".refused-budget"]);
}

#[test]
fn a_segment_grows_within_the_budget() {
    const COMMUNICATORS: u64 = 1000;
    let job = segment_job("many_communicators").env("RINGSCOPE_BUDGET_MIB", "1").succeed();
    let taken = job.taken_bytes();
    assert!(taken <= 1 << 20, "{taken} bytes");
    let left = job.only_segment();
    let n_known = left.snapshot.communicators.len() as u64;
    assert!((100..COMMUNICATORS).contains(&n_known), "{n_known} communicators");
    let n_lost = COMMUNICATORS - n_known;
    assert_eq!(
        left.snapshot.dropped,
        [(DropReason::CommunicatorTableFull, n_lost), (DropReason::UnknownCommunicator, n_lost)]
    );
    left.expect(0, AllReduce, (1, 4), (1, 4), 0);
}

#[test]
fn a_process_that_locks_its_memory_does_not_fill_the_folder() {
    let job = segment_job("locked_memory").succeed();
    let taken = job.taken_bytes();
    assert!(taken <= 320 << 10, "{taken} bytes");
}

#[test]
fn a_killed_rank_is_seen_to_be_dead_while_its_child_lives() {
    segment_job("killed_rank").succeed();
}

#[test]
fn descriptors_are_the_programs_own() {
    let left = segment_job("closed_descriptors").succeed().only_segment();
    left.expect(0, AllReduce, (1, 4), (1, 4), 0);
}

#[test]
fn a_child_that_returns_from_its_parents_call_goes_on() {
    let job = segment_job("forked_in_a_call").succeed();
    let mut segments = job.segments();
    segments.sort_by_key(|left| left.snapshot.identity.pid);
    let [parent, child] = &segments[..] else { panic!("{} segments", segments.len()) };
    parent.expect(0, AllReduce, (2, 12), (2, 12), 0);
    child.expect(0, AllReduce, (1, 400), (1, 400), 0);
}

#[test]
fn a_child_that_calls_nothing_has_hardly_a_page_of_its_own() {
    segment_job("idle_child").succeed();
}

#[test]
fn a_child_made_without_the_c_library_has_a_segment_of_its_own() {
    let job = segment_job("raw_child").succeed();
    let mut segments = job.segments();
    segments.sort_by_key(|left| left.counters(0, AllReduce).issued_calls);
    let [child, parent] = &segments[..] else { panic!("{} segments", segments.len()) };
    parent.expect(0, AllReduce, (2, 8), (2, 8), 0);
    child.expect(0, AllReduce, (1, 400), (1, 400), 0);
}

#[test]
fn children_that_share_the_memory_take_nothing_from_the_parent() {
    let left = segment_job("shared_memory").succeed().only_segment();
    left.expect(0, AllReduce, (3, 444), (3, 444), 0);
}

#[test]
fn a_child_forked_while_the_segment_is_made_does_not_keep_its_lock() {
    for _ in 0..20 {
        segment_job("forked_at_the_first_init").succeed();
    }
}

#[test]
fn groups_of_ranks_that_a_framework_tells_of_are_in_the_segment() {
    let left = job("rank_groups").succeed().only_segment();
    let group = |name: &str, ranks: &[u32]| GroupOfRanks {
        ranks: ranks_hash(ranks.iter().copied()),
        n_ranks: ranks.len() as u64,
        name: name.to_owned(),
    };
    let groups = &left.snapshot.groups;
    assert_eq!(groups[..2], [group("tp 4-7", &[4, 5, 6, 7]), group("dp 0,4", &[0, 4])]);
    assert_eq!((groups.len(), &groups[MAX_GROUPS - 1]), (MAX_GROUPS, &group("more", &[4, 5, 6, 7])));
}
