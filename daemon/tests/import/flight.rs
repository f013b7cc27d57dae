//! Dumps of PyTorch's Flight Recorder.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json as value};

use crate::common::scratch;
use crate::made::{Job, pickle, recorded};
use crate::{check, file, import, json};

#[test]
fn who_has_not_come_is_named_with_where_the_others_wait() {
    let dir = scratch("import");
    let ahead = recorded();
    let mut behind = recorded();
    behind["entries"].as_array_mut().unwrap().pop();
    behind["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    for (name, bytes) in [
        ("json", [ahead.to_string().into_bytes(), behind.to_string().into_bytes()]),
        ("pickle", [pickle(&ahead), pickle(&behind)]),
    ] {
        let [ahead, behind] = bytes;
        let ahead = file(&dir, &format!("{name}_rank_0"), ahead);
        let behind = file(&dir, &format!("{name}_rank_1"), behind);
        check(
            &import(&[&ahead, &behind]),
            2,
            &[
                "critical rank_missing Rank 1 has not come; 1 other waits for it in all_reduce #2 of",
                "(0:default_pg) since 17:20:39 UTC",
                "rank 0: all_reduce #2 [[3,4]] of Float scheduled, called from step at train.py:57",
                "rank 1: its newest call is #1; The others are in call #2",
                "the network is not the cause",
                "pending rank 0 all_reduce #2 (48 bytes)",
            ],
        );
    }
}

#[test]
fn who_calls_something_else_is_named_with_both_calls() {
    let dir = scratch("import");
    let mut other = recorded();
    other["entries"][1]["profiling_name"] = "nccl:_all_gather_base".into();
    let one = file(&dir, "trace_0", recorded().to_string());
    let other = file(&dir, "trace_1", other.to_string());
    check(
        &import(&[&one, &other]),
        2,
        &[
            "critical call_mismatch",
            "all_gather of 12 float32",
            "all_reduce of 12 float32",
            "(another primitive)",
        ],
    );
}

