//! From the bytes of the area to plain values. Trusts nothing: counts are capped, texts made harmless.

use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::FromBytes;

use super::layout::{
    Area, Comparison as ComparisonLayout, Group as GroupLayout, MAX_ROUNDS, MAX_SERVICES, MAX_STAGES,
    MAX_STALENESS, MAX_WAITS, MAX_WORKERS, Round as RoundLayout, Service as ServiceLayout,
    Stage as StageLayout, Traffic as TrafficLayout, Wait as WaitLayout, Worker as WorkerLayout,
};
use crate::segment::layout::Segment;
use crate::segment::read::{Source, read_one, text};

/// Times that the area is read anew because it was being written: a writer needs microseconds, ten times a second.
const MAX_TRIES: usize = 8;

/// What a segment says of the summation service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Summation {
    /// The process was in no group.
    #[default]
    None,
    /// It was being written at every try, or its writer died over it: what was read before still holds.
    Torn,
    /// The group.
    Group(Box<Group>),
}

/// The group that a process is in, or was in last. Times are `CLOCK_MONOTONIC` nanoseconds of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Group {
    pub generation: u32,
    pub state: u32,
    pub role: u32,
    pub index: u32,
    pub n_workers: u32,
    pub n_servers: u32,
    pub asynchronous: bool,
    pub lost_rank: Option<u32>,
    pub communicator: u64,
    pub group: u64,
    pub session: u64,
    pub membership_epoch: u64,
    pub placement_epoch: u64,
    pub staleness_bound: Option<u64>,
    pub n_tensors: u64,
    pub n_parts: u64,
    pub model_bytes: u64,
    pub partition_bytes: u64,
    pub joined_ns: u64,
    pub ended_ns: Option<u64>,
    pub sampled_ns: u64,
    pub credits_used_bytes: u64,
    pub credit_bytes: u64,
    pub credits_waited_ns: u64,
    pub finished_rounds: u64,
    pub refused: u64,
    pub summed_bytes: u64,
    pub summing_ns: u64,
    pub failure: String,
    pub services: Vec<Service>,
    pub workers: Vec<Worker>,
    pub stages: Vec<Stage>,
    pub waits: Vec<Wait>,
    pub staleness: Vec<u64>,
    /// `None`: nothing was compared.
    pub comparison: Option<Comparison>,
    /// Results written so far, of all groups of the process.
    pub next_ticket: u64,
    /// The last group that failed and that another one has followed, with its services and no other tables.
    pub failed_before: Option<Box<Group>>,
}

/// One service of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Service {
    pub rank: u32,
    pub host: String,
    pub optimal_share_ppm: u32,
    pub share_ppm: u32,
    pub owned_bytes: u64,
    pub predicted_sent_bytes: u64,
    pub predicted_received_bytes: u64,
    /// By class of key.
    pub traffic: Vec<Traffic>,
}

/// A worker's traffic with one service in one class of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Traffic {
    pub push_issued_bytes: u64,
    pub push_completed_bytes: u64,
    pub pull_issued_bytes: u64,
    pub pull_completed_bytes: u64,
    pub local_bytes: u64,
}

/// One worker of a group, as a service has heard it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Worker {
    pub host: String,
    pub contributions: u64,
    pub bytes: u64,
    pub last_arrivals: u64,
    pub late_ns: u64,
    pub last_arrival_ns: Option<u64>,
    pub unanswered: u64,
    pub unanswered_bytes: u64,
}

/// One stage of a worker's pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Stage {
    pub name: String,
    pub waiting_parts: u64,
    pub running_parts: u64,
    pub entered_parts: u64,
    pub left_parts: u64,
    pub waited_ns: u64,
    pub worked_ns: u64,
    pub longest_wait_ns: u64,
}

/// A round that is not over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Of which part.
    pub key: u32,
    /// Which of its rounds.
    pub round: u64,
    /// Whether it waits for contributions, or else for answers to be taken.
    pub for_push: bool,
    /// Name of the part's tensor.
    pub tensor: String,
    /// When its first contribution came.
    pub first_arrival_ns: u64,
    /// Numbers of the workers that it waits for.
    pub workers: Vec<u32>,
}

