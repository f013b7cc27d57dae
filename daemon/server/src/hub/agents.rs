//! Which batches of which agents were taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_model::limits::MAX_AGENTS;
use ringscope_store::AgentRow;
use ringscope_wire::batch::{Batch, ProcessState, Wish, job_of};

/// Agents by id, a bounded number.
#[derive(Debug, Default)]
pub struct AgentTable {
    agents: HashMap<String, Agent>,
    /// What agents that were forgotten had lost: counters never fall.
    forgotten: api::Dropped,
    /// Agents that were heard of late, as of the last tick.
    n_heard: usize,
}

/// A wish, and what its job is called here.
pub(super) struct Wished {
    pub(super) job: String,
    pub(super) wish: Wish,
}

#[derive(Debug, Default)]
struct Agent {
    host: String,
    last_seq: u64,
    last_seen: Timestamp,
    /// Its last word was that it ends.
    has_ended: bool,
    dropped: api::Dropped,
    /// Known from the store only: what it has told is not all there, for not all is stored.
    is_restored: bool,
    /// The batch that was answered by asking for everything. Until a later one comes nobody knows that the answer arrived.
    asked_with: Option<u64>,
    /// When it is asked again for what was refused.
    ask_again_at: Option<Timestamp>,
    /// Jobs of which it has spoken, or was told before this daemon started; `None` where they may be any.
    jobs: Option<BTreeSet<String>>,
    /// Whether it tells whose processes are: older ones do not, and know no wish for one user's. `None`: it has told of none.
    tells_users: Option<bool>,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Admission {
    /// Taken before.
    pub(super) duplicate: bool,
    /// Something of this agent is not known here.
    pub(super) resend_all: bool,
    /// Highest number taken, this one included.
    pub(super) last_seq: u64,
}

impl AgentTable {
    pub(super) fn admit(&mut self, batch: &Batch, now: Timestamp) -> Admission {
        let seq = batch.seq_number;
        if !self.agents.contains_key(&batch.agent_id) && self.agents.len() >= MAX_AGENTS {
            self.forget_oldest();
        }
        // A first batch says who each process is; what was said to another daemon is not known here.
        let is_whole = seq == 1;
        let agent = self
            .agents
            .entry(batch.agent_id.clone())
            .or_insert_with(|| Agent { jobs: is_whole.then(BTreeSet::new), ..Agent::default() });
        agent.note_jobs(batch);
        agent.note_users(batch);
        let duplicate = seq <= agent.last_seq;
        // A gap is a batch that was refused, or was taken by a daemon that lost it: its facts are missing.
        let is_first = !duplicate && std::mem::take(&mut agent.is_restored);
        let is_asked_again = !duplicate && agent.ask_again_at.take_if(|at| *at <= now).is_some();
        let is_lacking = is_first || is_asked_again || (!duplicate && seq != agent.last_seq + 1);
        match (is_lacking, duplicate) {
            (true, _) => agent.asked_with = Some(seq),
            (false, false) => agent.asked_with = None,
            (false, true) => {}
        }
        let resend_all = agent.asked_with == Some(seq);
        agent.last_seq = agent.last_seq.max(seq);
        agent.last_seen = now;
        if !duplicate {
            agent.has_ended = batch.ending;
        }
        agent.host.clone_from(&batch.agent_host);
        for dropped in &batch.dropped {
            add_max(&mut agent.dropped, &dropped.reason, dropped.events);
        }
        Admission { duplicate, resend_all, last_seq: agent.last_seq }
    }

    /// Something that an agent told was refused: it is asked for everything again after this pause.
    pub(super) fn ask_again(&mut self, agent_id: &str, now: Timestamp, pause: Duration) {
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        if let Some(agent) = self.agents.get_mut(agent_id) {
            agent.ask_again_at.get_or_insert(Timestamp(now.0.saturating_add(pause_ns)));
        }
    }

    /// Jobs of files that a batch tells of and its agent has not told of before: somebody imports them.
    pub(super) fn imported(&self, batch: &Batch) -> BTreeSet<String> {
        let known = self.agents.get(&batch.agent_id).and_then(|agent| agent.jobs.as_ref());
        let of_files = batch.processes.iter().filter(|process| process.state() == ProcessState::Imported);
        let jobs = of_files.filter_map(|process| process.identity.as_ref()).map(|identity| &identity.job);
        jobs.filter(|job| known.is_none_or(|known| !known.contains(*job))).cloned().collect()
    }

