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
    let plain = init(2, 8);
    let hashed = InitLine { comm_hash: Some(0xb079), ..plain.clone() };
    let split = InitLine { parent: Some(0xaa), color: Some(7), ..plain.clone() };
    let counted = InitLine { child_count: Some(3), ..split.clone() };
    let body = "comm 0x55d5 rank 2 nranks 8 cudaDev 1 busId 1b000";
    let nvml = "comm 0x55d5 rank 2 nranks 8 cudaDev 1 nvmlDev 5 busId 1b000";
    let complete = |line: &InitLine| Some(Message::Complete(line.clone()));
    let start = |line: &InitLine| Some(Message::Start(line.clone()));
    check(&format!("{body} - Init COMPLETE"), complete(&plain)); // 2.5-2.15
    check(&format!("{body} commId 0xb079 - Init COMPLETE"), complete(&hashed)); // 2.16-2.17
    check(&format!("{nvml} commId 0xb079 - Init START"), start(&hashed)); // 2.18-2.20
    check(&format!("ncclCommInitRank {nvml} commId 0xb079 - Init START"), start(&hashed)); // 2.21-2.28
    check(&format!("ncclCommInitRankConfig {nvml} commId 0xb079 - Init COMPLETE"), complete(&hashed));
    check(&format!("ncclCommInitRankConfig_impl {nvml} commId 0xb079 - Init START"), start(&hashed)); // RCCL
    check(&format!("[Rank 2] ncclCommInitRankConfig {nvml} commId 0xb079 - Init START"), start(&hashed)); // 2.29
    let with_hash = InitLine { comm_hash: Some(0xb079), ..split.clone() };
    check(
        &format!("ncclCommSplit {nvml} parent 0xaa color 7 key -1 commId 0xb079 - Init START"),
        start(&with_hash),
    );
    check(&format!("ncclCommSplit {nvml} parent 0xaa color 7 key 0- Init START"), start(&split)); // 2.23
    check(
        &format!("ncclCommSplit {nvml} parent 0xaa splitCount 3 color 7 key 0- Init START"),
        start(&counted),
    );
    check(
        &format!("ncclCommSplit {nvml} parent 0xaa splitCount 3 color 7 key 0 - Init COMPLETE"),
        complete(&counted),
    );
    check(
        &format!("ncclCommSplit {nvml} parent 0xaa childCount 3 color 7 key 0 - Init COMPLETE"),
        complete(&counted),
    );
    let newest = InitLine { comm_hash: Some(0xb079), ..counted.clone() };
    check(
        &format!("ncclCommSplit {nvml} commId 0xb079 parent 0xaa childCount 3 color 7 key 0 - Init COMPLETE"),
        complete(&newest),
    ); // 2.32
    check(
        &format!("{nvml} - Destroy COMPLETE"),
        Some(Message::Ended { pointer: 0x55d5, end: End::Destroyed }),
    );
    check(&format!("{body} - Abort COMPLETE"), Some(Message::Ended { pointer: 0x55d5, end: End::Aborted }));
    check(
        "comm 0x55d5 rank 2 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0",
        Some(Message::Nodes { n_nodes: 2 }),
    );
    check(&format!("{body} - Init STAR"), None);
    check("comm 0x55d5 rank 2 nran", None);
}

