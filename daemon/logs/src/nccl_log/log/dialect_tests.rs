//! One init of rank 1 of 2 in the wording of each version, written from the format table and not from any log: the
//! facts are the same, as far as the version says them.

use super::*;

/// What one version prints.
struct Dialect {
    version: &'static str,
    comm: &'static str,
    start: bool,
    search: [&'static str; 2],
    ring: Option<&'static str>,
    trees: &'static str,
    counts: Option<&'static str>,
    send: &'static str,
    receive: &'static str,
    hash: Option<u64>,
    n_nodes: Option<u32>,
}

const RING_F: &str =
    "Pattern 4, crossNic 0, nChannels 2, speed 24.000000/12.000000, type NVL/PIX, sameChannels 1";
const TREE_F: &str =
    "Pattern 1, crossNic 0, nChannels 2, speed 24.000000/12.000000, type NVL/PIX, sameChannels 1";
const RING_BW: &str =
    "Pattern 4, crossNic 0, nChannels 2, bw 24.000000/12.000000, type NVL/PIX, sameChannels 1";
const TREE_BW: &str =
    "Pattern 1, crossNic 0, nChannels 3, bw 24.000000/12.000000, type NVL/PIX, sameChannels 1";
const TREES: &str = "Trees [0] -1/-1/-1->1->0 [1] 0/-1/-1->1->-1";
const OLD: Dialect = Dialect {
    version: "2.7.8",
    comm: "comm 0x7f10 rank 1 nranks 2 cudaDev 0 busId 1b000",
    start: false,
    search: [RING_F, TREE_F],
    ring: None,
    trees: TREES,
    counts: Some("4 coll channels, 4 p2p channels, 2 p2p channels per peer"),
    send: "Channel 00 : 1[1b000] -> 0[1b000] [send] via NET/IB/1/GDRDMA",
    receive: "Channel 00 : 0[1b000] -> 1[1b000] [receive] via NET/IB/0/GDRDMA",
    hash: None,
    n_nodes: None,
};
const NEW: Dialect = Dialect {
    version: "2.24.3",
    comm: "ncclCommInitRankConfig comm 0x7f10 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc",
    start: true,
    search: [RING_BW, TREE_BW],
    ring: Some("Ring 00 : 0 -> 1 -> 0"),
    counts: Some(
        "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
    ),
    send: "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/1/GDRDMA",
    receive: "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA",
    hash: Some(0xabc),
    n_nodes: Some(2),
    ..OLD
};

const DIALECTS: [Dialect; 9] = [
    Dialect {
        version: "2.5.7",
        search: [
            "Pattern 1, crossNic 0, nChannels 3, speed 24/12, nvlink 1, type 2, sameChannels 1",
            "Pattern 4, crossNic 0, nChannels 2, speed 24/12, nvlink 1, type 2, sameChannels 1",
        ],
        trees: "Trees [0] -1/-1/-1->1->0|0->1->-1/-1/-1",
        counts: None,
        send: "Ring 00 : 1[1b000] -> 0[1b000] [send] via NET/IB/1/GDRDMA",
        receive: "Ring 00 : 0[1b000] -> 1[1b000] [receive] via NET/IB/0/GDRDMA",
        ..OLD
    },
    OLD,
    Dialect { version: "2.10.3", ring: NEW.ring, ..OLD },
    Dialect {
        version: "2.13.4",
        ring: NEW.ring,
        send: "Channel 00/0 : 1[1b000] -> 0[1b000] [send] via NET/IB/1/GDRDMA",
        receive: "Channel 00/0 : 0[1b000] -> 1[1b000] [receive] via NET/IB/0/GDRDMA",
        ..OLD
    },
    NEW,
    Dialect { version: "2.26.2", send: "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/1/GDRDMA(PCI)", ..NEW },
    Dialect { version: "2.29.2", ..NEW },
    Dialect { version: "2.30.7", ..NEW },
    Dialect {
        version: "2.32.3",
        receive: "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA(PCI)/Shared/Flush",
        ..NEW
    },
];

fn text(dialect: &Dialect) -> String {
    let bracket = if dialect.version >= "2.29" { "[Rank 1] " } else { "" };
    let start = dialect.start.then(|| format!("{bracket}{} - Init START", dialect.comm));
    let nodes = "comm 0x7f10 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0".to_owned();
    let mut messages = vec![
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB ib0:10.0.0.1<0>".to_owned(),
        "NCCL_MIN_NCHANNELS set by environment to 2.".to_owned(),
    ];
    messages.extend(start);
    messages.extend(dialect.n_nodes.map(|_| nodes));
    messages.extend(dialect.search.map(str::to_owned));
    messages.extend(dialect.ring.map(str::to_owned));
    messages.push(dialect.trees.to_owned());
    messages.extend([dialect.receive, dialect.send].map(str::to_owned));
    messages.extend(dialect.counts.map(str::to_owned));
    messages.push(format!("{} - Init COMPLETE", dialect.comm));
    let lines: String =
        messages.iter().map(|message| format!("node1:70:71 [0] NCCL INFO {message}\n")).collect();
    format!("NCCL version {}+cuda12.2\n{lines}", dialect.version)
}

#[test]
fn every_version_says_the_same_in_its_own_words() {
    for dialect in &DIALECTS {
        let mut log = NcclLog::new();
        log.feed(text(dialect).as_bytes());
        let of = dialect.version;
        assert_eq!(log.unparsed().len(), 0, "{of}: {:?}", log.unparsed());
        let facts = log.communicators().next().expect(of);
        assert_eq!(facts.version.as_deref(), Some(&*format!("{of}+cuda12.2")));
        assert!(facts.complete && log.communicators().count() == 1, "{of}");
        assert_eq!((facts.rank, facts.n_ranks, facts.comm_pointer), (1, 2, 0x7f10), "{of}");
        assert_eq!((facts.comm_hash, facts.n_nodes), (dialect.hash, dialect.n_nodes), "{of}");
        assert_eq!(facts.bus_id.as_deref(), Some("0000:1b:00.0"), "{of}");
        assert_eq!(facts.init_channels, Some(2), "{of}: min(ring, tree)");
        assert_eq!((facts.ring_bw_intra, facts.ring_bw_inter), (Some(24.0), Some(12.0)), "{of}");
        assert_eq!(facts.final_channels, dialect.counts.map(|_| 4), "{of}");
        assert_eq!(facts.connections.values().sum::<u64>(), 2, "{of}");
        assert_eq!(facts.settings["NCCL_MIN_NCHANNELS"], 2, "{of}");
        let facts_proven: Vec<_> = facts.evidence.iter().map(|line| line.fact.as_str()).collect();
        for fact in ["init", "tree", "send/0", "recv/0", "complete", "setting/NCCL_MIN_NCHANNELS"] {
            assert!(facts_proven.contains(&fact), "{of}: no line proves {fact}");
        }
        if dialect.ring.is_some() {
            let (to, from) = (&facts.hops[&0], &facts.recv_hops[&0]);
            assert_eq!((to.nic.as_deref(), from.nic.as_deref()), (Some("mlx5_1"), Some("mlx5_0")), "{of}");
            assert!(to.gpu_direct && from.gpu_direct, "{of}");
        }
        for line in &facts.evidence {
            let text = text(dialect);
            let at = usize::try_from(line.line).expect("a line number") - 1;
            assert_eq!(
                text.lines().nth(at),
                Some(line.text.as_str()),
                "{of}: the line is where it is said to be"
            );
        }
    }
}

#[test]
fn containers_runtimes_wrap_lines() {
    let plain = text(&NEW);
    let mut expected = NcclLog::new();
    expected.feed(plain.as_bytes());
    let docker = |line: &str| {
        let log = serde_json::to_string(&format!("{line}\n")).expect("JSON");
        format!("{{\"log\":{log},\"stream\":\"stdout\",\"time\":\"2026-04-28T14:14:48.1Z\"}}\n")
    };
    let quoted = |line: &str| serde_json::to_string(line).expect("JSON");
    let wraps: [&dyn Fn(&str) -> String; 12] = [
        &|line| format!("{{\"_HOSTNAME\":\"x\",\"MESSAGE\":{},\"PRIORITY\":\"6\"}}\n", quoted(line)),
        &|line| {
            format!(
                "  {{\n    \"timestamp\": 17,\n    \"message\": {},\n    \"eventId\": \"3\"\n  }},\n",
                quoted(line)
            )
        },
        &|line| format!("{{\"severity\":\"INFO\",\"jsonPayload\":{{\"any key\":{}}}}}\n", quoted(line)),
        &|line| format!("{}\n", line.replace('>', "&gt;").replace('<', "&lt;")),
        &|line| format!("(RayTrainWorker pid=9, ip=10.0.0.3) {line} [repeated 7x across cluster]\n"),
        &|line| format!("│ {line:150} │\n"),
        &|line| format!("trainer-0 pytorch {}\n", line.replace(']', "[]")),
        &docker,
        &|line| format!("2026-04-28T14:14:48.123456789Z stdout F {line}\n"),
        &|line| format!("\x1b[36mtrainer-0\x1b[0m \x1b[2mpytorch\x1b[0m {line}\r\n"),
        &|line| format!("{{\"level\":\"info\",\"msg\":\"{line}\"}}\n"),
        &|line| format!("[1,1]<stdout>:{line}\n"),
    ];
    for wrap in wraps {
        let text: String = plain.lines().map(wrap).collect();
        let mut log = NcclLog::new();
        log.feed(text.as_bytes());
        let without_lines = |log: &NcclLog| {
            let facts = log.communicators().next().cloned().expect("a communicator");
            CommunicatorFacts { evidence: vec![], ..facts }
        };
        assert_eq!(without_lines(&log), without_lines(&expected), "{text}");
    }
}

#[test]
fn a_document_of_json_in_one_line_without_an_end_is_whole() {
    let plain = text(&NEW);
    let events: Vec<_> = plain.lines().map(|line| serde_json::json!({"message": line})).collect();
    let document = serde_json::json!({ "events": events }).to_string();
    let read = |text: &str| {
        let mut log = NcclLog::new();
        log.feed(text.as_bytes());
        log.finish();
        let facts = log.communicators().next().cloned();
        facts.map(|facts| CommunicatorFacts { evidence: vec![], ..facts })
    };
    assert_eq!(read(&document), read(&plain));
    assert!(read(&document).is_some_and(|facts| facts.rings.len() == 1 && facts.final_channels == Some(4)));
    let cut = &document[..document.find("2 p2p channels per peer").expect("counts")];
    assert_eq!(read(cut), None, "what is cut has no closing quote");
}

#[test]
fn what_is_missing_is_said_in_words() {
    let lacks = |text: &str| {
        let mut log = NcclLog::new();
        log.feed(text.as_bytes());
        log.finish();
        log.lacks().join("\n")
    };
    let says = |text: &str, expected: &str| assert!(lacks(text).contains(expected), "{}", lacks(text));
    let without = |text: &str, word: &str| -> String {
        text.lines().filter(|line| !line.contains(word)).map(|line| format!("{line}\n")).collect()
    };
    let whole = text(&NEW);
    assert_eq!(lacks(&whole), "");
    says("epoch 1 done\n", "no NCCL record: run with NCCL_DEBUG=INFO");
    says(&without(&whole, "Pattern"), "no GRAPH lines");
    says(&without(&without(&whole, "comm 0x"), "coll channels"), "no INIT lines");
    says(&without(&whole, "COMPLETE"), "ends in the middle of 1 inits");
    let unversioned = without(&whole, "version");
    says(&unversioned.replace("rank 1 nranks", "rank 0 nranks"), "no version line");
    assert_eq!(lacks(&unversioned), "", "only rank 0 prints it");
    says(&text(&OLD), "no communicator ids, printed since NCCL 2.16");
    for old in ["2.4.8", "1.3.5"] {
        says(
            &whole.replace("2.24.3", old),
            &format!("NCCL {old}+cuda12.2 is not supported: ringscope reads the logs of NCCL 2.5"),
        );
    }
    says("NCCL version 2.4.8+cuda10.0\n", "NCCL 2.4.8+cuda10.0 is not supported");
    assert_eq!(lacks(&whole.replace("2.24.3", "2.18-nightly")), "");
    let ray = whole.replacen("sameChannels 1\n", "sameChannels 1 [repeated 15x across cluster]\n", 2);
    says(&ray, "Ray left out 30 lines that looked to it like others: start the job with RAY_DEDUP_LOGS=0");
    let failed = format!("{}node1:70:71 [0] NCCL INFO init.cc:1501 -> 2\n", without(&whole, "COMPLETE"));
    says(&failed, "1 inits failed");
    says(
        &whole.replace("nNodes 2", "nNodnode1:70:71 [0] NCCL INFO x"),
        "1 torn lines, 1 records of them not read",
    );
}

#[test]
fn a_last_line_without_an_end_may_be_cut() {
    let whole = text(&NEW);
    let read = |text: &str| {
        let mut log = NcclLog::new();
        log.feed(text.as_bytes());
        log.finish();
        (log.communicators().count(), log.unfinished().pop().and_then(|facts| facts.final_channels))
    };
    assert_eq!(read(whole.trim_end()), (1, None), "its last word is there");
    let counts = whole.find("2 p2p channels per peer").expect("counts");
    assert_eq!(read(&whole[..counts]), (0, None), "the numbers may go on");
}