    /// Whether an agent has processes of a job, as far as is known: rather yes than no.
    pub(super) fn may_have(&self, agent_id: &str, job: &str) -> bool {
        let jobs = self.agents.get(agent_id).and_then(|agent| agent.jobs.as_ref());
        jobs.is_none_or(|jobs| jobs.contains(job))
    }

    /// The wishes for its jobs as this agent understands them: one of an older release takes a wish for all who have a job of
    /// that name, so it hears of none that is for one of them.
    pub(super) fn understood(&self, agent_id: &str, wishes: Vec<Wished>) -> Vec<Wish> {
        let tells_users = self.agents.get(agent_id).and_then(|agent| agent.tells_users);
        let understood = |Wished { job, wish }: Wished| match (wish.user, tells_users) {
            (None, _) | (Some(_), Some(true)) => Some(wish),
            (Some(_), Some(false)) => (wish.job == job).then_some(Wish { user: None, ..wish }),
            // It is told once it has said which it is.
            (Some(_), None) => None,
        };
        wishes.into_iter().filter_map(understood).collect()
    }

    /// Takes back what the store kept; what is known already is newer.
    pub(super) fn restore(&mut self, rows: Vec<AgentRow>) {
        for row in rows.into_iter().take(MAX_AGENTS.saturating_sub(self.agents.len())) {
            let is_restored = !self.agents.contains_key(&row.agent_id);
            let agent = self.agents.entry(row.agent_id).or_default();
            agent.is_restored |= is_restored;
            agent.last_seq = agent.last_seq.max(row.last_seq.cast_unsigned());
            agent.last_seen = agent.last_seen.max(Timestamp(row.last_seen_ns.cast_unsigned()));
            if agent.host.is_empty() {
                agent.host = row.host;
            }
        }
    }

    /// `last_seq`: of the newest batch of which all is stored with it.
    pub(super) fn row(&self, agent_id: &str, last_seq: u64) -> Option<AgentRow> {
        self.agents.get(agent_id).map(|agent| AgentRow {
            agent_id: agent_id.to_owned(),
            host: agent.host.clone(),
            last_seq: last_seq.cast_signed(),
            last_seen_ns: agent.last_seen.0.cast_signed(),
        })
    }

    /// When the agent of each host was last heard, of those heard within [`HEARD_SHOWN`] that did not say that they end.
    #[must_use]
    pub fn heard(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let mut heard: BTreeMap<String, Timestamp> = BTreeMap::new();
        let is_shown = |agent: &&Agent| !agent.has_ended && now.since(agent.last_seen) < HEARD_SHOWN;
        for agent in self.agents.values().filter(is_shown) {
            let newest = heard.entry(agent.host.clone()).or_default();
            *newest = agent.last_seen.max(*newest);
        }
        heard
    }

    /// Counts those that speak.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let speaks = |agent: &&Agent| !agent.has_ended && now.since(agent.last_seen) < SPEAKS;
        self.n_heard = self.agents.values().filter(speaks).count();
    }

    /// How long counts may wait with each agent, so that all of them together send no more than [`COUNTS_PER_S`].
    pub(super) fn counts_wait_ms(&self) -> u32 {
        u32::try_from(self.n_heard * 1000 / COUNTS_PER_S).unwrap_or(u32::MAX)
    }

    /// What agents say they lost, by reason, summed.
    #[must_use]
    pub fn dropped(&self) -> api::Dropped {
        let mut sum = self.forgotten.clone();
        for agent in self.agents.values() {
            add_all(&mut sum, &agent.dropped);
        }
        sum
    }

    /// Forgets a hundredth, those that were silent for longest: to find them takes a look at all.
    fn forget_oldest(&mut self) {
        let mut seen: Vec<Timestamp> = self.agents.values().map(|agent| agent.last_seen).collect();
        let at = (MAX_AGENTS / 100).min(seen.len()).saturating_sub(1);
        if seen.is_empty() {
            return;
        }
        let newest = *seen.select_nth_unstable(at).1;
        for (_, agent) in self.agents.extract_if(|_, agent| agent.last_seen <= newest) {
            add_all(&mut self.forgotten, &agent.dropped);
        }
    }
}

impl Agent {
    /// Of what was imported, and of who ended before the agent came, no user is known: one that is proves it.
    fn note_users(&mut self, batch: &Batch) {
        for identity in batch.processes.iter().filter_map(|process| process.identity.as_ref()) {
            self.tells_users = Some(self.tells_users == Some(true) || identity.user.is_some());
        }
    }

