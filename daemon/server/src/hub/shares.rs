//! What each tenant, and each token, may have of what the model holds: nobody takes the room of others.
//!
//! A tenant has an equal part, and what is of no tenant another one, unless the operator gives a tenant more or less; a token
//! has half of its tenant's. What exceeds that is taken out of a batch before anything hears of it, and refused; what is known
//! goes on. The counts are taken from the model where a bound is met, for only there they matter: in between they grow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringscope_access::{Sender, Tenant};
use ringscope_api::clock::Timestamp;
use ringscope_model::limits::SWEEP_EVERY;
use ringscope_model::{Bound, Changes, Communicator, CommunicatorId, Model, Name, Newcomers};
use ringscope_wire::batch::{Batch, Process, ProcessState};

use super::{Hub, State, Taken};

/// Who has how much.
#[derive(Default)]
pub(super) struct Shares {
    /// Of a tenant, in percent; `None`: an equal part.
    percent: Option<u8>,
    /// The token that told first of a process, by its key.
    told_by: HashMap<Name, Arc<str>>,
    /// The token that told first of a host.
    hosts_told_by: HashMap<Name, Arc<str>>,
    held: BTreeMap<Party, Held>,
    /// When it was counted last.
    counted_at: Option<Timestamp>,
    /// When room was made last.
    made_room_at: Option<Timestamp>,
}

/// Whose share it is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Party {
    /// All together.
    All,
    /// A tenant, or what is nobody's in particular.
    Tenant(Option<Tenant>),
    /// A token, by id.
    Token(Arc<str>),
}

/// So many, by [`Bound`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Held([usize; Bound::ALL.len()]);

/// What a batch told of and was refused: the first bound that it met.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Beyond {
    party: Party,
    /// Whose share it is, in words.
    whose: String,
    /// As whom, e.g. "one tenant".
    kind: &'static str,
    advice: &'static str,
    bound: Bound,
    most: usize,
    /// So many processes, communicators and hosts were left out.
    pub n: usize,
    /// It was of files, which are sent once.
    pub of_files: bool,
    /// Keys of processes that had ended and were forgotten to make room.
    forgotten: BTreeSet<String>,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whose, kind, advice, bound, most, .. } = self;
        let what = bound.label();
        write!(
            f,
            "{whose} has told of {most} {what}, which is the most for {kind}: what is known goes on, and new {what} are refused. \
             The first that ended are forgotten now, and what was refused is asked for again; {advice}"
        )
    }
}

/// What one token told of.
#[derive(Default)]
struct OfToken<'m> {
    n_processes: usize,
    jobs: BTreeSet<&'m str>,
    hosts: BTreeSet<&'m str>,
    communicators: BTreeSet<CommunicatorId>,
}

impl OfToken<'_> {
    fn held(&self) -> Held {
        Held::of(|bound| match bound {
            Bound::Hosts => self.hosts.len(),
            Bound::Jobs => self.jobs.len(),
            Bound::Processes => self.n_processes,
            Bound::Communicators => self.communicators.len(),
        })
    }
}

/// One batch on its way in.
struct Admission<'a> {
    shares: &'a mut Shares,
    model: &'a Model,
    /// Who sends it, and what each of these may have.
    parties: Vec<(Party, Held)>,
    sender: &'a Sender,
    agent_host: &'a str,
    now: Timestamp,
    /// What of it was let in and is not in the model yet.
    jobs: BTreeSet<String>,
    hosts: BTreeSet<String>,
    communicators: BTreeSet<CommunicatorId>,
    /// Keys of its processes.
    told: Vec<Name>,
    added: Held,
    beyond: Option<Beyond>,
}

impl Hub {
    /// What one tenant may have of what there is room for, in percent; `None`: an equal part.
    pub fn set_tenant_share(&self, percent: Option<u8>) {
        self.lock().shares.set_percent(percent);
    }

    /// [`Hub::ingest`] of a sender who has a share of what there is room for, from whom what exceeds it is not taken.
    pub fn ingest_from(&self, sender: &Sender, batch: &mut Batch, now: Timestamp) -> Taken {
        let n_tenants = self.tenants.n();
        let mut state = self.lock();
        let mut beyond = {
            let State { model, shares, .. } = &mut *state;
            shares.admit(batch, (sender, n_tenants), model, now)
        };
        if let Some(beyond) = &mut beyond {
            beyond.forgotten = self.make_room(&mut state, beyond, now);
            state.model.note_refused(&beyond.to_string(), beyond.n, now);
        }
        let taken = self.take(&mut state, batch, now);
        if let Some(beyond) = &beyond {
            let pause = if beyond.forgotten.is_empty() { ASKED_AGAIN } else { Duration::ZERO };
            state.agents.ask_again(&batch.agent_id, now, pause);
        }
        Taken { beyond, ..taken }
    }

