//! What follows from a group's members and its declarations, the same in all processes: who owns what, over whom
//! contributions go, and under which epochs.

use std::sync::Arc;

use super::coding;
use super::members::Members;
use super::wire::Epochs;
use crate::config::LocalSums;
use crate::placement::hosts::Hosts;
use crate::placement::machines::{Machines, Refused};
use crate::placement::routes::Routes;
use crate::placement::shares::Shares;
use crate::placement::strategy::Strategy;
use crate::server::sums::{Mode, Sums};
use crate::server::tier::Tier;
use crate::tensor::{self, Declarations};
use crate::worker::RELAYED;
use rsccl_collective::error::{Error, Result};

/// The rate that NICs count as having where not all are told, in bytes per second: only their proportions matter to a placement.
const NIC_BYTES_PER_S: u64 = 1 << 30;
/// Bytes per second of 1 Mbit/s.
const BYTES_PER_MBIT: u64 = 125_000;
/// Parts of a group whose hosts sum first, at most: a pipeline has a key for the sum of each beside the part's own.
const MAX_RELAYED: u32 = 1 << 31;

/// What is known of a generation before its declarations are.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) members: Members,
    /// Of its process.
    pub(super) rank: usize,
    pub(super) epochs: Epochs,
    pub(super) mode: Mode,
    /// By rank, in bytes per second.
    rates: Option<Vec<u64>>,
    hosts: Hosts,
    /// Whether the workers of a host sum first.
    is_local: bool,
    strategy: Strategy,
}

impl Terms {
    /// With the rates of the ranks' NICs in Mbit/s; none where one is not told.
    pub(super) fn new(
        members: Members,
        rank: usize,
        (epochs, mode): (Epochs, Mode),
        nic_mbit: Option<&[u64]>,
    ) -> Result<Self> {
        let rates = nic_mbit.filter(|rates| rates.len() == members.n_ranks());
        let rates = rates.map(|rates| rates.iter().map(|rate| rate.saturating_mul(BYTES_PER_MBIT)).collect());
        let hosts = Hosts::new(&(0..members.n_workers).collect::<Vec<_>>());
        let terms =
            Self { members, rank, epochs, mode, rates, hosts, is_local: false, strategy: Strategy::Greedy };
        terms.machines().map_err(invalid)?;
        Ok(terms)
    }

