//! The text of `ringscope status`, for narrow and wide terminals. Pure.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, rate, size};
use ringscope_api::{
    CommunicatorState, CommunicatorSummary, Condition, Finding, FindingKind, HealthLevel as Level,
    HostSummary, Incident, Job, Severity, SummationGroup, SummationGroupState,
};
use ringscope_judge::health;

use super::Status;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Columns. `None`: no bound.
    pub(super) width: Option<u16>,
    pub(super) colour: bool,
}

impl Look {
    /// Whether there is room for what is not needed at first sight.
    fn is_wide(self) -> bool {
        self.width.is_none_or(|width| width >= WIDE)
    }

    /// Whether the terminal is as wide as they are as a rule.
    fn is_usual(self) -> bool {
        self.width.is_none_or(|width| width >= USUAL)
    }

    /// Keeps the cells that narrow terminals show too, and on wide ones all.
    fn fit<T, const N: usize>(self, cells: [(bool, T); N]) -> Vec<T> {
        cells.into_iter().filter(|(always, _)| *always || self.is_wide()).map(|(_, cell)| cell).collect()
    }

    fn table(self, header: Vec<&str>) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(header);
        match self.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }
}

/// Everything, in the order in which somebody asks.
pub(super) fn text(status: &Status, look: Look, now: Timestamp) -> String {
    let mut parts = vec![headline(status, look, now)];
    let mut part = |title: &str, table: Option<Table>| {
        parts.extend(table.map(|table| format!("\n{title}\n{table}\n")));
    };
    part("Open incidents", incidents(&status.incidents, look, now));
    part("Firing findings", findings(&status.findings, look, now));
    part("Hosts in trouble", in_trouble(&status.hosts, look));
    part("NICs down", nics(status, look, now));
    part("Jobs", jobs(&status.jobs, look));
    part("Jobs not known to have ended well", ended(&status.jobs, look, now));
    part("Communicators in use", communicators(&status.communicators, look));
    part("Summation groups in use", groups(&status.groups, look));
    parts.concat()
}

fn headline(status: &Status, look: Look, now: Timestamp) -> String {
    let health = &status.health;
    let since = health::since(health, now);
    let hint = if health.level == Level::Empty { " Start one with `ringscope run -- CMD`." } else { "" };
    let sentence = format!("{}.{since}{hint}", health.sentence);
    let code = match health.level {
        Level::Empty | Level::Idle | Level::Unknown => "2",
        Level::Ok => "1;32",
        Level::Warning => "1;33",
        Level::Critical => "1;31",
    };
    let advice = health.advice.as_ref().map(|advice| format!("{advice}\n")).unwrap_or_default();
    let notices: String = health.notices.iter().map(|notice| format!("{notice}.\n")).collect();
    if look.colour {
        format!("\u{1b}[{code}m{sentence}\u{1b}[0m\n{advice}{notices}")
    } else {
        format!("{sentence}\n{advice}{notices}")
    }
}

fn incidents(incidents: &[Incident], look: Look, now: Timestamp) -> Option<Table> {
    let header = look.fit([
        (true, "incident"),
        (true, "severity"),
        (look.is_usual(), "job"),
        (true, "for"),
        (false, "wait"),
        (false, "who looks"),
        (true, "what"),
    ]);
    let rows = incidents.iter().map(|incident| {
        let who = incident.acknowledged.as_ref().map_or("", |acknowledged| acknowledged.by.as_str());
        let silenced =
            incident.silenced_until.map(|until| format!("silenced until {}", health::moment(until, now)));
        let who = [Some(who.to_owned()).filter(|who| !who.is_empty()), silenced];
        look.fit([
            (true, Cell::new(&incident.id)),
            (true, severity(incident.severity)),
            (look.is_usual(), Cell::new(&incident.job)),
            (true, Cell::new(lasting(incident.imported, incident.began_at, now))),
            (false, Cell::new(incident.n_victims)),
            (false, Cell::new(who.into_iter().flatten().collect::<Vec<_>>().join(", "))),
            (true, Cell::new(&incident.sentence)),
        ])
    });
    filled(look.table(header), rows)
}

