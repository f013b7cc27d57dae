use proptest::prelude::*;

use super::*;
use crate::nccl_log::{RowFact, TreeFact};

const RXE: &str = include_str!("../../../../../fixtures/logs/nccl-2.20.5-rxe-3node-max1-node0.log");
const A800: &str = include_str!("../../../../../fixtures/logs/nccl-2.27.3-a800-8gpu-graph.log");
const SPLIT: &str = include_str!("../../../../../fixtures/logs/nccl-2.27.3-efa-split-rank0of4.log");
const TORN: &str = include_str!("../../../../../fixtures/logs/nccl-2.27.3-torn-8procs-one-file.log");
const GRAPH: &str = include_str!("../../../../../fixtures/logs/nccl-2.16.5-2node-ib-graph.log");
const P5: &str = include_str!("../../../../../fixtures/logs/nccl-2.22.3-p5-h100-efa-16ranks-mpirun.log");
const RCCL: &str = include_str!("../../../../../fixtures/logs/rccl-2.27.7-2x7900xtx-graph.log");

fn read(text: &str) -> NcclLog {
    let mut log = NcclLog::new();
    log.feed(text.as_bytes());
    log
}

/// One line per communicator: what a reader of the log would note down. Channels with the same place and hop are
/// written once, with their number.
fn notes(log: &NcclLog) -> Vec<String> {
    let known = |n: Option<u32>| n.map_or("?".to_owned(), |n| n.to_string());
    log.communicators()
        .map(|facts| {
            let mut places: BTreeMap<String, u32> = BTreeMap::new();
            for ring in &facts.rings {
                let hop = facts.hops.get(&ring.channel).map_or("?".to_owned(), |hop| {
                    let gdr = if hop.gpu_direct { " gdr" } else { "" };
                    format!("{} {}{gdr}", hop.transport, hop.nic.as_deref().unwrap_or("-"))
                });
                *places.entry(format!("{}->{}->{} {hop}", ring.prev, facts.rank, ring.next)).or_default() +=
                    1;
            }
            let hash = facts.comm_hash.map_or("-".to_owned(), |hash| format!("{hash:x}"));
            let places: Vec<_> = places.into_iter().map(|(place, n)| format!("{n} x {place}")).collect();
            format!(
                "{hash} {}/{} of {} nodes on {} init {} final {} [{}]{}",
                facts.rank,
                facts.n_ranks,
                known(facts.n_nodes),
                facts.bus_id.as_deref().unwrap_or("?"),
                known(facts.init_channels),
                known(facts.final_channels),
                places.join(", "),
                facts.end.map_or(String::new(), |end| format!(" {end:?}")),
            )
        })
        .collect()
}

/// Compares the notes of some ranks, or of all.
fn check_ranks(text: &str, version: &str, ranks: Option<&[&str]>, expected: &[&str]) {
    let of = |notes: Vec<String>| -> Vec<String> {
        let wanted = |note: &String| ranks.is_none_or(|ranks| ranks.iter().any(|rank| note.contains(rank)));
        notes.into_iter().filter(wanted).collect()
    };
    let whole = read(text);
    assert_eq!(of(notes(&whole)), expected);
    assert_eq!(whole.version(), Some(version));
    let mut by_piece = NcclLog::new();
    text.as_bytes().chunks(77).for_each(|piece| by_piece.feed(piece));
    assert_eq!(of(notes(&by_piece)), expected);
}

fn check(text: &str, version: &str, expected: &[&str]) {
    check_ranks(text, version, None, expected);
}

#[test]
fn three_nodes_with_soft_roce() {
    check(
        RXE,
        "2.20.5+cuda12.4",
        &["1f82f8f6b7863cd3 0/3 of 3 nodes on 0000:00:08.0 init 1 final 1 [1 x 2->0->1 NET/IB rxe0] Aborted"],
    );
}

