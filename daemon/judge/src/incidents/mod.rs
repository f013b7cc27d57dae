//! Incidents: findings with one cause, as one thing that somebody has to look after. Pure, takes `now` as an argument.
//!
//! [`Incidents::settle`] groups what fires (`group`, by the keys of `keys`), finds the incident that each group is, and
//! keeps its life (`life`). What people say of it is in `people`.

mod group;
mod keys;
mod life;
mod people;
#[cfg(test)]
mod tests;

pub use life::{BACK_WITHIN, MAX_MEMBERS};
pub use people::SpeakError;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingState, Incident, Severity};

use self::group::Group;
use self::life::{Place, is_about_same};
use super::ledger::LAST_SEEN_STEP;

/// Incidents that are open at a time. Beyond this one more tells nobody anything.
pub const MAX_OPEN: usize = 10_000;
/// Incidents that are over and remembered; the oldest are forgotten first.
pub const MAX_OVER: usize = 2_000;

/// Every incident.
#[derive(Debug, Default)]
pub struct Incidents {
    open: BTreeMap<String, Place>,
    over: HashMap<String, Incident>,
    by_end: BTreeSet<(Timestamp, String)>,
    n_left_out: u64,
}

/// What settling changed.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Incidents that appeared, ended or changed.
    pub(super) incidents: Vec<Incident>,
    /// Findings whose incident is another one now, and which.
    pub(super) moved: Vec<(String, String)>,
}

impl Incidents {
    /// Every incident, open and over, in no order.
    pub fn all(&self) -> impl Iterator<Item = &Incident> {
        self.open.values().map(|place| &place.incident).chain(self.over.values())
    }

    /// Those that go on, by id.
    pub fn open(&self) -> impl Iterator<Item = &Incident> {
        self.open.values().map(|place| &place.incident)
    }

