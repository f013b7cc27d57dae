use super::*;
use crate::nccl_log::RingFact;

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

/// A log of two ranks on a host whose name is torn in some lines, as where several write into one file.
fn torn_names(host: &str, torn: &[&str]) -> NcclLog {
    let mut text = String::new();
    for rank in 0..2_u32 {
        let pid = 500 + rank;
        let line = |name: &str, message: &str| format!("{name}:{pid}:{pid} [0] NCCL INFO {message}\n");
        for n in 0..6 {
            text += &line(host, &format!("Using network x{n}"));
        }
        for name in torn {
            text += &line(name, "Using network IB");
        }
        let complete = init(host, pid, 0xa0 + u64::from(rank), rank, 2, " commId 0x7");
        // The line that matters most is torn too.
        text += &torn.first().map_or(complete.clone(), |name| complete.replacen(host, name, 1));
    }
    read(&text)
}

#[test]
fn torn_lines_make_no_hosts_of_their_own() {
    for (host, torn) in [
        ("ip-10-0-3-12", &["-0-3-12", "2", "ip-10-0-3-12", "xip-10-0-3-12"][..]),
        ("node0", &["ode0", "de0", "2node0"]),
        ("gpu-a.cluster.local", &["cluster.local", "a.cluster.local"]),
    ] {
        let log = torn_names(host, torn);
        let hosts: BTreeSet<String> = log.processes().into_iter().map(|process| process.host).collect();
        assert_eq!(hosts, BTreeSet::from([host.to_owned()]), "{torn:?}");
        let found = assemble(&[&log]).communicators;
        assert_eq!(found.len(), 1, "{torn:?}");
        assert_eq!((found[0].members.len(), found[0].hosts()), (2, BTreeSet::from([host])), "{torn:?}");
    }
}

#[test]
fn a_torn_name_may_come_before_the_whole_one() {
    let mut text = String::new();
    for name in ["-0-3-12", "ip-10-0-3-12", "ip-10-0-3-12", "ip-10-0-3-12"] {
        text += &format!("{name}:7:7 [0] NCCL INFO Using network IB\n");
    }
    let log = read(&text);
    let hosts: Vec<String> = log.processes().into_iter().map(|process| process.host).collect();
    assert_eq!(hosts, ["ip-10-0-3-12"]);
}

/// In containers processes of many hosts have the same pid, and the name of one may be the end of another's.
#[test]
fn hosts_whose_names_end_alike_stay_two() {
    let mut text = String::new();
    for n in 0..8 {
        for name in ["eval-worker-0", "worker-0"] {
            text += &format!("{name}:7:7 [0] NCCL INFO Using network x{n}\n");
        }
    }
    for (rank, name) in (0..2).zip(["eval-worker-0", "worker-0"]) {
        text += &init(name, 7, 0xa0, rank, 2, " commId 0x7");
    }
    let log = read(&text);
    let found = assemble(&[&log]).communicators;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].hosts(), BTreeSet::from(["eval-worker-0", "worker-0"]));
}

#[test]
fn rings_of_rank_0_stand_beside_ring_lines() {
    let ring = |rank: u32, channel: u32, prev: u32, next: u32| {
        format!("h:{0}:{0} [0] NCCL INFO Ring {channel:02} : {prev} -> {rank} -> {next}\n", 5 + rank)
    };
    let orders: String = (0..3).map(|n| format!("h:5:5 [0] NCCL INFO Channel {n:02}/03 : 0 2 1\n")).collect();
    let inits: Vec<String> = (0..3).map(|rank| init("h", 5 + rank, 0xa, rank, 3, " commId 0x7")).collect();
    // One rank has a line of one channel: the rest of its log, and the others' lines, are lost.
    let text = [&orders, &inits[0], &ring(1, 1, 2, 0), &inits[1], &inits[2]].map(String::as_str).concat();
    let assembled = assemble(&[&read(&text)]);
    let found = &assembled.communicators[0];
    assert_eq!(found.rings, (0..3).map(|channel| (channel, vec![0, 2, 1])).collect::<BTreeMap<_, _>>());
    assert_eq!(found.rings_source, Some(RingsSource::Rank0));
    // Rank 0's own line of a channel leaves its orders of the others.
    let text = [&ring(0, 1, 1, 2), &orders, &inits[0]].map(String::as_str).concat();
    let log = read(&text);
    let facts = log.communicators().next().expect("rank 0");
    let places: Vec<_> = facts.rings.iter().map(|ring| (ring.channel, ring.prev, ring.next)).collect();
    assert_eq!(places, [(0, 1, 2), (1, 1, 2), (2, 1, 2)]);
}

#[test]
fn without_ring_lines_the_nics_of_both_ends_are_kept() {
    let mut text = "a:1:1 [0] NCCL INFO Channel 00/01 : 0 1\n".to_owned();
    for (host, pid, rank, nic) in [("a", 1, 0, 2), ("b", 2, 1, 3)] {
        let other = 1 - rank;
        let via = format!("via NET/IB/{nic}");
        text += &format!(
            "{host}:{pid}:{pid} [0] NCCL INFO Channel 00/0 : {other}[0] -> {rank}[0] [receive] {via}\n"
        );
        text += &format!(
            "{host}:{pid}:{pid} [0] NCCL INFO Channel 00/0 : {rank}[0] -> {other}[0] [send] {via}\n"
        );
        text += &init(host, pid, 0xa, rank, 2, " commId 0x7");
    }
    let log = read(&text);
    let ends: Vec<_> = log
        .communicators()
        .map(|facts| {
            let place = facts.position(&RingFact { channel: 0, prev: 1 - facts.rank, next: 1 - facts.rank });
            (place.nic_index, place.recv_nic_index)
        })
        .collect();
    assert_eq!(ends, [(Some(2), Some(2)), (Some(3), Some(3))]);
}
