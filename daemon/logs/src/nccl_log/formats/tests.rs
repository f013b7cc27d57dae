use super::*;

fn check(text: &str, expected: Option<Message>) {
    assert_eq!(message(text), expected, "{text}");
}

fn init(rank: u32, n_ranks: u32) -> InitLine {
    InitLine {
        pointer: 0x55d5,
        rank,
        n_ranks,
        cuda_device: Some(1),
        bus_id: Some(0x1b000),
        api: None,
        ..InitLine::default()
    }
}

#[test]
fn every_row_names_its_versions() {
    for format in FORMATS {
        assert!(format.versions == "RCCL" || format.versions.starts_with("2."), "{}", format.pattern);
    }
}

#[test]
fn inits_of_all_versions() {
    let old = init(2, 8);
    let plain = InitLine { nvml_device: Some(5), ..old.clone() };
    let named = |line: &InitLine, api: &str| InitLine { api: Some(api.to_owned()), ..line.clone() };
    let hashed = |line: &InitLine| InitLine { comm_hash: Some(0xb079), ..line.clone() };
    let split = InitLine { parent: Some(0xaa), color: Some(7), ..named(&plain, "ncclCommSplit") };
    let counted = InitLine { child_count: Some(3), ..split.clone() };
    let body = "comm 0x55d5 rank 2 nranks 8 cudaDev 1 busId 1b000";
    let nvml = "comm 0x55d5 rank 2 nranks 8 cudaDev 1 nvmlDev 5 busId 1b000";
    let complete = |text: &str, line: &InitLine| check(text, Some(Message::Complete(line.clone())));
    let start = |text: &str, line: &InitLine| check(text, Some(Message::Start(line.clone())));
    complete(&format!("{body} - Init COMPLETE"), &old); // 2.5-2.15
    complete(&format!("{body} commId 0xb079 - Init COMPLETE"), &hashed(&old)); // 2.16-2.17
    start(&format!("{nvml} commId 0xb079 - Init START"), &hashed(&plain)); // 2.18-2.20
    for api in [
        "ncclCommInitRank",
        "ncclCommInitRankConfig",
        "ncclCommInitRankScalable",
        "ncclCommInitRankConfig_impl",
    ] {
        let expected = hashed(&named(&plain, api));
        start(&format!("{api} {nvml} commId 0xb079 - Init START"), &expected); // 2.21-2.28, RCCL
        complete(&format!("{api} {nvml} commId 0xb079 - Init COMPLETE"), &expected);
        start(&format!("[Rank 2] {api} {nvml} commId 0xb079 - Init START"), &expected); // 2.29-2.32
    }
    let with_hash = hashed(&split);
    start(&format!("ncclCommSplit {nvml} parent 0xaa color 7 key -1 commId 0xb079 - Init START"), &with_hash); // 2.21-2.22
    start(&format!("ncclCommSplit {nvml} parent 0xaa color 7 key 0- Init START"), &split); // 2.23
    complete(&format!("ncclCommSplit {nvml} parent 0xaa color 7 key 0 - Init COMPLETE"), &split);
    for count in ["splitCount", "childCount"] {
        // 2.24-2.28, 2.29-2.30
        start(&format!("ncclCommSplit {nvml} parent 0xaa {count} 3 color 7 key 0- Init START"), &counted);
        complete(
            &format!("ncclCommSplit {nvml} parent 0xaa {count} 3 color 7 key 0 - Init COMPLETE"),
            &counted,
        );
    }
    let shrunk = InitLine { api: Some("ncclCommShrink".into()), ..counted.clone() };
    start(
        &format!("[Rank 2] ncclCommShrink {nvml} parent 0xaa childCount 3 color 7 key 0- Init START"),
        &shrunk,
    );
    let newest = "commId 0xb079 parent 0xaa childCount 3 color 7 key 0";
    complete(&format!("ncclCommSplit {nvml} {newest} - Init COMPLETE"), &hashed(&counted)); // 2.32
    let ended = |end| Some(Message::Ended { pointer: 0x55d5, end });
    check(&format!("{nvml} - Destroy COMPLETE"), ended(End::Destroyed));
    check(&format!("{body} - Abort COMPLETE"), ended(End::Aborted));
    let nodes = |mnnvl| {
        let (local_ranks, local_rank) = (Some(4), Some(1));
        Some(Message::Nodes(Nodes {
            pointer: 0x55d5,
            rank: 2,
            n_ranks: 8,
            n_nodes: 2,
            local_ranks,
            local_rank,
            mnnvl,
        }))
    };
    check("comm 0x55d5 rank 2 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 1", nodes(Some(true)));
    check("comm 0x55d5 rank 2 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 0", nodes(Some(false)));
    check("comm 0x55d5 rank 2 nRanks 8 nNodes 2 localRanks 4 localRank 1", nodes(None));
    check(&format!("{body} - Init STAR"), None);
    check("comm 0x55d5 rank 2 nran", None);
}

