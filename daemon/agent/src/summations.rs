//! The summation groups of one process: the one that it is in, and the one before, whose end may not have been said.

use std::collections::BTreeMap;

use ringscope_wire::batch::{
    SummationComparison, SummationContributor, SummationDifference, SummationKeyClass, SummationMember,
    SummationRole, SummationRound, SummationService, SummationStage, SummationState, SummationTraffic,
    SummationWait,
};
use ringscope_wire::segment::clock::Clock;
use ringscope_wire::segment::read::Source;
use ringscope_wire::segment::summation::layout::MAX_ROUNDS;
use ringscope_wire::segment::summation::read::{
    Comparison, Group, Round, Service, Summation, Traffic, rounds,
};

use super::tell::known_enum;

/// Results of one group in one batch; the format promises no more.
const MAX_RESULTS: usize = 1024;
/// Workers that one waiting round names; the format promises no more.
const MAX_NAMED: usize = 64;
/// Groups of one process that are kept: the one that it is in, the one before, and the last one that failed.
const MAX_GROUPS: usize = 3;

/// What has been read of a process's groups.
#[derive(Debug, Default)]
pub(super) struct Summations {
    /// By generation, without results.
    members: BTreeMap<u32, SummationMember>,
    /// Results below this ticket have been read; `None` before the first reading.
    cursor: Option<u64>,
    /// Results that have not been handed over.
    fresh: Vec<Round>,
    /// Generation of the last group that was read as one that failed and was followed by another; 0: none.
    failed: u32,
}

impl Summations {
    /// Reads what is new. What was being written stays as it was read last.
    pub(super) fn update<S: Source>(
        &mut self,
        source: &mut S,
        read: &Summation,
        clock: Clock,
    ) -> Result<(), S::Error> {
        let Summation::Group(group) = read else { return Ok(()) };
        let oldest = group.next_ticket.saturating_sub(MAX_ROUNDS as u64);
        let is_first = self.cursor.is_none();
        let found = rounds(source, self.cursor.unwrap_or(oldest).min(group.next_ticket), group.next_ticket)?;
        self.cursor = Some(group.next_ticket);
        let dropped = self.members.get(&group.generation).map_or(0, |member| member.rounds_dropped);
        // Of what came before the first reading nobody knows how much there was.
        let missing = if is_first { 0 } else { found.missing };
        self.fresh = found.rounds;
        self.note_failed(group, clock);
        self.end_earlier(group, clock);
        let member = SummationMember { rounds_dropped: dropped + missing, ..member(group, clock) };
        self.members.insert(group.generation, member);
        while self.members.len() > MAX_GROUPS {
            self.members.pop_first();
        }
        Ok(())
    }

    /// All that is known. Results that were handed over `before` and not sent go first.
    pub(super) fn tell(&mut self, before: Vec<SummationMember>, clock: Clock) -> Vec<SummationMember> {
        let mut unsent: BTreeMap<u64, Vec<SummationRound>> =
            before.into_iter().map(|member| (member.local_id, member.rounds)).collect();
        for fresh in std::mem::take(&mut self.fresh) {
            unsent.entry(fresh.generation.into()).or_default().push(result(&fresh, clock));
        }
        let mut told = Vec::with_capacity(self.members.len());
        for member in self.members.values_mut() {
            let mut rounds = unsent.remove(&member.local_id).unwrap_or_default();
            member.rounds_dropped += rounds.len().saturating_sub(MAX_RESULTS) as u64;
            rounds.truncate(MAX_RESULTS);
            told.push(SummationMember { rounds, ..member.clone() });
        }
        told
    }

    /// A group may have failed, and the next one have begun, since the last reading.
    fn note_failed(&mut self, group: &Group, clock: Clock) {
        let Some(failed) = group.failed_before.as_ref().filter(|one| one.generation > self.failed) else {
            return;
        };
        self.failed = failed.generation;
        // Whoever read how it ended knows more than what is kept of it.
        let known = self.members.get(&failed.generation);
        if known.is_none_or(|known| known.ended_at_ns.is_none()) {
            let dropped = known.map_or(0, |known| known.rounds_dropped);
            let member = SummationMember { rounds_dropped: dropped, ..member(failed, clock) };
            self.members.insert(failed.generation, member);
        }
    }

    /// A group that another one follows is over, also if that was not read.
    fn end_earlier(&mut self, group: &Group, clock: Clock) {
        for (_, earlier) in self.members.range_mut(..group.generation) {
            if earlier.ended_at_ns.is_none() {
                earlier.state = SummationState::Suspended.into();
                earlier.ended_at_ns = Some(clock.wall_of_monotonic_ns(group.joined_ns));
            }
        }
    }
}

