//! Whatever the bytes: no panic, and something is said of every file.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ringscope_api::clock::Timestamp;
use ringscope_api::{FileKind, FindingKind, Verdict};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;

use super::Gathered;
use super::draft::{Claim, Draft};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

fn read(bytes: &[u8]) -> ringscope_api::Import {
    let mut gathered = Gathered::new();
    gathered.read("file_0", NOW, Box::new(bytes), &mut |_| {});
    gathered.judge("job", "agent", NOW).0
}

/// Beginnings that lead into each reader.
const STARTS: [&[u8]; 9] = [
    b"",
    b"\x80\x02}(X\x09\x00\x00\x00pg_config}X\x07\x00\x00\x00entries](",
    b"{\"pg_config\": {\"0\": {\"ranks\": \"[0, 1]\"}}, \"entries\": [{\"process_group\": [\"0\"], \"collective_seq_id\": 1, ",
    b"{\"nccl_version\": \"2\", \"communicators\": [{\"hash\": \"0x1\", \"size\": 4294967295, \"ranks\": [{\"rank\": 1",
    b"{\"header\":{\"id\":\"1\",\"rank\":1,\"n_ranks\":2},\"metadata\":{},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":1",
    b"h:1:1 [0] NCCL INFO comm 0x1 rank 1 nranks 4294967295 cudaDev 0 busId 1 - Init COMPLETE\n",
    b"<graphs version=\"1\"><graph ",
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
];

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        start in 0..STARTS.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let import = read(&[STARTS[start], &bytes].concat());
        let file = &import.files[0];
        prop_assert!(file.kind != FileKind::NotOfThese || file.problem.is_some() || file.seen.is_some());
    }

    #[test]
    fn no_numbers_make_it_panic(a in any::<u64>(), b in any::<u64>(), c in any::<i64>()) {
        let text = |number: u64| number.to_string();
        let flight = format!(
            "{{\"pg_config\": {{\"0\": {{\"ranks\": [{a}, 0]}}}}, \"entries\": [{{\"process_group\": [\"0\"], \
             \"collective_seq_id\": {b}, \"profiling_name\": \"nccl:all_reduce\", \"time_created_ns\": {c}, \
             \"input_sizes\": [[{a}, {b}]], \"input_dtypes\": [\"Float\"], \"state\": \"started\"}}]}}",
        );
        let ras = format!(
            "{{\"nccl_version\": \"2\", \"communicators\": [{{\"hash\": \"{a:#x}\", \"size\": {}, \"ranks\": \
             [{{\"rank\": {}, \"pid\": {c}, \"collective_counts\": {{\"AllReduce\": {b}}}}}]}}]}}",
            text(a % (1 << 32)), text(b % (1 << 32)),
        );
        read(flight.as_bytes());
        read(ras.as_bytes());
    }
}

#[test]
fn a_huge_communicator_costs_nothing() {
    let import = read(b"{\"nccl_version\": \"2\", \"communicators\": [{\"hash\": \"0x1\", \"size\": 65536, \"ranks\": [{\"rank\": 1}]}]}");
    assert_eq!(import.communicators.len(), 1);
    assert!(
        import.lacks.iter().any(|lack| lack.contains("ranks 0, 2, 3, 4 and 65531 more")),
        "{:?}",
        import.lacks
    );
}

#[test]
fn hosts_with_long_names_are_not_taken_for_one() {
    for length in [61, 300] {
        let mut draft = Draft::new(NOW);
        for (rank, end) in [(0, "a"), (1, "b")] {
            let host = format!("{}{end}", "h".repeat(length));
            let claim =
                Claim { host: &host, pid: Some(1), comm_hash: 7, rank, n_ranks: 2, at: NOW, by_rank: false };
            assert!(draft.part(&claim).is_some());
        }
        let mut model = Model::new();
        draft.batches("job", "agent", NOW).iter().for_each(|batch| drop(model.apply(batch, NOW)));
        assert_eq!(model.communicators().next().unwrap().n_ranks_seen(), 2, "{length}");
    }
}

/// The dump of a rank of two that has called so many all-reduces, the last of which is open on rank 0.
fn dump(rank: u32, calls: u64) -> String {
    let entry = |number: u64| {
        let is_open = rank == 0 && number == calls;
        serde_json::json!({
            "record_id": number - 1, "process_group": ["0", "default_pg"], "collective_seq_id": number,
            "profiling_name": "nccl:all_reduce", "is_p2p": false, "time_created_ns": 1_724_779_239_000_000_000_u64 + number,
            "input_sizes": [[4]], "input_dtypes": ["Float"], "state": if is_open { "scheduled" } else { "completed" },
            "time_discovered_completed_ns": (!is_open).then_some(1_724_779_239_000_000_000_u64 + number),
        })
    };
    let entries: Vec<_> = (1..=calls).map(entry).collect();
    serde_json::json!({"pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": entries}).to_string()
}

#[test]
fn of_two_dumps_of_a_rank_the_newest_counts() {
    // The older one has a call open that the newer one has left behind.
    let files = [
        ("dump_0.old", dump(0, 4)),
        ("dump_0", dump(0, 9).replace("scheduled", "completed")),
        ("dump_1", dump(1, 9)),
    ];
    for order in [[0, 1, 2], [1, 2, 0]] {
        let mut gathered = Gathered::new();
        for (name, dump) in order.map(|index| &files[index]) {
            gathered.read(name, NOW, Box::new(dump.as_bytes()), &mut |_| {});
        }
        let (import, _) = gathered.judge("job", "agent", NOW);
        assert_eq!(import.verdict, Verdict::Healthy, "{import:#?}");
        assert!(
            import.lacks.iter().any(|lack| lack.starts_with("1 dump left out, as dump_0.old")),
            "{:?}",
            import.lacks
        );
        let seen = import.files.iter().filter(|file| file.seen.is_some());
        assert_eq!(seen.map(|file| file.file.as_str()).collect::<Vec<_>>(), ["dump_0.old"]);
    }
}

#[test]
fn what_was_found_of_files_stands_after_a_restart() {
    let mut gathered = Gathered::new();
    for (name, dump) in [("dump_0", dump(0, 4)), ("dump_1", dump(1, 3))] {
        gathered.read(name, NOW, Box::new(dump.as_bytes()), &mut |_| {});
    }
    let (import, batches) = gathered.judge("job", "agent", NOW);
    assert_eq!(import.findings[0].finding.finding, FindingKind::RankMissing, "{:#?}", import.findings);
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    batches.iter().for_each(|batch| drop(model.apply(batch, NOW)));
    let found = diagnosis.update(&model, None, NOW);
    let firing: BTreeSet<String> = diagnosis.firing().map(|finding| finding.message.clone()).collect();
    assert!(firing.iter().any(|message| message.starts_with("Rank 1 has not come")), "{firing:?}");
    let keys = batches.iter().flat_map(|batch| &batch.processes).map(|process| process.key.as_str());
    let kept =
        keys.flat_map(|key| [model.process_facts(key), model.process_counters(key)]).flatten().collect();
    let later = Timestamp(NOW.0 + 60_000_000_000);
    let (mut again, mut judge) = (Model::new(), Diagnosis::new());
    again.restore(kept, later);
    judge.restore(found);
    judge.hold_jobs(later);
    judge.update(&again, None, Timestamp(later.0 + 60_000_000_000));
    let stands: BTreeSet<String> = judge.firing().map(|finding| finding.message.clone()).collect();
    assert_eq!(stands, firing);
}
