//! How everything stood. Green needs evidence: of what nothing was recorded, nobody can say.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{capital, clock, plural};
use ringscope_api::{
    Condition, Finding, FindingState, HealthLevel, Incident, Past, PastCommunicator, PastHost, PastPace,
    Severity, Standing,
};
use ringscope_judge::standing::condition_of;
use ringscope_store::{KeptCommunicator, KeptPast};

/// How fast it went then: completed bytes per second, by name, and the pace of jobs. What is not there was not recorded.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    pub(crate) by_host: BTreeMap<String, f64>,
    pub(crate) by_comm: BTreeMap<String, f64>,
    pub(crate) paces: Vec<PastPace>,
}

/// All of it. `job`: that alone is asked for.
pub(crate) fn past(
    (at, now): (Timestamp, Timestamp),
    job: Option<&str>,
    mut kept: KeptPast,
    rates: Rates,
) -> Past {
    keep_what_counts(job, &mut kept);
    let hosts = hosts(&kept, &rates);
    let communicators = kept.communicators.iter().map(|one| communicator(one, &kept, &rates)).collect();
    let (level, sentence) = sentence(&kept, &hosts);
    let lacks = lacks((at, now), &kept, &hosts);
    let KeptPast { findings, incidents, .. } = kept;
    let paces = rates.paces;
    Past { at, level, sentence, incidents, findings, hosts, communicators, paces, lacks }
}

/// Without what was read from files, which tells of another time; of hardware only that of the hosts of the job; worst first.
fn keep_what_counts(job: Option<&str>, kept: &mut KeptPast) {
    let here: BTreeSet<&str> = kept.places.iter().map(|place| &*place.host).collect();
    let concerns = |of: &str, host: &str| job.is_none_or(|job| of == job || here.contains(host));
    kept.findings.retain(|one| !one.imported && concerns(&one.job, &one.host));
    kept.incidents.retain(|one| !one.imported && concerns(&one.job, &one.host));
    kept.findings.sort_by(|one, other| {
        (Reverse(one.severity), Reverse(one.first_seen), &one.host, &one.id).cmp(&(
            Reverse(other.severity),
            Reverse(other.first_seen),
            &other.host,
            &other.id,
        ))
    });
    kept.incidents.sort_by(|one, other| {
        (Reverse(one.severity), one.began_at, &one.id).cmp(&(
            Reverse(other.severity),
            other.began_at,
            &other.id,
        ))
    });
}

fn hosts(kept: &KeptPast, rates: &Rates) -> Vec<PastHost> {
    let mut jobs: BTreeMap<&str, (Vec<String>, u32)> = BTreeMap::new();
    for place in &kept.places {
        let (jobs, n_processes) = jobs.entry(&place.host).or_default();
        jobs.push(place.job.clone());
        *n_processes = n_processes.saturating_add(place.n_processes);
    }
    let accused = accused(&kept.findings);
    for host in accused.keys() {
        jobs.entry(host).or_default();
    }
    let channels = channels(kept);
    let host = |(host, (jobs, n_processes)): (&str, (Vec<String>, u32))| {
        let rate = rates.by_host.get(host).copied();
        let (init_channels, final_channels) = channels.get(host).copied().unwrap_or_default();
        PastHost {
            host: host.to_owned(),
            standing: standing(accused.get(host).copied(), rate, n_processes),
            jobs,
            n_processes,
            init_channels,
            final_channels,
            completed_bytes_per_s: rate,
        }
    };
    jobs.into_iter().map(host).collect()
}

/// The worst that was found about each host.
fn accused(findings: &[Finding]) -> BTreeMap<&str, (Condition, &Finding)> {
    let mut accused: BTreeMap<&str, (Condition, &Finding)> = BTreeMap::new();
    for finding in findings {
        let held = Finding { state: FindingState::Firing, ..finding.clone() };
        let Some(condition) = condition_of(&held) else { continue };
        let culprits = finding.accused.iter().map(|culprit| &*culprit.host);
        for host in culprits.chain([&*finding.host]).filter(|host| !host.is_empty()) {
            let known = accused.entry(host).or_insert((condition, finding));
            if condition > known.0 {
                *known = (condition, finding);
            }
        }
    }
    accused
}

fn standing(accused: Option<(Condition, &Finding)>, rate: Option<f64>, n_processes: u32) -> Standing {
    let (condition, reason) = match (accused, rate) {
        (Some((condition, finding)), _) => (condition, finding.message.clone()),
        (None, Some(rate)) if rate > 0.0 => {
            (Condition::Healthy, "operations completed then, and nothing was found against it".to_owned())
        }
        (None, _) if n_processes == 0 => (Condition::Unknown, "no process of a job was there".to_owned()),
        (None, _) => (
            Condition::Unknown,
            "no completed bytes were recorded then: its processes had nothing to do, or nothing was heard of them; which \
             of the two is not kept"
                .to_owned(),
        ),
    };
    Standing { condition, reason, waits: false }
}

