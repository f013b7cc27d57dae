//! The one owner of the model and of what diagnosis concluded from it.
//!
//! Everything goes through [`Hub::ingest`], [`Hub::tick`] and [`Hub::read`], each of which holds the lock for as long
//! as it computes and never across an `await`. The hub also remembers what the store has not got yet: see
//! [`Hub::take_unsaved`].

mod agents;
mod changes;
mod collectors;
#[cfg(test)]
mod delivery_tests;
mod incidents;
mod inquiries;
mod levels;
mod observers;
mod rank_rows;
mod relational;
mod restoring;
mod sampling;
mod shares;
mod tenants;
#[cfg(test)]
mod tests;
mod turned;
mod turns;
mod unsaved;
mod versions;

pub use agents::AgentTable;
pub use collectors::CollectorCount;
pub use incidents::Word;
pub use observers::{Observe, Observers};
pub use shares::Beyond;
pub use unsaved::{Batched, Unsaved};
pub use versions::Version;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use ringscope_api as api;
use ringscope_api::clock::{self, Timestamp};
use ringscope_judge::{Diagnosis, Gathered};
use ringscope_model::summation::GroupId;
use ringscope_model::{Changes, CommunicatorId, Model, Name, OlderIds};
use ringscope_store::Restored;
use ringscope_wire::batch::{Batch, IngestReply};
use tokio::sync::{Notify, broadcast};

/// See the module.
pub struct Hub {
    state: Mutex<State>,
    changes: broadcast::Sender<api::Changed>,
    /// Something is to be told to `changes`.
    changed: Notify,
    versions: versions::Versions,
    sample_interval: Duration,
    /// Whether agents are asked what culprits do; of tenants' too.
    look: AtomicBool,
    tenants: tenants::Tenants,
    /// Those who hold the lock, or wait for it, and keep it for milliseconds.
    long: AtomicUsize,
    observers: OnceLock<Observers>,
}

/// Somebody holds the lock for long while this lives.
struct Long<'a>(&'a AtomicUsize);

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the lock guards.
struct State {
    model: Model,
    diagnosis: Diagnosis,
    agents: AgentTable,
    collectors: collectors::Collectors,
    levels: levels::Levels,
    inquiries: inquiries::Inquiries,
    shares: shares::Shares,
    unsaved: Unsaved,
    /// What holds, as the store has it.
    holding: turned::Holding,
    change: changes::Pending,
    /// Communicators that changed since they were last sampled.
    unsampled: BTreeSet<CommunicatorId>,
    /// The same of summation groups.
    unsampled_groups: BTreeSet<GroupId>,
    next_sample: Timestamp,
    /// When the last samples were taken, in milliseconds; none may have the same time.
    last_sample_ms: i64,
    /// Communicators whose rows in the store are to be written at the next tick.
    stale_rows: BTreeSet<CommunicatorId>,
    /// Which rows of ranks the store has.
    rank_rows: rank_rows::RankRows,
    /// The same of jobs and their hosts.
    stale_jobs: BTreeSet<Name>,
    /// When rows of jobs were last to be written.
    jobs_told_at: Timestamp,
    next_refresh: Timestamp,
    /// When counters were last stored.
    counted_at: Timestamp,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// What to answer, once it is saved.
    pub reply: IngestReply,
    /// It had been taken before, and changed nothing.
    pub duplicate: bool,
    /// Jobs of files that somebody imports with it.
    pub imported: BTreeSet<String>,
    /// It brought nothing that must be stored before it is answered.
    pub can_wait: bool,
    /// What was not taken of it: its sender has their share.
    pub beyond: Option<Beyond>,
}

/// How much of what is not stored is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// What is stored before its batch is answered: facts, and what was found.
    Urgent,
    /// And some of the counters, where the sample interval is over, and of what is for readers of the database.
    Due,
    /// All.
    All,
}

impl Hub {
    /// An empty hub that samples each series at most once per `sample_interval`.
    #[must_use]
    pub fn new(sample_interval: Duration) -> Self {
        let (changes, _) = broadcast::channel(CHANGES_MAX);
        let state = State {
            model: Model::new(),
            diagnosis: Diagnosis::new(),
            agents: AgentTable::default(),
            collectors: collectors::Collectors::default(),
            levels: levels::Levels::default(),
            inquiries: inquiries::Inquiries::default(),
            shares: shares::Shares::default(),
            unsaved: Unsaved::default(),
            holding: turned::Holding::default(),
            change: changes::Pending::default(),
            unsampled: BTreeSet::new(),
            unsampled_groups: BTreeSet::new(),
            next_sample: Timestamp(0),
            last_sample_ms: 0,
            stale_rows: BTreeSet::new(),
            rank_rows: rank_rows::RankRows::default(),
            stale_jobs: BTreeSet::new(),
            jobs_told_at: Timestamp(0),
            next_refresh: Timestamp(0),
            counted_at: Timestamp(0),
        };
        Self {
            state: Mutex::new(state),
            changes,
            changed: Notify::new(),
            versions: versions::Versions::default(),
            sample_interval,
            look: AtomicBool::new(true),
            tenants: tenants::Tenants::default(),
            long: AtomicUsize::new(0),
            observers: OnceLock::new(),
        }
    }

