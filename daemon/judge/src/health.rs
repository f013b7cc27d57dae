//! The state of everything in one sentence. The daemon says it once; page, terminal and exit statuses show it. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{capital, duration, plural};
use ringscope_api::{
    Condition, ConditionCounts, Finding, FindingCounts, Health, HealthLevel, HostSummary, Incident, Job,
    JobState, Severity,
};

use crate::standing::NOBODY_THERE;

/// The state of these jobs and hosts, with the incidents that are open.
#[must_use]
pub fn health(jobs: &[Job], hosts: &[HostSummary], open: &[Incident], now: Timestamp) -> Health {
    let live: Vec<&Job> = jobs.iter().filter(|job| job.state != JobState::Ended).collect();
    let watched: Vec<&HostSummary> = hosts.iter().filter(|host| is_watched(host)).collect();
    let mut health = Health {
        level: HealthLevel::Ok,
        sentence: String::new(),
        advice: None,
        since: None,
        incidents: counts(open),
        hosts: tally(watched.iter().map(|host| host.standing.condition)),
        jobs: tally(live.iter().map(|job| job.standing.condition)),
        unknown: unknown(&watched, &live),
        notices: Vec::new(),
    };
    if live.is_empty()
        && open.is_empty()
        && health.hosts.unknown + health.hosts.degraded + health.hosts.hung + health.hosts.failed == 0
    {
        (health.level, health.sentence) = idle(jobs, hosts, now);
        return health;
    }
    let mut parts = Vec::new();
    let (mut level, words) = of_incidents(open, live.len(), now);
    let worst = worst(open);
    // What is wrong now comes before what is told of a job that has ended.
    let is_history = worst.is_some_and(|incident| incident.job_ended_at.is_some());
    let (first, last) = if is_history { (None, words) } else { (words, None) };
    parts.extend(first);
    health.advice = worst.map(|incident| incident.advice.clone()).filter(|advice| !advice.is_empty());
    let such = open.iter().filter(|incident| incident.job_ended_at.is_some() == is_history);
    health.since = such.map(|incident| incident.began_at).min();
    // What no incident tells of yet.
    for job in live.iter().filter(|job| job.standing.condition >= Condition::Degraded) {
        level = level.max(level_of(job.standing.condition));
        if parts.len() < PARTS_MAX && !is_told(open, |incident| incident.job == job.id) {
            parts.push(bad_job(job));
        }
    }
    for host in
        worst_first(watched.iter().copied().filter(|host| host.standing.condition >= Condition::Degraded))
    {
        level = level.max(level_of(host.standing.condition));
        let is_of_told_job = is_told(open, |incident| host.jobs.contains(&incident.job));
        let is_of_bad_job = live
            .iter()
            .any(|job| job.standing.condition >= Condition::Degraded && host.jobs.contains(&job.id));
        let told =
            is_told(open, |incident| is_about(incident, &host.host)) || is_of_told_job || is_of_bad_job;
        if parts.len() < PARTS_MAX && !told {
            parts.push(reason(host));
        }
    }
    parts.extend(last);
    if level == HealthLevel::Ok {
        (level, parts) = well(&health, &watched, &live);
    }
    health.level = level;
    let sentence = parts.join("; ");
    // A name stays as it is written. What begins with an incident begins as everybody tells it.
    let begins_with_a_name = live.iter().any(|job| sentence.starts_with(&job.id))
        || watched.iter().any(|host| sentence.starts_with(&host.host));
    health.sentence = if open.is_empty() && !begins_with_a_name { capital(&sentence) } else { sentence };
    health
}

/// Says how a job has ended that was asked for by its name: of all jobs together only those count that run.
pub fn ended(health: &mut Health, job: &Job, now: Timestamp) {
    let (condition, reason) = (job.standing.condition, trimmed(&job.standing.reason));
    health.jobs.add(condition);
    if condition == Condition::Unknown {
        health.unknown.insert(0, format!("{}: {reason}", job.id));
        health.unknown.truncate(UNKNOWN_MAX);
    }
    // An open incident, or a host of it in trouble, says more.
    if health.level < HealthLevel::Warning {
        health.sentence = format!("{} {}", job.id, how_ended(job, now));
    }
    health.level = health.level.max(match condition {
        Condition::Healthy => HealthLevel::Idle,
        condition => level_of(condition),
    });
}