#[test]
fn one_process_with_a_thread_per_gpu_and_runtime_connect() {
    check_ranks(
        A800,
        "2.27.3+cuda12.9",
        Some(&[" 0/8 ", " 3/8 "]),
        &[
            "13c34b2638bd11fd 3/8 of 1 nodes on 0000:56:00.0 init 8 final 16 [16 x 2->3->4 P2P/direct pointer -] Destroyed",
            "13c34b2638bd11fd 0/8 of 1 nodes on 0000:21:00.0 init 8 final 16 [16 x 7->0->1 P2P/direct pointer -] Destroyed",
        ],
    );
}

/// The job ran on trees only, whose connections rings would share where they have the same edge.
#[test]
fn without_graph_lines_only_rank_0_knows_its_ring() {
    let places = "6 x 1->0->7 P2P/CUMEM -, 6 x 7->0->1 P2P/CUMEM -, 2 x 7->0->8 NET/AWS Libfabric - gdr, 2 x 8->0->7 ?";
    let rank_0 =
        format!("363ac963d9c3b653 0/16 of 2 nodes on 0000:53:00.0 init ? final 16 [{places}] Destroyed");
    let rank_9 = "363ac963d9c3b653 9/16 of 2 nodes on 0000:64:00.0 init ? final 16 [] Destroyed";
    check_ranks(P5, "2.22.3+cuda12.2", Some(&[" 0/16 ", " 9/16 "]), &[rank_9, &rank_0]);
}

#[test]
fn a_split_without_comm_id_gets_its_hash_from_its_parent() {
    check(
        SPLIT,
        "2.27.3+cuda12.9",
        &[
            "b079519ed44b724 0/4 of 4 nodes on 0000:10:1d.0 init ? final 2 [2 x 3->0->1 NET/Libfabric - gdr]",
            "- 0/4 of 4 nodes on 0000:10:1d.0 init ? final 2 [2 x 3->0->1 NET/Libfabric - gdr]",
        ],
    );
    let log = read(SPLIT);
    let split = log.communicators().nth(1).expect("two communicators");
    assert_eq!(split.derived_hash, Some(comm_hash::of_split(0xb07_9519_ed44_b724, 1, 2_003_953_581)));
}

#[test]
fn rccl_words_it_its_own_way() {
    check(
        RCCL,
        "RCCL 2.27.7-HEAD:0d2c4fd",
        &[
            "cde2ea451c75c2ba 0/2 of 1 nodes on 0000:03:00.0 init 1 final 2 [2 x 1->0->1 P2P/IPC -]",
            "cde2ea451c75c2ba 1/2 of 1 nodes on 0000:0d:00.0 init 1 final 2 [2 x 0->1->0 P2P/IPC -]",
        ],
    );
}

#[test]
fn the_rows_of_the_searches_and_the_trees_are_kept() {
    let log = read(A800);
    let facts = log.communicators().find(|facts| facts.rank == 3).expect("rank 3");
    let row = RowFact { ranks: (0..8).collect(), ..RowFact::default() };
    assert_eq!(facts.searched.rings, vec![row; 8]);
    assert_eq!(facts.searched.trees.len(), 8);
    assert_eq!(facts.trees.len(), 16);
    assert_eq!(facts.trees[&0], TreeFact { rank: 3, up: Some(2), down: vec![4] });
    // Bus ids are ranks by the topology; NICs stand at both ends.
    let log = read(RCCL);
    let rows: Vec<_> = log.communicators().flat_map(|facts| facts.searched.rings.clone()).collect();
    assert_eq!(rows, vec![RowFact { ranks: vec![0, 1], ..RowFact::default() }; 2]);
    let log = read(RXE);
    let facts = log.communicators().next().expect("rank 0");
    let net = || Some("0".to_owned());
    assert_eq!(facts.searched.rings, [RowFact { ranks: vec![0], enter: net(), leave: net() }]);
    assert_eq!(facts.trees[&0], TreeFact { rank: 0, up: None, down: vec![2] });
}