/// Init and final.
type Channels = (Option<u32>, Option<u32>);
/// Of a communicator: whether it is over several hosts, and when it was made.
type Weight = (bool, Timestamp);

/// Init and final channels by host, in the newest communicator over several hosts, else the newest.
fn channels(kept: &KeptPast) -> HashMap<&str, Channels> {
    let mut hosts_of: HashMap<&str, u32> = HashMap::new();
    for ranks in &kept.ranks {
        *hosts_of.entry(&ranks.comm).or_default() += 1;
    }
    let created: HashMap<&str, Timestamp> =
        kept.communicators.iter().map(|one| (&*one.id, one.created)).collect();
    let mut best: HashMap<&str, (Weight, Channels)> = HashMap::new();
    for ranks in kept.ranks.iter().filter(|ranks| ranks.init_channels.is_some()) {
        let Some(created) = created.get(&*ranks.comm) else { continue };
        let weight = (hosts_of.get(&*ranks.comm).is_some_and(|n| *n > 1), *created);
        let found = (weight, (ranks.init_channels, ranks.final_channels));
        let known = best.entry(&ranks.host).or_insert(found);
        if weight > known.0 {
            *known = found;
        }
    }
    best.into_iter().map(|(host, (_, channels))| (host, channels)).collect()
}

fn communicator(one: &KeptCommunicator, kept: &KeptPast, rates: &Rates) -> PastCommunicator {
    // In the order of the database: by communicator.
    let from = kept.ranks.partition_point(|ranks| ranks.comm < one.id);
    let n_hosts = kept.ranks[from..].iter().take_while(|ranks| ranks.comm == one.id).count();
    PastCommunicator {
        id: one.id.clone(),
        job: one.job.clone(),
        name: one.name.clone(),
        created: one.created,
        ended: one.ended,
        n_ranks: one.n_ranks,
        n_hosts: u32::try_from(n_hosts).unwrap_or(u32::MAX),
        base: one.base_channels,
        final_channels: one.final_channels,
        completed_bytes_per_s: rates.by_comm.get(&one.id).copied(),
    }
}

fn sentence(kept: &KeptPast, hosts: &[PastHost]) -> (HealthLevel, String) {
    let more = |n: usize, what: &str| match n {
        0 => String::new(),
        n => format!("; and {}", plural(n, what)),
    };
    if let Some(worst) = kept.incidents.iter().find(|one| one.severity >= Severity::Warning) {
        let others = kept.incidents.len().saturating_sub(1);
        return (level(worst.severity), format!("{}{}", trimmed(worst), more(others, "more incident")));
    }
    let bad: Vec<&Finding> = kept.findings.iter().filter(|one| one.severity >= Severity::Warning).collect();
    if let Some(worst) = bad.first() {
        let words = worst.message.trim_end_matches('.');
        return (level(worst.severity), format!("{words}{}", more(bad.len() - 1, "more finding")));
    }
    let n_unknown = hosts.iter().filter(|one| one.standing.condition == Condition::Unknown).count();
    match (hosts.len(), n_unknown) {
        (0, _) => (HealthLevel::Unknown, "Nothing is kept of a job that ran then".to_owned()),
        (n, 0) => {
            (HealthLevel::Ok, capital(&format!("operations completed on {}, and nothing was found", all(n))))
        }
        (n, unknown) => (
            HealthLevel::Unknown,
            format!("Nothing was found, but it is not known how {unknown} of {} did", plural(n, "host")),
        ),
    }
}

fn all(n: usize) -> String {
    if n == 1 { "the only host".to_owned() } else { format!("all {}", plural(n, "host")) }
}

fn trimmed(incident: &Incident) -> &str {
    incident.sentence.trim_end_matches('.')
}

fn level(severity: Severity) -> HealthLevel {
    if severity == Severity::Critical { HealthLevel::Critical } else { HealthLevel::Warning }
}

/// What is not known, and why.
fn lacks((at, now): (Timestamp, Timestamp), kept: &KeptPast, hosts: &[PastHost]) -> Vec<String> {
    let mut lacks = Vec::new();
    if now.since(at) < WRITTEN_WITHIN {
        lacks.push(
            "The last minute is still being written to the database: hosts and communicators of it may be missing. Ask again in a minute."
                .to_owned(),
        );
    }
    match kept.begins {
        None => lacks.push("Nothing is kept of any job.".to_owned()),
        Some(begins) if at < begins => lacks.push(format!(
            "What is kept begins at {}: ringscope saw nothing before, or it is older than `--retention` keeps.",
            clock(begins)
        )),
        Some(_) => {}
    }
    let n_unknown = hosts.iter().filter(|one| one.standing.condition == Condition::Unknown).count();
    if n_unknown > 0 {
        lacks.push(format!(
            "Of {} no completed bytes were recorded then: idle, or not heard of; or the daemon was not running.",
            plural(n_unknown, "host")
        ));
    }
    if kept.is_cut {
        lacks.push("There is more of that time than is shown: ask for one job.".to_owned());
    }
    if kept.unreadable_rows > 0 {
        lacks.push(format!(
            "{} of the database could not be read: damaged, or written by a newer ringscope.",
            plural(usize::try_from(kept.unreadable_rows).unwrap_or(usize::MAX), "row")
        ));
    }
    if kept.n_of_before > 0 {
        lacks.push(
            "Some findings and incidents are of a ringscope that kept only their latest words: they are told in these, and as if they had \
             held without a pause."
                .to_owned(),
        );
    }
    lacks.push("NICs, GPUs and single operations are not kept over time.".to_owned());
    lacks
}

