//! The life of one incident: what was known when. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{capital, duration, list};
use ringscope_api::{
    Cost, Culprit, Detail, Finding, FindingState, Incident, IncidentEvent, Severity, TIMELINE_MAX,
};

use super::group::{Group, began};
use crate::judgement::GAVE_UP;

/// An incident that goes on, and what of it is not to be shown.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) incident: Incident,
    /// Its findings that fired when it was looked at last. `None`: nobody has looked since the restart.
    firing: Option<BTreeSet<String>>,
    /// When it was told of last.
    pub(super) told: Timestamp,
    /// Whether nobody was told how it is now.
    is_news: bool,
}

impl Place {
    /// A new one.
    pub(super) fn new(id: String, group: &Group<'_>, now: Timestamp) -> Self {
        let root = group.root();
        let began_at = group.members.iter().map(|finding| began(finding)).min().unwrap_or(now);
        let first_seen = group.members.iter().map(|finding| found(finding, now)).min().unwrap_or(now);
        let incident = Incident {
            id,
            state: FindingState::Firing,
            severity: group.severity(),
            finding: root.finding,
            sentence: root.message.clone(),
            advice: String::new(),
            job: String::new(),
            host: String::new(),
            rank: None,
            comm: String::new(),
            culprits: Vec::new(),
            n_victims: 0,
            cost: None,
            imported: root.imported,
            began_at,
            first_seen,
            last_seen: now,
            resolved_at: None,
            job_ended_at: None,
            times_back: 0,
            findings: vec![root.id.clone()],
            timeline: Vec::new(),
            acknowledged: None,
            silenced_until: None,
            notes: Vec::new(),
        };
        let mut place = Self { incident, firing: Some(BTreeSet::new()), told: now, is_news: true };
        if first_seen.since(began_at) >= WORTH_SAYING {
            place.note(began_at, "It began, as the hosts' clocks say.".to_owned());
        }
        place.note(found(root, now), format!("Found: {}", root.message));
        if root.imported {
            let known = group.members.iter().any(|finding| finding.began_at.is_some());
            place.note(now, if known { IMPORTED } else { IMPORTED_UNTIMED }.to_owned());
        }
        place
    }

    /// One from the store.
    pub(super) fn restored(incident: Incident) -> Self {
        let told = incident.last_seen;
        Self { incident, firing: None, told, is_news: false }
    }

    /// One that was over and is not.
    pub(super) fn back(mut incident: Incident, now: Timestamp) -> Self {
        let after = incident.resolved_at.map(|at| duration(now.since(at))).unwrap_or_default();
        incident.state = FindingState::Firing;
        incident.resolved_at = None;
        incident.job_ended_at = None;
        incident.times_back = incident.times_back.saturating_add(1);
        let text = match incident.times_back {
            1 => format!("{BACK} after {after}."),
            n => format!("{BACK} {n} times, now after {after}."),
        };
        // What flaps is one entry.
        incident.timeline.retain(|event| {
            event.text != OVER && event.text != OVER_WITH_JOB && !event.text.starts_with(BACK)
        });
        let mut place = Self { incident, firing: Some(BTreeSet::new()), told: now, is_news: true };
        place.note(now, text);
        place
    }

    /// Takes in what the store knew of it.
    pub(super) fn adopt(&mut self, old: Incident) {
        self.is_news = true;
        let new = &mut self.incident;
        new.began_at = new.began_at.min(old.began_at);
        new.first_seen = new.first_seen.min(old.first_seen);
        new.acknowledged = new.acknowledged.take().or(old.acknowledged);
        new.silenced_until = new.silenced_until.max(old.silenced_until);
        let newer = std::mem::replace(&mut new.notes, old.notes);
        new.notes.extend(newer);
        let newer = std::mem::replace(&mut new.timeline, old.timeline);
        for event in newer {
            self.note(event.at, event.text);
        }
    }

    /// Makes it what the group says. Returns whether anything changed but `last_seen`, and what it has cost so far, which grows always.
    pub(super) fn update(&mut self, group: &Group<'_>, now: Timestamp) -> bool {
        let before = self.incident.clone();
        let root = group.root();
        self.take_root(root, now);
        let worst = group.severity();
        if worst > self.incident.severity {
            self.note(now, format!("It is {} now.", worst.label()));
        }
        self.incident.severity = worst;
        self.take_members(group, now);
        let incident = &mut self.incident;
        job(group).clone_into(&mut incident.job);
        incident.culprits = culprits(root);
        incident.imported = root.imported;
        incident.n_victims = group.members.iter().map(|finding| finding.n_victims).max().unwrap_or(0);
        incident.cost = cost(group);
        incident.began_at =
            group.members.iter().map(|finding| began(finding)).min().unwrap_or(now).min(incident.began_at);
        incident.last_seen = incident.last_seen.max(now);
        let (last_seen, cost) = (incident.last_seen, incident.cost);
        std::mem::take(&mut self.is_news) || Incident { last_seen, cost, ..before } != *incident
    }