/// Says that something is not known, for these reasons: then nothing is green.
pub fn lacks(health: &mut Health, why: impl Iterator<Item = String>) {
    let lacks: Vec<String> = why.collect();
    let Some(first) = lacks.first() else { return };
    if matches!(health.level, HealthLevel::Ok | HealthLevel::Idle | HealthLevel::Empty) {
        health.level = HealthLevel::Unknown;
        health.sentence = format!("Not everything is known: {first}");
    }
    health.unknown.splice(0..0, lacks);
    health.unknown.truncate(UNKNOWN_MAX);
}

/// Why nothing new reaches this daemon, whatever is known of the hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cut {
    /// What is cut off, since when and why: without a full stop.
    pub sentence: String,
    /// What to do.
    pub advice: String,
}

/// Says that nothing new reaches this daemon: nothing is green or known then, and what is known to be worse stays so.
pub fn cut_off(health: &mut Health, cut: Cut) {
    if health.level > HealthLevel::Unknown {
        health.notices.insert(0, cut.sentence);
        return;
    }
    health.level = HealthLevel::Unknown;
    health.sentence.clone_from(&cut.sentence);
    health.advice = Some(cut.advice);
    health.unknown.insert(0, cut.sentence);
    health.unknown.truncate(UNKNOWN_MAX);
}

/// Whether anything runs on a host, or is found about it, or nobody can say; one that may be gone is left out.
fn is_watched(host: &HostSummary) -> bool {
    host.n_processes > 0
        || !host.jobs.is_empty()
        || host.findings.critical + host.findings.warning > 0
        || host.standing.condition > Condition::Unknown
        || host.standing.condition == Condition::Unknown && host.standing.reason != NOBODY_THERE
}

fn counts(open: &[Incident]) -> FindingCounts {
    let mut counts = FindingCounts::default();
    for incident in open {
        match incident.severity {
            Severity::Critical => counts.critical += 1,
            Severity::Warning => counts.warning += 1,
            Severity::Info => counts.info += 1,
        }
    }
    counts
}

fn tally(conditions: impl Iterator<Item = Condition>) -> ConditionCounts {
    let mut counts = ConditionCounts::default();
    conditions.for_each(|condition| counts.add(condition));
    counts
}

/// The worst, and of equally bad ones that which began first; one of a job that has ended only where there is no other.
fn worst(open: &[Incident]) -> Option<&Incident> {
    let order = |incident: &&Incident| {
        (incident.job_ended_at.is_some(), Reverse(incident.severity), incident.began_at, incident.id.clone())
    };
    open.iter().min_by_key(order)
}

fn is_told(open: &[Incident], is_it: impl Fn(&Incident) -> bool) -> bool {
    open.iter().any(is_it)
}

fn is_about(incident: &Incident, host: &str) -> bool {
    incident.host == host || incident.culprits.iter().any(|culprit| culprit.host == host)
}

fn level_of(condition: Condition) -> HealthLevel {
    match condition {
        Condition::Healthy => HealthLevel::Ok,
        Condition::Unknown => HealthLevel::Unknown,
        Condition::Degraded => HealthLevel::Warning,
        Condition::Hung | Condition::Failed => HealthLevel::Critical,
    }
}

/// The worst incident in its own words, and how many more there are. Where several of `n_live` jobs run, or others than its own,
/// it has to be said of which it tells.
fn of_incidents(open: &[Incident], n_live: usize, now: Timestamp) -> (HealthLevel, Option<String>) {
    let Some(worst) = worst(open) else { return (HealthLevel::Ok, None) };
    let level = match open.iter().map(|incident| incident.severity).max() {
        Some(Severity::Critical) => HealthLevel::Critical,
        Some(Severity::Warning) => HealthLevel::Warning,
        Some(Severity::Info) | None => HealthLevel::Ok,
    };
    let mut words = trimmed(&worst.sentence).to_owned();
    let has_ended = n_live > 0 && worst.job_ended_at.is_some();
    if (n_live > 1 || has_ended) && !worst.job.is_empty() && !words.contains(&worst.job) {
        words = format!("{}: {words}", worst.job);
    }
    if has_ended {
        words += " (the job has ended)";
    }
    if let Some(acknowledged) = &worst.acknowledged {
        words += &format!(" ({} looks after it)", acknowledged.by);
    }
    if let Some(until) = worst.silenced_until {
        words += &format!(" (silenced until {})", moment(until, now));
    }
    if open.len() > 1 {
        words += &format!("; and {}", plural(open.len() - 1, "more incident"));
    }
    (level, Some(words))
}