/// Of a rank whose version line is missing, its own wording tells whose library it is.
#[test]
fn rccl_is_known_by_its_wording_alone() {
    let version = |without: &[&str]| {
        let lines = RCCL.lines().filter(|line| !without.iter().any(|word| line.contains(word)));
        let log = read(&lines.map(|line| format!("{line}\n")).collect::<String>());
        let facts = log.communicators().next().expect("a communicator");
        facts.version.clone()
    };
    let rccl = || Some("RCCL".to_owned());
    assert_eq!(version(&["RCCL version"]), rccl(), "by the runtimes that it names");
    let runtimes = ["RCCL version", "ROCr", "Hipruntime"];
    assert_eq!(version(&runtimes), rccl(), "by how it counts channels");
    assert_eq!(version(&[runtimes.as_slice(), &["coll channels"]].concat()), None);
}

/// Lines of one init of rank 0 of 2 by thread 7 of process 5, with `channels` found and agreed.
fn init(pointer: u64, channels: u32, end: &str) -> String {
    let comm = format!(
        "ncclCommInitRank comm {pointer:#x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9"
    );
    let mut messages = vec![
        format!("{comm} - Init START"),
        format!("Pattern 4, crossNic 0, nChannels {channels}, bw 1.0/1.0, type LOC/PIX, sameChannels 1"),
        format!(
            "Pattern 1, crossNic 0, nChannels {}, bw 1.0/1.0, type LOC/PIX, sameChannels 1",
            channels + 1
        ),
        "Pattern 5, crossNic 0, nChannels 0, bw 1.0/1.0, type LOC/PIX, sameChannels 1".to_owned(),
        "Ring 00 : 1 -> 0 -> 1".to_owned(),
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0".to_owned(),
        format!(
            "{channels} coll channels, 0 collnet channels, 0 nvls channels, 1 p2p channels, 1 p2p channels per peer"
        ),
    ];
    if !end.is_empty() {
        messages.push(format!("{comm} - {end}"));
    }
    messages.iter().map(|message| format!("h:5:7 [0] NCCL INFO {message}\n")).collect()
}

