use super::*;
use crate::net::gathered::{Blob, Gathered};
use crate::topology::PeerNic;
use crate::topology::seat::Seat;

const SECRET: Secret = [3; 16];

fn nic(number: u8) -> PeerNic {
    PeerNic {
        name: format!("mlx5_{number}"),
        address: [10, 0, 0, number].into(),
        speed_mbit: 400_000,
        port: 1,
        seat: Seat::default(),
    }
}

fn peer(ports: &[u16], name: Option<String>) -> PeerInfo {
    let facts = HostFacts {
        shm_domain: name.as_ref().map(|_| 7),
        nics: (0..ports.len()).map(|nic_number| nic(u8::try_from(nic_number).unwrap())).collect(),
        ..HostFacts::default()
    };
    PeerInfo {
        rank: 5,
        shm: name.map(|name| Announcement { name, domain: 7 }),
        ports: ports.to_vec(),
        device: None,
        process: 0,
        facts: Arc::new(facts),
    }
}

#[test]
fn a_rank_is_what_it_has_told() {
    let usual = Some(memory_name(&SECRET, 5));
    let table = [
        (peer(&[50_000; 8], usual.clone()), 2),
        (peer(&[50_000; 8], None), 2),
        (peer(&[50_000, 50_001], usual), 2 + 5),
        (peer(&[50_000], Some("another".to_owned())), 2 + 9),
    ];
    for (peer, len) in table {
        let told = (Arc::clone(&peer.facts), peer.own_bytes(&SECRET));
        assert_eq!(told.1.len(), len);
        assert_eq!(PeerInfo::from_told(5, &told, (&SECRET, 0)).as_ref(), Some(&peer));
        for end in 0..len {
            let cut = (Arc::clone(&peer.facts), told.1[..end].to_vec());
            assert!(end == 2 || PeerInfo::from_told(5, &cut, (&SECRET, 0)).is_none(), "{end}");
        }
    }
}

/// All that is sent in a beginning, without the connections between ranks: what the ranks hand in, and the table for each.
#[test]
fn a_thousand_ranks_of_eight_nics_begin_with_20_mb() {
    const RANKS: usize = 1024;
    let numbers = [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9];
    let hash = |number: usize, salt: usize| (number as u64 + 1).wrapping_mul(numbers[salt]).rotate_left(29);
    let port = |rank: usize| u16::try_from(32_768 + hash(rank, 0) % 28_000).unwrap();
    let facts = |host: usize| HostFacts {
        host: format!("node-{host}.cluster"),
        host_hash: hash(host, 0),
        shm_domain: Some(hash(host, 1)),
        machine: hash(host, 1),
        cores: vec![u64::MAX; 3],
        nics: (0..8).map(|number| PeerNic { address: nic_address(host, number), ..nic(number) }).collect(),
        ..HostFacts::default()
    };
    let ready = Blob { text: br#"{"n_channels":16,"has_memory":true}"#.to_vec(), own: Vec::new() };
    let end = Blob { text: b"null".to_vec(), own: Vec::new() };
    for host_of in [|rank| rank / 8, |rank| rank % 128] {
        let blob = |rank: usize| {
            let own = port(rank).to_le_bytes().to_vec();
            Blob { text: serde_json::to_vec(&facts(host_of(rank))).unwrap(), own }
        };
        let rounds = [(0..RANKS).map(blob).collect(), vec![ready.clone(); RANKS], vec![end.clone(); RANKS]];
        let bytes = rounds.into_iter().map(|blobs: Vec<Blob>| {
            let told: usize = blobs.iter().map(|blob| blob.text.len() + blob.own.len() + 8).sum();
            told + RANKS * (Gathered::new(blobs).to_bytes().len() + 5)
        });
        let bytes: usize = bytes.sum();
        assert!(bytes < 20_000_000, "{bytes}");
    }
}

fn nic_address(host: usize, number: u8) -> std::net::IpAddr {
    [10, number, 1, u8::try_from(host).unwrap()].into()
}

#[test]
fn a_rank_without_a_nic_is_none() {
    let told = (Arc::default(), vec![0; 2]);
    assert_eq!(PeerInfo::from_told(0, &told, (&SECRET, 0)), None);
}

#[test]
fn only_ranks_of_its_host_know_where_its_memory_is() {
    let peer = peer(&[50_000], Some(memory_name(&SECRET, 5)));
    let told = (Arc::clone(&peer.facts), peer.own_bytes(&SECRET));
    let other = PeerInfo::from_told(5, &told, (&SECRET, 1)).unwrap();
    assert_eq!(other, PeerInfo { shm: None, ..peer });
}

#[test]
fn names_differ_by_secret_and_rank() {
    let names = [memory_name(&SECRET, 0), memory_name(&SECRET, 1), memory_name(&[4; 16], 0)];
    assert!(names[0] != names[1] && names[0] != names[2] && names[0] == memory_name(&SECRET, 0));
}