#[test]
fn errors_on_their_way_up() {
    for text in [
        "init.cc:1501 -> 2",
        "group.cc:70 -> 2 [Async thread]",
        "transport/net.cc:330 -> 6",
        "proxy.cc:1 -> 3",
    ] {
        check(text, Some(Message::Returned));
    }
    check("init.cc:1501 -> 7", Some(Message::Known));
    check("init.cc:x -> 2", None);
}

#[test]
fn search_and_counts() {
    let search = |pattern, channels, bandwidth| Some(Message::Search { pattern, channels, bandwidth });
    check(
        "Pattern 4, crossNic 0, nChannels 8, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1",
        search(4, 8, Some((24.0, 24.0))),
    );
    check(
        "Pattern 3, crossNic 0, nChannels 12, speed 20.500000/12.000000, type NVL/PIX, sameChannels 1",
        search(3, 12, Some((20.5, 12.0))),
    );
    check(
        "Pattern 1, crossNic 0, nChannels 1, speed 20/21, nvlink 1, type 2, sameChannels 1",
        search(1, 1, Some((20.0, 21.0))),
    );
    check(
        "Could not find a path for pattern 4, falling back to simple order",
        Some(Message::FellBack { pattern: 4 }),
    );
    let counts = |collective, collnet, nvls, p2p, p2p_per_peer| {
        let (p2p, p2p_per_peer) = (Some(p2p), Some(p2p_per_peer));
        let is_rccl = false;
        Some(Message::Final(Counts { collective, collnet, nvls, p2p, p2p_per_peer, is_rccl }))
    };
    check("16 coll channels, 32 p2p channels, 2 p2p channels per peer", counts(16, None, None, 32, 2)); // 2.7-2.16
    check(
        "24 coll channels, 0 nvls channels, 32 p2p channels, 16 p2p channels per peer", // 2.17-2.19
        counts(24, None, Some(0), 32, 16),
    );
    check(
        "2 coll channels, 3 collnet channels, 0 nvls channels, 4 p2p channels, 5 p2p channels per peer", // 2.20-2.32
        counts(2, Some(3), Some(0), 4, 5),
    );
    check(
        "comm:0x2bc1f840, nRanks:2, nNodes:1, coll channels:2 collnet channels:3, nvls channels:0, p2p channels:4, p2p channels per peer:5",
        counts(2, Some(3), Some(0), 4, 5).map(|message| match message {
            Message::Final(counts) => Message::Final(Counts { is_rccl: true, ..counts }),
            other => other,
        }),
    );
}

#[test]
fn rows_of_searches() {
    let row = |gpus: &[RowGpu], net: [Option<&str>; 2]| {
        let [enter, leave] = net.map(|net| net.map(str::to_owned));
        Some(Message::Row(Row { gpus: gpus.to_vec(), enter, leave }))
    };
    use RowGpu::{Bus, Rank};
    check("0 : NET/0 GPU/8 GPU/9 NET/0", row(&[Rank(8), Rank(9)], [Some("0"), Some("0")])); // 2.5-2.22
    check("2 : NET/0-4 GPU/6 GPU/5 NET/0-2", row(&[Rank(6), Rank(5)], [Some("0-4"), Some("0-2")])); // 2.23-2.26
    check("0 : GPU/0-3000 GPU/0-d000", row(&[Bus(0x3000), Bus(0xd000)], [None, None])); // 2.27-2.32
    for other in ["0 : x", "0 : NET/0", "0 : GPU/", "12 : 30 : GPU/1", "0 : GPU/0-x"] {
        check(other, None);
    }
}

#[test]
fn trees() {
    let place = |rank, up, down: &[u32]| TreeFact { rank, up, down: down.to_vec() };
    let two = || Some(Message::Trees(vec![(0, place(5, Some(4), &[6])), (1, place(5, None, &[6, 7]))]));
    check("Trees [0] 6/-1/-1->5->4 [1] 6/7/-1->5->-1", two());
    check("Trees [0] 6/-1/-1->5->4 [1] 6/7/-1->5->-1 comm 0x3ab1b680 nRanks 02 busId d000", two());
    check("Trees [0] 6/-1/-1->5->4|4->5->6/-1/-1 [1] 6/7/-1->5->-1|-1->5->6/7/-1", two()); // 2.5-2.7
    let long: String = (0..64).map(|n| format!("[{n}] 10/-1/-1->105->115 ")).collect();
    for end in [900, 1000, 1010, 1016] {
        let Some(Message::Trees(found)) = message(&format!("Trees {}", &long[..end])) else {
            panic!("{end}")
        };
        assert!(
            found.len() > 30 && found.iter().all(|(_, tree)| *tree == place(105, Some(115), &[10])),
            "{end}"
        );
    }
}