#[test]
fn a_pointer_used_again_is_another_communicator() {
    let destroy = "h:5:5 [0] NCCL INFO comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n";
    let text = [init(0xa0, 1, "Init COMPLETE"), destroy.into(), init(0xa0, 2, "Init COMPLETE")].concat();
    let log = read(&text);
    let found: Vec<_> =
        log.communicators().map(|facts| (facts.occurrence, facts.init_channels, facts.end)).collect();
    assert_eq!(found, [(0, Some(1), Some(End::Destroyed)), (1, Some(2), None)]);
    let proof = |facts: &CommunicatorFacts| facts.evidence.iter().any(|line| line.fact == FACT_DESTROYED);
    assert_eq!(log.communicators().map(proof).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_ring_told_again_may_be_shorter() {
    let order = |ranks: &str| format!("h:5:7 [0] NCCL INFO Channel 00/02 : {ranks}\n");
    let long: String = (0..19).map(|rank| format!(" {rank}")).collect();
    let complete = "h:5:7 [0] NCCL INFO comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE\n";
    let log = read(&[init(0xa0, 1, ""), order(&long), order("0 1"), complete.into()].concat());
    assert!(log.communicators().any(|facts| facts.orders.get(&0) == Some(&vec![0, 1])));
}

#[test]
fn an_init_that_fails_is_told_from_one_that_does_not() {
    let log = read(&[init(0xa0, 1, ""), init(0xa0, 2, "Init COMPLETE")].concat());
    let found: Vec<_> = log.communicators().map(|facts| (facts.complete, facts.init_channels)).collect();
    assert_eq!(found, [(false, Some(1)), (true, Some(2))]);
    let log = read(&init(0xa0, 1, ""));
    assert_eq!((log.communicators().count(), log.unfinished().len()), (0, 1));
}

#[test]
fn settings_and_nics_are_the_process_s() {
    let head = "h:5:5 [0] NCCL INFO NCCL_MIN_NCHANNELS set by environment to 4.\n\
                h:6:6 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 9.\n\
                h:5:5 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n";
    let log = read(&[head.to_owned(), init(0xa0, 1, "Init COMPLETE")].concat());
    let facts = log.communicators().next().expect("one communicator");
    assert_eq!(facts.settings, BTreeMap::from([("NCCL_MIN_NCHANNELS".to_owned(), 4)]));
    assert_eq!(facts.hops[&0].nic.as_deref(), Some("eth0"));
}

#[test]
fn a_connection_that_fits_two_communicators_is_not_guessed() {
    let two = [init(0xa0, 1, "Init COMPLETE"), init(0xb0, 1, "Init COMPLETE")].concat();
    let two: String =
        two.lines().filter(|line| !line.contains(" via ")).map(|line| format!("{line}\n")).collect();
    let via = |net: &str| format!("h:5:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/{net}/0\n");
    let hops = |more: &[String]| {
        let log = read(&[two.clone(), more.concat()].concat());
        log.communicators()
            .map(|facts| facts.hops.get(&0).map(|hop| hop.transport.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(hops(&[via("IB")]), [None, None]);
    assert_eq!(hops(&[via("IB"), via("Socket")]), [None, None]);
    assert_eq!(hops(&[via("IB"), via("IB")]), [Some("NET/IB".to_owned()), Some("NET/IB".to_owned())]);
}

#[test]
fn a_torn_line_says_nothing() {
    let whole = init(0xa0, 1, "Init COMPLETE");
    let torn = whole.replace("Ring 00 : 1 -> 0 -> 1", "Ring 00 : 1 -> 0 -h:5:8 [0] NCCL INFO x");
    let log = read(&torn);
    let facts = log.communicators().next().expect("one communicator");
    assert_eq!((facts.rings.len(), facts.hops.len()), (0, 0));
    assert_eq!(log.unparsed().values().sum::<u64>(), 1);
}

proptest! {
    #[test]
    fn any_bytes(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8)) {
        let mut log = NcclLog::new();
        chunks.iter().for_each(|chunk| log.feed(chunk));
    }

    #[test]
    fn any_message(message in "(Channel|Ring|Pattern|comm|NET/IB : Using|x set by environment to|[ -~]{0,9})[ -~]{0,60}") {
        let mut log = NcclLog::new();
        log.feed(format!("h:1:1 [0] NCCL INFO {message}\n").as_bytes());
    }

    #[test]
    fn mutated_logs(
        which in 0..4_usize,
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
        cut in any::<prop::sample::Index>(),
        chunk in 1..9000_usize,
    ) {
        let text = [SPLIT, RXE, TORN, GRAPH][which];
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in at {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let cut = cut.index(bytes.len());
        let mut log = NcclLog::new();
        bytes[cut..].chunks(chunk).for_each(|chunk| log.feed(chunk));
        log.feed(&bytes[..cut]);
        log.finish();
        for facts in log.communicators() {
            prop_assert!(facts.rank < u32::MAX && facts.rings.len() <= 256 && facts.evidence.len() <= 64);
        }
        prop_assert!(log.lacks().len() < 16);
        let assembled = crate::nccl_log::assemble(&[&log]);
        for communicator in &assembled.communicators {
            for ring in communicator.rings.values() {
                prop_assert_eq!(Some(ring.len()), communicator.n_ranks.map(|n| n as usize));
            }
        }
    }
}

#[test]
fn millions_of_communicators_do_not_take_memory_without_end() {
    let mut log = NcclLog::new();
    for pointer in 0..60_000_u64 {
        let pid = pointer % 700;
        let comm =
            format!("comm {:#x} rank 0 nranks 2 cudaDev 0 busId 1b000 commId {pointer:#x}", pointer + 1);
        log.feed(format!("h{pid}:{pid}:7 [0] NCCL INFO {comm} - Init COMPLETE\n").as_bytes());
    }
    let (counts, kept) = (log.counts(), log.communicators().count());
    assert_eq!(counts.communicators_forgotten + kept as u64, 60_000);
    assert!((1_000..30_000).contains(&kept), "{kept}");
    assert!(log.lacks().iter().any(|lack| lack.contains("were forgotten")));
    assert_eq!(log.communicators().next_back().and_then(|facts| facts.comm_hash), Some(59_999));
}
