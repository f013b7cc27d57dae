//! What a service does with sums of hosts: they go on to another service, and results come back.

use super::refusal::Refusal;
use super::rounds::{Slot, Summed};
use super::service::Service;
use super::tier::{Partial, Tier};

impl Service {
    /// With other contributors to some keys than all workers.
    #[must_use]
    pub fn with_tiers(mut self, tiers: impl IntoIterator<Item = (u32, Tier)>) -> Self {
        for (key, tier) in tiers {
            if let Ok(entry) = self.keys.find(key) {
                entry.state.tier = tier;
            }
        }
        self
    }

    /// The next sum of a host that is to go on; [`Self::returned`] takes the result.
    pub fn next_partial(&mut self) -> Option<Partial> {
        self.partials.pop_front()
    }

    /// The result of a round is there: pulls of it have an answer now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if no sum of this round went on.
    pub fn returned(&mut self, partial: Partial) -> Result<(), Refusal> {
        let Partial { key, round, last_arriver: worker, bytes, .. } = partial;
        let over = Refusal::Over { key, round, worker };
        let Ok(slot) = self.keys.find(key)?.state.rounds.slot(round) else { return Err(over) };
        let Slot::Away(added) = &*slot else { return Err(over) };
        *slot = Slot::Summed(Summed::new(bytes, added, &self.members));
        self.counters.finished_rounds += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::message::{Added, Admission, Answer, Pull, Push, Pushed};
    use crate::server::part::Part;
    use crate::server::reduction::Reduction;
    use rsccl_collective::types::DataType;

    const PART: Part = Part { count: 1, data_type: DataType::F32, codec: None };

    fn service(n_workers: usize, tier: Tier) -> Service {
        let service = Service::new(n_workers, [(0, PART)]);
        service.with_tiers([(0, tier)])
    }

    /// Contributes a number to a round of averages; whether that was the last one.
    fn push(service: &mut Service, worker: usize, round: u64, number: f32) -> Result<bool, Refusal> {
        let reduction = Reduction::Average;
        let push = Push { key: 0, round, worker, size_bytes: 4, reduction };
        let Admission::Into(mut landing) = service.push(&push)? else { panic!("no room") };
        landing.bytes_mut().copy_from_slice(&number.to_ne_bytes());
        let Pushed::Add(mut addition) = service.pushed(landing)? else { return Ok(false) };
        addition.run();
        let Added::Finished(finished) = service.added(addition)? else { panic!("no result") };
        assert_eq!(finished.n_contributors, service.keys.find(0)?.state.tier.divisor(2));
        Ok(true)
    }

    fn pull(service: &mut Service, worker: usize, round: u64) -> Option<f32> {
        let pull = Pull { key: 0, round, worker };
        let Ok(Answer::Ready(sum)) = service.pull(&pull) else { return None };
        let number = f32::from_ne_bytes(sum.bytes().try_into().unwrap());
        service.answered(sum).unwrap();
        Some(number)
    }

    #[test]
    fn a_hosts_sum_goes_on_undivided_and_its_workers_get_what_comes_back() {
        let mut service = service(4, Tier::Host([1, 3].into()));
        assert!(push(&mut service, 0, 0, 1.0).is_err(), "a worker of another host");
        for round in 0..3 {
            assert_eq!(push(&mut service, 3, round, 5.0), Ok(false));
            assert_eq!(push(&mut service, 1, round, 3.0), Ok(true));
            let mut partial = service.next_partial().unwrap();
            assert_eq!((partial.key, partial.round, partial.last_arriver), (0, round, 1));
            assert_eq!(
                (partial.reduction, &partial.bytes[..]),
                (Reduction::Average, &8.0_f32.to_ne_bytes()[..])
            );
            assert_eq!((service.next_partial(), pull(&mut service, 1, round)), (None, None));
            partial.bytes.copy_from_slice(&2.5_f32.to_ne_bytes());
            service.returned(partial).unwrap();
            assert_eq!([1, 3].map(|worker| pull(&mut service, worker, round)), [Some(2.5); 2]);
        }
        assert!(service.memory_bytes() <= 4 * PART.size_bytes(), "two rounds of two workers");
        assert_eq!(service.counters().finished_rounds, 3);
    }

    #[test]
    fn hosts_are_added_in_their_order_and_averages_are_over_all_workers() {
        let tier = || Tier::Hosts { contributors: [2, 0, 3].into(), n_workers: 5 };
        let numbers = [(0, 1e8_f32), (2, 1.0), (3, -1e8)];
        let wanted = ((1.0 + 1e8) - 1e8_f32) / 5.0;
        for first in 0..3 {
            let mut service = service(5, tier());
            for turn in 0..3 {
                let (worker, number) = numbers[(first + turn) % 3];
                assert_eq!(push(&mut service, worker, 0, number), Ok(turn == 2));
            }
            assert_eq!(pull(&mut service, 3, 0).map(f32::to_bits), Some(wanted.to_bits()));
            assert_eq!(pull(&mut service, 1, 0), None, "who contributes through another one is not answered");
        }
    }
}
