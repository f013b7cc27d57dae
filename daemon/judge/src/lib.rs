//! What the facts of a communicator mean: findings with lifetimes.
//!
//! Synchronous, takes `now` as an argument, does no I/O and cannot fail. A communicator is judged when its facts
//! change, never for its counters; a finding fires as long as its communicator is in use and the condition holds. A large
//! one whose ranks come host by host is not judged for each: it waits its turn (`waiting`). The hosts' hardware is judged
//! with every update of all, for each host is compared with all others.

mod advice;
pub mod aftermath;
mod causes;
pub mod channels;
pub mod coverage;
mod facts;
mod faults;
mod gather;
mod guard;
mod halted;
pub mod hangs;
mod hardware;
pub mod health;
mod history;
pub mod hops;
pub mod incidents;
mod inputs;
mod job_end;
mod jobs;
mod judge;
mod judgement;
mod kinds;
mod ledger;
mod news;
pub mod nodes;
pub mod order;
mod pace;
mod past;
pub mod predict;
mod rank_channels;
mod ranks;
mod rdma;
mod scope;
mod seen;
pub mod standing;
pub mod standings;
mod summation;
pub mod version;
mod waiting;
mod watch;
mod words;

#[cfg(test)]
mod tests;

pub use facts::{Channels, HostChannels, Judged};
pub use gather::Gathered;
pub use hardware::{NIC_DOWN, NIC_MISSING};
pub use history::{MAX_PER_SHAPE, MAX_SHAPES};
pub use jobs::{Want, Wanted};
pub use ledger::{LAST_SEEN_STEP, MAX_FIRING, MAX_RESOLVED, WORDS_STEP};
pub use pace::{Account, Accounts, PaceMemory, PaceTotals, accounts};
pub use rank_channels::RankChannels;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Dropped, Finding};
use ringscope_model::summation::{Group, GroupId};
use ringscope_model::{Communicator, CommunicatorId, Model, Name, Process};
use scope::Scope;

/// All findings, firing and resolved.
#[derive(Default)]
pub struct Diagnosis {
    known: HashMap<CommunicatorId, Known>,
    history: history::History,
    ledger: ledger::Ledger,
    /// When to look again at communicators of which not every source had the time to tell.
    unsettled: BTreeSet<(Timestamp, CommunicatorId)>,
    /// Communicators that have changed since they were looked at, and whose turn has not come.
    waiting: waiting::Waiting,
    hardware: watch::Watch,
    jobs: jobs::Jobs,
    paces: pace::Paces,
    looks: summation::Looks,
    incidents: incidents::Incidents,
}

/// A communicator as it was when it was last looked at.
struct Known {
    revision: u64,
    /// When it was first looked at, by our clock.
    first: Timestamp,
    /// When it was last looked at, by our clock.
    looked: Timestamp,
    channels: Channels,
    shape: Option<history::Shape>,
}

