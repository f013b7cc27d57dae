//! Dumps that torch wrote of jobs on Gloo: `fixtures/import/torch`.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::scratch;
use crate::{Ended, check, file, fixture, import, json};

/// When the dumps were written, as a copy without `-p` has lost it.
const WRITTEN_S: u64 = 1_795_373_426;
const COPIED_S: u64 = WRITTEN_S + 30 * 86_400;

/// The dumps of some ranks of a job, with the time of the file.
fn dumps(dir: &Path, job: &str, ranks: &[u32], at_s: u64) -> Vec<String> {
    let copy = |rank: &u32| {
        let name = format!("{job}_rank_{rank}");
        let bytes = std::fs::read(fixture("import/torch").join(&name)).unwrap();
        let path = file(dir, &name, bytes);
        let at = UNIX_EPOCH + Duration::from_secs(at_s);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    };
    ranks.iter().map(copy).collect()
}

fn import_job(job: &str, ranks: &[u32], at_s: u64) -> Ended {
    let dir = scratch("import");
    let files = dumps(&dir, job, ranks, at_s);
    import(&files.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn who_has_not_come_is_named_whenever_the_file_was_copied() {
    for at_s in [WRITTEN_S, COPIED_S] {
        check(
            &import_job("missing", &[0, 1, 2], at_s),
            2,
            &[
                "critical rank_missing Rank 1 has not come; 2 others wait for it in all_reduce #6 of",
                "(0:default_pg) since 18:49:07 UTC",
                "rank 1: all_reduce #5 [[8]] of Float completed, called from job at /tmp/job/record.py:104",
                "rank 0: all_reduce #6 [[8]] of Float scheduled, called from step at /tmp/job/record.py:27",
                "rank 1: its newest call is #5; The others are in call #6",
                "pending rank 0 all_reduce #6 (32 bytes), rank 2 all_reduce #6 (32 bytes)",
            ],
        );
    }
    // Its own dump is not there: it may have come.
    let partly = import_job("missing", &[0, 2], WRITTEN_S);
    check(&partly, 2, &["warning waiting", "No file tells of rank 1", "all_reduce #6 of"]);
    assert!(!partly.stdout.contains("critical"), "{}", partly.stdout);
}

#[test]
fn another_collective_and_another_type_are_shown_with_both_calls() {
    check(
        &import_job("other", &[0, 1], WRITTEN_S),
        2,
        &[
            "critical call_mismatch Rank 1 called all_gather of 8 float32 as #6 of",
            "rank 0 all_reduce of 8 float32 (another primitive)",
        ],
    );
    check(
        &import_job("types", &[0, 1], WRITTEN_S),
        2,
        &[
            "critical call_mismatch Rank 1 called all_reduce of 8 int32 as #6 of",
            "rank 0 all_reduce of 8 float32 (another datatype)",
        ],
    );
}

#[test]
fn the_group_is_named_in_which_the_rank_has_not_come_that_holds_up_another() {
    let dir = scratch("import");
    let files = dumps(&dir, "group", &[0, 1, 2], WRITTEN_S);
    let document = json(&files.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    let [finding] = document["findings"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    assert_eq!((&finding["finding"], &finding["severity"]), (&"rank_missing".into(), &"critical".into()));
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.starts_with("Rank 1 has not come; 2 others wait for it in all_reduce #3 of"),
        "{message}"
    );
    assert!(message.contains("(1:pair)"), "{message}");
}

#[test]
fn groups_whose_ranks_nobody_tells_are_said_not_to_be_judged() {
    // Every rank has called in other groups since, and the last file may be missing.
    for ranks in [&[0, 1, 2, 3][..], &[0, 1, 2]] {
        let told = import_job("grid", ranks, WRITTEN_S);
        check(&told, 0, &["unknown", "5 process groups not judged (0, 1, 2, 3)", "which ranks"]);
        assert!(!told.stdout.contains("critical"), "{}", told.stdout);
    }
}

#[test]
fn dumps_in_which_nothing_hangs_are_no_proof_of_health() {
    for job in ["receive", "ended"] {
        let told = import_job(job, &[0, 1], WRITTEN_S);
        check(
            &told,
            0,
            &["unknown", "not known whether all is well: Gloo's sends and receives are not recorded"],
        );
        assert!(!told.stdout.contains("healthy"), "{}", told.stdout);
    }
}