    /// From now on tells these how long things take. The first ones stay.
    pub fn observe(&self, observers: Observers) {
        let _ = self.observers.set(observers);
    }

    /// Applies a batch, unless it was applied before.
    pub fn ingest(&self, batch: &Batch, now: Timestamp) -> Taken {
        self.take(&mut self.lock(), batch, now)
    }

    fn take(&self, state: &mut State, batch: &Batch, now: Timestamp) -> Taken {
        let imported = state.agents.imported(batch);
        let admission = state.agents.admit(batch, now);
        let mut can_wait = false;
        if !admission.duplicate {
            let changes = state.model.apply(batch, now);
            // Who has ended, or comes from files, is not told of again.
            let State { model, .. } = &*state;
            let is_over = |key: &&Name| model.process(key).is_some_and(|process| !process.is_living());
            let over: Vec<String> =
                changes.counters.iter().filter(is_over).map(ToString::to_string).collect();
            can_wait = changes.facts.is_empty() && over.is_empty();
            state.unsaved.facts(over);
            self.note(state, changes, now);
            self.versions.changed();
        } else {
            state.model.hear_again(&batch.agent_id, now);
        }
        state.unsaved.agent(&batch.agent_id, admission.last_seq, !can_wait);
        let agent = state.model.agent(&batch.agent_id);
        let reply = IngestReply {
            seq_number: admission.last_seq,
            resend_all: admission.resend_all,
            wishes: state.agents.understood(
                &batch.agent_id,
                state.levels.wishes(&state.model, |job| state.agents.may_have(&batch.agent_id, job)),
            ),
            inquiries: agent.map(|agent| state.inquiries.to(agent, now)).unwrap_or_default(),
            raised: state.levels.raised(|job| state.agents.may_have(&batch.agent_id, job)),
            counts_wait_ms: state.agents.counts_wait_ms(),
        };
        Taken { reply, duplicate: admission.duplicate, imported, can_wait, beyond: None }
    }

    /// Notes that an agent sends what is not understood here, and why; it is told with its host.
    pub fn not_understood(&self, agent_id: &str, host: &str, why: &str, now: Timestamp) {
        let mut state = self.lock();
        let changes = state.model.note_not_understood(agent_id, host, why, now);
        self.note(&mut state, changes, now);
        self.versions.changed();
    }

    /// Whether agents are asked what the culprits of hangs do.
    pub fn set_look(&self, look: bool) {
        self.look.store(look, Ordering::Relaxed);
        self.lock().diagnosis.set_look(look);
        self.tenants.all().iter().for_each(|hub| hub.set_look(look));
    }

    /// What time alone changes. To be called about once a second.
    pub fn tick(&self, now: Timestamp) {
        let long = self.keep_long();
        let mut state = self.lock();
        let changes = state.model.tick(now);
        self.note(&mut state, changes, now);
        let findings = {
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.update(model, None, now)
        };
        state.agents.tick(now);
        state.put_questions(now);
        self.note_findings(&mut state, findings, now);
        state.refresh_rows(now);
        state.sample(now, self.sample_interval);
        self.observe_lag(&state, now);
        self.versions.has(state.model.n_processes());
        self.versions.changed();
        drop((state, long));
        self.tick_tenants(now);
    }

    /// Looks again at the jobs of which more may be known before the next tick, and at the communicators whose turn has
    /// come. To be called some times a second.
    pub fn look_again(&self, now: Timestamp) {
        let long = self.keep_long();
        let mut state = self.lock();
        let mut findings = {
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.update(model, Some(&BTreeSet::new()), now)
        };
        findings.extend({
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.update_jobs(model, Some(&BTreeSet::new()), now)
        });
        state.put_questions(now);
        self.observe_lag(&state, now);
        if !findings.is_empty() {
            self.note_findings(&mut state, findings, now);
            self.versions.changed();
        }
        drop((state, long));
        self.look_again_at_tenants(now);
    }