fn bad_job(job: &Job) -> String {
    if job.n_killed > 0 && job.standing.condition == Condition::Failed {
        return killed_words(job);
    }
    format!("{} is {}: {}", job.id, job.standing.condition.label(), trimmed(&job.standing.reason))
}

/// Nothing is wrong as far as is known.
fn well(health: &Health, watched: &[&HostSummary], live: &[&Job]) -> (HealthLevel, Vec<String>) {
    let (n, healthy) = (watched.len(), health.hosts.healthy);
    if health.hosts.unknown > 0 {
        let some = health.unknown.first().map_or("", String::as_str);
        let words =
            format!("{healthy} of {} healthy, {} unknown: {some}", plural(n, "host"), health.hosts.unknown);
        return (HealthLevel::Unknown, vec![words]);
    }
    if let Some(job) = live.iter().find(|job| job.standing.condition == Condition::Unknown) {
        let words = format!("it is not known how {} does: {}", job.id, trimmed(&job.standing.reason));
        return (HealthLevel::Unknown, vec![words]);
    }
    let words = match n {
        0 => "No host is degraded".to_owned(),
        1 => "The only host is healthy".to_owned(),
        n => format!("All {} healthy", plural(n, "host")),
    };
    (HealthLevel::Ok, vec![words])
}

fn unknown(watched: &[&HostSummary], live: &[&Job]) -> Vec<String> {
    let mut hosts: Vec<&&HostSummary> =
        watched.iter().filter(|host| host.standing.condition == Condition::Unknown).collect();
    // Where somebody can do something about it stands first.
    let has_reason = |host: &HostSummary| host.standing.reason.contains("not watched, because");
    hosts.sort_by_cached_key(|host| (!has_reason(host), natural(&host.host)));
    // A job whose processes found no room says what its host says.
    let said = |job: &Job| {
        let rest = trimmed(&job.standing.reason).split_once("; on its host ").map(|(_, rest)| rest);
        rest.is_some_and(|rest| hosts.iter().any(|host| trimmed(&host.standing.reason) == rest))
    };
    let jobs: Vec<_> =
        live.iter().filter(|job| job.standing.condition == Condition::Unknown && !said(job)).collect();
    let hosts = hosts.iter().map(|host| format!("{}: {}", host.host, trimmed(&host.standing.reason)));
    let jobs = jobs.iter().map(|job| format!("{}: {}", job.id, trimmed(&job.standing.reason)));
    hosts.chain(jobs).take(UNKNOWN_MAX).collect()
}

fn trimmed(words: &str) -> &str {
    words.trim_end_matches(|c: char| c == '.' || c.is_whitespace())
}

fn idle(jobs: &[Job], hosts: &[HostSummary], now: Timestamp) -> (HealthLevel, String) {
    let Some(last) = jobs.iter().max_by_key(|job| job.last_seen) else {
        let heard = match hosts.len() {
            0 => String::new(),
            n => format!("; {} reporting", plural(n, "host")),
        };
        return (HealthLevel::Empty, format!("No job yet{heard}"));
    };
    let words = format!("No job is running; the last, {}, {}", last.id, how_ended(last, now));
    (HealthLevel::Idle, words)
}

/// When a job ended, and unless it ended well as what and why.
fn how_ended(job: &Job, now: Timestamp) -> String {
    let at = moment(job.ended_at.unwrap_or(job.last_seen), now);
    let reason = trimmed(&job.standing.reason);
    match job.standing.condition {
        Condition::Healthy => format!("ended at {at}"),
        Condition::Unknown => format!("ended at {at}; whether all went well is not known: {reason}"),
        condition => format!("ended at {at}, {}: {reason}", condition.label()),
    }
}

