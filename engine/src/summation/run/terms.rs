//! What follows from a group's members and its declarations, the same in all processes: who owns what, and under which
//! epochs.

use std::sync::Arc;

use super::coding;
use super::members::Members;
use crate::error::{Error, Result};
use crate::summation::placement::assign::Placement;
use crate::summation::placement::machines::Machines;
use crate::summation::placement::shares::Shares;
use crate::summation::placement::strategy::Strategy;
use crate::summation::server::message::Epochs;
use crate::summation::server::sums::{Mode, Sums};
use crate::summation::tensor::{self, Declarations};

/// The rate that NICs count as having where not all are told, in bytes per second: only their proportions matter to a placement.
const NIC_BYTES_PER_S: u64 = 1 << 30;
/// Bytes per second of 1 Mbit/s.
const BYTES_PER_MBIT: u64 = 125_000;

/// What is known of a generation before its declarations are.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) members: Members,
    /// Of its process.
    pub(super) rank: usize,
    pub(super) epochs: Epochs,
    pub(super) mode: Mode,
    machines: Machines,
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
        let Members { n_workers, n_servers } = members;
        let machines = match nic_mbit.filter(|rates| rates.len() == members.n_ranks()) {
            Some(rates) => {
                let rates: Vec<u64> = rates.iter().map(|rate| rate.saturating_mul(BYTES_PER_MBIT)).collect();
                let (workers, servers) = rates.split_at(n_workers);
                Machines::new(workers, servers)
            }
            None => Machines::even(n_workers, n_servers, NIC_BYTES_PER_S),
        };
        let machines = machines.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        Ok(Self { members, rank, epochs, mode, machines, strategy: Strategy::Greedy })
    }

    /// With another way to place parts.
    pub(super) fn with(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Of each service, how much of all bytes it should own.
    pub(super) fn fractions(&self) -> Vec<f64> {
        self.shares().fractions()
    }

    /// Of each service, how much it should own.
    pub(super) fn shares(&self) -> Shares {
        Shares::optimal(&self.machines)
    }

    /// Which service owns which part.
    ///
    /// # Errors
    /// The strategy has no placement for these members.
    pub(super) fn placement(&self, declarations: &Declarations) -> Result<Arc<Placement>> {
        let placement = self.strategy.place(self.epochs.placement, declarations, &self.machines);
        placement.map(Arc::new).map_err(|error| Error::InvalidArgument(error.to_string()))
    }

    /// This process's service, before it knows what is declared.
    pub(super) fn idle_service(&self) -> Sums {
        Sums::new(self.mode, self.members.n_workers, [], self.epochs)
    }

    /// The same, of the parts that the placement gives it.
    pub(super) fn service(&self, declarations: &Declarations, placement: &Placement) -> Sums {
        let number = self.members.service_of_rank(self.rank);
        let owned = declarations
            .parts()
            .filter(|part| placement.owner(part.key).is_some_and(|owner| usize::from(owner) == number));
        let part = |part: tensor::Part| (part.key, coding::summed(declarations, &part));
        Sums::new(self.mode, self.members.n_workers, owned.map(part), self.epochs)
    }
}