    /// Whether its job has ended, and when.
    pub(super) fn note_end_of_job(&mut self, at: Option<Timestamp>) {
        self.is_news |= self.incident.job_ended_at != at;
        self.incident.job_ended_at = at;
    }

    /// Whether nobody was told how it is now.
    pub(super) const fn is_news(&self) -> bool {
        self.is_news
    }

    /// It, to be told of.
    pub(super) fn tell(&mut self, now: Timestamp) -> Incident {
        self.is_news = false;
        self.told = now;
        self.incident.clone()
    }

    /// What it comes from is only information by now: what became of it.
    pub(super) fn is_history(&mut self, root: &Finding, now: Timestamp) {
        self.incident.sentence.clone_from(&root.message);
        self.incident.advice.clone_from(&root.advice);
        self.note(now, root.message.clone());
    }

    /// It is over. `heir`: the incident that its findings turned out to be of.
    pub(super) fn end(mut self, heir: Option<&str>, now: Timestamp) -> Incident {
        match heir {
            Some(heir) => {
                self.note(now, format!("It is the same as incident {heir}, and goes on there."));
                self.incident.job_ended_at = None;
            }
            None if self.incident.job_ended_at.is_some() => self.note(now, OVER_WITH_JOB.to_owned()),
            None => self.note(now, OVER.to_owned()),
        }
        if names_pid(&self.incident) {
            ADVICE_OVER.clone_into(&mut self.incident.advice);
        }
        self.incident.state = FindingState::Resolved;
        self.incident.resolved_at = Some(now);
        self.incident
    }

    /// Ends a silence that has run out. Returns whether it did.
    pub(super) fn end_silence(&mut self, now: Timestamp) -> bool {
        let is_over = self.incident.silenced_until.is_some_and(|until| until <= now);
        if is_over {
            self.incident.silenced_until = None;
            self.note(now, "The silence is over.".to_owned());
        }
        is_over
    }

    fn note(&mut self, at: Timestamp, text: String) {
        note(&mut self.incident, at, text);
    }

    fn take_root(&mut self, root: &Finding, now: Timestamp) {
        if self.incident.findings.first() != Some(&root.id) {
            if !is_about_same(&self.incident, root) {
                self.note(now, format!("The cause, as is known now: {}", root.message));
            }
            self.incident.findings.retain(|id| *id != root.id);
            self.incident.findings.insert(0, root.id.clone());
        }
        for detail in root.details.iter().take(DETAILS_TOLD) {
            if detail.title == GAVE_UP {
                note_all(&mut self.incident, now, detail);
                continue;
            }
            let first = detail.lines.first().map(|line| format!(": {line}")).unwrap_or_default();
            // A look at a process is titled by who it is.
            let title = detail.title.to_lowercase();
            let is_who = ["rank ", "worker "].iter().any(|word| title.starts_with(word));
            let looked = if is_who { LOOKED } else { "" };
            note_once(&mut self.incident, now, format!("{looked}{}{first}", capital(&detail.title)));
        }
        let incident = &mut self.incident;
        incident.finding = root.finding;
        incident.sentence.clone_from(&root.message);
        incident.advice.clone_from(&root.advice);
        incident.host = culprits(root).first().map_or_else(|| root.host.clone(), |one| one.host.clone());
        incident.rank = root.accused.first().and_then(|one| one.rank).or(root.rank);
        incident.comm.clone_from(&root.comm);
    }

    fn take_members(&mut self, group: &Group<'_>, now: Timestamp) {
        let fires: BTreeSet<String> = group.members.iter().map(|finding| finding.id.clone()).collect();
        for finding in &group.members[1..] {
            if !self.incident.findings.contains(&finding.id) && self.incident.findings.len() < MAX_MEMBERS {
                self.incident.findings.push(finding.id.clone());
                self.note(finding.first_seen.max(self.incident.began_at), follows(finding));
            }
        }
        let gone = self.firing.iter().flatten().filter(|id| !fires.contains(*id)).count();
        if gone > 0 {
            let left = fires.len();
            self.note(now, format!("{gone} of its findings ended; {left} still hold."));
        }
        self.firing = Some(fires);
    }
}

/// Whether an incident says of a process what this finding says of it.
pub(super) fn is_about_same(incident: &Incident, root: &Finding) -> bool {
    let accused = |culprit: &Culprit| {
        culprit.pid.is_some()
            && root.accused.iter().any(|one| one.pid == culprit.pid && one.host == culprit.host)
    };
    incident.finding == root.finding && incident.job == root.job && incident.culprits.iter().any(accused)
}

