//! Which way contributions go: straight to a part's owner, or over a worker of the same host that sums them first.
//!
//! With hosts that sum first, each part has on each host with several workers one *relay*: the owner, if that is there, else
//! one of the host's workers, by bytes. So the workers of a host reduce and scatter among themselves, and a byte crosses
//! the host's NIC once each way.

use std::sync::Arc;

use super::assign::Placement;
use super::hosts::{Dealer, Hosts};
use crate::tensor::Declarations;

/// The ways of all parts, the same on all machines.
#[derive(Clone, Debug)]
pub struct Routes {
    placement: Arc<Placement>,
    n_workers: usize,
    n_servers: usize,
    hosts: Hosts,
    /// By host, then by key: the worker that relays. None where no host sums first.
    relays: Vec<Vec<usize>>,
    /// By key: whether hosts sum it first.
    is_relayed: Vec<bool>,
}

/// Payload of a process in one round of all tensors, as they are without codecs. It crosses a NIC where the other process is
/// on another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// To other processes.
    pub sent_bytes: u64,
    /// From other processes.
    pub received_bytes: u64,
}

impl Routes {
    /// All parts go straight to their owners.
    pub fn direct(placement: Arc<Placement>, hosts: Hosts, (n_workers, n_servers): (usize, usize)) -> Self {
        Self { placement, n_workers, n_servers, hosts, relays: Vec::new(), is_relayed: Vec::new() }
    }

    /// Workers of the group.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }

    /// Hosts sum the parts first for which that is so, by key. With one host that changes nothing: its workers are all there
    /// are.
    #[must_use]
    pub fn over_relays(mut self, declarations: &Declarations, is_relayed: impl Fn(u32) -> bool) -> Self {
        if self.hosts.n_hosts() < 2 || !self.hosts.are_shared() {
            return self;
        }
        self.is_relayed = declarations.parts().map(|part| is_relayed(part.key)).collect();
        self.relays = (0..self.hosts.n_hosts()).map(|host| self.relays_of(host, declarations)).collect();
        self
    }

    fn relays_of(&self, host: usize, declarations: &Declarations) -> Vec<usize> {
        let mut dealer = Dealer::new(Arc::clone(self.hosts.workers(host)));
        let parts = declarations.parts();
        let relay = parts.map(|part| {
            let owner = self.owner(part.key).checked_sub(self.n_servers);
            let class = declarations.class(part.tensor);
            match owner.filter(|worker| self.hosts.of(*worker) == Some(host)) {
                Some(worker) => {
                    dealer.give(worker, &part, class);
                    worker
                }
                None => dealer.deal(&part, class),
            }
        });
        relay.collect()
    }

