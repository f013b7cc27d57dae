//! What a rank that begins tells the others about itself, and what it makes of what they tell.

use std::sync::Arc;

use crate::config::{Settings, rank_order_name};
use crate::error::{Error, Result};
use crate::faithful::Version;
use crate::hash;
use crate::net::bootstrap::ParsedBlob;
use crate::net::nic::Nic;
use crate::net::secret::Secret;
use crate::run::affinity;
use crate::topology::peers::Placement;
use crate::topology::{HostFacts, PeerInfo, PeerNic};
use crate::transport::plugin::network::Network;
use crate::transport::shm::connect::Endpoint;

/// What this rank has to tell.
pub(super) fn own_info(
    (rank, device): (usize, Option<u32>),
    settings: &Settings,
    nics: &[Nic],
    (endpoint, placement, network): (Option<&Endpoint>, Placement, Option<&Network>),
) -> Result<PeerInfo> {
    let nic = |nic: &Nic| PeerNic {
        name: nic.name.clone(),
        address: nic.address,
        speed_mbit: nic.speed_mbit,
        port: nic.port,
        seat: nic.seat.clone(),
    };
    let shm = endpoint.map(Endpoint::announcement);
    Ok(PeerInfo {
        rank,
        device,
        process: if placement.machine.is_some() { std::process::id() } else { 0 },
        ports: nics.iter().map(|nic| nic.listening.address().port()).collect(),
        facts: Arc::new(HostFacts {
            host: settings.host.clone(),
            host_hash: hash::hash(settings.host_id.as_bytes()),
            shm_domain: shm.as_ref().map(|shm| shm.domain),
            machine: affinity::machine(),
            cores: affinity::cores(),
            nics: nics.iter().map(nic).collect(),
            placement,
            faithful: settings.faithful.map_or("", Version::name).to_owned(),
            network: network.map_or("", Network::name).to_owned(),
            rank_order: settings.rank_order.map_or("", rank_order_name).to_owned(),
        }),
        shm,
    })
}

/// The ranks as they have told of themselves, to one that knows the secret and its own host's hash.
pub(super) fn peers(told: &[ParsedBlob<HostFacts>], own: (&Secret, u64)) -> Result<Vec<PeerInfo>> {
    let peer = |(rank, told): (usize, &ParsedBlob<HostFacts>)| {
        let malformed = || Error::Internal(format!("what rank {rank} tells of itself is malformed"));
        PeerInfo::from_told(rank, told, own).ok_or_else(malformed)
    };
    told.iter().enumerate().map(peer).collect()
}