#[test]
fn search_and_counts() {
    let search = |pattern, channels| Some(Message::Search { pattern, channels });
    check(
        "Pattern 4, crossNic 0, nChannels 8, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1",
        search(4, 8),
    );
    check(
        "Pattern 3, crossNic 0, nChannels 12, speed 20.0/20.0, type NVL/PIX, sameChannels 1",
        search(3, 12),
    );
    check("Pattern 1, crossNic 0, nChannels 1, speed 20/20, nvlink 1, type 2, sameChannels 1", search(1, 1));
    let agreed = |channels| Some(Message::Final { channels });
    check("16 coll channels, 32 p2p channels, 2 p2p channels per peer", agreed(16));
    check("24 coll channels, 0 nvls channels, 32 p2p channels, 16 p2p channels per peer", agreed(24));
    check(
        "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",
        agreed(2),
    );
    check(
        "comm:0x2bc1f840, nRanks:2, nNodes:1, coll channels:2 collnet channels:2, nvls channels:0, p2p channels:2",
        agreed(2),
    );
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
    let send = |transport: &str, device, gpu_direct| {
        let hop =
            Hop { transport: transport.to_owned(), nic: None, nic_index: None, proxy_rank: None, gpu_direct };
        Some(Message::Send { channel: 3, from: 0, to: 12, via: Via { hop, device }, pointer: None })
    };
    check("Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB/1", send("NET/IB", Some(1), false));
    check("Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB/1/GDRDMA", send("NET/IB", Some(1), true));
    check(
        "Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB/1(5)/GDRDMA(PCI)/Shared",
        send("NET/IB", Some(1), true),
    );
    check("Channel 03/0 : 0[0] -> 12[4] [send] via NET/IB/1/Shared", send("NET/IB", Some(1), false));
    check("Channel 03/0 : 0[0] -> 12[4] [send] via NET/Socket/0", send("NET/Socket", Some(0), false));
    check(
        "Channel 03 : 0[101c0] -> 12[b000] [send] via NET/AWS Libfabric/2/GDRDMA",
        send("NET/AWS Libfabric", Some(2), true),
    );
    check("Channel 03/0 : 0[0] -> 12[4] via P2P/IPC", send("P2P/IPC", None, false));
    check("Channel 03/0 : 0[0] -> 12[4] via P2P/CUMEM/read", send("P2P/CUMEM", None, false));
    check(
        "Channel 03/0 : 0[0] -> 12[4] via P2P/direct pointer/read",
        send("P2P/direct pointer", None, false),
    );
    check("Channel 03/0 : 0[0] -> 12[4] via P2P/indirect/2[2]", send("P2P/indirect", None, false));
    check("Channel 03 : 0[0] -> 12[4] via SHM/direct/direct", send("SHM/direct", None, false));
    check("Channel 03/0 : 0[0] -> 12[4] via SHM/direct", send("SHM/direct", None, false));
    check("Ring 03 : 0[0] -> 12[4] via direct shared memory", send("SHM/direct", None, false));
    check("Channel 03/1 : 0[0] -> 12[4] [send] via NET/IB/1", Some(Message::Known));
    check("Channel 03/0 : 0[0] -> 12[4] [receive] via NET/IB/1", Some(Message::Known));
    let Some(Message::Send { pointer, .. }) =
        message("Channel 00/0 : 0[3000] -> 1[d000] via P2P/IPC comm 0x2bc1 nRanks 02")
    else {
        panic!("no connection")
    };
    assert_eq!(pointer, Some(0x2bc1));
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
    let setting = |name: &str, value| Some(Message::Setting { name: name.to_owned(), value });
    check("NCCL_MIN_NCHANNELS set by environment to 8.", setting("NCCL_MIN_NCHANNELS", 8));
    check("RSCCL_MAX_NCHANNELS set by environment to 2", setting("RSCCL_MAX_NCHANNELS", 2));
    check("NCCL_MAX_CTAS set by environment to 16.", setting("NCCL_MAX_CTAS", 16));
    check("NCCL_MIN_NCHANNELS set by environment to many.", None);
    check("NCCL_PROTO set by environment to simple", Some(Message::Known));
    check("NCCL version 2.28.9+cuda13.0", Some(Message::Version("2.28.9+cuda13.0".into())));
    check("RCCL version : 2.27.7-HEAD:0d2c4fd", Some(Message::Version("2.27.7-HEAD:0d2c4fd".into())));
    check("NET/OFI Using Libfabric version 2.1", None);
}