    /// One incident.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Incident> {
        self.open.get(id).map(|place| &place.incident).or_else(|| self.over.get(id))
    }

    /// How often an incident had no room.
    pub(super) fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    /// Takes back what the store kept. What began in the meantime under the same id gets its true beginning.
    pub(super) fn restore(&mut self, incident: Incident) {
        if let Some(place) = self.open.get_mut(&incident.id) {
            return place.adopt(incident);
        }
        if self.over.contains_key(&incident.id) {
            return;
        }
        match incident.state {
            FindingState::Firing if self.open.len() < MAX_OPEN => {
                self.open.insert(incident.id.clone(), Place::restored(incident));
            }
            _ => self.put_over(incident),
        }
    }

    /// Makes these findings what fires.
    pub(super) fn settle<'f>(
        &mut self,
        firing: impl Iterator<Item = &'f Finding>,
        now: Timestamp,
    ) -> Settled {
        let firing: Vec<&Finding> = firing.collect();
        let groups = group::group(firing.iter().copied());
        let ids = self.claim(&groups);
        let mut settled = Settled::default();
        let mut held = BTreeSet::new();
        for (group, id) in groups.iter().zip(ids) {
            let Some(id) = id.or_else(|| self.begin(group, now)) else {
                self.n_left_out += 1;
                continue;
            };
            let moved = group.members.iter().filter(|finding| finding.incident != id);
            settled.moved.extend(moved.map(|finding| (finding.id.clone(), id.clone())));
            if let Some(place) = self.open.get_mut(&id)
                && place.update(group, now)
            {
                settled.incidents.push(place.tell(now));
            }
            held.insert(id);
        }
        let by_id = firing.into_iter().map(|finding| (finding.id.as_str(), finding)).collect();
        settled.incidents.extend(self.end_all_but(&held, &settled.moved, &by_id, now));
        settled
    }

    /// Notes of the jobs that open incidents are about whether they have ended, and when.
    pub(super) fn note_ends(&mut self, ended: impl Fn(&str) -> Option<Timestamp>) {
        let mut known: HashMap<String, Option<Timestamp>> = HashMap::new();
        for place in self.open.values_mut().filter(|place| !place.incident.job.is_empty()) {
            let job = &place.incident.job;
            let at = match known.get(job) {
                Some(at) => *at,
                None => *known.entry(job.clone()).or_insert_with(|| ended(job)),
            };
            place.note_end_of_job(at);
        }
    }

    /// The job with which it ended did so well: it is over as any other is. Returns it.
    pub(super) fn job_ended_well(&mut self, id: &str) -> Option<Incident> {
        let incident = self.over.get_mut(id)?;
        incident.job_ended_at = None;
        Some(incident.clone())
    }

    /// What time alone changes.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<Incident> {
        let mut changed = Vec::new();
        for place in self.open.values_mut() {
            let is_past = place.incident.imported;
            if !is_past {
                place.incident.last_seen = place.incident.last_seen.max(now);
            }
            let spoke = place.end_silence(now);
            if spoke || place.is_news() || !is_past && now.since(place.told) >= LAST_SEEN_STEP {
                changed.push(place.tell(now));
            }
        }
        changed
    }

    /// The open incident that each group is: that of its root, else the oldest of its members'.
    fn claim(&self, groups: &[Group<'_>]) -> Vec<Option<String>> {
        let named = self
            .open
            .values()
            .flat_map(|place| place.incident.findings.iter().map(move |finding| (finding.as_str(), place)));
        let by_finding: HashMap<&str, &Place> = named.collect();
        let known = |finding: &Finding| {
            self.open.get(&finding.incident).or_else(|| by_finding.get(finding.id.as_str()).copied())
        };
        let is_root = |finding: &Finding, place: &Place| place.incident.findings.first() == Some(&finding.id);
        let mut claimed: BTreeSet<&str> = BTreeSet::new();
        let mut ids: Vec<Option<String>> = vec![None; groups.len()];
        for of_root in [true, false] {
            for (group, id) in groups.iter().zip(&mut ids).filter(|(_, id)| id.is_none()) {
                let members = group.members.iter().filter_map(|finding| Some((*finding, known(finding)?)));
                let free = members
                    .filter(|(finding, place)| !of_root || is_root(finding, place))
                    .map(|(_, place)| &place.incident)
                    .filter(|incident| !claimed.contains(incident.id.as_str()));
                if let Some(oldest) = free.min_by_key(|incident| (incident.first_seen, &incident.id)) {
                    claimed.insert(&oldest.id);
                    *id = Some(oldest.id.clone());
                }
            }
        }
        // What is found about the same process in another communicator is the same: a death is told first where it is seen,
        // then where somebody waits.
        for (group, id) in groups.iter().zip(&mut ids).filter(|(_, id)| id.is_none()) {
            let same = self.open().filter(|incident| !claimed.contains(incident.id.as_str()));
            let mut same = same.filter(|incident| is_about_same(incident, group.root()));
            if let Some(same) = same.next() {
                claimed.insert(&same.id);
                *id = Some(same.id.clone());
            }
        }
        ids
    }

    /// A new incident for a group, or the one that is back soon after it was over. `None`: there is no room.
    fn begin(&mut self, group: &Group<'_>, now: Timestamp) -> Option<String> {
        if self.open.len() >= MAX_OPEN {
            return None;
        }
        let root = &group.root().id;
        let back = self.over.values().filter(|incident| {
            incident.resolved_at.is_some_and(|at| now.since(at) <= BACK_WITHIN)
                && (incident.findings.first() == Some(root) || is_about_same(incident, group.root()))
        });
        let back = back.max_by_key(|incident| (incident.resolved_at, &incident.id));
        let place = match back.map(|incident| incident.id.clone()).and_then(|id| self.take_over(&id)) {
            Some(incident) => Place::back(incident, now),
            None => Place::new(self.free_id(root), group, now),
        };
        let id = place.incident.id.clone();
        self.open.insert(id.clone(), place);
        Some(id)
    }

    /// The finding's own id, or with a number behind it if it was an incident before.
    fn free_id(&self, root: &str) -> String {
        let is_free = |id: &String| !self.open.contains_key(id) && !self.over.contains_key(id);
        let numbered = (2..).map(|n: u64| format!("{root}-{n}"));
        std::iter::once(root.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    fn end_all_but(
        &mut self,
        held: &BTreeSet<String>,
        moved: &[(String, String)],
        firing: &HashMap<&str, &Finding>,
        now: Timestamp,
    ) -> Vec<Incident> {
        let ended: Vec<String> = self.open.keys().filter(|id| !held.contains(*id)).cloned().collect();
        let mut over = Vec::new();
        for id in ended {
            let Some(mut place) = self.open.remove(&id) else { continue };
            let root = place.incident.findings.first().and_then(|root| firing.get(root.as_str()));
            if let Some(root) = root.filter(|root| root.severity == Severity::Info) {
                place.is_history(root, now);
            }
            // Its findings may have turned out to belong elsewhere.
            let heir = moved.iter().find(|(finding, _)| place.incident.findings.contains(finding));
            let incident = place.end(heir.map(|(_, id)| id.as_str()), now);
            over.push(incident.clone());
            self.put_over(incident);
        }
        over
    }

    fn put_over(&mut self, mut incident: Incident) {
        incident.state = FindingState::Resolved;
        let at = *incident.resolved_at.get_or_insert(incident.last_seen);
        self.by_end.insert((at, incident.id.clone()));
        self.over.insert(incident.id.clone(), incident);
        while self.by_end.len() > MAX_OVER {
            let Some((_, id)) = self.by_end.pop_first() else { return };
            self.over.remove(&id);
        }
    }

    fn take_over(&mut self, id: &str) -> Option<Incident> {
        let incident = self.over.remove(id)?;
        self.by_end.remove(&(incident.resolved_at.unwrap_or_default(), id.to_owned()));
        Some(incident)
    }
}
