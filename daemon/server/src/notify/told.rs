//! What a webhook is to be told now: decides what is news. Pure.
//!
//! An incident is one message, whatever follows from it. A silenced one is none, also when it is over.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingState, Incident, Severity};
use ringscope_judge::incidents::BACK_WITHIN;

use super::Pace;

/// What was told and is not over.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By id, the incident as it was told.
    told: BTreeMap<String, Incident>,
    /// Since when what is open and was not told has been seen.
    fresh: BTreeMap<String, Timestamp>,
    /// Since when what was told has not been seen.
    quiet: BTreeMap<String, Timestamp>,
}

/// What is to be done now.
#[derive(Debug)]
pub(super) struct Round {
    /// What is to be told, worst first.
    pub(super) due: Vec<Due>,
    /// Ids of incidents that were told and are over while they are silenced: they count as not told, and nobody is told.
    pub(super) forgotten: Vec<String>,
}

/// One message to send.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// The incident to tell of; what is over as it was told.
    pub(super) incident: Incident,
    pub(super) news: News,
}

/// What is news about an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It is open.
    Open,
    /// It has become worse.
    Worse,
    /// It is over.
    Over,
}

impl Told {
    /// Takes in what was told before the daemon started.
    pub(super) fn restore(&mut self, told: impl IntoIterator<Item = (String, Incident)>) {
        for (id, incident) in told {
            self.fresh.remove(&id);
            self.told.entry(id).or_insert(incident);
        }
    }

    /// What is to be told now of these incidents, if it is of severity `least` or worse. What was told and is milder now
    /// is not over.
    pub(super) fn round(
        &mut self,
        incidents: &[Incident],
        least: Severity,
        pace: &Pace,
        now: Timestamp,
    ) -> Round {
        let open = || incidents.iter().filter(|incident| incident.state == FindingState::Firing);
        let open_ids: BTreeSet<&str> = open().map(|incident| incident.id.as_str()).collect();
        self.quiet.retain(|id, _| !open_ids.contains(id.as_str()));
        let mut due = self.begun(open().filter(|incident| incident.severity >= least), pace, now);
        let (silenced, over): (Vec<Incident>, Vec<Incident>) =
            self.ended(&open_ids, incidents, pace, now).into_iter().partition(|told| {
                let known = incidents.iter().find(|incident| incident.id == told.id);
                known.and_then(|incident| incident.silenced_until).is_some_and(|until| until > now)
            });
        for incident in &silenced {
            self.told.remove(&incident.id);
            self.quiet.remove(&incident.id);
        }
        due.extend(over.into_iter().map(|incident| Due { incident, news: News::Over }));
        Round { due, forgotten: silenced.into_iter().map(|incident| incident.id).collect() }
    }

