//! Whatever the bytes: no panic, and something is said of every file.

use proptest::prelude::*;

use super::Gathered;
use crate::api::FileKind;
use crate::clock::Timestamp;

const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

fn read(bytes: &[u8]) -> crate::api::Import {
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
    assert!(import.lacks[0].contains("and 65527 more"), "{:?}", import.lacks);
}
