//! What a webhook is to be told now: decides what is news. Pure.
//!
//! What several communicators or ranks of a job say of one host is one subject, and one message.

use super::Pace;
use crate::api::{Finding, FindingKind, FindingState};
use crate::clock::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// What was told and is not over.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By subject, the finding as it was told.
    told: BTreeMap<String, Finding>,
    /// Since when what fires and was not told has been seen.
    fresh: BTreeMap<String, Timestamp>,
    /// Since when what was told has not been seen.
    quiet: BTreeMap<String, Timestamp>,
}

/// One message to send.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) subject: String,
    /// The finding to tell of; for what is over as it was told.
    pub(super) finding: Finding,
    pub(super) news: News,
}

/// What is news about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It fires; in so many communicators or ranks.
    Fires(usize),
    /// It has become worse.
    Worse,
    /// It is over.
    Over,
}

impl Told {
    /// Takes in what was told before the daemon started.
    pub(super) fn restore(&mut self, told: impl IntoIterator<Item = (String, Finding)>) {
        for (subject, finding) in told {
            self.fresh.remove(&subject);
            self.told.entry(subject).or_insert(finding);
        }
    }

    /// What is to be told now, worst first.
    pub(super) fn due(&mut self, findings: &[Finding], pace: &Pace, now: Timestamp) -> Vec<Due> {
        let subjects = subjects(findings);
        let firing: BTreeSet<&str> = subjects.iter().map(|(subject, ..)| subject.as_str()).collect();
        self.fresh.retain(|subject, _| firing.contains(subject.as_str()));
        let mut due = Vec::new();
        for (subject, finding, n) in &subjects {
            self.quiet.remove(subject);
            let news = match self.told.get(subject) {
                Some(told) if told.severity < finding.severity => News::Worse,
                Some(_) => continue,
                None => News::Fires(*n),
            };
            let since = *self.fresh.entry(subject.clone()).or_insert(now);
            if now.since(since) >= pace.fire_after {
                due.push(Due { subject: subject.clone(), finding: (*finding).clone(), news });
            }
        }
        for (subject, finding) in &self.told {
            if firing.contains(subject.as_str()) {
                continue;
            }
            let since = *self.quiet.entry(subject.clone()).or_insert(now);
            if now.since(since) >= pace.resolve_after {
                due.push(Due { subject: subject.clone(), finding: finding.clone(), news: News::Over });
            }
        }
        due
    }

    /// Notes that it was told.
    pub(super) fn note(&mut self, due: &Due) {
        self.fresh.remove(&due.subject);
        self.quiet.remove(&due.subject);
        if due.news == News::Over {
            self.told.remove(&due.subject);
        } else {
            self.told.insert(due.subject.clone(), due.finding.clone());
        }
    }

    /// The finding as it was told.
    pub(super) fn get(&self, subject: &str) -> Option<&Finding> {
        self.told.get(subject)
    }

    /// Whether time alone can make something due.
    pub(super) fn is_waiting(&self) -> bool {
        !self.fresh.is_empty() || !self.quiet.is_empty()
    }
}

/// What fires, each subject with its worst finding and how many say so.
fn subjects(findings: &[Finding]) -> Vec<(String, &Finding, usize)> {
    let mut subjects: Vec<(String, &Finding, usize)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.state == FindingState::Firing) {
        let subject = subject(finding);
        let place = *places.entry(subject.clone()).or_insert(subjects.len());
        match subjects.get_mut(place) {
            Some((_, _, n)) => *n += 1,
            None => subjects.push((subject, finding, 1)),
        }
    }
    subjects
}

/// Not its cause, which may become known later and is no news then.
fn subject(finding: &Finding) -> String {
    let nic = match finding.finding {
        FindingKind::NicDegraded => finding.nic.as_deref().unwrap_or_default(),
        _ => "",
    };
    [finding.finding.label(), &finding.job, &finding.host, nic].join("|")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::api::Severity;

    /// A shortfall of a host in a communicator named as its id.
    pub(crate) fn finding(id: &str, host: &str, first_seen_s: u64) -> Finding {
        let first_seen = Timestamp(first_seen_s * 1_000_000_000);
        Finding {
            id: id.into(),
            finding: FindingKind::ChannelShortfall,
            severity: Severity::Critical,
            state: FindingState::Firing,
            job: "train".into(),
            host: host.into(),
            rank: None,
            channel: None,
            nic: None,
            comm: "c0ffee".into(),
            group: None,
            cause: "unexplained".into(),
            culprits: Vec::new(),
            accused: Vec::new(),
            n_victims: 0,
            advice: String::new(),
            details: Vec::new(),
            incident: String::new(),
            began_at: None,
            message: format!("{host} found 2 channels where others found 8"),
            evidence: Vec::new(),
            first_seen,
            last_seen: first_seen,
            resolved_at: None,
        }
    }

    /// Tells everything that is due at a second; returns the news.
    fn at(told: &mut Told, second: u64, findings: &[Finding]) -> Vec<News> {
        let due = told.due(findings, &Pace::default(), Timestamp(second * 1_000_000_000));
        due.iter().for_each(|due| told.note(due));
        due.iter().map(|due| due.news).collect()
    }

    #[test]
    fn a_subject_is_told_once_and_once_when_it_is_over() {
        let mut told = Told::default();
        let firing = [finding("a", "node-b", 0), finding("b", "node-b", 0)];
        assert_eq!(at(&mut told, 0, &firing), []);
        assert_eq!(at(&mut told, 5, &firing), [News::Fires(2)]);
        assert_eq!(at(&mut told, 900, &firing[..1]), []);
        assert_eq!(at(&mut told, 901, &[]), []);
        assert_eq!(at(&mut told, 921, &[]), [News::Over]);
        assert_eq!(at(&mut told, 999, &[]), []);
    }

    #[test]
    fn what_flaps_makes_one_message_and_what_does_not_last_none() {
        let mut told = Told::default();
        let firing = [finding("a", "node-b", 0)];
        assert_eq!(at(&mut told, 0, &firing), []);
        assert_eq!(at(&mut told, 3, &[]), []);
        assert_eq!(at(&mut told, 10, &firing), []);
        assert_eq!(at(&mut told, 15, &firing), [News::Fires(1)]);
        for second in 16..200 {
            let seen = if second % 15 == 0 { &firing[..] } else { &[] };
            assert_eq!(at(&mut told, second, seen), [], "{second}");
        }
    }

    #[test]
    fn what_becomes_worse_is_told_again_and_a_restart_repeats_nothing() {
        let mut told = Told::default();
        let critical = [finding("a", "node-b", 0)];
        let mut mild = critical.clone();
        mild[0].severity = Severity::Warning;
        told.restore([(subject(&mild[0]), mild[0].clone())]);
        assert_eq!(at(&mut told, 0, &mild), []);
        assert_eq!(at(&mut told, 60, &mild), []);
        assert_eq!(at(&mut told, 61, &critical), []);
        assert_eq!(at(&mut told, 66, &critical), [News::Worse]);
        assert_eq!(at(&mut told, 99, &mild), []);
    }
}
