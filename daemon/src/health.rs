//! The state of everything in one sentence, in the words of the page (`web/src/pure/health.ts`). Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::api::{Finding, FindingState, HostSummary, Job, JobState, Severity};
use crate::clock::Timestamp;
use crate::words::{capital, duration, list, plural};

/// The state of everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// How bad it is.
    pub level: Level,
    /// In words.
    pub sentence: String,
    /// Start of the oldest firing finding that somebody should look at.
    pub since: Option<Timestamp>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No job was ever seen.
    Empty,
    /// No job runs.
    Idle,
    /// All is well.
    Ok,
    /// Somebody should look.
    Warning,
    /// A job is slower than it could be, or stands.
    Critical,
}

/// The state of these jobs, hosts and findings.
#[must_use]
pub fn health(jobs: &[Job], hosts: &[HostSummary], findings: &[Finding], now: Timestamp) -> Health {
    let degraded = worst_first(hosts.iter().filter(|host| host.degraded));
    let live: Vec<&Job> = jobs.iter().filter(|job| job.state != JobState::Ended).collect();
    if degraded.is_empty() && live.is_empty() {
        return idle(jobs, hosts, now);
    }
    let mut level = Level::Ok;
    let mut parts = Vec::new();
    let watched = |host: &&HostSummary| host.n_processes > 0 || host.degraded || !host.jobs.is_empty();
    let watched = hosts.iter().filter(watched).count();
    if let Some((worst, others)) = degraded.split_first() {
        let critical = degraded.iter().any(|host| host.findings.critical > 0);
        level = if critical { Level::Critical } else { Level::Warning };
        let names: Vec<&str> = others.iter().map(|host| host.host.as_str()).collect();
        let more = if names.is_empty() { String::new() } else { format!("; and {}", list(&names, 3)) };
        parts.push(format!(
            "{} of {} degraded: {}{more}",
            degraded.len(),
            plural(watched, "host"),
            reason(worst)
        ));
    }
    let killed: Vec<&&Job> = live.iter().filter(|job| job.n_killed > 0).collect();
    if !killed.is_empty() {
        level = Level::Critical;
        parts.extend(killed.iter().take(2).map(|job| killed_words(job)));
    }
    let silent: Vec<&&Job> = live.iter().filter(|job| job.state == JobState::Stale).collect();
    if let Some(first) = silent.first() {
        level = level.max(Level::Warning);
        let names: Vec<&str> = silent.iter().map(|job| job.id.as_str()).collect();
        parts.push(format!(
            "nothing heard of {} for {}",
            list(&names, 3),
            duration(now.since(first.last_seen))
        ));
    }
    if level == Level::Ok {
        parts.insert(
            0,
            match watched {
                0 => "No host is degraded".to_owned(),
                1 => "The only host is healthy".to_owned(),
                n => format!("All {} healthy", plural(n, "host")),
            },
        );
    }
    Health { level, sentence: capital(&parts.join("; ")), since: oldest(findings) }
}

fn idle(jobs: &[Job], hosts: &[HostSummary], now: Timestamp) -> Health {
    let Some(last) = jobs.iter().max_by_key(|job| job.last_seen) else {
        let heard = if hosts.is_empty() {
            String::new()
        } else {
            format!("; {} reporting", plural(hosts.len(), "host"))
        };
        return Health { level: Level::Empty, sentence: format!("No job yet{heard}"), since: None };
    };
    let how = if last.n_killed > 0 { format!(": {}", killed_words(last)) } else { String::new() };
    Health {
        level: if last.n_killed > 0 { Level::Warning } else { Level::Idle },
        sentence: format!(
            "No job is running; the last, {}, ended at {}{how}",
            last.id,
            moment(last.last_seen, now)
        ),
        since: None,
    }
}

/// The host's worst reason, that which says its own cause in front of others; with its name unless the reason names it.
#[must_use]
pub fn reason(host: &HostSummary) -> String {
    let explained = host.reasons.iter().find(|one| one.contains(" because "));
    let given = explained.or(host.reasons.first()).map_or("no reason given", String::as_str);
    let words = given.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
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

fn killed_words(job: &Job) -> String {
    let were = if job.n_killed == 1 { "was" } else { "were" };
    format!("{} of {} processes of {} {were} killed", job.n_killed, job.n_processes, job.id)
}

fn oldest(findings: &[Finding]) -> Option<Timestamp> {
    let firing = findings
        .iter()
        .filter(|finding| finding.state == FindingState::Firing && finding.severity > Severity::Info);
    firing.map(|finding| finding.first_seen).min()
}

#[cfg(test)]
pub(crate) mod tests;