/// By then the database has heard that what was there at a moment went on.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_store::{KeptPlace, KeptRanks};

    const AT: Timestamp = Timestamp(2_000_000_000_000_000_000);
    const LATER: Timestamp = Timestamp(AT.0 + 3600 * 1_000_000_000);

    fn kept(hosts: &[&str]) -> KeptPast {
        let place = |host: &&str| KeptPlace { host: (*host).into(), job: "train".into(), n_processes: 2 };
        KeptPast {
            places: hosts.iter().map(place).collect(),
            begins: Some(Timestamp(1)),
            ..KeptPast::default()
        }
    }

    fn rates(of: &[(&str, f64)]) -> Rates {
        let by_host = of.iter().map(|(host, rate)| ((*host).to_owned(), *rate)).collect();
        Rates { by_host, ..Rates::default() }
    }

    #[test]
    fn of_the_last_minute_it_says_that_more_may_come() {
        let said = |now| past((AT, now), None, kept(&["a"]), Rates::default()).lacks.concat();
        assert!(said(Timestamp(AT.0 + 10_000_000_000)).contains("Ask again in a minute"));
        assert!(!said(LATER).contains("Ask again"));
    }

    #[test]
    fn green_needs_evidence() {
        let told = past((AT, LATER), None, kept(&["a", "b"]), rates(&[("a", 5e6), ("b", 1.0)]));
        assert_eq!(told.level, HealthLevel::Ok, "{told:?}");
        let told = past((AT, LATER), None, kept(&["a", "b"]), rates(&[("a", 5e6), ("b", 0.0)]));
        assert_eq!(told.level, HealthLevel::Unknown);
        let of: Vec<_> = told.hosts.iter().map(|one| one.standing.condition).collect();
        assert_eq!(of, [Condition::Healthy, Condition::Unknown]);
        assert!(told.sentence.contains("1 of 2 hosts"), "{}", told.sentence);
        let told = past((AT, LATER), None, KeptPast::default(), Rates::default());
        assert_eq!((told.level, told.hosts.len()), (HealthLevel::Unknown, 0));
        assert!(told.lacks[0].contains("Nothing is kept"), "{:?}", told.lacks);
    }

    #[test]
    fn a_time_before_all_that_is_kept_says_so() {
        let early = KeptPast { begins: Some(Timestamp(AT.0 + 1)), ..KeptPast::default() };
        let told = past((AT, LATER), None, early, Rates::default());
        assert!(told.lacks[0].contains("begins at 2033-05-18 "), "{:?}", told.lacks);
    }

    #[test]
    fn words_of_later_are_told_as_such_and_those_of_then_are_not() {
        let says = |n_of_before: usize| {
            let kept = KeptPast { n_of_before, ..kept(&["a"]) };
            past((AT, LATER), None, kept, Rates::default())
                .lacks
                .iter()
                .any(|line| line.contains("latest words"))
        };
        assert!(says(1) && !says(0));
    }

    #[test]
    fn channels_are_of_the_newest_communicator_over_several_hosts() {
        let made = |id: &str, at: u64| KeptCommunicator {
            id: id.into(),
            job: "train".into(),
            name: None,
            n_ranks: 4,
            base_channels: Some(2),
            final_channels: Some(2),
            created: Timestamp(at),
            ended: None,
        };
        let ranks = |comm: &str, host: &str, init: u32| KeptRanks {
            comm: comm.into(),
            host: host.into(),
            init_channels: Some(init),
            final_channels: Some(init),
        };
        let kept = KeptPast {
            communicators: vec![made("c", 30), made("b", 20), made("a", 10)],
            ranks: vec![
                ranks("a", "h1", 8),
                ranks("a", "h2", 8),
                ranks("b", "h1", 4),
                ranks("b", "h2", 2),
                ranks("c", "h1", 16),
            ],
            ..kept(&["h1", "h2"])
        };
        let told = past((AT, LATER), None, kept, Rates::default());
        let init: Vec<_> = told.hosts.iter().map(|one| one.init_channels).collect();
        assert_eq!(init, [Some(4), Some(2)]);
        assert_eq!(told.communicators.iter().map(|one| one.n_hosts).collect::<Vec<_>>(), [1, 2, 2]);
    }
}
