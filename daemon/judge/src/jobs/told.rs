//! What the judge of hangs said of one job, as findings and questions.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ringscope_api::words::capital;
use ringscope_model::Name;

use super::scene::Taken;
use crate::hangs::{self, Question, Verdict};
use crate::judgement::{Blame, Judgement};
use crate::past::Past;

/// What somebody would like to know of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The process's key.
    pub process: Name,
    /// What.
    pub what: Want,
}

/// What somebody would like to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// Its stacks, and what it is blocked in.
    Look,
    /// The same, and for how much of a second it is stopped.
    Watch,
    /// The calls with these numbers of its part of a communicator.
    Recall {
        /// The part.
        local_id: u64,
        /// First number.
        first: u64,
        /// Last number.
        last: u64,
    },
    /// The sends and receives of its part of a communicator.
    Pairs {
        /// The part.
        local_id: u64,
    },
}

/// The conditions that hold, as the ledger takes them.
pub(super) fn judgements(verdict: &Verdict, taken: &Taken<'_>) -> Vec<Judgement> {
    verdict.judgements.iter().map(|judgement| finding(judgement, taken)).collect()
}

/// Those who wait because of each judgement: what they say no more has not ended.
pub(super) fn witnesses(verdict: &Verdict, taken: &Taken<'_>) -> Vec<HashSet<Name>> {
    let name =
        |process: &u32| taken.processes.get(*process as usize).map(|process| Arc::clone(process.name()));
    verdict.judgements.iter().map(|judgement| judgement.victims.iter().filter_map(name).collect()).collect()
}

fn finding(judgement: &hangs::Judgement, taken: &Taken<'_>) -> Judgement {
    let host_of = |process: u32| {
        let process = taken.scene.processes.get(process as usize)?;
        taken.scene.hosts.get(process.host as usize).map(|host| host.name)
    };
    let communicator = judgement.communicator.and_then(|at| taken.scene.communicators.get(at as usize));
    let own = judgement.host.and_then(|at| taken.scene.hosts.get(at as usize)).map(|host| host.name);
    let lowest =
        communicator.and_then(|known| known.members.first()).and_then(|member| host_of(member.process));
    let host = own.or(lowest).unwrap_or_default();
    let to_blame: BTreeSet<&str> = judgement.culprits.iter().filter_map(|at| host_of(*at)).collect();
    let others = to_blame.len() > 1 || to_blame.iter().any(|culprit| *culprit != host);
    Judgement {
        kind: judgement.kind,
        severity: judgement.severity,
        host: host.into(),
        rank: judgement.rank,
        channel: None,
        nic: judgement.nic.as_deref().map(Into::into),
        cause: judgement.cause,
        culprits: to_blame.into_iter().filter(|_| others).take(HOSTS_NAMED).map(str::to_owned).collect(),
        message: sentence(&judgement.message),
        evidence: judgement.evidence.clone(),
        blame: Blame {
            comm: judgement
                .communicator
                .and_then(|at| taken.communicators.get(at as usize))
                .map(|known| known.id()),
            key: judgement.key.clone(),
            accused: judgement.accused.clone(),
            n_victims: u32::try_from(judgement.victims.len()).unwrap_or(u32::MAX),
            cost: None,
            advice: judgement.advice.clone(),
            details: judgement.details.clone(),
            began_at: judgement.began_at,
            imported: false,
            follows_from: judgement.follows_from.map(|at| at as usize),
        },
    }
    .of_past(past(judgement, taken))
}

/// Whether what it is about is known from files alone.
fn past(judgement: &hangs::Judgement, taken: &Taken<'_>) -> Option<Past> {
    let communicator = judgement.communicator.and_then(|at| taken.scene.communicators.get(at as usize));
    let all = || taken.processes.iter().copied();
    match communicator {
        Some(known) => {
            let members = known.members.iter().map(|member| member.process as usize);
            Past::of(members.filter_map(|process| taken.processes.get(process).copied()))
        }
        None => Past::of(all()),
    }
}

/// What is to be asked.
pub(super) fn wanted(verdict: &Verdict, taken: &Taken<'_>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for ask in &verdict.asks {
        let Some(process) = taken.processes.get(ask.process as usize) else { continue };
        let part_of = |communicator: u32| {
            let comm = taken.communicators.get(communicator as usize)?.id();
            process
                .locals()
                .find(|(_, local)| local.communicator() == Some(comm))
                .map(|(local_id, _)| local_id)
        };
        let what = match ask.what {
            Question::Look => Some(Want::Look),
            Question::Recall { communicator, first, last } => {
                part_of(communicator).map(|local_id| Want::Recall { local_id, first, last })
            }
            Question::Pairs { communicator } => {
                part_of(communicator).map(|local_id| Want::Pairs { local_id })
            }
        };
        wanted.extend(what.map(|what| Wanted { process: Arc::clone(process.name()), what }));
    }
    wanted
}

/// The judge's words as a sentence. A name stays as it is written.
fn sentence(words: &str) -> String {
    let begins_with_a_name =
        !["rank ", "ranks ", "global rank ", "summation server ", "one of ", "all ", "nothing ", "no file "]
            .iter()
            .any(|word| words.starts_with(word));
    if begins_with_a_name { words.to_owned() } else { capital(words) }
}

/// Hosts that are named as to blame; the finding counts processes.
const HOSTS_NAMED: usize = 16;