#[test]
fn gpus_of_the_topology() {
    check("+ PCI[24.0] - GPU/F000 (8)", Some(Message::Gpu { rank: 8, bus_id: 0xf000 }));
    check("+ PCI[48.0] - GPU/0-1b000 (3)", Some(Message::Gpu { rank: 3, bus_id: 0x1b000 }));
    check("+ PCI[24.0] - NIC/81000", None);
}

#[test]
fn rings() {
    check("Ring 07 : 2 -> 0 -> 1", Some(Message::Ring { channel: 7, prev: 2, rank: 0, next: 1 }));
    check(
        "Ring 00 : 1 -> 0 -> 1 comm 0x2bc1f840 nRanks 02",
        Some(Message::Ring { channel: 0, prev: 1, rank: 0, next: 1 }),
    );
    check("Ring 00 : -1 -> 0 -> 1", None);
    let order = |ranks| Some(Message::Order { channel: 1, of: 2, ranks });
    check("Channel 01/02 :    0   1   2", order(Some(vec![0, 1, 2])));
    check("Channel 01/02 : 0 1 2 3", order(Some(vec![0, 1, 2, 3])));
    check("Channel 01/02 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", order(None));
    check("Channel 01/02 : 0 1 2 3...", order(None));
}

#[test]
fn connections() {
    use Direction::{Both, Receive, Send};
    let is = |text: &str, index, direction, hop: Hop| {
        let Some(Message::Connection(found)) = message(text) else { panic!("{text}") };
        let device = found.device;
        let connection =
            Connection { channel: 3, index, from: 0, to: 12, direction, hop, pointer: None, device };
        assert_eq!(found, connection, "{text}");
    };
    let path = |transport: &str| Hop { transport: transport.to_owned(), ..Hop::default() };
    let net = |name: &str, index| Hop { nic_index: Some(index), ..path(&format!("NET/{name}")) };
    let gdr = |hop| Hop { gpu_direct: true, ..hop };
    let pxn = |hop, rank| Hop { proxy_rank: Some(rank), ..hop };
    // 2.5-2.6
    is("Ring 03 : 0[1b000] -> 12[b000] via P2P/IPC", 0, Both, path("P2P/IPC"));
    is("Ring 03 : 0[1b000] -> 12[b000] via P2P/direct pointer", 0, Both, path("P2P/direct pointer"));
    is("Ring 03 : 0[1b000] -> 12[b000] [send] via NET/IB/1/GDRDMA", 0, Send, gdr(net("IB", 1)));
    is("Ring 03 : 0[1b000] -> 12[b000] [receive] via NET/Socket/0", 0, Receive, net("Socket", 0));
    is("Ring 03 : 0[4] -> 12[4] via direct shared memory", 0, Both, path("SHM/direct"));
    // 2.7-2.11
    is("Channel 03 : 0[101c0] -> 12[b000] via P2P/IPC/read", 0, Both, path("P2P/IPC"));
    is("Channel 03 : 0[101c0] -> 12[b000] via P2P/indirect/2[101d0]", 0, Both, path("P2P/indirect"));
    is("Channel 03 : 0[101c0] -> 12[b000] via direct shared memory", 0, Both, path("SHM/direct"));
    let aws = || net("AWS Libfabric", 2);
    is("Channel 03 : 0[101c0] -> 12[b000] [send] via NET/AWS Libfabric/2/GDRDMA/Shared", 0, Send, gdr(aws()));
    is("Channel 03 : 0[101c0] -> 12[b000] [receive] via NET/AWS Libfabric/2", 0, Receive, aws());
    // 2.12-2.17
    is(
        "Channel 03/0 : 0[1b000] -> 12[b000] [send] via NET/IB/1(5)/GDRDMA",
        0,
        Send,
        pxn(gdr(net("IB", 1)), 5),
    );
    is(
        "Channel 03/1 : 0[1b000] -> 12[b000] [receive] via NET/IB/1/GDRDMA/Shared",
        1,
        Receive,
        gdr(net("IB", 1)),
    );
    is("Channel 03/0 : 0[1b000] -> 12[b000] via P2P/IPC/read", 0, Both, path("P2P/IPC"));
    is("Channel 03 : 0[1b000] -> 12[b000] via SHM/direct/direct", 0, Both, path("SHM/direct"));
    // 2.18-2.32
    is("Channel 03/0 : 0[0] -> 12[4] via P2P/CUMEM/read", 0, Both, path("P2P/CUMEM"));
    is("Channel 03/0 : 0[0] -> 12[4] via P2P/MNNVL", 0, Both, path("P2P/MNNVL"));
    is("Channel 03/0 : 0[0] -> 12[4] via P2P/direct pointer/read", 0, Both, path("P2P/direct pointer"));
    is("Channel 03/0 : 0[0] -> 12[4] via SHM/direct", 0, Both, path("SHM/direct"));
    is("Channel 03/1 : 0[0] -> 12[4] via P2P/CUMEM", 1, Both, path("P2P/CUMEM"));
    is(
        "Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB/1(5)/GDRDMA(PCI)/Shared",
        0,
        Send,
        pxn(gdr(net("IB", 1)), 5),
    );
    check("Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB", None);
    let device = |text: &str| match message(text) {
        Some(Message::Connection(connection)) => connection.device,
        _ => None,
    };
    assert_eq!(device("Channel 03/0 : 0[2] -> 12[4] [send] via NET/IB/1"), Some(2));
    assert_eq!(device("Channel 03/0 : 0[2] -> 12[4] [receive] via NET/IB/1"), Some(4));
    assert_eq!(device("Channel 03/0 : 0[1b000] -> 12[4000] [receive] via NET/IB/1"), None);
    let rccl = message("Channel 00/0 : 0[3000] -> 1[d000] via P2P/IPC comm 0x2bc1 nRanks 02");
    assert!(matches!(rccl, Some(Message::Connection(Connection { pointer: Some(0x2bc1), .. }))));
}

