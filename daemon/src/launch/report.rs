//! What is said of a job's end: the first failure, by its host, rank, number and last lines. No I/O.

use std::collections::{BTreeSet, HashMap};

use ringscope_api::signal;

use super::protocol::{Exit, Role};

/// Something that ended a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A process ended as it should not.
    Process(FailedProcess),
    /// A host is lost, in words.
    Lost { host: String, why: String, at_ns: u64 },
}

/// A process that ended as it should not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedProcess {
    /// What it did.
    pub(super) role: Role,
    /// Where.
    pub(super) host: String,
    /// Its number.
    pub(super) pid: u32,
    /// How it ended.
    pub(super) exit: Exit,
    /// It ended after it had been told to: it counts where others name it.
    pub(super) was_told: bool,
    /// When, by this machine's clock, nanoseconds since the epoch.
    pub(super) at_ns: u64,
    /// When the last of its lines came, by the same clock; 0: it has written nothing.
    pub(super) said_at_ns: u64,
    /// Its last lines.
    pub(super) tail: Vec<String>,
}

impl Failure {
    fn process(&self) -> Option<&FailedProcess> {
        match self {
            Self::Process(process) => Some(process),
            Self::Lost { .. } => None,
        }
    }

    fn lost_at_ns(&self) -> Option<u64> {
        match self {
            Self::Process(_) => None,
            Self::Lost { at_ns, .. } => Some(*at_ns),
        }
    }

    /// The exit status that tells it.
    pub(super) fn status(&self) -> u8 {
        match self {
            Self::Process(process) => process.exit.status(),
            Self::Lost { .. } => 1,
        }
    }
}

/// The one that came first, as well as that can be known: of those that failed at about the same time, most are victims of one.
///
/// Who was killed or crashed comes before who ended by itself; then whom the others name in their last words, as the engine's
/// errors do (`rank 3 (h2, 10.0.0.2) closed the connection`); then whose last words, or else whose end, came first.
pub(super) fn first(failures: &[Failure]) -> Option<&Failure> {
    let on_its_own = |process: &&FailedProcess| !process.was_told;
    let ends = failures.iter().filter_map(Failure::process).filter(on_its_own);
    let earliest = ends.map(|process| process.at_ns).min();
    let lost = failures.iter().filter_map(|failure| Some((failure, failure.lost_at_ns()?)));
    // What fails at about the time at which a host is lost fails because of that; a host that is lost later is not why.
    let is_before = |at_ns: u64| earliest.is_none_or(|earliest| at_ns <= earliest.saturating_add(AT_ONCE_NS));
    if let Some((lost, _)) = lost.min_by_key(|(_, at_ns)| *at_ns).filter(|(_, at_ns)| is_before(*at_ns)) {
        return Some(lost);
    }
    let earliest = earliest?;
    let named = named_by_others(failures);
    let votes = |process: &FailedProcess| match process.role {
        Role::Worker(rank) => named.get(&rank).copied().unwrap_or_default(),
        _ => 0,
    };
    let counts = |process: &FailedProcess| {
        let is_at_once = process.at_ns.saturating_sub(earliest) <= AT_ONCE_NS;
        is_at_once && (!process.was_told || votes(process) > 0)
    };
    let candidates = failures.iter().filter(|failure| failure.process().is_some_and(counts));
    candidates.min_by_key(|failure| {
        let process = failure.process();
        let votes = process.map_or(0, votes);
        let violence = process.map(|process| violence(process.exit));
        (violence, std::cmp::Reverse(votes), process.map(FailedProcess::last_sign_ns))
    })
}

/// How many others name a rank in their last words, by rank.
fn named_by_others(failures: &[Failure]) -> HashMap<u32, usize> {
    let mut votes = HashMap::new();
    for process in failures.iter().filter_map(Failure::process) {
        let mut named: BTreeSet<u32> =
            process.tail.iter().rev().take(3).flat_map(|line| ranks_in(line)).collect();
        if let Role::Worker(own) = process.role {
            named.remove(&own);
        }
        named.into_iter().for_each(|rank| *votes.entry(rank).or_default() += 1);
    }
    votes
}