    /// With another way to place parts.
    pub(super) fn with(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// With workers on these hosts, by rank, which sum first if that is wanted.
    pub(super) fn on(mut self, of_ranks: &[usize], wanted: LocalSums) -> Result<Self> {
        self.hosts = Hosts::new(of_ranks.get(..self.members.n_workers).unwrap_or(of_ranks));
        let is_local = match wanted {
            LocalSums::Auto => self.hosts.n_hosts() > 1,
            LocalSums::On => true,
            LocalSums::Off => false,
        };
        self.sum_locally(is_local && self.hosts.are_shared());
        self.machines().map_err(invalid)?;
        Ok(self)
    }

    /// Whether the workers of a host sum first: what a server is told.
    pub(super) fn sum_locally(&mut self, is_local: bool) {
        self.is_local = is_local && self.mode == Mode::Rounds;
    }

    /// The same.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Of each service, how much of all bytes it should own.
    pub(super) fn fractions(&self) -> Result<Vec<f64>> {
        let of_machines = Shares::optimal(&self.machines().map_err(invalid)?).fractions();
        if !self.is_local {
            return Ok(of_machines);
        }
        let (servers, hosts) = of_machines.split_at(self.members.n_servers.min(of_machines.len()));
        let of_worker = |worker: usize| {
            let host = self.hosts.of(worker)?;
            Some(hosts.get(host)? / self.hosts.workers(host).len() as f64)
        };
        let workers = (0..self.members.n_workers).map(|worker| of_worker(worker).unwrap_or(0.0));
        Ok(servers.iter().copied().chain(workers).collect())
    }

    /// Of each service, what a worker may have on its way there, beside the others: what it owns; and relays of the worker's
    /// host, over which everything goes, [`RELAYED`] times as much as the service that owns most.
    pub(super) fn in_flight(&self, worker: usize) -> Result<Vec<f64>> {
        let mut shares = self.fractions()?;
        let largest = shares.iter().copied().fold(0.0, f64::max);
        let host = self.hosts.of(worker).filter(|_| self.is_local);
        for relay in host.map(|host| self.hosts.workers(host)).into_iter().flat_map(|relays| relays.iter()) {
            if let Some(share) = shares.get_mut(self.members.n_servers + relay) {
                *share = RELAYED as f64 * largest;
            }
        }
        Ok(shares)
    }

    /// Which service owns which part, and over whom contributions go there.
    ///
    /// # Errors
    /// The strategy has no placement for these members, or there are too many parts.
    pub(super) fn routes(&self, declarations: &Declarations) -> Result<Arc<Routes>> {
        let Members { n_workers, n_servers } = self.members;
        let machines = self.machines().map_err(invalid)?;
        let placement = self.strategy.place(self.epochs.placement, declarations, &machines);
        let placement = placement.map_err(invalid)?;
        let hosts = self.hosts.clone();
        if !self.is_local {
            return Ok(Arc::new(Routes::direct(Arc::new(placement), hosts, (n_workers, n_servers))));
        }
        if declarations.n_parts() > MAX_RELAYED {
            let text = format!("{} parts are too many; at most {MAX_RELAYED} work", declarations.n_parts());
            return Err(Error::InvalidArgument(text));
        }
        let placement = Arc::new(hosts.spread(&placement, declarations, n_servers));
        let is_plain = |key| {
            let part = declarations.part(key);
            part.is_some_and(|part| {
                coding::summed(declarations, &part, self.members.n_workers).codec.is_none()
            })
        };
        let routes = Routes::direct(placement, hosts, (n_workers, n_servers));
        Ok(Arc::new(routes.over_relays(declarations, is_plain)))
    }

    /// Whether nothing of the group came before.
    pub(super) fn is_first(&self) -> bool {
        self.epochs.placement == 0
    }

    /// This process's service, before it knows what is declared; and its sums for its host.
    pub(super) fn idle_service(&self) -> Sums {
        Sums::new(self.mode, self.members.n_workers, [])
    }

    /// The same, of the parts that the placement gives it.
    pub(super) fn service(&self, declarations: &Declarations, routes: &Routes) -> Sums {
        let number = self.members.service_of_rank(self.rank);
        let n_workers = self.members.n_workers;
        let tier = |key| match routes.contributors(key) {
            Some(contributors) => Tier::Hosts { contributors, n_workers },
            None => Tier::Only,
        };
        self.sums(declarations, |key| routes.owner(key) == number, tier)
    }

    /// Of the parts that this process sums for its host.
    pub(super) fn host_sums(&self, declarations: &Declarations, routes: &Routes) -> Sums {
        let Some(fellows) = routes.fellows(self.rank) else { return self.idle_service() };
        self.sums(declarations, |key| routes.relays(self.rank, key), |_| Tier::Host(Arc::clone(fellows)))
    }

    fn sums(
        &self,
        declarations: &Declarations,
        is_here: impl Fn(u32) -> bool,
        tier: impl Fn(u32) -> Tier,
    ) -> Sums {
        let parts = || declarations.parts().filter(|part| is_here(part.key));
        let part =
            |part: tensor::Part| (part.key, coding::summed(declarations, &part, self.members.n_workers));
        let sums = Sums::new(self.mode, self.members.n_workers, parts().map(part));
        sums.with_tiers(parts().map(|part| (part.key, tier(part.key))))
    }

    /// Those whose NICs the placement is about.
    fn machines(&self) -> std::result::Result<Machines, Refused> {
        let Members { n_workers, n_servers } = self.members;
        let rates = self.rates.as_ref().map(|rates| rates.split_at(n_workers));
        match rates {
            _ if self.is_local => self.hosts.machines(rates, (n_servers, NIC_BYTES_PER_S)),
            Some((workers, servers)) => Machines::new(workers, servers),
            None => Machines::even(n_workers, n_servers, NIC_BYTES_PER_S),
        }
    }
}

fn invalid(refused: Refused) -> Error {
    Error::InvalidArgument(refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of worker 0, with one server.
    fn in_flight(of_workers: &[usize], wanted: LocalSums) -> Vec<f64> {
        let members = Members { n_workers: of_workers.len(), n_servers: 1 };
        let terms = Terms::new(members, 0, (Epochs::default(), Mode::Rounds), None).unwrap();
        terms.on(of_workers, wanted).unwrap().in_flight(0).unwrap()
    }

    #[test]
    fn relays_of_the_own_host_get_more_than_the_largest_owner_however_little_they_own() {
        let none_shared = in_flight(&[0, 1], LocalSums::Auto);
        assert_eq!(none_shared, [0.5, 0.25, 0.25]);
        assert_eq!(in_flight(&[0, 0, 1, 1], LocalSums::Auto), [0.5, 2.0, 2.0, 0.125, 0.125]);
        let direct = in_flight(&[0, 0, 1, 1], LocalSums::Off);
        assert!(direct[1] < direct[0] && direct[1..] == [direct[1]; 4], "{direct:?}");
    }
}
