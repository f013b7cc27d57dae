//! Who is who in a group: ranks of the communicator, and services as placements number them.

/// What a process does in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Contributes and takes sums, and sums what the placement gives it; by its number among the workers.
    Worker(usize),
    /// Does nothing but sum; by its number among the servers.
    Server(usize),
}

/// n workers, whose ranks come first, and k servers, whose services come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// n, at least 1.
    pub(crate) n_workers: usize,
    /// k
    pub(crate) n_servers: usize,
}

impl Members {
    /// n + k
    pub(crate) fn n_ranks(self) -> usize {
        self.n_workers.saturating_add(self.n_servers)
    }

    /// The rank of a role.
    pub(super) fn rank(self, role: Role) -> usize {
        match role {
            Role::Worker(worker) => worker,
            Role::Server(server) => self.n_workers.saturating_add(server),
        }
    }

    /// Whether there is such a role.
    pub(super) fn has(self, role: Role) -> bool {
        match role {
            Role::Worker(worker) => worker < self.n_workers,
            Role::Server(server) => server < self.n_servers,
        }
    }

    /// Where a service runs.
    pub(super) fn rank_of_service(self, service: usize) -> usize {
        match service.checked_sub(self.n_servers) {
            None => self.n_workers + service,
            Some(worker) => worker,
        }
    }

    /// The service of a rank.
    pub(crate) fn service_of_rank(self, rank: usize) -> usize {
        match rank.checked_sub(self.n_workers) {
            None => self.n_servers + rank,
            Some(server) => server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_service() {
        for (n_workers, n_servers) in [(1, 0), (2, 1), (3, 0), (4, 2), (2, 5)] {
            let members = Members { n_workers, n_servers };
            let mut ranks: Vec<usize> =
                (0..members.n_ranks()).map(|service| members.rank_of_service(service)).collect();
            assert!(
                ranks.iter().enumerate().all(|(service, rank)| members.service_of_rank(*rank) == service)
            );
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..members.n_ranks()));
        }
    }
}