    fn note_jobs(&mut self, batch: &Batch) {
        let Some(jobs) = &mut self.jobs else { return };
        let named = batch.processes.iter().filter_map(|process| process.identity.as_ref());
        for identity in named {
            // It may be called so here: another user may have a job of that name.
            jobs.extend(identity.user.map(|user| job_of(&identity.job, user)));
            jobs.insert(identity.job.clone());
        }
        if jobs.len() > JOBS_MAX {
            self.jobs = None;
        }
    }
}

fn add_all(sum: &mut BTreeMap<String, u64>, dropped: &BTreeMap<String, u64>) {
    for (reason, events) in dropped {
        let total = sum.entry(bounded(sum, reason)).or_default();
        *total = total.saturating_add(*events);
    }
}

fn add_max(dropped: &mut BTreeMap<String, u64>, reason: &str, events: u64) {
    let kept = dropped.entry(bounded(dropped, reason)).or_default();
    *kept = (*kept).max(events);
}

/// The reason, or `other` where there are too many.
fn bounded(known: &BTreeMap<String, u64>, reason: &str) -> String {
    if known.contains_key(reason) || (known.len() < REASONS_MAX && reason.len() <= REASON_BYTES_MAX) {
        reason.to_owned()
    } else {
        "other".to_owned()
    }
}

