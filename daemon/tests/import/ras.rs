//! Answers of RAS.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json as value};

use crate::common::scratch;
use crate::{check, file, fixture, import, json};

fn recorded() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("import/ras.json")).unwrap()).unwrap()
}

#[test]
fn who_is_missing_and_who_failed_is_judged() {
    let dump = fixture("import/ras.json").display().to_string();
    check(
        &import(&[&dump]),
        2,
        &[
            "critical rank_missing Rank 3 (10.0.0.2, pid 201) is missing: its peers consider it dead; 3 others use",
            "critical async_error Rank 1 (10.0.0.1, pid 101) got ncclRemoteError from the library in",
            "Who got what: ncclRemoteError: rank 1",
            "async_error 6: rank 1; missing_ranks: rank 3; AllReduce 16, Broadcast 1: rank 2; AllReduce 17",
            "What to do: See whether the process still runs on 10.0.0.2",
            "rank 2 issued AllReduce 16 times, the others 17. Ranks run ahead of each other",
        ],
    );
    // What peers were told of one that is missing follows from that.
    let document = json(&[&dump], 2);
    let kinds: Vec<&Value> =
        document["findings"].as_array().unwrap().iter().map(|one| &one["finding"]).collect();
    assert_eq!(kinds, ["rank_missing", "async_error"], "the cause comes first");
    let of = |kind: &str| {
        let findings = document["findings"].as_array().unwrap().iter();
        findings.clone().find(|one| one["finding"] == kind).unwrap().clone()
    };
    assert_eq!(of("rank_missing")["n_victims"], 1);
    assert_eq!(of("async_error")["incident"], of("rank_missing")["incident"], "{document:#}");
}

/// Gives a file its time: so many minutes after noon.
fn written(path: String, minutes: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_secs(1_769_860_800 + 60 * minutes);
    std::fs::File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
    path
}

#[test]
fn two_answers_of_a_hang_say_all_that_one_says_in_whatever_order_they_come() {
    let dir = scratch("import");
    let first = written(file(&dir, "first", recorded().to_string()), 0);
    let mut later = recorded();
    later["timestamp"] = "2026-01-31 12:01:00".into();
    let later = written(file(&dir, "later", later.to_string()), 1);
    let dead = "critical rank_missing Rank 3 (10.0.0.2, pid 201) is missing: its peers consider it dead;";
    check(&import(&[&first]), 2, &[dead]);
    let wait = "2 others wait for it in all_reduce #17 of";
    let behind = "critical rank_missing Rank 2 (10.0.0.2, pid 200) has not come; 2 others wait for it in all_reduce #17";
    check(&import(&[&first, &later]), 2, &[&format!("{dead} {wait}"), behind]);
    check(&import(&[&later, &first]), 2, &[&format!("{dead} {wait}"), behind]);
}

#[test]
fn who_answers_again_is_not_missing() {
    let dir = scratch("import");
    let mut again = recorded();
    again["timestamp"] = "2026-01-31 12:01:00".into();
    let communicator = &mut again["communicators"][0];
    communicator["missing_ranks"] = value!([]);
    let mut rank = communicator["ranks"][0].clone();
    (rank["rank"], rank["pid"], rank["host"]) = (3.into(), 201.into(), "10.0.0.2".into());
    communicator["ranks"].as_array_mut().unwrap().push(rank);
    let (first, again) =
        (file(&dir, "first", recorded().to_string()), file(&dir, "again", again.to_string()));
    for order in [[&first, &again], [&again, &first]] {
        let ended = import(&[order[0], order[1]]);
        assert!(!ended.stdout.contains("is missing"), "{}", ended.stdout);
    }
}

/// The answer of a job with nothing wrong in it but how often rank 2 has issued AllReduce; `minutes` after another one.
fn counting(dir: &Path, name: &str, rank_2: u64, others: u64, minutes: u64) -> String {
    let mut dump = recorded();
    let communicator = &mut dump["communicators"][0];
    communicator["missing_ranks"] = value!([]);
    communicator["size"] = 3.into();
    for rank in communicator["ranks"].as_array_mut().unwrap() {
        rank["status"]["async_error"] = 0.into();
        let count = if rank["rank"] == 2 { rank_2 } else { others };
        rank["collective_counts"]["AllReduce"] = count.into();
    }
    dump["timestamp"] = format!("2026-01-31 12:{minutes:02}:00").into();
    written(file(dir, name, dump.to_string()), minutes)
}

