//! Who was lost, by the word of the others or by what became of its process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringscope_api::SummationGroupState;
use ringscope_api::clock::Timestamp;

use super::super::limits::STALE_AFTER;
use super::super::{Model, Process, ProcessState};
use super::Group;
use super::member::{Place, is_end};

/// A member that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Who.
    pub place: Place,
    /// Its rank in the group.
    pub rank: u32,
    /// Why, as the engine words it, or what became of its process.
    pub why: String,
    /// When that was first told.
    pub since: Timestamp,
}

/// What members say of one that was lost.
#[derive(Default)]
struct Votes<'a> {
    n: usize,
    why: &'a str,
    since: Option<Timestamp>,
}

impl Group {
    /// The member whose loss ended it: whom most of the others name, else one whose process was killed while others went on,
    /// in this group or without it in a later one.
    #[must_use]
    pub fn lost(&self, model: &Model, now: Timestamp) -> Option<Lost> {
        self.lost_by_word().or_else(|| self.lost_by_process(model, now))
    }

    /// Whether the session goes on: a later group of it runs.
    #[must_use]
    pub fn has_successor(&self, model: &Model, now: Timestamp) -> bool {
        self.later(model).any(|other| other.state(model, now) == SummationGroupState::Running)
    }

    /// When the job was started again after it: another session of the job began so, of the same ranks in processes that began
    /// after those of this one had ended, and in which a round has got its result. Who goes by the same name beside it, as
    /// another run or a child that has inherited the variables, is none.
    #[must_use]
    pub fn restarted(&self, model: &Model, now: Timestamp) -> Option<Timestamp> {
        let job = self.job(model);
        let is_other = |other: &&Self| other.session != self.session && other.job(model) == job;
        let sums = |other: &&Self| other.members().any(|(_, member)| member.told.finished_rounds > 0);
        let mut others = model.summations().filter(is_other).filter(sums).peekable();
        others.peek()?;
        let ended: BTreeMap<u32, Timestamp> = self
            .ranks(model)
            .filter_map(|(rank, process)| Some((rank, gone(process, model, now)?)))
            .collect();
        let is_after = |(rank, process): (u32, &Process)| {
            let began = process.identity().map(|identity| model.ours(process, identity.started));
            began.zip(ended.get(&rank)).is_some_and(|(began, ended)| ended.since(began) < SEEN_TO_END_WITHIN)
        };
        others.filter(|other| other.ranks(model).any(is_after)).map(Self::started).min()
    }

    /// The processes of workers, by their ranks in the job.
    fn ranks<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = (u32, &'a Process)> {
        let processes = self.workers().filter_map(|(_, member)| model.processes.get(&member.process));
        processes.filter_map(|process| Some((process.identity()?.global_rank?, process)))
    }

    /// Later groups of the session.
    fn later<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = &'a Self> {
        let epoch = self.facts().map_or(0, |facts| facts.membership_epoch);
        model.summations().filter(move |other| {
            other.session == self.session && other.facts().is_some_and(|facts| facts.membership_epoch > epoch)
        })
    }

    fn lost_by_word(&self) -> Option<Lost> {
        let mut votes: BTreeMap<u32, Votes<'_>> = BTreeMap::new();
        let (n_workers, n_servers) = self.size();
        for member in self.members.values() {
            let told = &member.told;
            let services = told.services.iter().zip(0_u32..).filter(|(service, _)| service.lost);
            let services = services.map(|(_, index)| match index.checked_sub(n_servers) {
                Some(worker) => worker,
                None => n_workers.saturating_add(index),
            });
            let contributors = told.contributors.iter().filter(|told| told.lost).map(|told| told.worker);
            let named: BTreeSet<u32> =
                told.lost_rank.into_iter().chain(services).chain(contributors).collect();
            for rank in named {
                let votes = votes.entry(rank).or_default();
                votes.n += 1;
                votes.why = if votes.why.is_empty() { &told.failure } else { votes.why };
                let since = member.ended.unwrap_or(member.at);
                votes.since = Some(votes.since.map_or(since, |first| first.min(since)));
            }
        }
        let most = votes.into_iter().filter_map(|(rank, votes)| Some((rank, self.place(rank)?, votes)));
        let (rank, place, votes) = most.max_by_key(|(rank, _, votes)| (votes.n, Reverse(*rank)))?;
        let why = if votes.why.is_empty() { "its connection broke".to_owned() } else { in_words(votes.why) };
        Some(Lost { place, rank, why, since: votes.since.unwrap_or_default() })
    }

    fn lost_by_process(&self, model: &Model, now: Timestamp) -> Option<Lost> {
        if self.live(model).next().is_none() && self.later(model).next().is_none() {
            return None;
        }
        let in_use = self.members().filter(|(_, member)| !is_end(member.told.state()));
        let killed = in_use.filter_map(|(place, member)| {
            let process = model.processes.get(&member.process)?;
            (process.state == ProcessState::Killed).then_some((process.ended?, place))
        });
        let (since, place) = killed.min()?;
        (now.since(since) >= KILLED_SETTLES).then(|| Lost {
            place,
            rank: self.rank(place),
            why: "its process was killed".to_owned(),
            since,
        })
    }
}

/// When a process was gone: when it was seen to have ended, or heard of last where nothing is heard of it any more.
fn gone(process: &Process, model: &Model, now: Timestamp) -> Option<Timestamp> {
    let is_silent = model.is_silent(process, now, STALE_AFTER);
    process.ended.or_else(|| is_silent.then(|| model.last_heard(process)))
}

/// An engine's error without the handle in front of it, which is an address: "summation on comm 0x7f0c: rank 2 closed …".
fn in_words(why: &str) -> String {
    let parts = why.split(": ").filter(|part| !part.split_whitespace().any(|word| word.starts_with("0x")));
    let words = parts.collect::<Vec<_>>().join(": ");
    if words.is_empty() { "its connection broke".to_owned() } else { words }
}

/// A job that is killed as a whole ends process by process, on hosts that tell of it one after the other. The others of the
/// group name who was lost sooner than this.
const KILLED_SETTLES: Duration = Duration::from_secs(3);
/// An end is seen at the next reading, and clocks of hosts lie apart: who takes a place may seem to have begun so long before.
const SEEN_TO_END_WITHIN: Duration = Duration::from_secs(5);