/// "14 min"; of what files tell, that it is the past.
fn lasting(imported: bool, began_at: Timestamp, now: Timestamp) -> String {
    if imported { "imported".to_owned() } else { duration(now.since(began_at)) }
}

/// One row for what several communicators of a job have in common.
fn findings(findings: &[Finding], look: Look, now: Timestamp) -> Option<Table> {
    let header = look.fit([
        (true, "severity"),
        (false, "finding"),
        (look.is_usual(), "job"),
        (true, "host"),
        (false, "times"),
        (true, "for"),
        (true, "what"),
    ]);
    let rows = health::folded(findings.iter()).into_iter().map(|(finding, times)| {
        look.fit([
            (true, severity(finding.severity)),
            (false, Cell::new(finding.finding.label())),
            (look.is_usual(), Cell::new(&finding.job)),
            (true, Cell::new(&finding.host)),
            (false, Cell::new(times)),
            (true, Cell::new(lasting(finding.imported, finding.began_at.unwrap_or(finding.first_seen), now))),
            (true, Cell::new(&finding.message)),
        ])
    });
    filled(look.table(header), rows)
}

fn in_trouble(hosts: &[HostSummary], look: Look) -> Option<Table> {
    let bad = hosts.iter().filter(|host| host.standing.condition >= Condition::Degraded);
    let rows = health::worst_first(bad).into_iter().map(|host| {
        let why = host.reasons.first().unwrap_or(&host.standing.reason);
        let more = match host.reasons.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        look.fit([
            (true, Cell::new(&host.host).add_attribute(Attribute::Bold)),
            (true, Cell::new(host.standing.condition.label())),
            (true, Cell::new(format!("{why}{more}"))),
            (false, Cell::new(host.jobs.join(", "))),
        ])
    });
    filled(look.table(look.fit([(true, "host"), (true, "stands"), (true, "why"), (false, "jobs")])), rows)
}

/// Which NICs these are is told by findings; how many there are by the hosts.
fn nics(status: &Status, look: Look, now: Timestamp) -> Option<Table> {
    let down = |host: &&HostSummary| host.n_nics_down.is_some_and(|down| down > 0);
    let rows = status.hosts.iter().filter(down).map(|host| {
        let mine: Vec<&Finding> = status
            .findings
            .iter()
            .filter(|finding| finding.finding == FindingKind::NicDegraded && finding.host == host.host)
            .collect();
        let names: Vec<&str> = mine.iter().filter_map(|finding| finding.nic.as_deref()).collect();
        let since = mine.iter().map(|finding| finding.first_seen).min();
        let count = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        vec![
            Cell::new(&host.host),
            Cell::new(format!("{} of {}", count(host.n_nics_down), count(host.n_nics))),
            Cell::new(names.join(", ")),
            Cell::new(since.map_or_else(String::new, |since| duration(now.since(since)))),
        ]
    });
    filled(look.table(vec!["host", "down", "NIC", "for"]), rows)
}

fn jobs(jobs: &[Job], look: Look) -> Option<Table> {
    let header = look.fit([
        (true, "job"),
        (true, "stands"),
        (true, "hosts"),
        (false, "processes"),
        (true, "killed"),
        (false, "communicators"),
        (false, "issued"),
        (false, "completed"),
        (true, "now"),
    ]);
    let rows = jobs.iter().map(|job| {
        look.fit([
            (true, Cell::new(&job.id)),
            (true, Cell::new(health::job_words(job))),
            (true, Cell::new(job.hosts.len())),
            (false, Cell::new(job.n_processes)),
            (true, Cell::new(job.n_killed)),
            (false, Cell::new(format!("{} of {} active", job.active_communicators, job.n_communicators))),
            (false, Cell::new(size(job.issued_bytes))),
            (false, Cell::new(size(job.completed_bytes))),
            (true, Cell::new(rate(job.completed_bytes_per_s))),
        ])
    });
    filled(look.table(header), rows)
}

