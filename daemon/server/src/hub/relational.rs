//! Rows for those who read the database with SQL. Derived: the daemon itself never reads them back.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_model::summation::{Group, GroupId};
use ringscope_model::{Communicator, CommunicatorId, Model, Name};
use ringscope_store::{CommunicatorRow, HostRow, JobRow, SummationGroupRow, WriteSet};
use ringscope_view as view;

use super::State;

impl State {
    /// Every second, the communicators whose facts changed, and their jobs and hosts; every minute, all that are active.
    pub(super) fn refresh_rows(&mut self, now: Timestamp) {
        if now >= self.next_refresh {
            self.mark_all_rows(now);
        }
        let (stale, early): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.stale_rows).into_iter().partition(|id| self.has_turn(*id, now));
        self.stale_rows = early;
        stale.iter().for_each(|id| self.rank_rows.has_turn(*id, now));
        self.stale_jobs.extend(
            stale.iter().filter_map(|id| self.model.communicator(*id)).map(|known| known.job().clone()),
        );
        self.unsaved.communicators(stale);
        // A clock that was set back keeps nothing waiting.
        let is_early =
            now >= self.jobs_told_at && now.since(self.jobs_told_at) < pause(self.model.n_processes());
        if !self.stale_jobs.is_empty() && !is_early {
            self.jobs_told_at = now;
            self.unsaved.jobs(std::mem::take(&mut self.stale_jobs));
        }
    }

    /// The same, whoever has a turn: there will be no other.
    pub(super) fn refresh_rows_at_once(&mut self) {
        let stale = std::mem::take(&mut self.stale_rows);
        let known = stale.iter().filter_map(|id| self.model.communicator(*id));
        self.stale_jobs.extend(known.map(|known| known.job().clone()));
        self.unsaved.communicators(stale);
        self.unsaved.jobs(std::mem::take(&mut self.stale_jobs));
    }

    /// Whether the rows of a communicator are looked at by now. A large one that is being made changes with each of its hosts,
    /// and looking at all of its ranks each time would cost the more the more there are.
    fn has_turn(&self, id: CommunicatorId, now: Timestamp) -> bool {
        let Some(turn) = self.rank_rows.turn(id) else { return true };
        let n_ranks = self.model.communicator(id).map_or(0, Communicator::n_ranks_seen);
        // A clock that was set back keeps nothing waiting.
        n_ranks < SMALL || now < turn || now.since(turn) >= PAUSE_A_RANK.saturating_mul(n_ranks)
    }

    pub(super) fn mark_all_rows(&mut self, now: Timestamp) {
        self.rank_rows.keep_known(&self.model);
        self.next_refresh = Timestamp(now.0.saturating_add(REFRESH_NS));
        let is_live = |known: &&Communicator| known.state(&self.model).0 != api::CommunicatorState::Ended;
        self.stale_rows.extend(self.model.communicators().filter(is_live).map(Communicator::id));
        self.unsaved.summations.extend(self.model.summations().map(Group::id));
    }
}

/// A communicator, without its ranks.
pub(super) fn of_communicator(state: &State, known: &Communicator, now: Timestamp) -> CommunicatorRow {
    let State { model, diagnosis, .. } = state;
    let channels = diagnosis.judged_channels(known, model);
    let (mut hosts, mut n_nodes) = (BTreeSet::new(), None);
    for rank in known.ranks(model) {
        hosts.insert(&rank.identity.host);
        n_nodes = n_nodes.max(rank.facts.n_nodes);
    }
    let (standing, ended) = known.state(model);
    CommunicatorRow {
        id: known.id_str().to_owned(),
        job: known.job().to_string(),
        comm_hash: format!("{:#x}", known.comm_hash()),
        name: known.name(model).map(ToString::to_string),
        state: word(&standing),
        n_ranks: i64::from(known.n_ranks()),
        n_nodes: n_nodes.map_or_else(|| i64::try_from(hosts.len()).unwrap_or(i64::MAX), i64::from),
        base_channels: channels.base.map(i64::from),
        final_channels: channels.final_channels.map(i64::from),
        created_ns: ns(known.created(model)),
        ended_ns: ended.map(ns),
        updated_ns: ns(now),
    }
}

