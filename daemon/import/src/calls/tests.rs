use ringscope_api::clock::Timestamp;
use serde_json::{Value, json};

use super::super::flight::Dump;
use super::{Calls, NOT_TOLD, first_parting, newest, of, timeout};

fn entry(record: u64, name: &str, number: u64, state: &str) -> Value {
    let is_p2p = name.starts_with("send") || name.starts_with("recv");
    json!({
        "record_id": record, "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": format!("nccl:{name}"),
        "collective_seq_id": if is_p2p { 0 } else { number }, "p2p_seq_id": if is_p2p { number } else { 0 },
        "is_p2p": is_p2p, "time_created_ns": 1_000 + record, "state": state,
        "input_sizes": [[4, 2]], "output_sizes": [[4, 2]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
        "time_discovered_started_ns": null, "timeout_ms": 60_000,
        "time_discovered_completed_ns": if state == "completed" { json!(2_000 + record) } else { Value::Null },
    })
}

fn dump(entries: Vec<Value>) -> Dump {
    let config = json!({"0": {"desc": "default_pg", "ranks": "[0, 1, 2, 3]"}});
    Dump::of(&json!({"pg_config": config, "entries": entries}), "rank_1").unwrap()
}

fn calls(dump: &Dump) -> Calls {
    of(dump, "0", &dump.groups["0"], 0)
}

#[test]
fn collectives_keep_the_numbers_of_the_dump() {
    let dump = dump(vec![
        entry(0, "all_reduce", 1, "completed"),
        entry(1, "all_to_all", 2, "completed"),
        entry(2, "all_reduce", 3, "scheduled"),
    ]);
    let told = calls(&dump);
    assert_eq!((told.next, told.open.len(), told.completed.len()), (Some(4), 1, 2));
    assert_eq!((told.open[0].call_number, told.open[0].count, told.open[0].datatype), (Some(3), 8, 7));
    // Ranks may give different sizes.
    assert_eq!((told.completed[1].count, told.completed[1].datatype), (0, NOT_TOLD));
    assert_eq!(newest(&dump), Timestamp(2_001));
    assert_eq!(timeout(&dump), Some(Timestamp(1_002 + 60_000_000_000)));
}

#[test]
fn of_calls_in_one_go_the_whole_says_whether_they_have_ended() {
    let part = |record, name: &str| entry(record, name, 1, "scheduled");
    let mut whole = entry(3, "coalesced", 1, "completed");
    whole["is_p2p"] = true.into();
    whole["p2p_seq_id"] = 1.into();
    let ended = calls(&dump(vec![part(0, "send 1->2"), part(1, "recv 1<-0"), whole.clone()]));
    assert_eq!((ended.open.len(), ended.completed.len()), (0, 2));
    whole["state"] = "scheduled".into();
    let open = calls(&dump(vec![part(0, "send 1->2"), part(1, "recv 1<-0"), whole]));
    let peers: Vec<_> = open.open.iter().map(|told| (told.peer, told.call_number, told.group)).collect();
    assert_eq!(peers, [(Some(2), None, 1), (Some(0), None, 1)], "they wait for both peers at once");
    let collectives = ["reduce_scatter", "all_reduce"].map(|name| entry(0, name, 5, "scheduled"));
    let folded = calls(&dump(vec![
        collectives[0].clone(),
        collectives[1].clone(),
        entry(2, "coalesced", 5, "completed"),
    ]));
    assert_eq!((folded.open.len(), folded.completed.len(), folded.next), (0, 1, Some(6)));
}

#[test]
fn sends_one_by_one_do_not_wait_for_each_other() {
    let told =
        calls(&dump(vec![entry(0, "send 1->2", 1, "scheduled"), entry(1, "send 1->3", 2, "scheduled")]));
    assert_ne!(told.open[0].stream, told.open[1].stream);
    assert_eq!(
        told.pairs.iter().map(|pair| (pair.peer, pair.calls, pair.bytes)).collect::<Vec<_>>(),
        [(2, 1, 32), (3, 1, 32)]
    );
}

#[test]
fn what_was_dropped_is_not_taken_for_nothing() {
    let mut of_others = entry(900, "all_reduce", 7, "completed");
    of_others["process_group"] = json!(["1", "tp"]);
    let mut document = json!({
        "pg_config": {"0": {"ranks": [0, 1]}, "1": {"ranks": [0, 1]}}, "entries": [of_others],
    });
    let cut = Dump::of(&document, "rank_1").unwrap();
    assert!(cut.is_cut && calls(&cut).next.is_none());
    assert_eq!(of(&cut, "1", &cut.groups["1"], 1).next, Some(8));
    document["entries"][0]["record_id"] = 0.into();
    let whole = Dump::of(&document, "rank_1").unwrap();
    assert_eq!(calls(&whole).next, Some(1), "it has called nothing there");
}

#[test]
fn the_first_number_under_which_ranks_differ_is_found() {
    let one =
        calls(&dump(vec![entry(0, "all_reduce", 1, "completed"), entry(1, "all_reduce", 2, "completed")]));
    let mut odd = entry(1, "all_reduce", 2, "completed");
    odd["input_sizes"] = json!([[9]]);
    let other = calls(&dump(vec![entry(0, "all_reduce", 1, "completed"), odd]));
    assert_eq!(first_parting([&one, &other].into_iter()), Some(2));
    assert_eq!(first_parting([&one, &one].into_iter()), None);
}
