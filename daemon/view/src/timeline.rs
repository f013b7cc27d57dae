//! The operations of a job over time, all ranks side by side by one clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Timeline, TimelineCommunicator, TimelineOperations, TimelineRank};
use ringscope_model::{Communicator, Completed, HostClocks, Job, LastCall, Model, Name, Process};
use ringscope_wire::batch::Level;

use super::clocks::{RankClocks, clock_to_api};
use super::number;

mod lacks;
mod thinned;

use thinned::{Thinned, thin};

/// The operations of a job that ran between two times, `limit` at most. `None`: no such job.
#[must_use]
pub fn timeline(model: &Model, id: &str, from: Timestamp, to: Timestamp, limit: usize) -> Option<Timeline> {
    let (_, job) = model.job(id)?;
    let (hosts, mut ranks) = processes(model, job);
    // First roughly, to know of which time operations are told; then over that time, for clocks drift.
    let rough = model.clocks(hosts.iter(), (to, to));
    let mut found: Vec<Shown<'_>> =
        job.communicators(model).map(|known| Shown::find(model, known, &rough, (from, to))).collect();
    let told = found.iter().flat_map(|shown| &shown.operations).map(|(_, completed_ns)| *completed_ns);
    let first = told.clone().min().map_or(from, |at| Timestamp(at.max(from.0)));
    let last = told.max().map_or(to, |at| Timestamp(at.min(to.0)));
    let clocks = model.clocks(hosts.iter(), (first.min(last), last));
    let thinned = thin(model, &mut found, limit);
    let forgotten = found.iter().filter(|shown| shown.forgot_since(from)).count();
    found.retain(|shown| !shown.operations.is_empty());
    let mut draft = Draft { from, rows: Vec::new() };
    for (index, shown) in found.iter().enumerate() {
        draft.add(model, number(index), shown, &clocks, &mut ranks);
    }
    let (ranks, operations) = draft.finish(ranks);
    let communicators: Vec<TimelineCommunicator> =
        found.iter().map(|shown| shown.to_api(model, thinned)).collect();
    let lacks = lacks::Facts {
        told: found.iter().map(|shown| shown.told(model)).collect(),
        operations: &operations,
        n_ranks: ranks.len(),
        thinned,
        forgotten,
        clocks: &clocks,
    };
    Some(Timeline {
        lacks: lacks.in_words(),
        clocks: clocks.all().map(|(host, clock)| clock_to_api(host, clock)).collect(),
        from,
        to,
        communicators,
        ranks,
        operations,
    })
}

/// Processes by key, with their rank and whether it is shown.
type Ranks = BTreeMap<Name, (TimelineRank, bool)>;

/// The hosts of a job, and its processes: those that live are shown whatever they tell.
fn processes(model: &Model, job: &Job) -> (Vec<Name>, Ranks) {
    let (mut hosts, mut ranks) = (Vec::new(), Ranks::new());
    for process in job.processes(model) {
        let Some(identity) = process.identity() else { continue };
        hosts.push(Arc::clone(&identity.host));
        let rank = TimelineRank {
            rank: identity.global_rank.unwrap_or(u32::MAX),
            host: identity.host.to_string(),
            pid: identity.pid,
        };
        ranks.insert(Arc::clone(process.name()), (rank, process.is_living()));
    }
    hosts.sort_unstable();
    hosts.dedup();
    (hosts, ranks)
}

/// Which operations of a communicator are told one by one.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Those whose number is divisible by this.
    every: u64,
    /// Its ranks send and receive, which is counted only.
    lacks_pairs: bool,
}

/// What is shown of a communicator.
struct Shown<'m> {
    known: &'m Communicator,
    /// With when each completed, by our clock, roughly.
    operations: Vec<(&'m Completed, u64)>,
    /// When the oldest one completed that is kept, and how many were before it.
    oldest_ns: u64,
    n_forgotten: u64,
}

impl<'m> Shown<'m> {
    fn find(
        model: &'m Model,
        known: &'m Communicator,
        clocks: &HostClocks,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let ranks = RankClocks::of(model, known, clocks);
        let (completed, n_forgotten) = model.completed(known.id());
        let mut shown = Self { known, operations: Vec::new(), oldest_ns: u64::MAX, n_forgotten };
        for operation in completed {
            let ours = |at_ns| ranks.ours_ns(operation.rank, at_ns);
            let completed_ns = ours(operation.completed_at_ns);
            shown.oldest_ns = shown.oldest_ns.min(completed_ns);
            if completed_ns >= from.0 && ours(operation.issued_at_ns) <= to.0 {
                shown.operations.push((operation, completed_ns));
            }
        }
        shown
    }

    /// Whether operations that may have run since then made room for newer ones.
    fn forgot_since(&self, from: Timestamp) -> bool {
        self.n_forgotten > 0 && self.oldest_ns > from.0
    }

