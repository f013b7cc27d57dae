//! What a rank tells the others about itself, as it travels: the facts of its host as JSON, which the ranks of a host have
//! in common, and a few bytes of its own.
//!
//! Own bytes, little-endian: port of the first NIC; then, tagged, what is out of the
//! ordinary: NICs that listen on other ports than the first, a name of shared memory that is not [`memory_name`], and on a
//! described machine the GPU and the process.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::net::bootstrap::ParsedBlob;
use crate::net::secret::Secret;
use crate::topology::peers::{HostFacts, PeerInfo};
use crate::transport::shm::connect::Announcement;

/// Each NIC's port follows.
const PORTS: u8 = 1;
/// A name follows: its length and its bytes.
const NAME: u8 = 2;
/// Of a described machine: the GPU's number, one byte, [`BY_ORDER`] where the order of the ranks says it; the process's number.
const DEVICE: u8 = 3;
const BY_ORDER: u8 = u8::MAX;

/// Where a rank of a communicator is called that shares its memory: a name that only those who know the secret can tell.
pub(crate) fn memory_name(secret: &Secret, rank: usize) -> String {
    let digest = Sha256::new().chain_update(b"memory").chain_update(secret);
    let digest = digest.chain_update((rank as u64).to_le_bytes()).finalize();
    let name = digest.first_chunk().map_or(0, |half| u128::from_le_bytes(*half));
    format!("rsccl-{name:032x}")
}

impl PeerInfo {
    /// What is this rank's own.
    pub(crate) fn own_bytes(&self, secret: &Secret) -> Vec<u8> {
        let first = self.ports.first().copied().unwrap_or(0);
        let mut bytes = first.to_le_bytes().to_vec();
        if self.ports.iter().any(|port| *port != first) {
            bytes.push(PORTS);
            bytes.extend(self.ports.iter().flat_map(|port| port.to_le_bytes()));
        }
        if let Some(announcement) = &self.shm
            && announcement.name != memory_name(secret, self.rank)
        {
            bytes.push(NAME);
            bytes.push(u8::try_from(announcement.name.len()).unwrap_or(0));
            bytes.extend_from_slice(announcement.name.as_bytes());
        }
        if self.placement.machine.is_some() {
            let device = self.device.and_then(|device| u8::try_from(device).ok()).unwrap_or(BY_ORDER);
            bytes.extend([DEVICE, device]);
            bytes.extend(self.process.to_le_bytes());
        }
        bytes
    }

    /// Of `rank`, from what it has told; nothing if that makes no sense. Only to ranks of its host, whose hash is given, does it
    /// matter where its memory is.
    pub(crate) fn from_told(
        rank: usize,
        (facts, bytes): &ParsedBlob<HostFacts>,
        (secret, host_hash): (&Secret, u64),
    ) -> Option<Self> {
        let (first, mut rest) = bytes.split_first_chunk()?;
        let mut ports = vec![u16::from_le_bytes(*first); facts.nics.len()];
        let mut name = None;
        let mut own = (None, 0);
        while let Some((tag, more)) = rest.split_first() {
            rest = more;
            match *tag {
                PORTS => {
                    for port in &mut ports {
                        let told;
                        (told, rest) = rest.split_first_chunk()?;
                        *port = u16::from_le_bytes(*told);
                    }
                }
                NAME => {
                    let (len, more) = rest.split_first()?;
                    let (told, more) = more.split_at_checked(usize::from(*len))?;
                    name = Some(std::str::from_utf8(told).ok()?.to_owned());
                    rest = more;
                }
                DEVICE => {
                    let (device, more) = rest.split_first()?;
                    let (process, more) = more.split_first_chunk()?;
                    own.0 = Some(u32::from(*device)).filter(|_| *device != BY_ORDER);
                    (own.1, rest) = (u32::from_le_bytes(*process), more);
                }
                _ => return None,
            }
        }
        let shm = facts
            .shm_domain
            .filter(|_| facts.host_hash == host_hash)
            .map(|domain| Announcement { name: name.unwrap_or_else(|| memory_name(secret, rank)), domain });
        facts.nics.first()?;
        Some(Self { rank, shm, ports, device: own.0, process: own.1, facts: Arc::clone(facts) })
    }
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