/// What comparisons of the parameters between all workers have come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Comparison {
    pub count: u64,
    pub every: u64,
    pub steps: u64,
    pub at_ns: u64,
    pub n_parameters: u64,
    pub n_different: u64,
    pub equal_steps: Option<u64>,
    /// The first in which some differed, since all were the same. `None`: all are.
    pub difference: Option<Difference>,
}

/// Parameters that are not the same on all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Difference {
    pub steps: u64,
    pub at_ns: u64,
    pub parameter: String,
    /// By worker.
    pub hashes: Vec<u64>,
}

/// A result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the layout")]
pub struct Round {
    /// Counts the results of the process from 0.
    pub ticket: u64,
    pub generation: u32,
    pub key: u32,
    pub round: u64,
    pub fingerprint: u64,
    /// Made here, or else pulled.
    pub made: bool,
    pub placement_epoch: u32,
    pub contributors: u32,
    pub last_arriver: u32,
    pub spread_ns: u64,
    pub took_ns: u64,
    pub at_ns: u64,
}

/// Results from some ticket on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Those that were whole, by ticket.
    pub rounds: Vec<Round>,
    /// Those that newer ones have overwritten, or that were being written.
    pub missing: u64,
}

/// Reads the group.
pub(in crate::segment) fn summation<S: Source>(source: &mut S) -> Result<Summation, S::Error> {
    for _ in 0..MAX_TRIES {
        let before = sequence(source)?;
        if before == 0 {
            return Ok(Summation::None);
        }
        if before % 2 == 1 {
            std::thread::yield_now();
            continue;
        }
        let found = group(source)?;
        if sequence(source)? == before {
            let is_there = found.generation > 0;
            return Ok(if is_there { Summation::Group(Box::new(found)) } else { Summation::None });
        }
    }
    Ok(Summation::Torn)
}

/// Reads the results with tickets in `from..to`, where `to` is at most [`Group::next_ticket`].
///
/// # Errors
/// The source's own.
pub fn rounds<S: Source>(source: &mut S, from: u64, to: u64) -> Result<Rounds, S::Error> {
    let oldest = to.saturating_sub(MAX_ROUNDS as u64);
    let mut found = Rounds { missing: oldest.saturating_sub(from), ..Rounds::default() };
    let mut ticket = from.max(oldest);
    while ticket < to {
        let index = usize::try_from(ticket % MAX_ROUNDS as u64).unwrap_or_default();
        let run = usize::try_from(to - ticket).unwrap_or(MAX_ROUNDS).min(MAX_ROUNDS - index);
        let wanted = ticket..;
        let read = table(source, offset_of!(Area, rounds) + index * size_of::<RoundLayout>(), run, round)?;
        for (round, wanted) in read.into_iter().zip(wanted) {
            match round.filter(|round| round.ticket == wanted) {
                Some(round) => found.rounds.push(round),
                None => found.missing += 1,
            }
        }
        ticket += run as u64;
    }
    Ok(found)
}

fn sequence<S: Source>(source: &mut S) -> Result<u64, S::Error> {
    let word: AtomicU64 = read_one(source, area(offset_of!(Area, sequence)))?;
    Ok(word.into_inner())
}

fn group<S: Source>(source: &mut S) -> Result<Group, S::Error> {
    let next_ticket: AtomicU64 = read_one(source, area(offset_of!(Area, next_ticket)))?;
    let raw: GroupLayout = read_one(source, area(offset_of!(Area, group)))?;
    let n_stages = count(&raw.n_stages, MAX_STAGES);
    let n_waits = count(&raw.n_waits, MAX_WAITS);
    let n_staleness = count(&raw.n_staleness, MAX_STALENESS);
    let n_workers = count(&raw.n_workers, MAX_WORKERS);
    Ok(Group {
        services: services(source, offset_of!(Area, services), &raw)?,
        workers: table(source, offset_of!(Area, workers), n_workers, worker)?,
        stages: table(source, offset_of!(Area, stages), n_stages, stage)?,
        waits: table(source, offset_of!(Area, waits), n_waits, wait)?,
        staleness: table(source, offset_of!(Area, staleness), n_staleness, AtomicU64::into_inner)?,
        comparison: comparison(read_one(source, area(offset_of!(Area, comparison)))?),
        next_ticket: next_ticket.into_inner(),
        failed_before: failed(source)?,
        ..head(raw)
    })
}

