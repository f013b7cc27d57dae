//! Which workers share a machine, and so a NIC, and how what a machine owns is spread over them.

use std::sync::Arc;

use super::assign::Placement;
use super::machines::{MAX_BYTES_PER_S, Machines, Refused};
use crate::tensor::{Class, Declarations, Part};

/// The hosts of the workers, numbered in the order of their first workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// By worker.
    of_worker: Vec<usize>,
    /// By host, in the order of the ranks.
    workers: Vec<Arc<[usize]>>,
}

impl Hosts {
    /// From what tells each worker's host from others.
    pub fn new<T: PartialEq>(of_workers: &[T]) -> Self {
        let mut first: Vec<&T> = Vec::new();
        let host = |id| {
            first.iter().position(|other| *other == id).unwrap_or_else(|| {
                first.push(id);
                first.len() - 1
            })
        };
        let of_worker: Vec<usize> = of_workers.iter().map(host).collect();
        let of_host =
            |host| of_worker.iter().enumerate().filter(move |(_, of)| **of == host).map(|(worker, _)| worker);
        let workers = (0..first.len()).map(|host| of_host(host).collect()).collect();
        Self { of_worker, workers }
    }

    /// The host of a worker, if there is such a worker.
    pub fn of(&self, worker: usize) -> Option<usize> {
        self.of_worker.get(worker).copied()
    }

    /// How many there are.
    pub fn n_hosts(&self) -> usize {
        self.workers.len()
    }

    /// The workers of a host, in the order of their ranks.
    pub fn workers(&self, host: usize) -> &Arc<[usize]> {
        &self.workers[host]
    }

    /// Whether a host has several workers.
    pub fn are_shared(&self) -> bool {
        self.n_hosts() < self.of_worker.len()
    }

    /// One machine for each host, whose NIC has what its workers' have, and one for each server. Without `rates`, of workers
    /// and servers, all machines have `even`.
    ///
    /// # Errors
    /// As [`Machines::new`].
    pub fn machines(&self, rates: Option<(&[u64], &[u64])>, even: (usize, u64)) -> Result<Machines, Refused> {
        let Some((of_workers, of_servers)) = rates else {
            return Machines::even(self.n_hosts(), even.0, even.1);
        };
        let rate = |workers: &Arc<[usize]>| {
            let rates = workers.iter().filter_map(|worker| of_workers.get(*worker));
            rates.fold(0, |sum: u64, rate| sum.saturating_add(*rate)).min(MAX_BYTES_PER_S)
        };
        Machines::new(&self.workers.iter().map(rate).collect::<Vec<_>>(), of_servers)
    }

    /// A placement on [`Self::machines`] as one on processes: what a host owns is dealt out to its workers.
    pub fn spread(
        &self,
        of_machines: &Placement,
        declarations: &Declarations,
        n_servers: usize,
    ) -> Placement {
        let mut dealers: Vec<Dealer> =
            self.workers.iter().map(|workers| Dealer::new(Arc::clone(workers))).collect();
        let n_services = n_servers + self.of_worker.len();
        Placement::of(of_machines.epoch(), declarations, n_services, |part| {
            let owner = of_machines.owner(part.key).unwrap_or(0);
            let host = usize::from(owner).checked_sub(n_servers);
            let worker = host
                .and_then(|host| dealers.get_mut(host))
                .map(|dealer| dealer.deal(part, declarations.class(part.tensor)));
            worker.map_or(owner, |worker| u16::try_from(n_servers + worker).unwrap_or(owner))
        })
    }
}

/// Deals parts out to the workers of a host, each class of tensors for itself: to who has the fewest bytes.
#[derive(Debug)]
pub(super) struct Dealer {
    workers: Arc<[usize]>,
    /// By class, then by worker.
    dealt_bytes: Vec<Vec<u64>>,
}

impl Dealer {
    pub(super) fn new(workers: Arc<[usize]>) -> Self {
        let dealt_bytes = vec![vec![0; workers.len()]; Class::ALL.len()];
        Self { workers, dealt_bytes }
    }

    /// Who gets a part.
    pub(super) fn deal(&mut self, part: &Part, class: Class) -> usize {
        let dealt_bytes = &mut self.dealt_bytes[class as usize];
        let least = (0..dealt_bytes.len()).min_by_key(|index| dealt_bytes[*index]).unwrap_or(0);
        dealt_bytes[least] += part.size_bytes;
        self.workers[least]
    }

    /// A worker gets a part that it must have.
    pub(super) fn give(&mut self, worker: usize, part: &Part, class: Class) {
        let index = self.workers.iter().position(|other| *other == worker);
        if let Some(dealt_bytes) = index.and_then(|index| self.dealt_bytes[class as usize].get_mut(index)) {
            *dealt_bytes += part.size_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::shares::Shares;
    use crate::tensor::{DataType, Declaration};

    #[test]
    fn hosts_are_numbered_by_their_first_workers() {
        let hosts = Hosts::new(&["b", "a", "b", "c"]);
        assert_eq!((hosts.n_hosts(), hosts.are_shared()), (3, true));
        assert_eq!([0, 1, 2, 3].map(|worker| hosts.of(worker)), [0, 1, 0, 2].map(Some));
        assert_eq!((hosts.of(4), &hosts.workers(0)[..]), (None, &[0, 2][..]));
        assert!(!Hosts::new(&[1, 2, 3]).are_shared());
    }

    #[test]
    fn what_a_host_owns_is_spread_over_its_workers() {
        let tensors = [("a", 900), ("gradient.b", 2700)].map(|(name, elements)| Declaration {
            name: name.to_owned(),
            elements,
            data_type: DataType::F32,
        });
        let declarations = Declarations::of(40, tensors).unwrap();
        let hosts = Hosts::new(&[0, 0, 0, 1]);
        let machines = hosts.machines(None, (1, 1000)).unwrap();
        assert_eq!((machines.n_workers(), machines.n_servers()), (2, 1));
        let of_machines = Placement::by_shares(3, &declarations, &Shares::optimal(&machines));
        let placement = hosts.spread(&of_machines, &declarations, 1);
        let [server, a, b, c, d] = *placement.owned_bytes() else { panic!("{placement:?}") };
        assert_eq!([server, a + b + c, d], of_machines.owned_bytes());
        assert_eq!(placement.epoch(), 3);
        assert!([a, b, c].iter().all(|owned| owned.abs_diff(1200) <= 80), "{placement:?}");
    }

    #[test]
    fn the_nic_of_a_host_has_what_its_processes_share() {
        let hosts = Hosts::new(&[0, 1, 0]);
        let machines = hosts.machines(Some((&[3, 5, 4], &[9])), (1, 1)).unwrap();
        assert_eq!(machines.rates(), [9, 7, 5]);
    }
}