/// When, as what and why. Of one that ended well there is no more to say.
fn ended(jobs: &[Job], look: Look, now: Timestamp) -> Option<Table> {
    let rows = jobs.iter().filter(|job| job.standing.condition != Condition::Healthy).filter_map(|job| {
        let at = health::moment(job.ended_at?, now);
        Some(vec![
            Cell::new(&job.id),
            Cell::new(at),
            Cell::new(job.standing.condition.label()),
            Cell::new(&job.standing.reason),
        ])
    });
    filled(look.table(vec!["job", "ended", "stands", "why"]), rows)
}

fn communicators(communicators: &[CommunicatorSummary], look: Look) -> Option<Table> {
    let header = look.fit([
        (true, "communicator"),
        (false, "name"),
        (true, "job"),
        (true, "ranks"),
        (false, "hosts"),
        (true, "base"),
        (true, "final"),
        (false, "completed"),
        (false, "now"),
        (true, "held back by"),
    ]);
    let live = communicators.iter().filter(|one| one.state != CommunicatorState::Ended);
    let rows = live.map(|communicator| {
        look.fit([
            (true, Cell::new(&communicator.id)),
            (false, Cell::new(communicator.name.as_deref().unwrap_or_default())),
            (true, Cell::new(&communicator.job)),
            (true, Cell::new(communicator.n_ranks)),
            (false, Cell::new(communicator.hosts.len())),
            (true, Cell::new(channels(communicator.base))),
            (true, Cell::new(channels(communicator.final_channels))),
            (false, Cell::new(size(communicator.completed_bytes))),
            (false, Cell::new(rate(communicator.completed_bytes_per_s))),
            (true, Cell::new(communicator.culprits.join(", "))),
        ])
    });
    filled(look.table(header), rows)
}

fn groups(groups: &[SummationGroup], look: Look) -> Option<Table> {
    let header = look.fit([
        (true, "group"),
        (true, "job"),
        (true, "state"),
        (true, "workers"),
        (true, "servers"),
        (false, "model"),
        (true, "pushed"),
        (false, "pulled"),
        (false, "rounds/s"),
        (true, "findings"),
    ]);
    // What failed and has findings has nothing in its place yet.
    let in_use = groups.iter().filter(|group| match group.state {
        SummationGroupState::Starting | SummationGroupState::Running => true,
        SummationGroupState::Failed => group.n_findings > 0,
        SummationGroupState::Suspended | SummationGroupState::Ended => false,
    });
    let rows = in_use.map(|group| {
        let states = SummationGroupState::WORDS.iter().find(|(_, state)| *state == group.state);
        look.fit([
            (true, Cell::new(&group.id)),
            (true, Cell::new(&group.job)),
            (true, Cell::new(states.map_or("", |(word, _)| *word))),
            (true, Cell::new(group.n_workers)),
            (true, Cell::new(group.n_servers)),
            (false, Cell::new(size(group.model_bytes))),
            (true, Cell::new(rate(group.push_bytes_per_s))),
            (false, Cell::new(rate(group.pull_bytes_per_s))),
            (false, Cell::new(format!("{:.0}", group.rounds_per_s))),
            (true, Cell::new(group.n_findings)),
        ])
    });
    filled(look.table(header), rows)
}

fn severity(severity: Severity) -> Cell {
    let cell = Cell::new(severity.label());
    match severity {
        Severity::Critical => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        Severity::Warning => cell.fg(Color::Yellow),
        Severity::Info => cell,
    }
}

fn channels(channels: Option<u32>) -> String {
    channels.map_or_else(|| "unknown".to_owned(), |channels| channels.to_string())
}

fn filled(mut table: Table, rows: impl Iterator<Item = Vec<Cell>>) -> Option<Table> {
    table.add_rows(rows);
    (!table.is_empty()).then_some(table)
}