    /// The ranks of its processes in the job, where a launcher says them, by rank of the communicator.
    fn ranks_in_job(&self, model: &Model) -> Vec<u32> {
        let mut ranks: Vec<u32> = Vec::new();
        for rank in self.known.ranks(model) {
            let place = rank.rank as usize;
            ranks.extend(number(ranks.len())..=rank.rank);
            ranks[place] = rank.identity.global_rank.unwrap_or(rank.rank);
        }
        ranks
    }

    /// Which of its operations are told one by one.
    fn told(&self, model: &Model) -> Told {
        let mut told = Told { every: 1, lacks_pairs: false };
        for rank in self.known.ranks(model) {
            let log2 = rank.local.sequence().map_or(0, |sequence| sequence.sampled_log2);
            told.every = told.every.max(1_u64.checked_shl(log2).unwrap_or(u64::MAX));
            let tells_all = matches!(rank.process.collector().level, Level::Channels | Level::Steps);
            told.lacks_pairs |= !tells_all && !rank.local.pairs().is_empty();
        }
        told
    }

    fn to_api(&self, model: &Model, thinned: Option<Thinned>) -> TimelineCommunicator {
        let told = self.told(model);
        // Between two that are shown may be others that are not: sends and receives too.
        let at_least = if told.lacks_pairs { 2 } else { 1 };
        let thinned = thinned.map_or(1, Thinned::every);
        TimelineCommunicator {
            id: self.known.id().to_string(),
            name: self.known.name(model).map(ToString::to_string),
            n_ranks: self.known.n_ranks(),
            every: told.every.max(thinned).max(at_least),
        }
    }
}

/// A timeline on its way.
struct Draft<'m> {
    from: Timestamp,
    rows: Vec<Row<'m>>,
}

struct Row<'m> {
    process: &'m Process,
    communicator: u32,
    operation: &'m Completed,
    called_us: i64,
    started_us: Option<i64>,
    completed_us: i64,
    last_called_us: Option<i64>,
}

impl<'m> Draft<'m> {
    fn add(
        &mut self,
        model: &'m Model,
        index: u32,
        shown: &Shown<'m>,
        clocks: &HostClocks,
        ranks: &mut Ranks,
    ) {
        let by_rank = RankClocks::of(model, shown.known, clocks);
        let last_calls: HashMap<u64, LastCall> = model.last_calls(shown.known, clocks);
        let mut processes: Vec<Option<&'m Process>> = vec![None; by_rank.n_ranks()];
        for rank in shown.known.ranks(model) {
            if let Some(place) = processes.get_mut(rank.rank as usize) {
                *place = Some(rank.process);
            }
        }
        for (operation, _) in &shown.operations {
            let Some(process) = processes.get(operation.rank as usize).copied().flatten() else { continue };
            let us = |at_ns| self.us(by_rank.ours_ns(operation.rank, at_ns));
            let last = operation.call_number.and_then(|number| last_calls.get(&number));
            self.rows.push(Row {
                process,
                communicator: index,
                operation,
                called_us: us(operation.issued_at_ns),
                started_us: operation.started_at_ns.map(us),
                completed_us: us(operation.completed_at_ns),
                last_called_us: last.map(|last| self.us(last.called_ns)),
            });
            if let Some((_, is_shown)) = ranks.get_mut(process.name()) {
                *is_shown = true;
            }
        }
    }

    fn us(&self, at_ns: u64) -> i64 {
        let since = i128::from(at_ns) - i128::from(self.from.0);
        i64::try_from(since.div_euclid(1_000)).unwrap_or(i64::MAX)
    }

    fn finish(mut self, ranks: Ranks) -> (Vec<TimelineRank>, TimelineOperations) {
        let mut shown: Vec<(Name, TimelineRank)> = ranks
            .into_iter()
            .filter(|(_, (_, is_shown))| *is_shown)
            .map(|(key, (rank, _))| (key, rank))
            .collect();
        shown.sort_by(|(_, one), (_, other)| {
            (one.rank, &one.host, one.pid).cmp(&(other.rank, &other.host, other.pid))
        });
        let places: HashMap<Name, u32> =
            shown.iter().enumerate().map(|(place, (key, _))| (Arc::clone(key), number(place))).collect();
        self.rows.sort_by_key(|row| (row.called_us, row.communicator, row.operation.rank));
        let mut columns = TimelineOperations::default();
        for row in &self.rows {
            let Some(place) = places.get(row.process.name()) else { continue };
            columns.rank.push(*place);
            columns.communicator.push(row.communicator);
            columns.call_number.push(row.operation.call_number);
            columns.primitive.push(row.operation.primitive.label().to_owned());
            columns.bytes.push(row.operation.bytes);
            columns.called_us.push(row.called_us);
            columns.started_us.push(row.started_us);
            columns.completed_us.push(row.completed_us);
            columns.last_called_us.push(row.last_called_us);
        }
        let of_launcher = |(place, (_, rank)): (usize, (Name, TimelineRank))| TimelineRank {
            rank: if rank.rank == u32::MAX { number(place) } else { rank.rank },
            ..rank
        };
        (shown.into_iter().enumerate().map(of_launcher).collect(), columns)
    }
}
