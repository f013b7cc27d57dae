//! What the collector must never do to the job it is in.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ringscope_wire::Primitive::{AllReduce, Recv};
use ringscope_wire::segment::layout::STATE_FAULT;

use crate::harness::{
    Job, assert_good, job, left_by, library, preload, programs, segment_job, summation_job,
};

#[test]
fn the_record_path_makes_no_system_call() {
    let left = left_by("no_system_call");
    left.expect(0, AllReduce, (50_000, 200_000), (50_000, 200_000), 0);
    left.expect(1, Recv, (25_001, 25_001), (25_001, 25_001), 0);
}

#[test]
fn the_record_path_allocates_nothing() {
    let left = left_by("no_allocation");
    left.expect(0, AllReduce, (25_001, 100_004), (25_001, 100_004), 0);
    assert_eq!(left.snapshot.links.len(), 6);
}

#[test]
fn a_pointer_given_in_a_group_is_not_read_again_at_its_end() {
    let left = left_by("place_taken_back");
    left.expect(0, AllReduce, (1, 20), (1, 20), 0);
    assert_eq!((left.snapshot.communicators.len(), left.snapshot.communicators[0].rank), (1, 3));
}

#[test]
fn a_handler_may_call_in_the_middle_of_the_first_call() {
    left_by("interrupted").expect(0, AllReduce, (1000, 4000), (1000, 4000), 0);
}

#[test]
fn after_a_fault_it_does_nothing_more() {
    let left = left_by("faulty");
    assert_eq!(left.snapshot.state, STATE_FAULT);
    left.expect(0, AllReduce, (1, 4), (0, 0), 0);
    assert_eq!((left.snapshot.communicators.len(), left.records.len()), (1, 1));
}

#[test]
fn a_thread_may_end_inside_the_library() {
    // pthread_exit unwinds through the wrapper.
    let left = left_by("thread_exit");
    left.expect(0, AllReduce, (1, 12), (1, 12), 0);
    assert_eq!(left.records.len(), 2);
}

#[test]
fn a_process_without_communicators_leaves_no_trace() {
    let mut job = job("no such scenario");
    assert_eq!(job.command().status().unwrap().code(), Some(98));
    assert!(!job.dir.exists());
}

#[test]
fn the_folder_is_for_all_users_and_a_segment_for_its_own() {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let job = job("every_primitive");
    // No usual umask leaves a folder that all may write to.
    let dir = job.dir.join("made/by/the/collector");
    let job = job.env("RINGSCOPE_DIR", &dir).succeed();
    assert_eq!(mode(&dir), 0o1777);
    let segment = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&segment), 0o600);
    // One that is there stays as it is.
    std::fs::set_permissions(&dir, Permissions::from_mode(0o750)).unwrap();
    let _job = job.succeed();
    assert_eq!((mode(&dir), std::fs::read_dir(&dir).unwrap().count()), (0o750, 2));
}

#[test]
fn a_folder_that_cannot_be_written_does_not_touch_the_job() {
    // Below a file nothing can be made, not even by root.
    let job = job("every_primitive").env("RINGSCOPE_DIR", library().join("below")).succeed();
    assert!(!job.dir.exists());
}

#[test]
fn a_full_disk_does_not_touch_the_job() {
    for (size, others, word) in [
        ("4k", "0", ".refused-budget-"),
        ("256k", "0", ".refused-budget-"),
        ("1m", "0", ".seg"),
        ("1m", "1M", ".refused-full-"),
        ("1m", "1012K", ".refused-full-"),
    ] {
        let job = job("every_primitive").env("OTHERS", others);
        let left = with_a_full_folder(job, "every_primitive", size);
        assert!(left.contains(word), "nobody would know why, {others} of {size}: {left}");
    }
}

#[test]
fn a_full_disk_does_not_touch_a_summation_group() {
    with_a_full_folder(summation_job("lost").env("RSUM_OBSERVER", library()), "lost", "64k");
}

#[test]
fn threads_that_have_no_page_do_not_switch_it_off() {
    with_a_full_folder(segment_job("threads_without_pages"), "threads_without_pages", "4m");
}

#[test]
fn records_that_have_no_page_do_not_switch_it_off() {
    with_a_full_folder(segment_job("records_without_pages"), "records_without_pages", "4m");
    let job = segment_job("records_without_pages").env("LD_LIBRARY_PATH", programs().join("v4"));
    with_a_full_folder(job, "records_without_pages", "4m");
}

#[test]
fn most_of_the_file_system_is_left_to_the_job() {
    with_a_full_folder(segment_job("crowded_folder"), "crowded_folder", "16m");
}

/// The job, in a mount namespace of its own, whose file system for segments is that large. What it left there, a name a line.
fn with_a_full_folder(mut job: Job, scenario: &str, size: &str) -> String {
    std::fs::create_dir_all(&job.dir).unwrap();
    let script = r#"mount -t tmpfs -o size=$SIZE tmpfs "$RINGSCOPE_DIR" && { head -c "${OTHERS:-0}" /dev/zero >"$RINGSCOPE_DIR/others" 2>/dev/null || true; } && env LD_PRELOAD="$PRELOAD" "$0" "$1" && ls -A "$RINGSCOPE_DIR" >"$LEFT""#;
    let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-{}-{scenario}", std::process::id()));
    let program = job.command().get_program().to_owned();
    let environment: Vec<_> = job
        .command()
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .filter(|(name, _)| name != "LD_PRELOAD")
        .collect();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(program)
        .arg(scenario)
        .envs(environment)
        .env("PRELOAD", preload())
        .env("SIZE", size)
        .env("LEFT", &left)
        .output()
        .expect("unshare: apt-get install util-linux");
    assert_good(&output);
    let names = std::fs::read_to_string(&left).unwrap();
    std::fs::remove_file(left).unwrap();
    names
}