    /// Forgets those processes of a share that ended first, so that there is room when its sender tells of the others again.
    /// Returns their keys.
    fn make_room(&self, state: &mut State, beyond: &Beyond, now: Timestamp) -> BTreeSet<String> {
        // To look for them takes as long as there are processes, and who is refused may go on to send.
        if !state.shares.may_make_room(now) {
            return BTreeSet::new();
        }
        let changes = {
            let State { model, shares, .. } = &mut *state;
            let n = (beyond.most / ROOM_PART).max(beyond.n);
            let changes = model.forget_ended(n, |key| shares.is_of(&beyond.party, key));
            if changes != Changes::default() {
                shares.count(model, now);
            }
            changes
        };
        let mut forgotten = changes.facts.clone();
        self.note(state, changes, now);
        forgotten.retain(|key| state.model.process(key).is_none());
        forgotten
    }

    /// What everybody's hub has forgotten of a tenant to make room.
    pub(super) fn forget_too(&self, beyond: &Beyond, now: Timestamp) {
        let mut state = self.lock();
        let forgotten = &beyond.forgotten;
        let changes = state.model.forget_ended(forgotten.len(), |key| forgotten.contains(key));
        self.note(&mut state, changes, now);
    }
}

impl Held {
    fn of(mut count: impl FnMut(Bound) -> usize) -> Self {
        Self(Bound::ALL.map(&mut count))
    }

    fn get(&self, bound: Bound) -> usize {
        self.0[bound as usize]
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(one, more)| *one = one.saturating_add(more));
    }

    fn count(&mut self, bound: Bound) {
        self.0[bound as usize] += 1;
    }

    /// The first bound that this and as many more exceed.
    fn exceeds(&self, more: &Self, most: &Self) -> Option<Bound> {
        let exceeds = |bound: &Bound| {
            more.get(*bound) > 0 && self.get(*bound).saturating_add(more.get(*bound)) > most.get(*bound)
        };
        Bound::ALL.into_iter().find(exceeds)
    }
}

impl Shares {
    pub(super) fn set_percent(&mut self, percent: Option<u8>) {
        self.percent = percent;
    }

    /// Whether it is time to make room again.
    fn may_make_room(&mut self, now: Timestamp) -> bool {
        let is_early = |at: Timestamp| now >= at && now.since(at) < ROOM_EVERY;
        let may = !self.made_room_at.is_some_and(is_early);
        if may {
            self.made_room_at = Some(now);
        }
        may
    }

    /// Whether a process counts against this share.
    fn is_of(&self, party: &Party, key: &str) -> bool {
        match party {
            Party::All => true,
            Party::Tenant(tenant) => Tenant::of_name(key) == *tenant,
            Party::Token(token) => self.told_by.get(key) == Some(token),
        }
    }

    /// Counts anew when that is needed next.
    pub(super) fn forget(&mut self) {
        self.counted_at = None;
    }

    /// Takes out of a batch what its sender's share has no room for.
    pub(super) fn admit(
        &mut self,
        batch: &mut Batch,
        (sender, n_tenants): (&Sender, usize),
        model: &Model,
        now: Timestamp,
    ) -> Option<Beyond> {
        if self.counted_at.is_none_or(|at| now < at)
            || self.told_by.len() > model.n_processes() + FORGOTTEN_MAX
        {
            self.count(model, now);
        }
        let agent_host = batch.agent_host.clone();
        let of_files = batch.processes.iter().any(|process| process.state() == ProcessState::Imported);
        let parties = self.parties(sender, n_tenants);
        let mut admission = Admission {
            shares: self,
            model,
            parties,
            sender,
            agent_host: &agent_host,
            now,
            jobs: BTreeSet::new(),
            hosts: BTreeSet::new(),
            communicators: BTreeSet::new(),
            told: Vec::new(),
            added: Held::default(),
            beyond: None,
        };
        batch.processes.retain_mut(|process| admission.admits(process));
        batch.hardware.retain(|hardware| admission.admits_host(&hardware.host));
        admission.admits_host_of_agent(batch);
        let Admission { told, beyond, .. } = admission;
        if !sender.id.is_empty() {
            let token: Arc<str> = sender.id.as_str().into();
            self.told_by.extend(told.into_iter().map(|key| (key, Arc::clone(&token))));
        }
        beyond.map(|beyond| Beyond { of_files, ..beyond })
    }