#[test]
fn nics_and_settings() {
    let nics = |net: &str, nics: &[(u32, &str)]| {
        let nics = nics.iter().map(|(index, name)| (*index, (*name).to_owned())).collect();
        Some(Message::Nics { net: net.to_owned(), nics })
    };
    check(
        "NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:1/IB/SHARP [RO]; OOB ens11np0:10.10.48.28<0>",
        nics("IB", &[(0, "mlx5_2"), (1, "mlx5_3")]),
    );
    check("NET/IB : Using [RO]; OOB eno1:10.0.20.2<0>", nics("IB", &[]));
    check(
        "NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/IB [RO]; OOB eth0:1.2.3.4<0>",
        nics("IB", &[(0, "mlx5_0+mlx5_1"), (1, "mlx5_2")]),
    );
    check(
        "NET/Socket : Using [0]eth0:10.141.0.71<0> [1]veth9:fe80::c0%veth9<0>",
        nics("Socket", &[(0, "eth0"), (1, "veth9")]),
    );
    let setting =
        |name: &str, value: &str| Some(Message::Setting { name: name.to_owned(), value: value.to_owned() });
    check("NCCL_MIN_NCHANNELS set by environment to 8.", setting("NCCL_MIN_NCHANNELS", "8"));
    check("RSCCL_MAX_NCHANNELS set by environment to 2", setting("RSCCL_MAX_NCHANNELS", "2"));
    check("NCCL_MAX_CTAS set by environment to 16.", setting("NCCL_MAX_CTAS", "16"));
    check("NCCL_PROTO set by environment to simple", setting("NCCL_PROTO", "simple"));
    check("NCCL_IB_HCA set to mlx5_2", setting("NCCL_IB_HCA", "mlx5_2"));
    check(
        "NCCL_SOCKET_IFNAME set by environment to ^docker0,lo",
        setting("NCCL_SOCKET_IFNAME", "^docker0,lo"),
    );
    check("Using network AWS Libfabric", Some(Message::Network("AWS Libfabric".into())));
    check("NCCL version 2.28.9+cuda13.0", Some(Message::Version("2.28.9+cuda13.0".into())));
    check("RCCL version : 2.27.7-HEAD:0d2c4fd", Some(Message::Version("RCCL 2.27.7-HEAD:0d2c4fd".into())));
    check("ROCr version 1.18", Some(Message::Version("RCCL".into())));
    check("NET/OFI Using Libfabric version 2.1", None);
}

#[test]
fn connections_read_by_hand_are_those_of_the_table() {
    let corpus = [
        include_str!("../../../../../fixtures/logs/nccl-2.8.3-p4d-efa-16ranks-mpirun.log"),
        include_str!("../../../../../fixtures/logs/nccl-2.16.5-2node-ib-graph.log"),
        include_str!("../../../../../fixtures/logs/nccl-2.27.3-torn-8procs-one-file.log"),
    ];
    let messages = corpus
        .iter()
        .flat_map(|log| log.split("NCCL INFO "))
        .map(|rest| rest.lines().next().unwrap_or_default().trim());
    let mut read = 0;
    for text in messages {
        // Torn, and cut anywhere.
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            if let Some(by_hand) = connection::message(&text[..end]) {
                assert_eq!(Some(by_hand), in_table(text[..end].trim()), "{}", &text[..end]);
                read += usize::from(end == text.len());
            }
        }
    }
    assert!(read > 300, "{read}");
}