/// From here on a table has all its columns.
const WIDE: u16 = 110;
/// From here on there is room to say which job it is.
const USUAL: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_api::{Culprit, JobState};
    use ringscope_samples::objects::finding;
    use ringscope_samples::objects::{NOW, host, incident, job};

    fn status() -> Status {
        let jobs = vec![job("train", JobState::Running, 0)];
        let hosts = vec![host("node-1", 0), host("node-2", 1)];
        let sentence = "node-2 found 2 channels where others found 8.";
        let incidents = vec![incident("a", "node-2", Severity::Critical, sentence)];
        Status {
            health: health::health(&jobs, &hosts, &incidents, NOW),
            incidents,
            jobs,
            hosts,
            communicators: Vec::new(),
            groups: Vec::new(),
            findings: vec![finding("a", "node-2", 1_769_859_960), finding("b", "node-2", 1_769_859_960)],
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40_u16, 60, 80, 120, 200] {
            let text = text(&status(), Look { width: Some(width), colour: false }, NOW);
            let (_, tables) = text.split_once('\n').unwrap();
            for line in tables.lines() {
                assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
            }
            assert!(
                !text.contains('\u{1b}') && text.contains("critical") && text.contains("1 of 4"),
                "{text}"
            );
            // Which job it is has to be seen in 80 columns too.
            let tables: Vec<&str> = text
                .split("\n\n")
                .filter(|part| part.contains("Open inc") || part.contains("Firing f"))
                .collect();
            assert!(
                width < 80 || tables.len() == 2 && tables.iter().all(|table| table.contains(" train ")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_first_line_says_it_all() {
        let text = text(&status(), Look::default(), NOW);
        let expected = "node-2 found 2 channels where others found 8. It began 14 min ago, at 11:46:00Z.";
        assert_eq!(text.lines().next(), Some(expected));
        let says = "rank 3 waits since 11:46:00 UTC.";
        let mut status = status();
        status.health = health::health(&[], &[], &[incident("a", "node-2", Severity::Critical, says)], NOW);
        let line = headline(&status, Look::default(), NOW);
        assert!(line.starts_with("rank 3 waits since 11:46:00 UTC. It began 14 min ago.\n"), "{line}");
    }

    #[test]
    fn hosts_and_jobs_stand_as_the_page_says_it() {
        let mut status = status();
        status.jobs[0].standing.condition = Condition::Hung;
        status.hosts[1].standing.condition = Condition::Hung;
        let text = text(&status, Look::default(), NOW);
        let row = |name: &str| {
            text.lines().find(|line| line.starts_with(&format!("│ {name} "))).unwrap_or_default()
        };
        assert!(row("train").contains(" hung "), "{text}");
        assert!(row("node-2").contains(" hung "), "{text}");
        assert!(text.contains("Hosts in trouble") && !text.contains("running"), "{text}");
    }

    #[test]
    fn of_a_host_are_also_the_findings_that_accuse_it() {
        let mut status = status();
        let of = |id: &str, accused: &str| Finding {
            accused: vec![Culprit { host: accused.into(), ..Culprit::default() }],
            ..finding(id, "node-1", 1_769_859_960)
        };
        status.findings = vec![
            finding("a", "node-1", 1_769_859_960),
            of("b", "node-2"),
            of("c", "node-1"),
            finding("d", "node-2", 1_769_859_960),
        ];
        status.keep_host("node-2");
        let ids: Vec<&str> = status.findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "d"], "a is the cause of the incident on node-2");
    }

    #[test]
    fn of_a_job_not_known_to_have_ended_well_it_is_said_when_and_why() {
        let mut status = status();
        status.jobs.extend([job("well", JobState::Ended, 0), job("lost", JobState::Ended, 2)]);
        let text = text(&status, Look::default(), NOW);
        let (_, ended) = text.split_once("Jobs not known to have ended well").unwrap();
        let row = ended.lines().find(|line| line.contains("lost")).unwrap_or_default();
        for part in ["11:46:00Z", "failed", "rank 3 on node-1: it was killed, or crashed"] {
            assert!(row.contains(part), "{part} in {row}");
        }
        assert!(!ended.contains("train") && !ended.contains("well "), "{ended}");
    }

    #[test]
    fn what_repeats_is_one_row() {
        let text = text(&status(), Look::default(), NOW);
        assert_eq!(text.lines().filter(|line| line.contains("channel_shortfall")).count(), 1, "{text}");
    }

    #[test]
    fn colour_is_only_for_those_who_want_it() {
        let text = text(&status(), Look { width: Some(100), colour: true }, NOW);
        assert!(text.starts_with("\u{1b}[1;31mnode-2"), "{text}");
    }
}