/// Batches a second that have nothing but counts, of all agents: they take some tenth of a core. As long as there are fewer
/// agents than a quarter of that, each tells of its counts at each reading.
const COUNTS_PER_S: usize = 1_250;
/// An agent speaks at least every five seconds.
const SPEAKS: Duration = Duration::from_secs(15);
/// Time after which a silent host is no news any more: it was taken out of the cluster.
const HEARD_SHOWN: Duration = Duration::from_secs(3600);
/// Jobs remembered of one agent; of one with more any job may be its own.
const JOBS_MAX: usize = 64;
/// Different reasons of loss; they become labels.
const REASONS_MAX: usize = 64;
/// Length of one.
const REASON_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Identity, Process};

    use super::*;

    fn admit(table: &mut AgentTable, agent_id: &str, seq_number: u64) -> (bool, bool, u64) {
        let batch = Batch { agent_id: agent_id.into(), seq_number, ..Batch::default() };
        let admission = table.admit(&batch, Timestamp(seq_number));
        (admission.duplicate, admission.resend_all, admission.last_seq)
    }

    #[test]
    fn each_number_is_taken_once() {
        let mut table = AgentTable::default();
        assert_eq!(admit(&mut table, "a", 1), (false, false, 1), "a new agent");
        assert_eq!(admit(&mut table, "a", 1), (true, false, 1), "its first batch again");
        assert_eq!(admit(&mut table, "a", 2), (false, false, 2));
        assert_eq!(admit(&mut table, "a", 1), (true, false, 2), "late");
        assert_eq!(admit(&mut table, "a", 4), (false, true, 4), "one was refused in between");
        assert_eq!(admit(&mut table, "b", 7), (false, true, 7), "known to an older daemon only");
        assert_eq!(admit(&mut table, "b", 7), (true, true, 7), "the answer was lost");
        assert_eq!(admit(&mut table, "b", 8), (false, false, 8));
        assert_eq!(admit(&mut table, "b", 7), (true, false, 8));
    }

    #[test]
    fn the_more_agents_speak_the_longer_counts_may_wait() {
        let mut table = AgentTable::default();
        let mut wait_ms = |n: usize, now: Timestamp| {
            for index in 0..n {
                let batch = Batch { agent_id: format!("a{index}"), seq_number: now.0, ..Batch::default() };
                table.admit(&batch, now);
            }
            table.tick(now);
            table.counts_wait_ms()
        };
        let at = |s: u64| Timestamp(s * 1_000_000_000);
        assert_eq!(wait_ms(125, at(1)), 100, "less than a reading");
        assert_eq!(wait_ms(1_250, at(2)), 1_000);
        assert_eq!(wait_ms(125, at(60)), 100, "the others are gone");
    }

    #[test]
    fn an_agent_that_knows_no_users_hears_of_no_wish_for_one() {
        let mut table = AgentTable::default();
        let mut heard = |agent_id: &str, users: &[Option<u32>]| {
            let process = |user: &Option<u32>| Process {
                identity: Some(Identity { job: "llama".into(), user: *user, ..Identity::default() }),
                ..Process::default()
            };
            let processes = users.iter().map(process).collect();
            table.admit(
                &Batch { agent_id: agent_id.into(), seq_number: 1, processes, ..Batch::default() },
                Timestamp(1),
            );
            let wished = |job: &str, own: &str, user| Wished {
                job: job.into(),
                wish: Wish { job: own.into(), user, off: true, ..Wish::default() },
            };
            let wishes = vec![
                wished("all", "all", None),
                wished("llama", "llama", Some(7)),
                wished("llama@user8", "llama", Some(8)),
            ];
            let understood = table.understood(agent_id, wishes);
            understood.into_iter().map(|wish| (wish.job, wish.user)).collect::<Vec<_>>()
        };
        let (all, llama) = (("all".to_owned(), None), |user| ("llama".to_owned(), user));
        assert_eq!(heard("new", &[Some(7)]), [all.clone(), llama(Some(7)), llama(Some(8))]);
        assert_eq!(heard("mixed", &[None, Some(7)]), [all.clone(), llama(Some(7)), llama(Some(8))]);
        assert_eq!(heard("older", &[None]), [all.clone(), llama(None)]);
        assert_eq!(heard("not known yet", &[]), [all]);
    }

    #[test]
    fn a_job_of_files_is_imported_once_by_each() {
        let batch = |agent_id: &str, seq_number, job: &str, state: ProcessState| {
            let identity = Some(Identity { job: job.into(), ..Identity::default() });
            let processes = vec![Process { identity, state: state.into(), ..Process::default() }];
            Batch { agent_id: agent_id.into(), seq_number, processes, ..Batch::default() }
        };
        let mut table = AgentTable::default();
        let mut imported = |batch: &Batch| {
            let imported = table.imported(batch);
            table.admit(batch, Timestamp(batch.seq_number));
            imported.into_iter().collect::<Vec<_>>().join(" ")
        };
        let (file, live) = (ProcessState::Imported, ProcessState::Running);
        assert_eq!(imported(&batch("a", 1, "live", live)), "");
        assert_eq!(imported(&batch("a", 2, "kept", file)), "kept", "an agent may say so too");
        assert_eq!(imported(&batch("a", 3, "kept", file)), "", "more of the same");
        assert_eq!(imported(&batch("a", 4, "other", file)), "other");
        assert_eq!(
            imported(&batch("b", 9, "kept", file)),
            "kept",
            "by somebody else, who does not begin with 1"
        );
    }

    #[test]
    fn an_agent_of_a_former_daemon_tells_everything_once_more() {
        let mut table = AgentTable::default();
        let row = AgentRow { agent_id: "a".into(), host: "h".into(), last_seq: 20, last_seen_ns: 1 };
        table.restore(vec![row]);
        assert_eq!(admit(&mut table, "a", 20), (true, false, 20), "the answer to it was lost");
        assert_eq!(admit(&mut table, "a", 21), (false, true, 21));
        assert_eq!(admit(&mut table, "a", 22), (false, false, 22));
    }

    #[test]
    fn silence_of_an_agent_that_ended_is_no_news() {
        let mut table = AgentTable::default();
        let batch = |agent_id: &str, seq_number, ending| Batch {
            agent_id: agent_id.into(),
            agent_host: "h".into(),
            seq_number,
            ending,
            ..Batch::default()
        };
        table.admit(&batch("a", 1, false), Timestamp(1));
        assert_eq!(table.heard(Timestamp(2)).len(), 1);
        table.admit(&batch("a", 2, true), Timestamp(2));
        table.admit(&batch("a", 1, false), Timestamp(3));
        assert!(table.heard(Timestamp(4)).is_empty(), "a repeat is not its last word");
        table.admit(&batch("b", 1, false), Timestamp(5));
        assert_eq!(table.heard(Timestamp(6))["h"], Timestamp(5), "the next one on that host");
    }

    #[test]
    fn table_is_bounded_and_forgets_the_oldest() {
        let mut table = AgentTable::default();
        for index in 0..=MAX_AGENTS as u64 {
            let dropped = vec![ringscope_wire::batch::Dropped { reason: "backlog".into(), events: 1 }];
            let batch = Batch { agent_id: format!("a{index}"), seq_number: 1, dropped, ..Batch::default() };
            table.admit(&batch, Timestamp(index));
        }
        assert_eq!(table.agents.len(), MAX_AGENTS - MAX_AGENTS / 100 + 1);
        let last = format!("a{MAX_AGENTS}");
        assert!(table.row("a0", 1).is_none() && table.row(&last, 1).is_some());
        assert_eq!(table.dropped()["backlog"], MAX_AGENTS as u64 + 1);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut table = AgentTable::default();
        let dropped = (0..1000)
            .map(|index| ringscope_wire::batch::Dropped { reason: format!("r{index}"), events: 1 })
            .collect();
        let batch = Batch { agent_id: "a".into(), seq_number: 1, dropped, ..Batch::default() };
        table.admit(&batch, Timestamp(1));
        assert!(table.dropped().len() <= REASONS_MAX + 1);
    }
}
