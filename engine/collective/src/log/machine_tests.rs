use super::*;

fn identity(version: Version, dialect: Dialect) -> Identity {
    Identity {
        api: "ncclCommInitRank",
        handle: 0x55aa,
        rank: 1,
        n_ranks: 16,
        device: 1,
        bus_id: 0x43000,
        dialect,
        comm_hash: 0xabc,
        version,
        split: None,
    }
}

/// The forms of real lines: NCCL 2.22 on P5, 2.18 on XE8640, 2.27 on A800 and RCCL 2.27 (fixtures/logs).
#[test]
fn connections_are_worded_as_real_ones() {
    let end = |rank: usize, device: u32| End { rank, device, bus_id: 0x1000 * u64::from(device + 3) };
    let table = [
        (Path::Memory("CUMEM", false), "send", "Channel 03/0 : 3[3] -> 4[4] via P2P/CUMEM"),
        (
            Path::Memory("direct pointer", true),
            "send",
            "Channel 03/0 : 3[3] -> 4[4] via P2P/direct pointer/read",
        ),
        (Path::Over(end(2, 2), false), "send", "Channel 03/0 : 3[3] -> 4[4] via P2P/indirect/2[2]"),
        (Path::Shared, "send", "Channel 03 : 3[3] -> 4[4] via SHM/direct/direct"),
        (
            Path::Net(1, Some(1), true, false),
            "send",
            "Channel 03/0 : 3[3] -> 4[4] [send] via NET/IB/1(1)/GDRDMA",
        ),
        (
            Path::Net(0, None, false, true),
            "receive",
            "Channel 03/0 : 3[3] -> 4[4] [receive] via NET/IB/0/Shared",
        ),
    ];
    for (path, direction, expected) in table {
        let own = identity(Version::V2_28, Dialect::Nccl);
        assert_eq!(hop(&own, (3, 0), (end(3, 3), end(4, 4)), &path, direction).1, expected);
    }
    let newer = identity(Version::V2_30, Dialect::Nccl);
    let shared = hop(&newer, (0, 0), (end(0, 0), end(1, 1)), &Path::Shared, "send");
    assert_eq!(
        shared,
        (subsystem::INIT | subsystem::SHM, "Channel 00 : 0[0] -> 1[1] via SHM/direct".to_owned())
    );
    let amd = identity(Version::V2_27, Dialect::Rccl);
    let memory = hop(&amd, (0, 0), (end(0, 0), end(1, 10)), &Path::Memory("IPC", false), "send").1;
    assert_eq!(memory, "Channel 00/0 : 0[3000] -> 1[d000] via P2P/IPC comm 0x55aa nRanks 16");
}

#[test]
fn what_else_a_machine_has_is_worded_as_real_lines() {
    let own = identity(Version::V2_28, Dialect::Nccl);
    let amd = identity(Version::V2_27, Dialect::Rccl);
    let address = "10.0.0.1".parse().unwrap();
    let ports = [("mlx5_0", 1, true), ("mlx5_1", 1, false)];
    let table = [
        (
            nics(ports.into_iter(), ("eth0", address)),
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        ),
        (
            multicast(Version::V2_27, 3, 0),
            "NVLS multicast support is not available on dev 3 (NVLS_NCHANNELS 0)",
        ),
        (multicast(Version::V2_30, 3, 16), "NVLS multicast support is available on dev 3"),
        (nvls_head(3, &[3, 11]), "NVLS Head  3:  3 11"),
        (
            nvls_buffers(&own, Some(3), 8, 8, 16),
            "NVLS comm 0x55aa headRank 3 nHeads 8 nvlsRanks 8 buffSize 1048576 nvlsPerRankSize 33554432 \
             nvlsTotalSize 268435456",
        ),
        (trees(&own, &[(None, [Some(4), Some(11), None])]), "Trees [0] 4/11/-1->1->-1"),
        (tree(3, 1, (Some(0), [None; 3])), "Tree 3 : 0 -> 1 -> -1/-1/-1"),
        (
            counts(&own, 2, [16, 16, 16, 2]),
            "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        ),
        (
            counts(&amd, 1, [2, 0, 2, 2]),
            "comm:0x55aa, nRanks:16, nNodes:1, coll channels:2 collnet channels:2, nvls channels:0, p2p channels:2, \
             p2p channels per peer:2",
        ),
        (ring(&amd, 0, 0, 2), "Ring 0 : 0 -> 1 -> 2 comm 0x55aa nRanks 16 busId 43000"),
        (connected_rings(false, true), "Connected all rings, use ring PXN 0 GDR 1"),
        (
            timings(&own, [3.0, 2.0, 0.5, 0.25]),
            "Init timings - ncclCommInitRank: rank 1 nranks 16 total 3.00 (kernels 0.00, alloc 0.00, bootstrap 2.00, \
             allgathers 0.00, topo 0.00, graphs 0.50, connections 0.25, rest 0.25)",
        ),
        (
            revoking(&own, (2, 1))[2].clone(),
            "comm 0x55aa rank 1 nRanks 16 cudaDev 1 busId 43000 - Revoke COMPLETE, result 0",
        ),
    ];
    for (line, expected) in table {
        assert_eq!(line, expected);
    }
    let many: Vec<TreePlace> = vec![(Some(1000), [Some(1001), Some(1002), None]); 64];
    assert_eq!(trees(&own, &many).len(), "Trees".len() + 1022, "as long as NCCL's buffer");
}
