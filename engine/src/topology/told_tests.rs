use super::*;
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
        pid: 4_000_000,
        shm: name.map(|name| Announcement { name, domain: 7 }),
        rendezvous: SocketAddr::new([10, 0, 0, 0].into(), 60_000),
        ports: ports.to_vec(),
        facts: Arc::new(facts),
    }
}

#[test]
fn a_rank_is_what_it_has_told() {
    let usual = Some(memory_name(&SECRET, 5));
    let table = [
        (peer(&[50_000; 8], usual.clone()), 8),
        (peer(&[50_000; 8], None), 8),
        (peer(&[50_000, 50_001], usual), 8 + 5),
        (peer(&[50_000], Some("another".to_owned())), 8 + 9),
    ];
    for (peer, len) in table {
        let told = (Arc::clone(&peer.facts), peer.own_bytes(&SECRET));
        assert_eq!(told.1.len(), len);
        assert_eq!(PeerInfo::from_told(5, &told, &SECRET).as_ref(), Some(&peer));
        for end in 0..len {
            let cut = (Arc::clone(&peer.facts), told.1[..end].to_vec());
            assert!(end == 8 || PeerInfo::from_told(5, &cut, &SECRET).is_none(), "{end}");
        }
    }
}

#[test]
fn a_rank_without_a_nic_is_none() {
    let told = (Arc::default(), vec![0; 8]);
    assert_eq!(PeerInfo::from_told(0, &told, &SECRET), None);
}

#[test]
fn names_differ_by_secret_and_rank() {
    let names = [memory_name(&SECRET, 0), memory_name(&SECRET, 1), memory_name(&[4; 16], 0)];
    assert!(names[0] != names[1] && names[0] != names[2] && names[0] == memory_name(&SECRET, 0));
}
