//! The machines of a job, and what their NICs carry.

use std::fmt;

/// Services of a job at most: their numbers are `u16`.
pub const MAX_SERVICES: usize = 1 << 16;

/// Fastest NIC that is believed, in bytes per second (8.8 Tb/s): with it all products of shares fit into 128 bits.
pub const MAX_BYTES_PER_S: u64 = 1 << 40;

/// The NIC of every machine: bytes per second in each direction, both at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Of each service's machine.
    rates: Vec<u64>,
    n_servers: usize,
}

/// One machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// One that does nothing but sum, by its number among those.
    Server(usize),
    /// A worker's, by its number among those.
    Worker(usize),
}

/// Machines for which there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody has gradients.
    #[error("there are no workers; at least one is needed")]
    NoWorkers,
    /// Nobody is there who sums, where workers do not.
    #[error("there are no servers; where workers do not sum, at least one is needed")]
    NoServers,
    /// More than [`MAX_SERVICES`].
    #[error("{count} machines are more than {MAX_SERVICES}")]
    TooManyServices {
        /// How many there are.
        count: usize,
    },
    /// No rate of a NIC.
    #[error("the NIC of {machine} has {bytes_per_s} bytes/s; from 1 to {MAX_BYTES_PER_S} make sense")]
    Rate {
        /// Whose NIC.
        machine: Machine,
        /// What it is said to carry.
        bytes_per_s: u64,
    },
    /// BytePS's mixed mode hashes into fewer slots than there are services.
    #[error("{count} services are more than the {bound} slots of BytePS's mixed mode")]
    TooFewSlots {
        /// How many services there are.
        count: usize,
        /// `BYTEPS_MIXED_MODE_BOUND`.
        bound: usize,
    },
    /// Slots are divided by Equations 1 and 2, which have no meaning here.
    #[error(
        "{n_servers} servers for {n_workers} workers: hashing needs at least 2 workers, and no more servers than workers"
    )]
    NoSlots {
        /// How many servers there are.
        n_servers: usize,
        /// How many workers there are.
        n_workers: usize,
    },
}

impl Machines {
    /// From the bytes per second of each worker's and each server's NIC.
    ///
    /// # Errors
    /// There is no worker, there are more than [`MAX_SERVICES`], or a rate is 0 or beyond [`MAX_BYTES_PER_S`].
    pub fn new(workers: &[u64], servers: &[u64]) -> Result<Self, Refused> {
        let machines = Self { rates: [servers, workers].concat(), n_servers: servers.len() };
        if workers.is_empty() {
            return Err(Refused::NoWorkers);
        }
        if machines.n_services() > MAX_SERVICES {
            return Err(Refused::TooManyServices { count: machines.n_services() });
        }
        let wrong = machines.rates.iter().position(|rate| !(1..=MAX_BYTES_PER_S).contains(rate));
        match wrong {
            Some(service) => Err(Refused::Rate {
                machine: machines.machine(service),
                bytes_per_s: machines.rates[service],
            }),
            None => Ok(machines),
        }
    }

    /// With the same NIC everywhere.
    ///
    /// # Errors
    /// As [`Machines::new`].
    pub fn even(n_workers: usize, n_servers: usize, bytes_per_s: u64) -> Result<Self, Refused> {
        let count = n_workers.saturating_add(n_servers);
        if count > MAX_SERVICES {
            return Err(Refused::TooManyServices { count });
        }
        Self::new(&vec![bytes_per_s; n_workers], &vec![bytes_per_s; n_servers])
    }

    /// n: workers.
    pub fn n_workers(&self) -> usize {
        self.n_services() - self.n_servers
    }

    /// k: machines that do nothing but sum.
    pub fn n_servers(&self) -> usize {
        self.n_servers
    }

    /// n + k.
    pub fn n_services(&self) -> usize {
        self.rates.len()
    }

    /// Where a service is.
    pub fn machine(&self, service: usize) -> Machine {
        match service.checked_sub(self.n_servers) {
            Some(worker) => Machine::Worker(worker),
            None => Machine::Server(service),
        }
    }

    /// The NIC of each service's machine, in bytes per second.
    pub fn rates(&self) -> &[u64] {
        &self.rates
    }

    pub(super) fn server_rates(&self) -> &[u64] {
        &self.rates[..self.n_servers]
    }

    pub(super) fn worker_rates(&self) -> &[u64] {
        &self.rates[self.n_servers..]
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => write!(f, "server {server}"),
            Self::Worker(worker) => write!(f, "worker {worker}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_come_first() {
        let machines = Machines::new(&[1, 2], &[3]).unwrap();
        assert_eq!((machines.n_workers(), machines.n_servers(), machines.n_services()), (2, 1, 3));
        assert_eq!(machines.rates(), [3, 1, 2]);
        let names: Vec<String> = (0..3).map(|service| machines.machine(service).to_string()).collect();
        assert_eq!(names, ["server 0", "worker 0", "worker 1"]);
    }

    #[test]
    fn machines_that_make_no_sense_are_refused_by_name() {
        let error =
            |workers: &[u64], servers: &[u64]| Machines::new(workers, servers).unwrap_err().to_string();
        assert_eq!(error(&[], &[1]), "there are no workers; at least one is needed");
        assert!(error(&[1, 0], &[1]).starts_with("the NIC of worker 1 has 0 bytes/s"));
        assert!(error(&[1, 1], &[1, u64::MAX]).starts_with("the NIC of server 1 has 18446744073709551615"));
        assert_eq!(Machines::even(65_536, 1, 1), Err(Refused::TooManyServices { count: 65_537 }));
        assert!(Machines::even(usize::MAX, usize::MAX, 1).is_err());
        assert!(Machines::even(65_536, 0, 1).is_ok());
    }
}
