//! Which ranks of a host share memory: those that can, after each has said whether it has memory to share.

use super::{Init, Ready};
use crate::error::Result;
use crate::log::{self, Level, subsystem};
use crate::net::bootstrap::Bootstrap;
use crate::transport::shm;
use crate::transport::shm::connect::{Announcement, Endpoint};
use crate::transport::shm::host::Host;

impl Init {
    /// The ranks that share memory with this one, as it seems now, and what all ranks announce.
    fn members(&self) -> (Vec<usize>, Vec<Option<Announcement>>) {
        let hashes: Vec<u64> = self.peers.iter().map(|peer| peer.host_hash).collect();
        let announcements: Vec<_> = self.peers.iter().map(|peer| peer.shm.clone()).collect();
        (shm::connect::members(&announcements, &hashes, self.identity.rank), announcements)
    }

    /// Whether there is memory to share with the ranks of this host. Without it, the rank talks to them over TCP.
    pub(super) fn reserve_memory(&self, endpoint: Option<&mut Endpoint>) -> bool {
        let (members, _) = self.members();
        let Some(endpoint) = endpoint.filter(|_| members.len() > 1) else { return true };
        let n_rings = self.rings.iter().filter(|ring| members.contains(&ring.next())).count();
        let Err(error) = endpoint.reserve(members.len(), n_rings) else { return true };
        let text = format!("{error}: this rank goes over TCP to the ranks of its host");
        log::write(Level::Warn, subsystem::INIT, self.identity.device, &text);
        false
    }

    /// Forgets what ranks announced that turned out to have no memory.
    pub(super) fn exclude(&mut self, readies: &[Ready]) {
        for (peer, _) in self.peers.iter_mut().zip(readies).filter(|(_, ready)| !ready.has_memory) {
            peer.shm = None;
        }
    }

    /// With silent faults, a rank that gives up does not wait for others to be done with its memory: they must not read
    /// it in place where that could be freed under them, in one process.
    fn tuning(&self) -> shm::Tuning {
        let usual = shm::Tuning::default();
        if self.settings.is_silent() { shm::Tuning { own_bytes: usize::MAX, ..usual } } else { usual }
    }

    /// With the ranks of this host that can.
    pub(super) fn share_memory(
        &self,
        endpoint: Option<Endpoint>,
        bootstrap: &Bootstrap,
    ) -> Result<Option<Host>> {
        let (members, announcements) = self.members();
        let Some(endpoint) = endpoint.filter(|_| members.len() > 1) else { return Ok(None) };
        let plan = shm::connect::Plan {
            rank: self.identity.rank,
            members,
            announcements: &announcements,
            secret: self.id.secret,
            timeout: self.settings.timeout,
            tuning: self.tuning(),
            kin: self.request.kin.as_deref(),
        };
        shm::connect::join(endpoint, &plan, Some(bootstrap)).map(Some)
    }
}