/// Ranks that a line names as the engine does: `rank 3 (`.
fn ranks_in(line: &str) -> impl Iterator<Item = u32> {
    line.split("rank ").skip(1).filter_map(|rest| rest.split_once(" (")?.0.parse().ok())
}

impl FailedProcess {
    /// When it last spoke, where that was just before its end; else its end.
    fn last_sign_ns(&self) -> u64 {
        let is_near = self.at_ns.saturating_sub(self.said_at_ns) <= LAST_WORDS_NS;
        if is_near { self.said_at_ns.min(self.at_ns) } else { self.at_ns }
    }
}

/// How an end counts, the lowest first.
fn violence(exit: Exit) -> u8 {
    match exit {
        Exit::Signal(number) => signal::violence(Some(number)),
        Exit::Status(_) => signal::violence(None),
    }
}

/// The report: the first failure, with how many others there are.
pub(super) fn text(job: &str, failures: &[Failure]) -> Option<String> {
    let first = first(failures)?;
    let mut text = match first {
        Failure::Lost { why, .. } => format!("ringscope: job {job} failed: {why}\n"),
        Failure::Process(process) => of_process(job, process),
    };
    let failed_too =
        |other: &&Failure| *other != first && other.process().is_none_or(|process| !process.was_told);
    let others: Vec<String> = failures.iter().filter(failed_too).map(short).collect();
    if !others.is_empty() {
        let more = if others.len() > SHOWN { ", …" } else { "" };
        let shown = others[..others.len().min(SHOWN)].join(", ");
        text += &format!("ringscope: after it also: {shown}{more}\n");
    }
    Some(text)
}

fn of_process(job: &str, FailedProcess { role, host, pid, exit, tail, .. }: &FailedProcess) -> String {
    let hint = match exit {
        Exit::Signal(signal) => signal::hint(*signal),
        Exit::Status(127) => Some("the command was not found"),
        Exit::Status(126) => Some("the command cannot be executed"),
        Exit::Status(_) => None,
    };
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    let mut text = format!(
        "ringscope: job {job} failed: first {} on {host} (pid {pid}) ended {}{hint}\n",
        name(*role),
        how(*exit)
    );
    if tail.is_empty() {
        text += "ringscope: it has written nothing\n";
    } else {
        text += &format!("ringscope: its last {}:\n", lines(tail.len()));
        text.extend(tail.iter().map(|line| format!("  | {line}\n")));
    }
    text
}

fn lines(count: usize) -> String {
    if count == 1 { "line".to_owned() } else { format!("{count} lines") }
}

fn short(failure: &Failure) -> String {
    match failure {
        Failure::Lost { host, .. } => format!("host {host} lost"),
        Failure::Process(process) => {
            format!("{} on {} {}", name(process.role), process.host, how(process.exit))
        }
    }
}

/// How a process ended, in words.
pub(super) fn how(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("with status {status}"),
        Exit::Signal(signal) => format!("by {}", signal::name(signal)),
    }
}

/// A role, in words.
pub(super) fn name(role: Role) -> String {
    match role {
        Role::Worker(rank) => format!("rank {rank}"),
        Role::Server(number) => format!("summation server {number}"),
    }
}