fn member(group: &Group, clock: Clock) -> SummationMember {
    let wall_ns = |monotonic_ns| clock.wall_of_monotonic_ns(monotonic_ns);
    SummationMember {
        local_id: group.generation.into(),
        group: group.group,
        session: group.session,
        membership_epoch: group.membership_epoch,
        placement_epoch: group.placement_epoch,
        role: known_enum::<SummationRole>(group.role),
        index: group.index,
        n_workers: group.n_workers,
        n_servers: group.n_servers,
        state: known_enum::<SummationState>(group.state),
        failure: group.failure.clone(),
        lost_rank: group.lost_rank,
        joined_at_ns: wall_ns(group.joined_ns),
        ended_at_ns: group.ended_ns.map(wall_ns),
        asynchronous: group.asynchronous,
        staleness_bound: group.staleness_bound,
        n_tensors: group.n_tensors,
        n_parts: group.n_parts,
        model_bytes: group.model_bytes,
        partition_bytes: group.partition_bytes,
        services: group.services.iter().map(|one| service(one, group.lost_rank)).collect(),
        contributors: contributors(group, clock),
        stages: stages(group),
        credits_used_bytes: group.credits_used_bytes,
        credit_bytes: group.credit_bytes,
        credits_waited_ns: group.credits_waited_ns,
        finished_rounds: group.finished_rounds,
        summed_bytes: group.summed_bytes,
        summing_ns: group.summing_ns,
        refused: group.refused,
        waits: waits(group),
        staleness: group.staleness.clone(),
        rounds: Vec::new(),
        rounds_dropped: 0,
        communicator_local_id: group.communicator,
        comparison: group.comparison.as_ref().map(|one| comparison(one, clock)),
    }
}

fn service(service: &Service, lost_rank: Option<u32>) -> SummationService {
    let traffic = service.traffic.iter().zip(1..).filter(|(traffic, _)| **traffic != Traffic::default());
    let traffic = traffic.map(|(traffic, class)| SummationTraffic {
        key_class: known_enum::<SummationKeyClass>(class),
        push_issued_bytes: traffic.push_issued_bytes,
        push_completed_bytes: traffic.push_completed_bytes,
        pull_issued_bytes: traffic.pull_issued_bytes,
        pull_completed_bytes: traffic.pull_completed_bytes,
        local_bytes: traffic.local_bytes,
    });
    SummationService {
        rank: service.rank,
        host: service.host.clone(),
        optimal_share_ppm: service.optimal_share_ppm,
        share_ppm: service.share_ppm,
        owned_bytes: service.owned_bytes,
        predicted_sent_bytes: service.predicted_sent_bytes,
        predicted_received_bytes: service.predicted_received_bytes,
        traffic: traffic.collect(),
        lost: lost_rank == Some(service.rank),
    }
}

/// Workers have the lowest ranks, in their order.
fn contributors(group: &Group, clock: Clock) -> Vec<SummationContributor> {
    let contributor =
        |(worker, one): (u32, &ringscope_wire::segment::summation::read::Worker)| SummationContributor {
            worker,
            host: one.host.clone(),
            contributions: one.contributions,
            bytes: one.bytes,
            last_arrivals: one.last_arrivals,
            late_ns: one.late_ns,
            last_arrival_at_ns: one.last_arrival_ns.map(|ns| clock.wall_of_monotonic_ns(ns)),
            unanswered: one.unanswered,
            unanswered_bytes: one.unanswered_bytes,
            lost: group.lost_rank == Some(worker),
        };
    (0..).zip(&group.workers).map(contributor).collect()
}

fn stages(group: &Group) -> Vec<SummationStage> {
    let stage = |stage: &ringscope_wire::segment::summation::read::Stage| SummationStage {
        stage: stage.name.clone(),
        waiting_parts: stage.waiting_parts,
        running_parts: stage.running_parts,
        entered_parts: stage.entered_parts,
        left_parts: stage.left_parts,
        waited_ns: stage.waited_ns,
        worked_ns: stage.worked_ns,
        longest_wait_ns: stage.longest_wait_ns,
    };
    group.stages.iter().map(stage).collect()
}

/// As old as they were when the engine told of them: a process that has died must not look as if it still waited.
fn waits(group: &Group) -> Vec<SummationWait> {
    let wait = |wait: &ringscope_wire::segment::summation::read::Wait| SummationWait {
        key: wait.key,
        round: wait.round,
        tensor: wait.tensor.clone(),
        for_push: wait.for_push,
        workers: wait.workers.iter().copied().take(MAX_NAMED).collect(),
        age_ns: group.sampled_ns.saturating_sub(wait.first_arrival_ns),
    };
    group.waits.iter().map(wait).collect()
}

fn comparison(comparison: &Comparison, clock: Clock) -> SummationComparison {
    SummationComparison {
        count: comparison.count,
        every: comparison.every,
        steps: comparison.steps,
        at_ns: clock.wall_of_monotonic_ns(comparison.at_ns),
        n_parameters: comparison.n_parameters,
        n_different: comparison.n_different,
        equal_steps: comparison.equal_steps,
        difference: comparison.difference.as_ref().map(|difference| SummationDifference {
            steps: difference.steps,
            at_ns: clock.wall_of_monotonic_ns(difference.at_ns),
            parameter: difference.parameter.clone(),
            hashes: difference.hashes.clone(),
        }),
    }
}

fn result(round: &Round, clock: Clock) -> SummationRound {
    SummationRound {
        key: round.key,
        round: round.round,
        fingerprint: round.fingerprint,
        made: round.made,
        contributors: round.contributors,
        last_arriver: round.last_arriver,
        spread_ns: round.spread_ns,
        took_ns: round.took_ns,
        at_ns: clock.wall_of_monotonic_ns(round.at_ns),
        placement_epoch: Some(round.placement_epoch),
    }
}

#[cfg(test)]
mod tests;