/// Jobs and their hosts, each once.
pub(super) fn of_jobs_and_hosts(state: &State, jobs: &BTreeSet<Name>, now: Timestamp, set: &mut WriteSet) {
    if jobs.is_empty() {
        return;
    }
    let State { model, diagnosis, .. } = state;
    let known = jobs.iter().filter_map(|job| model.job(job));
    let processes = known.flat_map(|(_, job)| job.processes(model));
    let hosts: BTreeSet<&str> =
        processes.filter_map(|process| process.identity()).map(|identity| &*identity.host).collect();
    let updated_ns = ns(now);
    let all = view::jobs(model, diagnosis, now).into_iter().filter(|job| jobs.contains(&*job.id));
    set.jobs.extend(all.map(|job| job_row(job, updated_ns)));
    let known = view::hosts(model, diagnosis, now, |host, _| hosts.contains(host));
    set.hosts.extend(known.iter().map(|host| host_row(host, updated_ns)));
}

/// Summation groups, as far as they are known.
pub(super) fn of_groups(state: &State, groups: &[GroupId], now: Timestamp) -> Vec<SummationGroupRow> {
    let known = groups.iter().filter_map(|id| state.model.summation(*id));
    known.filter_map(|group| group_row(&state.model, group, now)).collect()
}

fn group_row(model: &Model, group: &Group, now: Timestamp) -> Option<SummationGroupRow> {
    let facts = group.facts()?;
    Some(SummationGroupRow {
        id: group.id().to_string(),
        job: group.job(model).to_owned(),
        session: format!("{:016x}", group.session()),
        membership_epoch: facts.membership_epoch.cast_signed(),
        state: word(&group.state(model, now)),
        n_workers: i64::from(facts.n_workers),
        n_servers: i64::from(facts.n_servers),
        asynchronous: i64::from(facts.asynchronous),
        model_bytes: facts.model_bytes.cast_signed(),
        started_ns: ns(group.started()),
        ended_ns: group.ended(model).map(ns),
        updated_ns: ns(now),
    })
}

fn job_row(job: api::Job, updated_ns: i64) -> JobRow {
    JobRow {
        state: word(&job.state),
        id: job.id,
        world_size: job.world_size.map(i64::from),
        n_processes: i64::from(job.n_processes),
        first_seen_ns: ns(job.first_seen),
        last_seen_ns: ns(job.last_seen),
        updated_ns,
    }
}

fn host_row(host: &api::HostSummary, updated_ns: i64) -> HostRow {
    HostRow {
        host: host.host.clone(),
        degraded: i64::from(host.degraded),
        n_processes: i64::from(host.n_processes),
        last_seen_ns: ns(host.last_seen),
        updated_ns,
    }
}

const fn ns(time: Timestamp) -> i64 {
    time.0.cast_signed()
}

/// The word that the REST API has for it.
fn word(state: &impl serde::Serialize) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Time between two writings of the rows of jobs and hosts, with so many processes: they are made from all of a job, so that
/// of a large one they take a small part of the time.
fn pause(n_processes: usize) -> Duration {
    Duration::from_micros(300).saturating_mul(u32::try_from(n_processes).unwrap_or(u32::MAX))
}

/// Ranks of a communicator whose rows are looked at whenever one has changed.
const SMALL: u32 = 1_000;
/// Time between two looks at the rows of a larger one, for each of its ranks.
const PAUSE_A_RANK: Duration = Duration::from_millis(1);
/// How often rows of unchanged communicators are written again, so that retention sees that they live.
const REFRESH_NS: u64 = 60_000_000_000;