#[test]
fn counts_alarm_only_if_they_stand_still() {
    let dir = scratch("import");
    let first = counting(&dir, "first", 16, 17, 0);
    check(&import(&[&first]), 0, &["unknown", "info counts_differ", "Ranks run ahead of each other"]);
    let moved = counting(&dir, "moved", 40, 41, 1);
    check(&import(&[&first, &moved]), 0, &["unknown", "issued AllReduce 40 times, the others 41"]);
    let same = counting(&dir, "same", 16, 17, 2);
    check(
        &import(&[&first, &same]),
        2,
        &[
            "critical rank_missing Rank 2 (10.0.0.2, pid 200) has not come; 2 others wait for it in all_reduce #17 of",
            "since 12:00:00 UTC",
            "AllReduce 16, Broadcast 1: rank 2; AllReduce 17, Broadcast 1: ranks 0 and 1",
        ],
    );
    // Written at one moment, as copies are: for how long they wait is not known.
    let copied = written(counting(&dir, "copied", 16, 17, 5), 0);
    check(
        &import(&[&first, &copied]),
        2,
        &["warning waiting Rank 2 (10.0.0.2, pid 200) has not come; 2 others wait"],
    );
    // The same answer once more proves nothing.
    let twice = file(&dir, "twice", std::fs::read(&first).unwrap());
    check(
        &import(&[&first, &twice]),
        0,
        &["unknown", "Ranks run ahead of each other", "the same as another of these files"],
    );
    // Ranks may have enqueued hundreds of calls ahead.
    let far = counting(&dir, "far", 16, 319, 0);
    check(
        &import(&[&far]),
        0,
        &[
            "unknown",
            "info counts_differ",
            "rank 2 issued AllReduce 16 times, the others 319",
            "ask it again",
        ],
    );
    let again = counting(&dir, "again", 16, 319, 1);
    check(
        &import(&[&far, &again]),
        2,
        &["rank_missing Rank 2 (10.0.0.2, pid 200) has not come; 2 others wait"],
    );
}

#[test]
fn counts_that_agree_are_never_green() {
    let dir = scratch("import");
    let equal = import(&[&counting(&dir, "equal", 17, 17, 0)]);
    check(&equal, 0, &["unknown", "whether calls end is not judged by RAS"]);
    assert!(!equal.stdout.contains("counts_differ"), "{}", equal.stdout);
}

#[test]
fn as_many_calls_that_are_not_the_same_are_a_mismatch() {
    let dir = scratch("import");
    let other = |name: &str, minutes| {
        let path = counting(&dir, name, 16, 17, minutes);
        let mut dump: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for rank in dump["communicators"][0]["ranks"].as_array_mut().unwrap() {
            if rank["rank"] == 2 {
                rank["collective_counts"]["AllGather"] = 1.into();
            }
        }
        file(&dir, name, dump.to_string())
    };
    let (first, second) = (other("first", 0), other("second", 1));
    check(
        &import(&[&first, &second]),
        2,
        &["critical call_mismatch Rank 2 (10.0.0.2, pid 200) made other calls"],
    );
    // In a single answer it may be what was called while RAS counted.
    assert!(!import(&[&first]).stdout.contains("call_mismatch"));
}

#[test]
fn an_init_that_has_no_end_is_stuck() {
    let dir = scratch("import");
    let mut dump = recorded();
    let communicator = &mut dump["communicators"][0];
    communicator["missing_ranks"] = value!([]);
    communicator["size"] = 3.into();
    for rank in communicator["ranks"].as_array_mut().unwrap() {
        rank["status"]["async_error"] = 0.into();
        rank["status"]["init_state"] = if rank["rank"] == 1 { 7.into() } else { 0.into() };
    }
    let dump = file(&dir, "init", dump.to_string());
    check(&import(&[&dump]), 2, &["warning init_stuck", "Rank 1 (10.0.0.1, pid 101)", "has no end"]);
}
