//! What was found over time: when each finding and incident begins to hold, is told otherwise in a way that matters, and ends. Of
//! numbers that move nothing is kept.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Culprit, Finding, FindingState, Incident};
use ringscope_store::{Told, Turn};

use super::State;

/// Of what holds, what was kept last.
#[derive(Debug, Default)]
pub(super) struct Holding(HashMap<String, Kept>);

#[derive(Debug)]
struct Kept {
    /// What matters of it, as a number.
    matter: u64,
    at: Timestamp,
    n_changes: u32,
}

impl State {
    /// News of findings, on their way into the store.
    pub(super) fn keep_findings(&mut self, findings: Vec<Finding>) {
        let Self { unsaved, holding, .. } = self;
        unsaved.turns(findings.iter().filter_map(|one| holding.of_finding(one)));
        unsaved.findings(findings);
    }

    /// The same of incidents.
    pub(super) fn keep_incidents(&mut self, incidents: Vec<Incident>) {
        let Self { unsaved, holding, .. } = self;
        unsaved.turns(incidents.iter().filter_map(|one| holding.of_incident(one)));
        unsaved.incidents(incidents);
    }
}

impl Holding {
    /// What is to be kept of news of a finding.
    pub(super) fn of_finding(&mut self, finding: &Finding) -> Option<Turn> {
        // What files tell is of another time.
        if finding.imported {
            return None;
        }
        let begins = finding.began_at.unwrap_or(finding.last_seen);
        let ends = finding.resolved_at.unwrap_or(finding.last_seen);
        let at = self.turns(
            (&finding.id, finding.state),
            matter_of_finding(finding),
            (begins, finding.last_seen, ends),
        )?;
        Some(Turn { of: Told::Finding(finding.clone()), at })
    }

    /// The same of an incident.
    pub(super) fn of_incident(&mut self, incident: &Incident) -> Option<Turn> {
        if incident.imported {
            return None;
        }
        // It keeps its first beginning when it comes back.
        let begins = if incident.times_back == 0 { incident.began_at } else { incident.last_seen };
        let ends = incident.resolved_at.unwrap_or(incident.last_seen);
        let at = self.turns(
            (&incident.id, incident.state),
            matter_of_incident(incident),
            (begins, incident.last_seen, ends),
        )?;
        Some(Turn { of: Told::Incident(incident.clone()), at })
    }

    /// What the store kept holds: it is no turn that it does so still.
    pub(super) fn restore(&mut self, findings: &[Finding], incidents: &[Incident]) {
        for finding in findings.iter().filter(|one| one.state == FindingState::Firing) {
            self.keep(&finding.id, matter_of_finding(finding), finding.last_seen);
        }
        for incident in incidents.iter().filter(|one| one.state == FindingState::Firing) {
            self.keep(&incident.id, matter_of_incident(incident), incident.last_seen);
        }
    }

    /// When it turned: it begins, is told otherwise now, or ended. `None`: it goes on as it was.
    fn turns(
        &mut self,
        (id, state): (&str, FindingState),
        matter: u64,
        (begins, now, ends): (Timestamp, Timestamp, Timestamp),
    ) -> Option<Timestamp> {
        if state == FindingState::Resolved {
            return self.0.remove(id).map(|_| ends);
        }
        let Some(kept) = self.0.get_mut(id) else {
            self.keep(id, matter, now);
            return Some(begins);
        };
        // The more often it was told otherwise, the longer its words stay.
        let stays = STAYS.saturating_mul(1 << kept.n_changes.min(MOST_DOUBLED));
        if kept.matter == matter || now.since(kept.at) < stays {
            return None;
        }
        *kept = Kept { matter, at: now, n_changes: kept.n_changes + 1 };
        Some(now)
    }

    fn keep(&mut self, id: &str, matter: u64, at: Timestamp) {
        self.0.insert(id.to_owned(), Kept { matter, at, n_changes: 0 });
    }
}

fn matter_of_finding(one: &Finding) -> u64 {
    let mut hasher = DefaultHasher::new();
    (one.severity.label(), &one.cause, &one.comm, &one.nic, &one.culprits).hash(&mut hasher);
    hash_culprits(&one.accused, &mut hasher);
    hash_words(&one.message, &mut hasher);
    hasher.finish()
}

fn matter_of_incident(one: &Incident) -> u64 {
    let mut hasher = DefaultHasher::new();
    (one.severity.label(), one.finding.label(), one.findings.len()).hash(&mut hasher);
    hash_culprits(&one.culprits, &mut hasher);
    hash_words(&one.sentence, &mut hasher);
    hasher.finish()
}

fn hash_culprits(culprits: &[Culprit], hasher: &mut DefaultHasher) {
    for one in culprits {
        (&one.host, one.pid, one.rank).hash(hasher);
    }
}

/// Words without their numbers: ages and costs grow with every look.
fn hash_words(text: &str, hasher: &mut DefaultHasher) {
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':');
    for part in text.split(is_of_number).map(str::trim).filter(|part| !part.is_empty()) {
        part.hash(hasher);
    }
}

/// So long words stay at least, but for what begins or ends ...
const STAYS: Duration = Duration::from_secs(60);
/// ... and twice as long after each change, up to an hour.
const MOST_DOUBLED: u32 = 6;

#[cfg(test)]
mod tests {
    use ringscope_api::Severity;

    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp(s * 1_000_000_000)
    }

    fn incident(s: u64, sentence: &str) -> Incident {
        let of = ringscope_samples::objects::incident("i", "node-3", Severity::Warning, sentence);
        Incident { began_at: at(1), last_seen: at(s), resolved_at: None, times_back: 0, ..of }
    }

    #[test]
    fn what_begins_changes_and_ends_turns_and_numbers_do_not() {
        let mut holding = Holding::default();
        let mut turn = |one: &Incident| holding.of_incident(one).map(|turn| turn.at);
        assert_eq!(turn(&incident(5, "Rank 3 is slow: 10 % of the time")), Some(at(1)));
        assert_eq!(turn(&incident(90, "Rank 3 is slow: 25 % of the time")), None);
        assert_eq!(turn(&incident(95, "Rank 3 was killed")), Some(at(95)));
        // Words that come and go are not kept each time.
        assert_eq!(turn(&incident(100, "Rank 3 is slow")), None);
        assert_eq!(turn(&incident(300, "Rank 3 is slow")), Some(at(300)));
        let over =
            Incident { state: FindingState::Resolved, resolved_at: Some(at(310)), ..incident(305, "") };
        assert_eq!((turn(&over), turn(&over)), (Some(at(310)), None));
        // It came back: not as if it had held meanwhile.
        assert_eq!(turn(&Incident { times_back: 1, ..incident(400, "Rank 3 is slow") }), Some(at(400)));
    }

    #[test]
    fn what_held_before_a_restart_goes_on() {
        let mut holding = Holding::default();
        holding.restore(&[], &[incident(5, "Rank 3 is slow")]);
        assert!(holding.of_incident(&incident(6, "Rank 3 is slow")).is_none());
        let over = Incident { state: FindingState::Resolved, resolved_at: Some(at(9)), ..incident(9, "") };
        assert_eq!(holding.of_incident(&over).map(|turn| turn.at), Some(at(9)));
    }
}