/// Why a host stands as it does, that which says its own cause in front of others; with its name unless that says it.
#[must_use]
pub fn reason(host: &HostSummary) -> String {
    let explained = host.reasons.iter().find(|one| one.contains(" because "));
    let words = trimmed(explained.unwrap_or(&host.standing.reason));
    if words.contains(&host.host) { words.to_owned() } else { format!("{}: {words}", host.host) }
}

/// Hosts with the most severe findings first, then by name.
pub fn worst_first<'a>(hosts: impl Iterator<Item = &'a HostSummary>) -> Vec<&'a HostSummary> {
    let mut sorted: Vec<&HostSummary> = hosts.collect();
    sorted.sort_by_cached_key(|host| {
        (Reverse((host.findings.critical, host.findings.warning)), natural(&host.host))
    });
    sorted
}

/// Each finding once, with the number of those that say the same of the same job and host, in their order.
#[must_use]
pub fn folded<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<(&'a Finding, usize)> {
    let mut folded: Vec<(&Finding, usize)> = Vec::new();
    let mut places = BTreeMap::new();
    for finding in findings {
        let key = (&finding.job, &finding.host, &finding.message);
        let place = *places.entry(key).or_insert(folded.len());
        match folded.get_mut(place) {
            Some((_, times)) => *times += 1,
            None => folded.push((finding, 1)),
        }
    }
    folded
}

/// A key that puts host-2 before host-10.
#[must_use]
pub fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text_end);
        let number_end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(number_end);
        parts.push((text.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    parts
}

/// The time of day, with the date unless it is today's. UTC, as the daemon says all times.
#[must_use]
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (at.to_string(), now.to_string());
    let (date, time) = at.split_once('T').unwrap_or(("", &at));
    let time = time.split('.').next().unwrap_or(time);
    if now.starts_with(date) { format!("{time}Z") } else { format!("{date} {time}Z") }
}

/// How long ago it began, for a line that begins with the sentence; when, unless the sentence says since when.
#[must_use]
pub fn since(health: &Health, now: Timestamp) -> String {
    let Some(since) = health.since else { return String::new() };
    let ago = duration(now.since(since));
    if health.sentence.contains(" since ") {
        return format!(" It began {ago} ago.");
    }
    format!(" It began {ago} ago, at {}.", moment(since, now))
}

/// How a job stands, in the words of all conditions; of one that is over that it has ended.
#[must_use]
pub fn job_words(job: &Job) -> String {
    match (job.state, job.standing.condition) {
        (JobState::Ended, Condition::Healthy) => "ended".to_owned(),
        (JobState::Ended, condition) => format!("ended, {}", condition.label()),
        (_, condition) => condition.label().to_owned(),
    }
}

/// Whether a finding is about a host, or accuses a process there.
#[must_use]
pub fn concerns(finding: &Finding, host: &str) -> bool {
    finding.host == host || finding.accused.iter().any(|culprit| culprit.host == host)
}

/// How many hosts stand how, the worst first: "1 failed, 2 hung"; "all healthy".
#[must_use]
pub fn host_words<'a>(hosts: impl Iterator<Item = &'a HostSummary>) -> String {
    let counts = tally(hosts.map(|host| host.standing.condition));
    let bad = Condition::ALL.iter().rev().filter(|condition| **condition != Condition::Healthy);
    let words = bad.filter(|condition| counts.of(**condition) > 0);
    let words: Vec<String> =
        words.map(|condition| format!("{} {}", counts.of(*condition), condition.label())).collect();
    if words.is_empty() { "all healthy".to_owned() } else { words.join(", ") }
}

fn killed_words(job: &Job) -> String {
    let were = if job.n_killed == 1 { "was" } else { "were" };
    format!("{} of {} processes of {} {were} killed", job.n_killed, job.n_processes, job.id)
}

/// Parts of the sentence; more is not read.
const PARTS_MAX: usize = 3;
/// As `api::Health` promises.
const UNKNOWN_MAX: usize = 8;

#[cfg(test)]
pub(crate) mod tests;