fn failed<S: Source>(source: &mut S) -> Result<Option<Box<Group>>, S::Error> {
    let raw: GroupLayout = read_one(source, area(offset_of!(Area, failed)))?;
    if raw.generation.load(Relaxed) == 0 {
        return Ok(None);
    }
    let services = services(source, offset_of!(Area, failed_services), &raw)?;
    Ok(Some(Box::new(Group { services, ..head(raw) })))
}

fn services<S: Source>(source: &mut S, at: usize, of: &GroupLayout) -> Result<Vec<Service>, S::Error> {
    table(source, at, count(&of.n_services, MAX_SERVICES), service)
}

fn count(n: &AtomicU32, max: usize) -> usize {
    (n.load(Relaxed) as usize).min(max)
}

/// A group without its tables.
fn head(raw: GroupLayout) -> Group {
    let (ended_ns, bound) = (raw.ended_ns.into_inner(), raw.staleness_bound.into_inner());
    Group {
        generation: raw.generation.into_inner(),
        state: raw.state.into_inner(),
        role: raw.role.into_inner(),
        index: raw.index.into_inner(),
        n_workers: raw.n_workers.into_inner(),
        n_servers: raw.n_servers.into_inner(),
        asynchronous: raw.asynchronous.into_inner() != 0,
        lost_rank: u32::try_from(raw.lost_rank.into_inner()).ok(),
        communicator: raw.communicator.into_inner(),
        group: raw.group.into_inner(),
        session: raw.session.into_inner(),
        membership_epoch: raw.membership_epoch.into_inner(),
        placement_epoch: raw.placement_epoch.into_inner(),
        staleness_bound: Some(bound).filter(|bound| *bound != u64::MAX),
        n_tensors: raw.n_tensors.into_inner(),
        n_parts: raw.n_parts.into_inner(),
        model_bytes: raw.model_bytes.into_inner(),
        partition_bytes: raw.partition_bytes.into_inner(),
        joined_ns: raw.joined_ns.into_inner(),
        ended_ns: Some(ended_ns).filter(|ns| *ns > 0),
        sampled_ns: raw.sampled_ns.into_inner(),
        credits_used_bytes: raw.credits_used_bytes.into_inner(),
        credit_bytes: raw.credit_bytes.into_inner(),
        credits_waited_ns: raw.credits_waited_ns.into_inner(),
        finished_rounds: raw.finished_rounds.into_inner(),
        refused: raw.refused.into_inner(),
        summed_bytes: raw.summed_bytes.into_inner(),
        summing_ns: raw.summing_ns.into_inner(),
        failure: words(raw.failure),
        ..Group::default()
    }
}

/// Offset in the segment of what is so far into the area.
fn area(offset: usize) -> usize {
    offset_of!(Segment, summation) + offset
}

/// So many entries of a table of the area, in one read.
fn table<S: Source, L: FromBytes, T>(
    source: &mut S,
    offset: usize,
    n: usize,
    take: impl Fn(L) -> T,
) -> Result<Vec<T>, S::Error> {
    let mut bytes = vec![0; n * size_of::<L>()];
    source.read_at(area(offset) as u64, &mut bytes)?;
    let entries = bytes.chunks_exact(size_of::<L>()).filter_map(|bytes| L::read_from_bytes(bytes).ok());
    Ok(entries.map(take).collect())
}

fn words<const N: usize>(words: [AtomicU64; N]) -> String {
    let bytes: Vec<u8> = words.into_iter().flat_map(|word| word.into_inner().to_le_bytes()).collect();
    text(&bytes)
}

fn service(raw: ServiceLayout) -> Service {
    Service {
        rank: raw.rank.into_inner(),
        host: words(raw.host),
        optimal_share_ppm: raw.optimal_share_ppm.into_inner(),
        share_ppm: raw.share_ppm.into_inner(),
        owned_bytes: raw.owned_bytes.into_inner(),
        predicted_sent_bytes: raw.predicted_sent_bytes.into_inner(),
        predicted_received_bytes: raw.predicted_received_bytes.into_inner(),
        traffic: raw.traffic.into_iter().map(traffic).collect(),
    }
}