/// Others that are named.
const SHOWN: usize = 8;
/// News of a lost peer comes sooner than this.
const AT_ONCE_NS: u64 = 500_000_000;
/// Who says why it ends does so so shortly before.
const LAST_WORDS_NS: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(rank: u32, exit: Exit, at_ms: u64) -> Failure {
        said(rank, exit, at_ms, 0, "last words")
    }

    fn said(rank: u32, exit: Exit, at_ms: u64, said_at_ms: u64, words: &str) -> Failure {
        let (at_ns, said_at_ns) = (at_ms * 1_000_000, said_at_ms * 1_000_000);
        let (host, tail) = ("a".to_owned(), vec![words.to_owned()]);
        Failure::Process(FailedProcess {
            role: Role::Worker(rank),
            host,
            pid: 40 + rank,
            exit,
            was_told: false,
            at_ns,
            said_at_ns,
            tail,
        })
    }

    fn told(failure: Failure) -> Failure {
        match failure {
            Failure::Process(process) => Failure::Process(FailedProcess { was_told: true, ..process }),
            lost => lost,
        }
    }

    fn first_rank(failures: &[Failure]) -> Option<Role> {
        match first(failures)? {
            Failure::Process(process) => Some(process.role),
            Failure::Lost { .. } => None,
        }
    }

    #[test]
    fn the_first_is_who_failed_first() {
        let failures = [failed(1, Exit::Status(1), 900), failed(3, Exit::Status(7), 100)];
        assert_eq!(first_rank(&failures), Some(Role::Worker(3)));
        assert_eq!(first(&failures).unwrap().status(), 7);
    }

    #[test]
    fn who_was_killed_comes_before_its_victims_but_not_before_who_failed_long_before() {
        let killed = failed(2, Exit::Signal(libc::SIGKILL), 300);
        assert_eq!(first_rank(&[failed(1, Exit::Status(1), 290), killed.clone()]), Some(Role::Worker(2)));
        assert_eq!(
            first_rank(&[failed(1, Exit::Status(1), 290), failed(0, Exit::Signal(libc::SIGABRT), 291)]),
            Some(Role::Worker(1))
        );
        let crashed = failed(0, Exit::Signal(libc::SIGSEGV), 280);
        assert_eq!(first_rank(&[crashed, killed.clone()]), Some(Role::Worker(2)));
        let late = failed(2, Exit::Signal(libc::SIGKILL), 3000);
        assert_eq!(first_rank(&[failed(1, Exit::Status(1), 290), late]), Some(Role::Worker(1)));
    }

    #[test]
    fn a_lost_host_is_first_unless_others_failed_before() {
        let lost = |at_ms: u64| Failure::Lost {
            host: "b".into(),
            why: "b is lost".into(),
            at_ns: at_ms * 1_000_000,
        };
        let failed_by_itself = failed(2, Exit::Status(1), 1000);
        for at_ms in [100, 1000, 1400] {
            assert_eq!(first(&[failed_by_itself.clone(), lost(at_ms)]), Some(&lost(at_ms)));
        }
        assert_eq!(first(&[lost(1600), failed_by_itself.clone()]), Some(&failed_by_itself));
        assert!(text("j", &[lost(1600), failed_by_itself]).unwrap().contains("after it also: host b lost"));
        assert_eq!(first(&[lost(1600), lost(900)]), Some(&lost(900)));
        assert_eq!(first(&[told(failed(2, Exit::Status(1), 1)), lost(1600)]), Some(&lost(1600)));
    }

    #[test]
    fn whom_others_name_comes_before_them_and_else_who_spoke_first() {
        let one = Exit::Status(1);
        let victim =
            |rank, at| said(rank, one, at, at, "all_reduce #10: rank 3 (h2, 10.0.0.2) closed the connection");
        assert_eq!(
            first_rank(&[victim(0, 5000), victim(1, 5010), said(3, one, 5040, 0, "")]),
            Some(Role::Worker(3))
        );
        let (culprit, victim) =
            (said(3, one, 5040, 4990, "ValueError"), said(1, one, 5000, 4999, "ncclRemoteError"));
        assert_eq!(first_rank(&[victim.clone(), culprit.clone()]), Some(Role::Worker(3)));
        // Its victims may have ended it before it came to its end.
        let late = told(said(3, Exit::Status(7), 5030, 4999, "ValueError"));
        let named = said(1, one, 5000, 4999, "all_reduce #10: rank 3 (h2, 10.0.0.2) closed the connection");
        assert_eq!(first_rank(&[named, late.clone()]), Some(Role::Worker(3)));
        assert_eq!(first_rank(&[victim.clone(), late]), Some(Role::Worker(1)), "nobody names it");
        // Words of long ago say nothing.
        let quiet = said(2, one, 5020, 100, "epoch 1");
        assert_eq!(first_rank(&[victim, culprit, quiet]), Some(Role::Worker(3)));
    }

    #[test]
    fn the_report_names_host_rank_number_and_last_lines() {
        let text = text("train", &[failed(3, Exit::Signal(libc::SIGSEGV), 1), failed(1, Exit::Status(1), 2)])
            .unwrap();
        for part in [
            "job train failed",
            "rank 3 on a (pid 43)",
            "SIGSEGV",
            "it crashed",
            "  | last words",
            "rank 1 on a with status 1",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(super::text("train", &[]), None);
    }
}