    /// Whether who asks now would wait for long.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.long.load(Ordering::Relaxed) > 0
    }

    fn keep_long(&self) -> Long<'_> {
        self.long.fetch_add(1, Ordering::Relaxed);
        Long(&self.long)
    }

    /// Which moment of the model this is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.versions.now()
    }

    /// Reads the model and the findings as they are now.
    pub fn read<R>(&self, read: impl FnOnce(&Model, &Diagnosis) -> R) -> R {
        let _long = self.keep_long();
        let state = self.lock();
        read(&state.model, &state.diagnosis)
    }

    /// What agents lost before it came here, and what collectors do, for the metrics.
    pub fn read_agents<R>(&self, read: impl FnOnce(&AgentTable, &[CollectorCount]) -> R) -> R {
        let state = self.lock();
        read(&state.agents, &state.collectors.counts())
    }

    /// Takes in what the store kept. What came from agents in the meantime is newer and stays.
    pub fn restore(&self, restored: Restored, now: Timestamp) {
        let heard: Vec<(String, Timestamp)> = restored.agents.iter().map(restoring::heard).collect();
        self.restore_tenants(&restored, &heard, now);
        self.restore_own(restored, &heard, now);
    }

    /// `heard`: when the agents of hosts were heard last.
    fn restore_own(&self, restored: Restored, heard: &[(String, Timestamp)], now: Timestamp) {
        let _long = self.keep_long();
        let mut older = OlderIds::default();
        for stored in &restored.communicators {
            older.communicator(&stored.id, &stored.job, stored.comm_hash, stored.n_ranks);
        }
        restored.groups.iter().for_each(|(id, session)| older.group(id, *session));
        let mut state = self.lock();
        state.shares.forget();
        state.model.keep_ids(older);
        state.agents.restore(restored.agents);
        let fresh: Vec<_> = restored
            .processes
            .into_iter()
            .filter(|process| state.model.process_facts(&process.key).is_none())
            .collect();
        let keys: BTreeSet<String> = fresh.iter().map(|process| process.key.clone()).collect();
        state.model.restore(fresh, now);
        state.model.restore_heard(heard.iter().map(|(host, at)| (host.as_str(), *at)));
        let known: BTreeSet<String> = ringscope_view::findings(
            &state.model,
            &state.diagnosis,
            now,
            &ringscope_view::FindingFilter::default(),
        )
        .into_iter()
        .map(|finding| finding.id)
        .collect();
        let findings: Vec<_> =
            restored.findings.into_iter().filter(|finding| !known.contains(&finding.id)).collect();
        state.holding.restore(&findings, &restored.incidents);
        state.diagnosis.restore(findings);
        state.diagnosis.hold_jobs(now);
        {
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.restore_paces(model, &restoring::memories(&restored.pace_memories));
        }
        state.diagnosis.restore_incidents(restored.incidents);
        state.note_collectors(&keys);
        state.mark_all_rows(now);
        let findings = {
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.update(model, None, now)
        };
        self.note_findings(&mut state, findings, now);
        // What does not fire any more is over, also where nothing else is news.
        let gathered = {
            let State { model, diagnosis, .. } = &mut *state;
            diagnosis.gather(model, true, now)
        };
        self.note_gathered(&mut state, gathered);
        self.versions.changed();
    }

    /// Hears of changes, at most one per 500 ms.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<api::Changed> {
        self.changes.subscribe()
    }

    /// Tells subscribers what changed, for ever.
    pub async fn publish_changes(self: &Arc<Self>) {
        loop {
            self.changed.notified().await;
            let hub = Arc::clone(self);
            // It may have to wait for the lock.
            let _ = tokio::task::spawn_blocking(move || hub.publish_change()).await;
            tokio::time::sleep(CHANGES_INTERVAL).await;
        }
    }

    fn publish_change(&self) {
        let change = self.lock().change.take();
        if let Some(change) = change {
            self.versions.told();
            // No subscriber is no error.
            let _ = self.changes.send(change);
        }
    }

    /// Takes the list of what the store has not got. The caller saves it, or gives it back with [`Hub::give_back`]. What is
    /// encoded of it later is at least as new as this moment.
    #[must_use]
    pub fn take_unsaved(&self, what: Take, now: Timestamp) -> Unsaved {
        let mut state = self.lock();
        let n_counters = match what {
            Take::Urgent => 0,
            Take::All => usize::MAX,
            // A clock that was set back keeps nothing waiting.
            Take::Due
                if now >= state.counted_at && now.since(state.counted_at) < self.sample_interval * 9 / 10 =>
            {
                0
            }
            Take::Due => COUNTERS_AT_ONCE,
        };
        if n_counters > 0 {
            state.counted_at = now;
        }
        let n_communicators = match what {
            Take::Urgent => 0,
            Take::Due => COMMUNICATORS_AT_ONCE,
            Take::All => usize::MAX,
        };
        if what == Take::All {
            state.refresh_rows_at_once();
        }
        state.unsaved.take(n_counters, n_communicators)
    }

    /// Marks what could not be saved as unsaved again.
    pub fn give_back(&self, unsaved: Unsaved) {
        let mut state = self.lock();
        unsaved.its_communicators().for_each(|id| state.rank_rows.forget(*id));
        state.unsaved.give_back(unsaved);
    }

    /// The next rows to write of `unsaved`, a bounded number of processes at a time; `None` when all were made.
    #[must_use]
    pub fn next_rows(&self, unsaved: &mut Batched, now: Timestamp) -> Option<ringscope_store::WriteSet> {
        let _long = self.keep_long();
        unsaved.next(&mut self.lock(), now)
    }

    fn note(&self, state: &mut State, changes: Changes, now: Timestamp) {
        if changes == Changes::default() {
            return;
        }
        // Channels and rings are facts; counters alone change no judgement before the next tick.
        let findings = if changes.facts.is_empty() {
            Vec::new()
        } else {
            let State { model, diagnosis, .. } = state;
            diagnosis.update(model, Some(&changes.communicators), now)
        };
        // What else groups do is judged at the next tick.
        let groups = {
            let State { model, diagnosis, .. } = state;
            diagnosis.update_summations(model, &changes.alarming, now)
        };
        // Who waits for whom is judged at the next tick, but for what cannot wait.
        let waits = {
            let State { model, diagnosis, .. } = state;
            diagnosis.update_jobs(model, Some(&changes.alarmed), now)
        };
        if !changes.alarmed.is_empty() {
            state.put_questions(now);
        }
        // What hardware means is judged at the next tick, with that of all hosts.
        if changes.hardware || !changes.kernels.is_empty() {
            state.change.hardware();
        }
        state.note_collectors(&changes.facts);
        state.unsampled.extend(&changes.communicators);
        state.unsampled_groups.extend(&changes.summations);
        if !changes.facts.is_empty() {
            state.stale_rows.extend(&changes.communicators);
        }
        state.change.communicators(&changes.communicators);
        state.change.summations(&changes.summations);
        state.unsaved.processes(changes);
        self.changed.notify_one();
        let news = findings.into_iter().chain(groups).chain(waits).collect();
        self.note_findings(state, news, now);
    }

    fn note_findings(&self, state: &mut State, findings: Vec<api::Finding>, now: Timestamp) {
        let gathered = state.diagnosis.gather(&state.model, !findings.is_empty(), now);
        if !findings.is_empty() {
            state.change.findings();
            state.keep_findings(findings);
            self.changed.notify_one();
        }
        self.note_gathered(state, gathered);
    }

    fn note_gathered(&self, state: &mut State, gathered: Gathered) {
        if gathered.incidents.is_empty() && gathered.findings.is_empty() {
            return;
        }
        state.change.incidents();
        if !gathered.findings.is_empty() {
            state.change.findings();
        }
        state.keep_findings(gathered.findings);
        state.keep_incidents(gathered.incidents);
        self.changed.notify_one();
    }

    fn observe_lag(&self, state: &State, now: Timestamp) {
        if let Some(observers) = self.observers.get() {
            (observers.judgement_lag)(state.diagnosis.behind(now));
        }
    }

    /// A panic while the lock was held leaves the model as consistent as any other moment does.
    fn lock(&self) -> MutexGuard<'_, State> {
        // Who need not wait reads no clock.
        let (guard, waited) = match self.state.try_lock() {
            Ok(guard) => (guard, Duration::ZERO),
            Err(TryLockError::Poisoned(poisoned)) => (poisoned.into_inner(), Duration::ZERO),
            Err(TryLockError::WouldBlock) => {
                let start = clock::monotonic();
                let guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                (guard, start.elapsed())
            }
        };
        if let Some(observers) = self.observers.get() {
            (observers.lock_wait)(waited);
        }
        guard
    }
}

impl State {
    /// Asks what judges want to know, and raises the levels that they need.
    fn put_questions(&mut self, now: Timestamp) {
        let left_out = self.inquiries.want(self.diagnosis.take_wanted().iter(), &self.model, now);
        self.diagnosis.leave_out("inquiry_limit", left_out);
        self.levels.raise(self.diagnosis.raised(), now);
    }

    fn note_collectors(&mut self, keys: &BTreeSet<String>) {
        for key in keys {
            let process = self.model.process_facts(key);
            self.collectors.note(key, process.as_ref());
        }
    }
}

/// Communicators whose rows are written at a time, each second: ten thousand that live are written again within a minute.
const COMMUNICATORS_AT_ONCE: usize = 256;
/// Rows of counters that are written at a time, once a second at most: with what is written ahead some 4 GB a day of SQLite.
const COUNTERS_AT_ONCE: usize = 20;
/// Changes that a slow subscriber may be behind before it misses some; each only says "look again".
const CHANGES_MAX: usize = 16;
/// At most one change is told per this time.
const CHANGES_INTERVAL: Duration = Duration::from_millis(500);
