use super::*;

fn read(text: &str) -> NcclLog {
    let mut log = NcclLog::new();
    log.feed(text.as_bytes());
    log.finish();
    log
}

fn init(host: &str, pid: u32, pointer: u64, rank: u32, n_ranks: u32, hash: &str) -> String {
    format!(
        "{host}:{pid}:{pid} [0] NCCL INFO comm {pointer:#x} rank {rank} nranks {n_ranks} cudaDev 0 busId 1b000{hash} - Init COMPLETE\n"
    )
}

#[test]
fn files_of_one_job_are_joined_by_hash_and_a_hash_used_again_is_another_communicator() {
    let of = |rank| {
        read(
            &[
                init("h", 5 + rank, 0xa, rank, 2, " commId 0x7"),
                init("h", 5 + rank, 0xb, rank, 2, " commId 0x7"),
            ]
            .concat(),
        )
    };
    let (one, two) = (of(0), of(1));
    let assembled = assemble(&[&one, &two]);
    let members: Vec<_> =
        assembled.communicators.iter().map(|c| (c.comm_hash, c.members.len(), c.members[&1].log)).collect();
    assert_eq!(members, [(Some(7), 2, 1), (Some(7), 2, 1)]);
}

#[test]
fn without_ids_ranks_are_joined_by_order_and_said_to_be() {
    // Two groups of two on two hosts, then one of four.
    let mut text = String::new();
    for (host, pid, rank) in [("a", 1, 0), ("b", 3, 0), ("b", 4, 1), ("a", 2, 1)] {
        text += &init(host, pid, 0xa, rank, 2, "");
    }
    for (host, pid, rank) in [("a", 1, 0), ("a", 2, 1), ("b", 3, 2), ("b", 4, 3)] {
        text += &init(host, pid, 0xb, rank, 4, "");
    }
    let log = read(&text);
    let found = assemble(&[&log]).communicators;
    let hosts: Vec<Vec<_>> = found.iter().map(|c| c.hosts().into_iter().collect()).collect();
    assert_eq!(hosts, [vec!["a"], vec!["b"], vec!["a", "b"]]);
    assert!(found.iter().all(|c| c.joined_by_order && c.missing().is_empty()));
}

#[test]
fn rings_that_do_not_close_are_not_told() {
    let ring = |rank: u32, prev: u32, next: u32| {
        let init = init("h", 5 + rank, 0xa, rank, 3, " commId 0x7");
        format!("h:{0}:{0} [0] NCCL INFO Ring 00 : {prev} -> {rank} -> {next}\n{init}", 5 + rank)
    };
    let rings = |text: &str| assemble(&[&read(text)]).communicators[0].rings.clone();
    let whole = [ring(0, 2, 1), ring(1, 0, 2), ring(2, 1, 0)].concat();
    assert_eq!(rings(&whole), BTreeMap::from([(0, vec![0, 1, 2])]));
    assert_eq!(rings(&[ring(0, 2, 1), ring(1, 0, 2)].concat()), BTreeMap::new());
    assert_eq!(rings(&[ring(0, 2, 1), ring(1, 0, 0), ring(2, 1, 0)].concat()), BTreeMap::new());
}