impl Diagnosis {
    /// No finding yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes back what the store kept. The next update of all communicators resolves what no longer holds.
    pub fn restore(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.hardware.restore(&finding);
            self.jobs.restore(&finding);
            self.ledger.restore(finding);
        }
    }

    /// Judges the communicators that changed (all if `None`). Returns every finding that appeared, changed or was
    /// resolved, and those that still hold and were not told of for [`LAST_SEEN_STEP`].
    pub fn update(
        &mut self,
        model: &Model,
        changed: Option<&BTreeSet<CommunicatorId>>,
        now: Timestamp,
    ) -> Vec<Finding> {
        let all: BTreeSet<CommunicatorId>;
        let is_of_all = changed.is_none();
        let changed = match changed {
            Some(changed) => changed,
            None => {
                let known = self.known.keys().copied().chain(self.ledger.communicators());
                all = model.communicators().map(Communicator::id).chain(known).collect();
                &all
            }
        };
        let mut news = Vec::new();
        // First look at all, then judge: they are compared with each other.
        let mut judge = BTreeSet::new();
        if is_of_all {
            let looked = self.hardware.look(model, now);
            let is_explained = |host: &str| looked.builds || looked.explained.contains(host);
            judge.extend(self.ledger.lacking_channels(is_explained));
            judge.extend(self.on_hosts(&looked.gone));
        }
        for id in changed {
            match model.communicator(*id) {
                None => {
                    self.known.remove(id);
                    self.waiting.remove(*id);
                    news.extend(self.ledger.settle(&Scope::Communicator(*id), "", Vec::new(), now));
                }
                Some(known)
                    if self.known.get(id).is_some_and(|before| before.revision == known.revision()) =>
                {
                    news.extend(self.ledger.touch(&Scope::Communicator(*id), now));
                }
                Some(communicator) if self.known.contains_key(id) => self.waiting.add(*id, communicator, now),
                Some(communicator) => {
                    judge.insert(*id);
                    judge.extend(self.look(communicator, model, now));
                }
            }
        }
        judge.extend(self.look_at_waiting(model, now));
        judge.extend(self.settled(now));
        for id in judge {
            news.extend(self.judge(id, now));
        }
        if is_of_all {
            news.extend(self.hardware.settle(&mut self.ledger, now));
            let known = model.summations().map(Group::id);
            let groups = known.chain(self.ledger.summations()).collect();
            news.extend(self.update_summations(model, &groups, now));
            news.extend(self.update_jobs(model, None, now));
            news.extend(self.update_paces(model, now));
            self.note_ends(model);
        }
        news
    }

    /// Judges summation groups. Returns as [`Diagnosis::update`] does.
    pub fn update_summations(
        &mut self,
        model: &Model,
        changed: &BTreeSet<GroupId>,
        now: Timestamp,
    ) -> Vec<Finding> {
        let mut news = Vec::new();
        for id in changed {
            let scope = Scope::Summation(*id);
            let group = model.summation(*id);
            let judgements = group.map(|group| summation::judge(group, model, now)).unwrap_or_default();
            let job = group.map_or("", |group| group.job(model));
            match group {
                Some(group) => self.looks.ask(group, &judgements, model),
                None => self.looks.forget(*id),
            }
            if !judgements.is_empty() || self.ledger.fires(&scope) {
                news.extend(self.ledger.settle(&scope, job, judgements, now));
                news.extend(self.ledger.touch(&scope, now));
            }
        }
        news
    }

    /// Judges who waits for whom in jobs: in all of them, or in those of `alarmed`, and those of which more may be known
    /// soon, where the last look is old enough. Returns as [`Diagnosis::update`] does.
    pub fn update_jobs(
        &mut self,
        model: &Model,
        alarmed: Option<&BTreeSet<Name>>,
        now: Timestamp,
    ) -> Vec<Finding> {
        let hardware = |host: &Name| self.hardware.explain(host, now).map(|why| why.words);
        let looks = match alarmed {
            Some(alarmed) => self.jobs.look_at(model, alarmed, &hardware, now),
            None => self.jobs.look_at_all(model, &hardware, now),
        };
        let mut news = Vec::new();
        for look in looks {
            let scope = Scope::Job(look.job);
            let Scope::Job(job) = &scope else { continue };
            look.ended_well.iter().for_each(|id| self.ledger.end_well(id));
            if !look.judgements.is_empty() || self.ledger.fires(&scope) {
                news.extend(self.ledger.settle_but(&scope, job, look.judgements, &look.held, now));
                news.extend(self.ledger.touch(&scope, now));
            }
        }
        if alarmed.is_none() {
            let gone = self.ledger.jobs().filter(|job| model.job(job).is_none()).cloned();
            for job in gone.collect::<Vec<_>>() {
                news.extend(self.ledger.settle(&Scope::Job(job), "", Vec::new(), now));
            }
        }
        news
    }

    /// Judges how fast jobs go. Returns as [`Diagnosis::update`] does.
    fn update_paces(&mut self, model: &Model, now: Timestamp) -> Vec<Finding> {
        let mut news = Vec::new();
        let hardware = |host: &Name| self.hardware.ails(host);
        for (job, judgements) in self.paces.look_at_all(model, &hardware, now) {
            let scope = Scope::Pace(job);
            let Scope::Pace(job) = &scope else { continue };
            // What is found again first after a restart does not end what takes longer to find.
            let may_end = self.paces.may_end(model, job, now);
            if !judgements.is_empty() || may_end && self.ledger.fires(&scope) {
                let held = if may_end { Vec::new() } else { self.ledger.firing_ids(&scope) };
                news.extend(self.ledger.settle_but(&scope, job, judgements, &held, now));
                news.extend(self.ledger.touch(&scope, now));
            }
        }
        let gone = self.ledger.paces().filter(|job| model.job(job).is_none()).cloned();
        for job in gone.collect::<Vec<_>>() {
            news.extend(self.ledger.settle(&Scope::Pace(job), "", Vec::new(), now));
        }
        news
    }

    /// Takes back what was known of the pace of the jobs that go on: what is slow is not taken for what is usual.
    pub fn restore_paces(&mut self, model: &Model, memories: &[(String, PaceMemory)]) {
        for (job, memory) in memories {
            if let Some((name, job)) = model.job(job)
                && job.processes(model).any(Process::is_living)
            {
                self.paces.restore(name, memory);
            }
        }
    }

    /// How jobs spent their time so far, of those that went on since it was taken; each now and then.
    pub fn take_pace_totals(&mut self, now: Timestamp) -> Vec<(Name, PaceTotals)> {
        self.paces.take_totals(now)
    }

    /// What [`Diagnosis::restore_paces`] takes back, of the jobs of which it changed; each now and then.
    pub fn take_pace_memories(&mut self, now: Timestamp) -> Vec<(Name, PaceMemory)> {
        self.paces.take_memories(now)
    }

    /// Whether culprits are looked at: their agents are asked for stacks and for what they are blocked in.
    pub fn set_look(&mut self, look: bool) {
        self.jobs.set_look(look);
        self.paces.set_look(look);
        self.looks.set_look(look);
    }

    /// Jobs whose agents spoke to the daemon before this one are judged once these have spoken, or have had the time to.
    pub fn hold_jobs(&mut self, now: Timestamp) {
        self.jobs.hold(now);
    }

    /// Takes what judges would like to know of processes: each question is there once.
    pub fn take_wanted(&mut self) -> Vec<Wanted> {
        let mut wanted = self.jobs.take_wanted();
        wanted.extend(self.paces.take_wanted());
        wanted.extend(self.looks.take_wanted());
        wanted
    }

    /// Counts what somebody else had no room for.
    pub fn leave_out(&mut self, reason: &'static str, events: u64) {
        self.jobs.leave_out(reason, events);
    }

    /// The jobs in which somebody wants to know where transfers end.
    pub fn raised(&self) -> impl Iterator<Item = &Name> {
        self.jobs.raised().chain(self.paces.raised())
    }

    /// Every finding, firing and resolved, in no order.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.ledger.all()
    }

    /// The findings that fire, in no order.
    pub fn firing(&self) -> impl Iterator<Item = &Finding> {
        self.ledger.firing()
    }

    /// The findings that fire for a communicator.
    pub fn firing_of(&self, comm: CommunicatorId) -> impl Iterator<Item = &Finding> {
        self.ledger.firing_of(comm)
    }

    /// The findings that fire for a summation group.
    pub fn firing_of_summation(&self, group: GroupId) -> impl Iterator<Item = &Finding> {
        self.ledger.firing_of_summation(group)
    }

    /// Since when nothing can be said of a job, because a look at it ended with an error of the judge's own. `None`: it can.
    #[must_use]
    pub fn cannot_judge(&self, job: &Name) -> Option<Timestamp> {
        self.jobs.failed_at(job).into_iter().chain(self.paces.failed_at(job)).min()
    }

    /// What was left out, by reason; cumulative.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        let left_out = [
            ("finding_limit", self.ledger.n_left_out()),
            ("incident_limit", self.incidents.n_left_out()),
            ("judge_panic", self.jobs.n_panics().saturating_add(self.paces.n_panics())),
        ];
        let all = left_out.into_iter().chain(self.jobs.left_out()).filter(|(_, events)| *events > 0);
        all.map(|(reason, events)| (reason.to_owned(), events)).collect()
    }

    /// One finding, firing or resolved.
    #[must_use]
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.ledger.get(id)
    }

    /// Looks at the communicators that have changed and whose turn has come. Returns those to be judged.
    fn look_at_waiting(&mut self, model: &Model, now: Timestamp) -> BTreeSet<CommunicatorId> {
        let mut judge = BTreeSet::new();
        let looked = |id: &CommunicatorId| self.known.get(id).map_or(Timestamp(0), |known| known.looked);
        for id in self.waiting.take_due(looked, now) {
            if let Some(communicator) = model.communicator(id) {
                judge.insert(id);
                judge.extend(self.look(communicator, model, now));
            }
        }
        judge
    }

    /// For how long the communicator that waits longest has not been judged as it is now.
    #[must_use]
    pub fn behind(&self, now: Timestamp) -> Duration {
        self.waiting.longest(now)
    }

    /// The channels of a communicator as it was last judged: of one that has just grown, without its newest ranks.
    #[must_use]
    pub fn judged_channels<'a>(&'a self, communicator: &'a Communicator, model: &Model) -> Cow<'a, Channels> {
        match self.known.get(&communicator.id()) {
            Some(known) => Cow::Borrowed(&known.channels),
            None => Cow::Owned(Channels::of(communicator, model)),
        }
    }

    /// The channels of a communicator, as it was judged; taken anew if it has changed since.
    #[must_use]
    pub fn channels<'a>(&'a self, communicator: &Communicator, model: &Model) -> Cow<'a, Channels> {
        match self.known.get(&communicator.id()) {
            Some(known) if known.revision == communicator.revision() => Cow::Borrowed(&known.channels),
            _ => Cow::Owned(Channels::of(communicator, model)),
        }
    }

    /// Takes the communicator's facts. Returns the one that is compared with it, if that has to be judged anew.
    fn look(&mut self, communicator: &Communicator, model: &Model, now: Timestamp) -> Option<CommunicatorId> {
        let id = communicator.id();
        let channels = Channels::of(communicator, model);
        let hosts = channels.hosts();
        let shape = (!hosts.is_empty()).then(|| (channels.job.clone(), channels.shape()));
        if let Some(before) = self.known.get(&id)
            && let Some(was) = &before.shape
            && (Some(was) != shape.as_ref() || before.channels.created != channels.created)
        {
            self.history.remove(was, (before.channels.created, id));
        }
        let inits = hosts.into_iter().map(|host| (host.host, host.init)).collect();
        let next = shape.as_ref().and_then(|shape| self.history.note(shape, (channels.created, id), inits));
        let first = self.known.get(&id).map_or(now, |before| before.first);
        if !self.known.contains_key(&id) {
            self.unsettled.insert((Timestamp(now.0.saturating_add(SETTLES_AFTER_NS)), id));
        }
        self.known
            .insert(id, Known { revision: communicator.revision(), first, looked: now, channels, shape });
        next
    }

    /// The communicators that have a rank on one of these hosts.
    fn on_hosts(&self, hosts: &BTreeSet<Name>) -> Vec<CommunicatorId> {
        if hosts.is_empty() {
            return Vec::new();
        }
        let is_on = |known: &Known| known.channels.ranks.iter().any(|rank| hosts.contains(&rank.host));
        self.known.iter().filter(|(_, known)| is_on(known)).map(|(id, _)| *id).collect()
    }

    /// Communicators that have become old enough to say what is not seen of them.
    fn settled(&mut self, now: Timestamp) -> Vec<CommunicatorId> {
        let mut settled = Vec::new();
        while let Some(first) = self.unsettled.first().filter(|(due, _)| *due <= now).copied() {
            self.unsettled.remove(&first);
            // One that waits to be looked at is judged then.
            if !self.waiting.has(first.1) {
                settled.push(first.1);
            }
        }
        settled
    }

    fn judge(&mut self, id: CommunicatorId, now: Timestamp) -> Vec<Finding> {
        let Some(known) = self.known.get(&id) else { return Vec::new() };
        let at = (known.channels.created, id);
        let previous = known.shape.as_ref().and_then(|shape| self.history.before(shape, at));
        // What its ranks found matters to nobody while one of its hosts is gone.
        let is_gone = self.hardware.some_are_gone()
            && known.channels.ranks.iter().any(|rank| self.hardware.is_gone(&rank.host));
        let hosts = judge::Hosts {
            explain: &|host| self.hardware.explain(host, known.channels.created),
            build: &|host| self.hardware.build(host).cloned(),
        };
        let is_settled = now.since(known.first).as_nanos() >= u128::from(SETTLES_AFTER_NS);
        let judgements = match is_gone {
            true => Vec::new(),
            false => judge::judge(&known.channels, previous, is_settled, &hosts),
        };
        let past = known.channels.past;
        let judgements = judgements.into_iter().map(|judgement| judgement.of_past(past)).collect();
        self.ledger.settle(&Scope::Communicator(id), &known.channels.job, judgements, now)
    }
}

/// How long nothing may be heard of a host before what was found of it is over: longer than its agent takes to start
/// again. That it is gone is another finding.
pub const HOST_GONE_AFTER: Duration = Duration::from_secs(300);

/// How long after it was first heard of a communicator may be seen in part: calls, profiler and log tell of it one after
/// the other, the log when its reader comes by.
pub const SETTLES_AFTER_NS: u64 = 10_000_000_000;