    /// Whose share a sender's is, and what each may have.
    fn parties(&self, sender: &Sender, n_tenants: usize) -> Vec<(Party, Held)> {
        let of_tenant = Held::of(|bound| match (n_tenants, self.percent) {
            (0, _) => bound.most(),
            (_, Some(percent)) => (bound.most() * usize::from(percent) / 100).max(1),
            (n, None) => bound.most() / (n + 1),
        });
        let mut parties =
            vec![(Party::All, Held::of(Bound::most)), (Party::Tenant(sender.tenant.clone()), of_tenant)];
        if !sender.id.is_empty() {
            let token = Party::Token(sender.id.as_str().into());
            let others = |party: &Party| matches!(party, Party::Token(_)) && *party != token;
            // Where it is the only one that has told of anything a tenth is left for others to come.
            let part = if self.held.keys().any(others) { 5 } else { 9 };
            parties.push((token, Held::of(|bound| (of_tenant.get(bound) * part).div_ceil(10))));
        }
        parties
    }

    /// Counts what the model has.
    fn count(&mut self, model: &Model, now: Timestamp) {
        self.counted_at = Some(now);
        self.told_by.retain(|key, _| model.process(key).is_some());
        self.held.clear();
        self.hosts_told_by.retain(|host, _| model.is_known_host(host));
        for (host, _) in model.hosts() {
            self.note(Tenant::of_name(host), Bound::Hosts);
        }
        for (job, _) in model.jobs() {
            self.note(Tenant::of_name(job), Bound::Jobs);
        }
        for communicator in model.communicators() {
            self.note(Tenant::of_name(communicator.job()), Bound::Communicators);
        }
        let mut tokens: BTreeMap<Arc<str>, OfToken<'_>> = BTreeMap::new();
        for (key, process) in model.processes() {
            self.note(Tenant::of_name(key), Bound::Processes);
            let Some(token) = self.told_by.get(key) else { continue };
            let of_token = tokens.entry(Arc::clone(token)).or_default();
            of_token.n_processes += 1;
            if let Some(identity) = process.identity() {
                of_token.jobs.insert(&*identity.job);
                of_token.hosts.insert(&*identity.host);
            }
            of_token.communicators.extend(model.communicators_of(process).map(Communicator::id));
        }
        for (host, token) in &self.hosts_told_by {
            tokens.entry(Arc::clone(token)).or_default().hosts.insert(host);
        }
        for (token, of_token) in tokens {
            self.held.insert(Party::Token(token), of_token.held());
        }
    }

    fn note(&mut self, tenant: Option<Tenant>, bound: Bound) {
        for party in [Party::All, Party::Tenant(tenant)] {
            self.held.entry(party).or_default().count(bound);
        }
    }
}