    /// Who owns what.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
    }

    /// The service that owns a part.
    pub fn owner(&self, key: u32) -> usize {
        self.placement.owner(key).map_or(0, usize::from)
    }

    /// The service to which a worker pushes a part.
    pub fn target(&self, worker: usize, key: u32) -> usize {
        self.relay(worker, key).map_or_else(|| self.owner(key), |relay| self.n_servers + relay)
    }

    /// Whether a worker sums a part for its host.
    pub fn relays(&self, worker: usize, key: u32) -> bool {
        self.relay(worker, key) == Some(worker)
    }

    /// Whether a worker sums a part for its host, and this one is of that host.
    pub fn sums_for(&self, relay: usize, worker: usize, key: u32) -> bool {
        self.relays(relay, key) && self.hosts.of(relay) == self.hosts.of(worker)
    }

    /// The workers of a worker's host, in the order of their ranks.
    pub fn fellows(&self, worker: usize) -> Option<&Arc<[usize]>> {
        Some(self.hosts.workers(self.hosts.of(worker)?))
    }

    /// Who contributes to a part's owner, in the order of the hosts; none: all workers do.
    pub fn contributors(&self, key: u32) -> Option<Arc<[usize]>> {
        let of_host = |host: usize| {
            let first = self.hosts.workers(host)[0];
            self.relay(first, key).unwrap_or(first)
        };
        self.is_relayed(key).then(|| (0..self.hosts.n_hosts()).map(of_host).collect())
    }

    /// Of each service's process, what one round of all tensors takes.
    pub fn loads(&self, declarations: &Declarations) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.n_servers + self.n_workers];
        let mut carry = |from: usize, to: usize, bytes: u64| {
            if from != to {
                for (process, other) in [(from, to), (to, from)] {
                    loads[process].sent_bytes += bytes;
                    loads[other].received_bytes += bytes;
                }
            }
        };
        for part in declarations.parts() {
            let owner = self.owner(part.key);
            for worker in 0..self.n_workers {
                carry(self.n_servers + worker, self.target(worker, part.key), part.size_bytes);
                if self.relays(worker, part.key) {
                    carry(self.n_servers + worker, owner, part.size_bytes);
                }
            }
        }
        loads
    }

    fn is_relayed(&self, key: u32) -> bool {
        self.is_relayed.get(key as usize) == Some(&true)
    }

    /// Who sums a part for a worker's host; none where the worker pushes straight to the owner.
    fn relay(&self, worker: usize, key: u32) -> Option<usize> {
        let host = self.hosts.of(worker).filter(|_| self.is_relayed(key))?;
        let is_shared = self.hosts.workers(host).len() > 1;
        self.relays.get(host)?.get(key as usize).copied().filter(|_| is_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::machines::Machines;
    use crate::placement::predict::predict;
    use crate::placement::shares::Shares;
    use crate::tensor::{DataType, Declaration};

    fn declarations(elements: u64) -> Declarations {
        let tensor = Declaration { name: "gradient".to_owned(), elements, data_type: DataType::F32 };
        Declarations::of(40, [tensor]).unwrap()
    }

    fn routes(of_workers: &[u8], n_servers: usize, declarations: &Declarations) -> Routes {
        let hosts = Hosts::new(of_workers);
        let machines = hosts.machines(None, (n_servers, 1000)).unwrap();
        let of_machines = Placement::by_shares(0, declarations, &Shares::optimal(&machines));
        let placement = Arc::new(hosts.spread(&of_machines, declarations, n_servers));
        Routes::direct(placement, hosts, (of_workers.len(), n_servers)).over_relays(declarations, |_| true)
    }

    #[test]
    fn a_relay_is_of_the_host_and_is_the_owner_where_that_is_there() {
        let declarations = declarations(10_000);
        let routes = routes(&[0, 0, 0, 1, 2, 2], 1, &declarations);
        let mut relayed = [0; 6];
        for part in declarations.parts() {
            let key = part.key;
            let targets: Vec<usize> = (0..6).map(|worker| routes.target(worker, key)).collect();
            let owner = routes.owner(key);
            assert!(targets[0] == targets[1] && targets[1] == targets[2] && (1..4).contains(&targets[0]));
            assert!(targets[4] == targets[5] && (5..7).contains(&targets[4]));
            assert_eq!(targets[3], owner, "a worker that is alone relays nothing");
            assert!(owner == 0 || targets.contains(&owner), "the owner is a relay of its host");
            let contributors = routes.contributors(key).unwrap();
            assert_eq!(contributors[..], [targets[0] - 1, 3, targets[4] - 1]);
            for worker in [0, 1, 2, 4, 5] {
                relayed[worker] += if routes.relays(worker, key) { part.size_bytes } else { 0 };
            }
        }
        assert!(relayed[..3].iter().all(|bytes| bytes.abs_diff(40_000 / 3) <= 400), "{relayed:?}");
        assert!(relayed[4..].iter().all(|bytes| bytes.abs_diff(20_000) <= 400), "{relayed:?}");
    }

    #[test]
    fn hosts_of_one_worker_and_one_host_have_no_relays() {
        let declarations = declarations(1000);
        for (of_workers, n_servers) in [(&[0, 1, 2][..], 1), (&[0, 0, 0][..], 0)] {
            let routes = routes(of_workers, n_servers, &declarations);
            for part in declarations.parts() {
                assert_eq!(routes.contributors(part.key), None);
                assert!((0..3).all(|worker| routes.target(worker, part.key) == routes.owner(part.key)));
            }
        }
    }

    #[test]
    fn loads_without_relays_are_those_of_machines() {
        let declarations = declarations(7000);
        let machines = Machines::even(4, 2, 1).unwrap();
        let placement = Placement::by_shares(0, &declarations, &Shares::optimal(&machines));
        let predicted = predict(&machines, &placement);
        let routes = Routes::direct(Arc::new(placement), Hosts::new(&[0, 1, 2, 3]), (4, 2));
        for (load, predicted) in routes.loads(&declarations).iter().zip(predicted.loads()) {
            assert_eq!(
                (load.sent_bytes, load.received_bytes),
                (predicted.sent_bytes, predicted.received_bytes)
            );
        }
    }
}
