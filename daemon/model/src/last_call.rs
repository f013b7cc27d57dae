//! The same operation of all ranks of a communicator, side by side: who called it last.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::{Communicator, HostClocks, Model};

/// The last call of an operation that all ranks have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCall {
    /// Whose.
    pub rank: u32,
    /// When, by our clock.
    pub called_ns: u64,
}

impl LastCall {
    /// How long who called at this time, by our clock, waited for the last.
    #[must_use]
    pub fn waited_ns(self, called_ns: u64) -> u64 {
        self.called_ns.saturating_sub(called_ns)
    }

    /// How long bytes moved until this completion, by our clock.
    #[must_use]
    pub fn transfer_ns(self, completed_ns: u64) -> u64 {
        completed_ns.saturating_sub(self.called_ns)
    }
}

impl Model {
    /// The last call of each numbered operation of a communicator that all its ranks have told of, by number.
    #[must_use]
    pub fn last_calls(&self, known: &Communicator, clocks: &HostClocks) -> HashMap<u64, LastCall> {
        let hosts = known.hosts_by_rank(self);
        let by_rank: Vec<_> = hosts.into_iter().map(|host| clocks.of(host?)).collect();
        let mut calls: FxHashMap<u64, (u32, LastCall)> = FxHashMap::default();
        for operation in self.completed(known.id()).0 {
            let Some(number) = operation.call_number else { continue };
            let clock = by_rank.get(operation.rank as usize).copied().flatten();
            let called_ns = operation.issued_at_ns;
            let called_ns = clock.map_or(called_ns, |clock| clock.ours_ns(called_ns, clocks.to()));
            let call = LastCall { rank: operation.rank, called_ns };
            let (n_told, last) = calls.entry(number).or_insert((0, call));
            *n_told += 1;
            if called_ns > last.called_ns {
                *last = call;
            }
        }
        calls.retain(|_, (n_told, _)| *n_told >= known.n_ranks());
        calls.into_iter().map(|(number, (_, last))| (number, last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use ringscope_samples::cluster::{Cluster, at, batch};

    use super::*;

    #[test]
    fn the_last_call_is_told_once_all_ranks_have() {
        let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2)], 4);
        let mut model = Model::new();
        let told = |rank: u32, numbers: &[u64]| {
            let mut process = cluster.process(rank);
            let operation = |number: &u64| {
                let mut operation = cluster.operation(*number, 10 + number, Some(11 + number));
                operation.call_number = Some(*number);
                // Rank 1 is late.
                operation.issued_at_ns += u64::from(rank == 1) * 600_000_000;
                operation
            };
            process.completed_operations = numbers.iter().map(operation).collect();
            process
        };
        model.apply(&batch(1, 20, vec![told(0, &[0, 4]), told(1, &[0, 4, 8]), told(2, &[0])]), at(20));
        let known = model.communicator(cluster.id()).unwrap();
        let calls = model.last_calls(known, &HostClocks::default());
        let last = calls.get(&0).copied().unwrap();
        assert_eq!((calls.len(), last.rank, last.called_ns), (1, 1, at(10).0 + 600_000_000));
        assert_eq!(last.waited_ns(at(10).0), 600_000_000);
        assert_eq!(last.waited_ns(last.called_ns), 0);
        assert_eq!(last.transfer_ns(at(11).0), 400_000_000);
    }
}