fn traffic(raw: TrafficLayout) -> Traffic {
    Traffic {
        push_issued_bytes: raw.push_issued_bytes.into_inner(),
        push_completed_bytes: raw.push_completed_bytes.into_inner(),
        pull_issued_bytes: raw.pull_issued_bytes.into_inner(),
        pull_completed_bytes: raw.pull_completed_bytes.into_inner(),
        local_bytes: raw.local_bytes.into_inner(),
    }
}

fn worker(raw: WorkerLayout) -> Worker {
    Worker {
        host: words(raw.host),
        contributions: raw.contributions.into_inner(),
        bytes: raw.bytes.into_inner(),
        last_arrivals: raw.last_arrivals.into_inner(),
        late_ns: raw.late_ns.into_inner(),
        last_arrival_ns: Some(raw.last_arrival_ns.into_inner()).filter(|ns| *ns > 0),
        unanswered: raw.unanswered.into_inner(),
        unanswered_bytes: raw.unanswered_bytes.into_inner(),
    }
}

fn stage(raw: StageLayout) -> Stage {
    Stage {
        name: words(raw.name),
        waiting_parts: raw.waiting_parts.into_inner(),
        running_parts: raw.running_parts.into_inner(),
        entered_parts: raw.entered_parts.into_inner(),
        left_parts: raw.left_parts.into_inner(),
        waited_ns: raw.waited_ns.into_inner(),
        worked_ns: raw.worked_ns.into_inner(),
        longest_wait_ns: raw.longest_wait_ns.into_inner(),
    }
}

fn wait(raw: WaitLayout) -> Wait {
    let words_of_workers = raw.workers.map(AtomicU64::into_inner);
    let is_waited_for = |worker: &u32| words_of_workers[*worker as usize / 64] >> (worker % 64) & 1 == 1;
    Wait {
        key: raw.key.into_inner(),
        round: raw.round.into_inner(),
        for_push: raw.for_push.into_inner() != 0,
        tensor: words(raw.tensor),
        first_arrival_ns: raw.first_arrival_ns.into_inner(),
        workers: (0_u32..).take(MAX_WORKERS).filter(is_waited_for).collect(),
    }
}

fn comparison(raw: ComparisonLayout) -> Option<Comparison> {
    let (count, n_different) = (raw.count.into_inner(), raw.n_different.into_inner());
    let equal_steps = Some(raw.equal_steps.into_inner()).filter(|steps| *steps != u64::MAX);
    let n_hashes = usize::try_from(raw.n_hashes.into_inner()).unwrap_or(MAX_WORKERS);
    let difference = Difference {
        steps: raw.different_steps.into_inner(),
        at_ns: raw.different_at_ns.into_inner(),
        parameter: words(raw.parameter),
        hashes: raw.hashes.into_iter().take(n_hashes).map(AtomicU64::into_inner).collect(),
    };
    let comparison = Comparison {
        count,
        every: raw.every.into_inner(),
        steps: raw.steps.into_inner(),
        at_ns: raw.at_ns.into_inner(),
        n_parameters: raw.n_parameters.into_inner(),
        n_different,
        equal_steps,
        difference: Some(difference).filter(|_| n_different > 0),
    };
    Some(comparison).filter(|_| count > 0)
}

/// None: being written.
fn round(raw: RoundLayout) -> Option<Round> {
    let contributors = raw.contributors.into_inner();
    Some(Round {
        ticket: raw.ticket.into_inner().checked_sub(1)?,
        generation: raw.generation.into_inner(),
        key: raw.key.into_inner(),
        round: raw.round.into_inner(),
        fingerprint: raw.fingerprint.into_inner(),
        made: contributors & 1 == 1,
        placement_epoch: raw.placement_epoch.into_inner(),
        contributors: u32::from(contributors >> 1),
        last_arriver: raw.last_arriver.into_inner().into(),
        spread_ns: raw.spread_ns.into_inner(),
        took_ns: raw.took_ns.into_inner(),
        at_ns: raw.at_ns.into_inner(),
    })
}