impl Admission<'_> {
    fn admits_host(&mut self, host: &str) -> bool {
        let is_new = !host.is_empty() && !self.model.is_known_host(host) && !self.hosts.contains(host);
        let fits = self.fits(&Held::of(|bound| usize::from(is_new && bound == Bound::Hosts)));
        if fits && is_new {
            self.hosts.insert(host.to_owned());
            if !self.sender.id.is_empty() {
                self.shares.hosts_told_by.insert(host.into(), self.sender.id.as_str().into());
            }
        }
        fits
    }

    fn has_no_room_for_a_job(&self) -> bool {
        let one = Held::of(|bound| usize::from(matches!(bound, Bound::Jobs | Bound::Hosts)));
        self.exceeded(&one).is_some()
    }

    /// What an agent says of its own host may be all that is known of it.
    fn admits_host_of_agent(&mut self, batch: &mut Batch) {
        let says_nothing = batch.cannot_watch.is_empty()
            && batch.not_watched.is_empty()
            && batch.kernel.is_empty()
            && batch.kernel_reading.is_none();
        if !says_nothing && !self.admits_host(&batch.agent_host) {
            batch.cannot_watch.clear();
            batch.not_watched.clear();
            batch.kernel.clear();
            batch.kernel_reading = None;
        }
    }

    /// Whether a process may stay, if need be without some of its communicators.
    fn admits(&mut self, told: &mut Process) -> bool {
        let Newcomers { is_new, job, host, communicators } = self.model.newcomers(told, self.agent_host);
        let job = job.filter(|job| !self.jobs.contains(job));
        let host = host.filter(|host| !self.hosts.contains(host));
        let needed = Held::of(|bound| match bound {
            Bound::Processes => usize::from(is_new),
            Bound::Jobs => usize::from(job.is_some()),
            Bound::Hosts => usize::from(host.is_some()),
            Bound::Communicators => 0,
        });
        if told.identity.is_none()
            && self.model.process(&told.key).is_none_or(|known| known.identity().is_none())
        {
            // Of which job they are nobody knows yet; its agent is asked for everything, and tells of them again.
            told.communicators.clear();
            if self.has_no_room_for_a_job() {
                // More of one that was refused.
                return false;
            }
        }
        if !self.fits(&needed) {
            return false;
        }
        self.jobs.extend(job);
        self.hosts.extend(host);
        if is_new && !self.sender.id.is_empty() {
            self.told.push(told.key.as_str().into());
        }
        let mut left_out = BTreeSet::new();
        for (at, id) in communicators {
            let is_new = !self.communicators.contains(&id);
            if self.fits(&Held::of(|bound| usize::from(is_new && bound == Bound::Communicators))) {
                self.communicators.insert(id);
            } else {
                left_out.insert(at);
            }
        }
        let mut at = 0..;
        told.communicators.retain(|_| at.next().is_none_or(|at| !left_out.contains(&at)));
        true
    }

    /// Adds to what its sender has, if there is room.
    fn fits(&mut self, needed: &Held) -> bool {
        if *needed == Held::default() {
            return true;
        }
        if self.exceeded(needed).is_some()
            && self.shares.counted_at.is_none_or(|at| self.now.since(at) >= COUNT_EVERY)
        {
            self.shares.count(self.model, self.now);
            let added = self.added;
            self.add(&added);
        }
        match self.exceeded(needed) {
            None => {
                self.added.add(needed);
                self.add(needed);
                true
            }
            Some(beyond) => {
                let n = self.beyond.as_ref().map_or(0, |known| known.n) + 1;
                self.beyond = Some(Beyond { n, ..self.beyond.take().unwrap_or(beyond) });
                false
            }
        }
    }

    fn add(&mut self, more: &Held) {
        for (party, _) in &self.parties {
            self.shares.held.entry(party.clone()).or_default().add(more);
        }
    }

    fn exceeded(&self, needed: &Held) -> Option<Beyond> {
        self.parties.iter().find_map(|(party, most)| {
            let held = self.shares.held.get(party).copied().unwrap_or_default();
            let bound = held.exceeds(needed, most)?;
            let larger = "whoever runs the daemon can raise --tenant-share";
            let (whose, kind, advice) = match party {
                Party::All => {
                    let advice = "another daemon can take a part of the hosts";
                    ("whoever sends to this daemon".to_owned(), "all together", advice)
                }
                Party::Tenant(Some(tenant)) => (format!("the tenant {tenant}"), "one tenant", larger),
                Party::Tenant(None) => ("what is of no tenant".to_owned(), "what is of no tenant", larger),
                Party::Token(_) => {
                    let of = self.sender.tenant.as_ref().map_or_else(String::new, |one| format!(" of {one}"));
                    let advice = "whoever runs the daemon can give some of the hosts a token of their own";
                    (format!("{:?}{of}", self.sender.name), "one token", advice)
                }
            };
            let (party, most) = (party.clone(), most.get(bound));
            Some(Beyond {
                party,
                whose,
                kind,
                advice,
                bound,
                most,
                n: 0,
                of_files: false,
                forgotten: BTreeSet::new(),
            })
        })
    }
}

/// How often what the model has is counted at most: it takes some hundred nanoseconds a process, and the model forgets no
/// more often.
const COUNT_EVERY: Duration = SWEEP_EVERY;
/// How soon an agent is asked again for what was refused, where nothing made room for it.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
/// How often room is made at most.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// One in so many of what a share has makes room at once.
const ROOM_PART: usize = 10;
/// Processes that the model has forgotten and which are remembered here.
const FORGOTTEN_MAX: usize = 1_000;

#[cfg(test)]
mod tests;
