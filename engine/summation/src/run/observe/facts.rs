//! What is said of a group when it begins.

use std::ffi::{CString, c_char};

use rsum_observer::{ROLE_SERVER, ROLE_WORKER};

use crate::run::members::Members;
use crate::run::terms::Terms;
use crate::server::sums::Mode;
use crate::tensor::Declarations;
use rsccl_collective::comm::Comm;

/// Millionths.
const PPM: f64 = 1e6;

/// A group that begins.
#[derive(Clone, Copy)]
pub(in crate::run) struct Facts<'a> {
    pub(in crate::run) comm: &'a Comm,
    pub(in crate::run) terms: &'a Terms,
    pub(in crate::run) declarations: &'a Declarations,
}

impl Facts<'_> {
    /// Says them, of a group of this session.
    pub(super) fn tell(&self, session: u64, take: impl FnOnce(&rsum_observer::Group)) {
        let (comm, members) = (self.comm, self.terms.members);
        let Members { n_workers, n_servers } = members;
        let hosts: Vec<CString> = (0..members.n_ranks()).map(|rank| host(comm, rank)).collect();
        let services = self.services(&hosts);
        let worker_hosts: Vec<*const c_char> =
            hosts.iter().take(n_workers).map(|host| host.as_ptr()).collect();
        let (role, index) = match self.terms.rank.checked_sub(n_workers) {
            None => (ROLE_WORKER, self.terms.rank),
            Some(server) => (ROLE_SERVER, server),
        };
        let group = comm.identity.comm_hash.max(1);
        let (asynchronous, staleness_bound) = match self.terms.mode {
            Mode::Rounds => (0, u64::MAX),
            Mode::Store { max_ahead } => (1, max_ahead.unwrap_or(u64::MAX)),
        };
        take(&rsum_observer::Group {
            size: size_of::<rsum_observer::Group>(),
            group,
            session,
            membership_epoch: self.terms.epochs.membership.into(),
            placement_epoch: self.terms.epochs.placement.into(),
            comm: comm.identity.handle as u64,
            role,
            index: to_u32(index),
            n_workers: to_u32(n_workers),
            n_servers: to_u32(n_servers),
            asynchronous,
            n_services: to_u32(services.len()),
            staleness_bound,
            n_tensors: self.declarations.tensors().len() as u64,
            n_parts: self.declarations.n_parts().into(),
            model_bytes: self.declarations.total_bytes(),
            partition_bytes: self.declarations.partition_bytes(),
            services: services.as_ptr(),
            worker_hosts: worker_hosts.as_ptr(),
        });
    }

    fn services(&self, hosts: &[CString]) -> Vec<rsum_observer::Service> {
        let known =
            self.terms.routes(self.declarations).and_then(|routes| Ok((routes, self.terms.fractions()?)));
        // The group has started with these routes.
        let Ok((routes, fractions)) = known else { return Vec::new() };
        let loads = routes.loads(self.declarations);
        let owned_bytes = routes.placement().owned_bytes();
        let total_bytes = owned_bytes.iter().sum::<u64>();
        let service = |(service, (owned, optimal)): (usize, (&u64, f64))| {
            let rank = self.terms.members.rank_of_service(service);
            let load = loads.get(service);
            rsum_observer::Service {
                rank: to_u32(rank),
                optimal_share_ppm: ppm(optimal),
                share_ppm: ppm(*owned as f64 / total_bytes.max(1) as f64),
                reserved: 0,
                host: hosts.get(rank).map_or(c"".as_ptr(), |host| host.as_ptr()),
                owned_bytes: *owned,
                predicted_sent_bytes: load.map_or(0, |load| load.sent_bytes),
                predicted_received_bytes: load.map_or(0, |load| load.received_bytes),
            }
        };
        owned_bytes.iter().zip(fractions).enumerate().map(service).collect()
    }
}

fn host(comm: &Comm, rank: usize) -> CString {
    CString::new(comm.host_name(rank)).unwrap_or_default()
}

pub(super) fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fraction's millionths, and `as` saturates"
)]
fn ppm(fraction: f64) -> u32 {
    (fraction * PPM).round() as u32
}