    /// What of the open incidents is news.
    fn begun<'i>(
        &mut self,
        open: impl Iterator<Item = &'i Incident>,
        pace: &Pace,
        now: Timestamp,
    ) -> Vec<Due> {
        let open: Vec<&Incident> = open.collect();
        let ids: BTreeSet<&str> = open.iter().map(|incident| incident.id.as_str()).collect();
        self.fresh.retain(|id, _| ids.contains(id.as_str()));
        let mut due = Vec::new();
        for incident in open {
            let news = match self.told.get(&incident.id) {
                _ if incident.silenced_until.is_some() => continue,
                Some(told) if told.severity < incident.severity => News::Worse,
                Some(_) => continue,
                None => News::Open,
            };
            let since = *self.fresh.entry(incident.id.clone()).or_insert(now);
            if now.since(since) >= pace.fire_after {
                due.push(Due { incident: incident.clone(), news });
            }
        }
        due
    }

    /// What was told and has been over for long enough, as it was told.
    fn ended(
        &mut self,
        open: &BTreeSet<&str>,
        incidents: &[Incident],
        pace: &Pace,
        now: Timestamp,
    ) -> Vec<Incident> {
        let mut ended = Vec::new();
        for (id, incident) in self.told.iter().filter(|(id, _)| !open.contains(id.as_str())) {
            let since = *self.quiet.entry(id.clone()).or_insert(now);
            // What came back before is over only when it would come back as another one.
            let came_back = incidents.iter().any(|one| one.id == *id && one.times_back > 0);
            let wait = if came_back { pace.resolve_after.max(BACK_WITHIN) } else { pace.resolve_after };
            if now.since(since) >= wait {
                let known = incidents.iter().find(|one| one.id == *id);
                let resolved_at = known.and_then(|one| one.resolved_at);
                ended.push(Incident { resolved_at, ..incident.clone() });
            }
        }
        ended
    }

    /// Notes that it was told.
    pub(super) fn note(&mut self, due: &Due) {
        let id = &due.incident.id;
        self.fresh.remove(id);
        self.quiet.remove(id);
        if due.news == News::Over {
            self.told.remove(id);
        } else {
            self.told.insert(id.clone(), due.incident.clone());
        }
    }

    /// The incident as it was told.
    pub(super) fn get(&self, id: &str) -> Option<&Incident> {
        self.told.get(id)
    }

    /// Whether time alone can make something due.
    pub(super) fn is_waiting(&self) -> bool {
        !self.fresh.is_empty() || !self.quiet.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::objects::incident;

    fn open(host: &str) -> Incident {
        incident("a", host, Severity::Critical, "node-b found 2 channels where others found 8")
    }

    /// Tells everything that is due at a second; returns the news.
    fn at(told: &mut Told, second: u64, incidents: &[Incident]) -> Vec<News> {
        let now = Timestamp(second * 1_000_000_000);
        let Round { due, .. } = told.round(incidents, Severity::Warning, &Pace::default(), now);
        due.iter().for_each(|due| told.note(due));
        due.iter().map(|due| due.news).collect()
    }

    #[test]
    fn an_incident_is_told_once_and_once_when_it_is_over() {
        let mut told = Told::default();
        let open = [open("node-b")];
        assert_eq!(at(&mut told, 0, &open), []);
        assert_eq!(at(&mut told, 5, &open), [News::Open]);
        assert_eq!(at(&mut told, 900, &open), []);
        assert_eq!(at(&mut told, 901, &[]), []);
        assert_eq!(at(&mut told, 921, &[]), [News::Over]);
        assert_eq!(at(&mut told, 999, &[]), []);
    }

    #[test]
    fn what_flaps_makes_one_message_and_what_does_not_last_none() {
        let mut told = Told::default();
        let open = [open("node-b")];
        assert_eq!(at(&mut told, 0, &open), []);
        assert_eq!(at(&mut told, 3, &[]), []);
        assert_eq!(at(&mut told, 10, &open), []);
        assert_eq!(at(&mut told, 15, &open), [News::Open]);
        for second in 16..200 {
            let seen = if second % 15 == 0 { &open[..] } else { &[] };
            assert_eq!(at(&mut told, second, seen), [], "{second}");
        }
    }

    #[test]
    fn what_comes_back_is_not_told_to_be_over_each_time() {
        let mut told = Told::default();
        let open = [Incident { times_back: 1, ..open("node-b") }];
        let over = [Incident { state: FindingState::Resolved, ..open[0].clone() }];
        assert_eq!(at(&mut told, 0, &open), []);
        assert_eq!(at(&mut told, 5, &open), [News::Open]);
        for second in 6..1000 {
            let seen = if second % 60 < 20 { &open } else { &over };
            assert_eq!(at(&mut told, second, seen), [], "{second}");
        }
        assert_eq!(at(&mut told, 1001, &over), []);
        assert_eq!(at(&mut told, 1640, &over), [News::Over]);
    }

    #[test]
    fn what_becomes_worse_is_told_again_and_a_restart_repeats_nothing() {
        let mut told = Told::default();
        let critical = [open("node-b")];
        let mut mild = critical.clone();
        mild[0].severity = Severity::Warning;
        told.restore([("a".to_owned(), mild[0].clone())]);
        assert_eq!(at(&mut told, 0, &mild), []);
        assert_eq!(at(&mut told, 60, &mild), []);
        assert_eq!(at(&mut told, 61, &critical), []);
        assert_eq!(at(&mut told, 66, &critical), [News::Worse]);
        assert_eq!(at(&mut told, 99, &mild), []);
    }

    #[test]
    fn nobody_is_told_of_a_silenced_one_before_the_silence_is_over() {
        let mut told = Told::default();
        let loud = [open("node-b")];
        let mut silent = loud.clone();
        silent[0].silenced_until = Some(Timestamp(u64::MAX));
        for second in 0..60 {
            assert_eq!(at(&mut told, second, &silent), [], "{second}");
        }
        assert_eq!(at(&mut told, 60, &loud), []);
        assert_eq!(at(&mut told, 65, &loud), [News::Open]);
        assert_eq!(at(&mut told, 99, &silent), [], "it is not over");
    }

    #[test]
    fn the_end_of_a_silenced_one_is_told_to_nobody_unless_the_silence_is_over_before() {
        let loud = [open("node-b")];
        let silenced_until = Some(Timestamp(100_000_000_000));
        let silent = [Incident { silenced_until, ..loud[0].clone() }];
        let over = [Incident { state: FindingState::Resolved, ..silent[0].clone() }];
        for (ends_s, expected) in [(30, None), (95, Some(News::Over))] {
            let mut told = Told::default();
            assert_eq!(at(&mut told, 0, &loud), []);
            assert_eq!(at(&mut told, 5, &loud), [News::Open]);
            assert_eq!(at(&mut told, 10, &silent), []);
            assert_eq!(at(&mut told, ends_s, &over), []);
            assert_eq!(at(&mut told, ends_s + 20, &over), Vec::from_iter(expected));
            assert_eq!(at(&mut told, 999, &over), [], "nor later");
        }
        let mut told = Told::default();
        told.restore([("a".to_owned(), loud[0].clone())]);
        assert_eq!(at(&mut told, 10, &over), []);
        let now = Timestamp(30_000_000_000);
        let round = told.round(&over, Severity::Warning, &Pace::default(), now);
        assert_eq!(round.forgotten, ["a"], "the store forgets it too");
    }

    #[test]
    fn what_is_open_and_milder_than_what_is_told_is_not_over() {
        let mut told = Told::default();
        let critical = [open("node-b")];
        let mild = [Incident { severity: Severity::Info, ..critical[0].clone() }];
        assert_eq!(at(&mut told, 0, &critical), []);
        assert_eq!(at(&mut told, 5, &critical), [News::Open]);
        for second in 6..99 {
            assert_eq!(at(&mut told, second, &mild), [], "{second}");
        }
        assert_eq!(at(&mut told, 99, &critical), [], "it has been told");
        assert_eq!(at(&mut told, 100, &[]), []);
        assert_eq!(at(&mut told, 120, &[]), [News::Over]);
        assert_eq!(at(&mut Told::default(), 999, &mild), []);
    }
}
