//! The logs that the engine writes of described machines are read as those of real ones.

use super::*;

fn read(bytes: &[u8]) -> NcclLog {
    let mut log = NcclLog::new();
    log.feed(bytes);
    log.finish();
    log
}

/// The one communicator of four ranks on two hosts, and the shapes of lines that nobody reads.
fn communicator(bytes: &[u8]) -> AssembledCommunicator {
    let log = read(bytes);
    assert_eq!(log.unattributed().len(), 0, "each connection is of a communicator");
    let assembled = assemble(&[&log]);
    let [communicator] = &assembled.communicators[..] else { panic!("one communicator") };
    communicator.clone()
}

fn check(found: &AssembledCommunicator, version: &str, n_channels: u32) {
    assert_eq!((found.comm_hash, found.n_ranks), (Some(0xc0ff_ee01_2345_6789), Some(4)));
    assert_eq!((found.missing(), found.failed()), (vec![], false));
    assert!(found.version.as_deref().is_some_and(|told| told.starts_with(version)), "{:?}", found.version);
    assert_eq!(found.final_channels(), Some(n_channels));
    assert_eq!(found.rings.len(), n_channels as usize);
    assert!(found.rings.values().all(|ring| ring.len() == 4));
    assert!(found.members.values().all(|member| member.facts.complete));
}

#[test]
fn a_described_dgx_h100_is_read_in_each_version() {
    let table = [
        (&include_bytes!("../../../../../fixtures/faithful/dgx-h100-2.27.log")[..], "2.27.7", 16),
        (&include_bytes!("../../../../../fixtures/faithful/dgx-h100-2.28.log")[..], "2.28.9", 8),
        (&include_bytes!("../../../../../fixtures/faithful/dgx-h100-2.30.log")[..], "2.30.7", 8),
        (&include_bytes!("../../../../../fixtures/faithful/dgx-h100-2.32.log")[..], "2.32.3", 8),
    ];
    for (log, version, n_channels) in table {
        let found = communicator(log);
        check(&found, version, n_channels);
        assert_eq!(found.init_channels(), (0..4).map(|rank| (rank, 4)).collect());
        let wanted = if n_channels > 8 { Relation::Greater } else { Relation::Equal };
        assert!(found.relations().all(|relation| relation == wanted), "{version}");
        let facts = &found.members[&1].facts;
        assert_eq!(
            (facts.bus_id.as_deref(), facts.cuda_device),
            (Some("0000:43:00.0"), Some(1)),
            "{version}"
        );
        assert_eq!((facts.network.as_deref(), facts.nvls_channels), (Some("IB"), Some(16)), "{version}");
        let kinds: Vec<_> = found.connections().into_keys().collect();
        for kind in ["P2P/CUMEM", "NET/IB send", "NET/IB receive"] {
            assert!(kinds.iter().any(|known| known == kind), "{version}: {kinds:?}");
        }
        assert!(found.members.values().any(|member| !member.facts.proxy_ranks.is_empty()), "PXN");
        assert!(facts.nics_used.is_subset(&BTreeSet::from([0, 1])) && !facts.nics_used.is_empty());
    }
}

#[test]
fn a_described_machine_of_amd_is_read_as_rccl() {
    let found = communicator(include_bytes!("../../../../../fixtures/faithful/mi300x-like-2.27.log"));
    let n_channels = found.final_channels().unwrap();
    check(&found, "RCCL 2.27.7", n_channels);
    assert!(found.connections().contains_key("P2P/IPC"), "{:?}", found.connections());
}