#[test]
fn a_call_that_all_are_in_and_that_does_not_end_is_not_the_programs_fault() {
    let dir = scratch("import");
    let same = [0, 1].map(|rank| file(&dir, &format!("same_{rank}"), recorded().to_string()));
    check(
        &import(&[&same[0], &same[1]]),
        2,
        &[
            "critical transfer_stalled All 2 ranks are in all_reduce #2 of",
            "with the same call since 17:20:39 UTC, and none has completed it",
            "these files do not tell it",
        ],
    );
    let mut done = recorded();
    done["entries"].as_array_mut().unwrap().pop();
    done["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let done = [0, 1].map(|rank| file(&dir, &format!("done_{rank}"), done.to_string()));
    check(&import(&[&done[0], &done[1]]), 0, &["healthy"]);
    // Of the other rank nobody knows.
    check(
        &import(&[&done[0]]),
        0,
        &["unknown", "read from files, which do not tell enough to judge it", "no file tells of rank 1"],
    );
}

#[test]
fn a_dump_that_was_written_before_the_others_wait_accuses_nobody() {
    let dir = scratch("import");
    let mut behind = recorded();
    behind["entries"].as_array_mut().unwrap().pop();
    behind["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let write = |name: &str, dump: &Value, seconds: u64| {
        let path = file(&dir, name, dump.to_string());
        let at = UNIX_EPOCH + Duration::from_secs(seconds);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    };
    // The call was made at second 1724779239.
    let ahead = write("dump_0", &recorded(), 1_724_779_500);
    let early = write("dump_1", &behind, 1_724_779_239);
    let ended = import(&[&ahead, &early]);
    check(
        &ended,
        2,
        &["warning waiting Rank 1 is told of until 17:20:39 UTC only", "4 min apart", "Import a dump of it"],
    );
    assert!(!ended.stdout.contains("rank_missing"), "{}", ended.stdout);
    let late = write("dump_1", &behind, 1_724_779_498);
    check(&import(&[&ahead, &late]), 2, &["critical rank_missing Rank 1 has not come", "2.0 s apart"]);
    // Somebody asked for dumps of a job that runs: a call of half a second is no hang.
    let ahead = write("dump_0", &recorded(), 1_724_779_240);
    let early = write("dump_1", &behind, 1_724_779_240);
    let ended = import(&[&ahead, &early]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(!ended.stdout.contains("healthy"), "an open call is no evidence: {}", ended.stdout);
}

/// One rank's dump of a job of four with two groups of two. `pg_status` goes by ids that are no names.
fn rank_of_four(rank: u32, called: u64, bytes: u64, element: &str) -> Value {
    let entry = |group: &str, id: u32, number: u64, done: bool| {
        value!({
            "record_id": number - 1, "pg_id": id, "process_group": [group, "desc"], "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "is_p2p": false,
            "time_created_ns": 1_724_779_239_936_775_119_i64 + i64::try_from(number).unwrap(),
            "duration_ms": 1.5, "input_sizes": [[bytes / 4]], "input_dtypes": [element],
            "output_sizes": [[bytes / 4]], "output_dtypes": [element],
            "state": if done { "completed" } else { "started" }, "timeout_ms": 600_000, "retired": done,
            "time_discovered_started_ns": null,
            "time_discovered_completed_ns": if done { value!(1_724_779_240_000_000_000_i64) } else { Value::Null },
            "frames": [{"name": "step", "filename": "train.py", "line": 57}],
        })
    };
    let pair = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
    let mut entries: Vec<Value> = (1..=3).map(|number| entry("tp", 0, number, true)).collect();
    entries.extend((1..=called).map(|number| entry("world", 1, number, number < called)));
    value!({
        "version": "2.10",
        "pg_config": {
            "world": {"name": "world", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "tp": {"name": "tp", "desc": "tensor", "ranks": pair},
        },
        "pg_status": {
            "0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 3},
            "1": {"last_enqueued_collective": called, "last_started_collective": called, "last_completed_collective": 1},
        },
        "entries": entries,
    })
}

#[test]
fn dumps_of_a_job_are_joined_group_by_group() {
    let dir = scratch("import");
    let dump = |name: &str, rank: u32, value: &Value| file(&dir, &format!("{name}_{rank}"), pickle(value));
    // Rank 2 has called nothing of what the others are in; its last call has ended.
    let of = |rank: u32| {
        let mut told = rank_of_four(rank, if rank == 2 { 300 } else { 301 }, 48, "Float");
        if rank == 2 {
            let last = told["entries"].as_array_mut().unwrap().last_mut().unwrap();
            last["state"] = "completed".into();
            last["time_discovered_completed_ns"] = 1_724_779_240_000_000_000_i64.into();
        }
        told
    };
    let hung: Vec<String> = (0..4).map(|rank| dump("hung", rank, &of(rank))).collect();
    let hung: Vec<&str> = hung.iter().map(String::as_str).collect();
    let whole = import(&hung);
    check(
        &whole,
        2,
        &[
            "findings: 1 critical",
            "Rank 2 has not come; 3 others wait for it in all_reduce #301 of",
            "(world:default_pg) since 17:20:40 UTC",
            "rank 2: its newest call is #300",
            "4 ranks",
            "2 ranks",
        ],
    );
    // The one that hangs may be the one that could not write: it is told as missing, not as guilty.
    let partly = import(&[hung[0], hung[1], hung[3]]);
    check(
        &partly,
        2,
        &[
            "warning waiting in communicator ac4ede8ef5dd (world:default_pg) No file tells of rank 2, so nobody knows whether it has come to all_reduce #301 of",
        ],
    );
    assert!(!partly.stdout.contains("critical"), "{}", partly.stdout);
    // The library's log tells of the same communicator, and of who is where; but of no call.
    let job = Job { hosts: &[("node-a", 4), ("node-b", 4)], last: 4 };
    let log = file(&dir, "job.log", job.logs());
    let rank_2 = "Rank 2 (node-b, pid 1002) has";
    check(
        &import(&[hung[0], hung[1], hung[2], hung[3], &log]),
        2,
        &[
            "findings: 1 critical in 3 communicators on 2 hosts",
            &format!("{rank_2} not come; 3 others wait for it in all_reduce #301 of"),
            "(world:default_pg, 0xabc0000000000001)",
        ],
    );
    check(
        &import(&[hung[0], hung[1], hung[3], &log]),
        2,
        &[&format!(
            "warning waiting in communicator ddddb69b701c (world:default_pg, 0xabc0000000000001) {rank_2} no dump here"
        )],
    );
    // All is well as far as it is told, and the rank of which only the log tells may be the one that hangs.
    let done: Vec<String> = (0..4)
        .map(|rank| {
            let mut told = rank_of_four(rank, 3, 48, "Float");
            for entry in told["entries"].as_array_mut().unwrap() {
                entry["state"] = "completed".into();
                entry["time_discovered_completed_ns"] = 1_724_779_240_000_000_000_i64.into();
            }
            dump("done", rank, &told)
        })
        .collect();
    check(&import(&[&done[0], &done[1], &done[2], &done[3]]), 0, &["healthy"]);
    let partly = import(&[&done[0], &done[1], &done[2], &log]);
    check(&partly, 0, &["unknown", "not known whether all is well"]);
}

#[test]
fn other_sizes_and_types_are_shown_also_where_nothing_hangs() {
    let dir = scratch("import");
    for (name, bytes, element, part) in [
        ("sizes", 96, "Float", "called all_reduce of 24 float32 as #1 of"),
        ("types", 48, "Int", "called all_reduce of 12 int32 as #1 of"),
    ] {
        let of = |rank| {
            let (bytes, element) = if rank == 1 { (bytes, element) } else { (48, "Float") };
            file(&dir, &format!("{name}_{rank}"), pickle(&rank_of_four(rank, 3, bytes, element)))
        };
        let files: Vec<String> = (0..4).map(of).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        check(
            &import(&files),
            2,
            &["critical call_mismatch in communicator", "Rank 1", part, "3 others all_reduce of 12 float32"],
        );
    }
}

/// A send or receive of rank 0 or 1, behind the all-reduce that has ended.
fn transfer(name: &str, elements: u64) -> Value {
    let mut dump = recorded();
    dump["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let entry = &mut dump["entries"][1];
    entry["profiling_name"] = format!("nccl:{name}").into();
    (entry["is_p2p"], entry["p2p_seq_id"], entry["collective_seq_id"]) = (true.into(), 1.into(), 1.into());
    (entry["input_sizes"], entry["output_sizes"]) = (value!([[elements]]), value!([[elements]]));
    dump
}

#[test]
fn sends_and_receives_are_matched() {
    let dir = scratch("import");
    let mut neither = recorded();
    neither["entries"].as_array_mut().unwrap().pop();
    let send = file(&dir, "lone_0", transfer("send 0->1", 12).to_string());
    let other = file(&dir, "lone_1", neither.to_string());
    check(
        &import(&[&send, &other]),
        2,
        &[
            "critical p2p_unmatched Rank 1 has not come; 1 other waits for it in the transfer from rank 0 to rank 1 of",
        ],
    );
    let receive = file(&dir, "sizes_1", transfer("recv 1<-0", 16).to_string());
    let send = file(&dir, "sizes_0", transfer("send 0->1", 12).to_string());
    check(
        &import(&[&send, &receive]),
        2,
        &["critical p2p_unmatched", "sends 12 float32 to rank 1", "receives 16 float32 from rank 0"],
    );
}

#[test]
fn the_document_has_what_a_live_finding_has() {
    let dir = scratch("import");
    let mut behind = recorded();
    behind["entries"].as_array_mut().unwrap().pop();
    behind["pg_status"]["0"]["last_enqueued_collective"] = 1.into();
    let files = [file(&dir, "job_0", recorded().to_string()), file(&dir, "job_1", behind.to_string())];
    let document = json(&[&files[0], &files[1]], 2);
    let finding = &document["findings"][0];
    assert_eq!((&finding["finding"], &finding["severity"]), (&"rank_missing".into(), &"critical".into()));
    assert_eq!((&finding["rank"], &finding["n_victims"]), (&1.into(), &1.into()));
    assert!(finding["accused"][0]["doing"].as_str().unwrap().contains("has not come"), "{finding:#}");
    assert!(!finding["advice"].as_str().unwrap().is_empty());
    let proof = &finding["proof"][0];
    assert!(proof["file"].as_str().unwrap().ends_with("job_1") && proof["line"].is_null(), "{proof:#}");
    assert_eq!(document["observations"], value!([]));
}