/// When a finding was found. One of a wait says of itself when the wait began.
fn found(finding: &Finding, now: Timestamp) -> Timestamp {
    if finding.began_at == Some(finding.first_seen) { now } else { finding.first_seen }
}

/// Who is to blame as far as the root says: processes, else hosts, else its own subject.
fn culprits(root: &Finding) -> Vec<Culprit> {
    if !root.accused.is_empty() {
        return root.accused.iter().take(CULPRITS_MAX).cloned().collect();
    }
    let host = |host: &String| Culprit { host: host.clone(), ..Culprit::default() };
    if !root.culprits.is_empty() {
        return root.culprits.iter().take(CULPRITS_MAX).map(host).collect();
    }
    if root.host.is_empty() { Vec::new() } else { vec![Culprit { rank: root.rank, ..host(&root.host) }] }
}

/// Whether it is advised to do something to a process that is to blame: once it is over, its number may be another's.
fn names_pid(incident: &Incident) -> bool {
    let mut numbers =
        incident.advice.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    numbers.any(|number: u32| incident.culprits.iter().any(|culprit| culprit.pid == Some(number)))
}

fn follows(finding: &Finding) -> String {
    let severity = if finding.severity == Severity::Info { "Explained by it" } else { "Follows from it" };
    format!("{severity}: {}", finding.message)
}

/// What may be found again and again is told once.
fn note_once(incident: &mut Incident, at: Timestamp, text: String) {
    if !incident.timeline.iter().any(|event| event.text == text) {
        note(incident, at, text);
    }
}

/// What grows with every look is one entry, with all that it has grown to.
fn note_all(incident: &mut Incident, now: Timestamp, detail: &Detail) {
    let known = incident.timeline.iter().position(|event| event.text.starts_with(detail.title.as_str()));
    let at = known.map_or(now, |place| incident.timeline.remove(place).at);
    note(incident, at, format!("{}: {}", detail.title, list(&detail.lines, LINES_TOLD)));
}

/// Writes down what became known; what is there already is not said twice, and what is too much is left out in the middle.
pub(super) fn note(incident: &mut Incident, at: Timestamp, text: String) {
    let timeline = &mut incident.timeline;
    let is_said = |event: &IncidentEvent| event.text == text;
    if timeline.last().is_some_and(is_said) {
        return;
    }
    if timeline.len() >= TIMELINE_MAX {
        timeline.remove(TIMELINE_MAX / 2);
        timeline[TIMELINE_MAX / 2] = IncidentEvent {
            at: timeline[TIMELINE_MAX / 2].at,
            text: "(Entries are left out here: there were too many.)".to_owned(),
        };
    }
    let place = timeline.partition_point(|event| event.at <= at);
    timeline.insert(place, IncidentEvent { at, text });
}

/// What it costs: several findings tell of the same lost time, so they are not added up.
fn cost(group: &Group<'_>) -> Option<Cost> {
    let costs = || group.members.iter().filter_map(|finding| finding.cost);
    let costliest = || costs().max_by(|one, other| one.rank_hours.total_cmp(&other.rank_hours));
    group.root().cost.or_else(costliest)
}

/// The job that it is about: that of the root, else the only one of all its findings.
fn job<'f>(group: &Group<'f>) -> &'f str {
    let root = group.root().job.as_str();
    if !root.is_empty() {
        return root;
    }
    let mut jobs = group.members.iter().map(|finding| finding.job.as_str()).filter(|job| !job.is_empty());
    let first = jobs.next().unwrap_or_default();
    if jobs.all(|job| job == first) { first } else { "" }
}

/// Findings of one incident that are named.
pub const MAX_MEMBERS: usize = 256;
/// Of what was not seen but read.
const IMPORTED: &str = "It was read from files: nobody is told of it.";
/// The same, if nothing tells its time.
const IMPORTED_UNTIMED: &str = "It was read from files that do not say when it was: nobody is told of it.";
/// What was seen when somebody looked.
const LOOKED: &str = "Looked: ";
/// How soon after its end an incident that comes again is the same one: whoever looks after it still knows it.
pub const BACK_WITHIN: Duration = Duration::from_secs(600);
const OVER: &str = "It is over.";
const OVER_WITH_JOB: &str = "It ended with its job.";
/// What was advised in its place was about a process that may be gone.
const ADVICE_OVER: &str = "It is over: nothing is to be done to the process.";
const BACK: &str = "It came back";
/// A beginning that is that much older than the finding is worth a line.
const WORTH_SAYING: Duration = Duration::from_secs(1);
/// Lines of a detail in one entry.
const LINES_TOLD: usize = 8;
/// Details of the root that are told in the timeline.
const DETAILS_TOLD: usize = 4;
/// Culprits that are named.
const CULPRITS_MAX: usize = 64;
