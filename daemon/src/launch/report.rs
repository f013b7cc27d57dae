//! What is said of a job's end: the first failure, by its host, rank, number and last lines. No I/O.

use ringscope_api::signal;

use super::failure::{FailedProcess, Failure, blamed, first};
use super::protocol::{Exit, Role};

/// The report: the first failure of a job with so many workers, whom the others blame, and who failed too.
pub(super) fn text(job: &str, workers: u32, failures: &[Failure]) -> Option<String> {
    let first = first(failures)?;
    let mut text = match first {
        Failure::Lost { why, .. } => format!("ringscope: job {job} failed: {why}\n"),
        Failure::Process(process) => of_process(job, process),
    };
    if let Some(rank) = blamed(failures, workers) {
        text += &format!("ringscope: last words name {rank}, which had not failed: {WHY_BLAMED}\n");
    }
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

/// What others wait for in vain, or miss.
const WHY_BLAMED: &str = "it may be stopped or stuck, or have ended before the others were done";
/// Others that are named.
const SHOWN: usize = 8;
#[cfg(test)]
mod tests {
    use super::*;

    fn failed(rank: u32, exit: Exit, at_ns: u64, words: &str) -> Failure {
        Failure::Process(FailedProcess {
            role: Role::Worker(rank),
            host: "a".to_owned(),
            pid: 40 + rank,
            exit,
            was_told: false,
            at_ns,
            said_at_ns: 0,
            tail: vec![words.to_owned()],
        })
    }

    #[test]
    fn the_report_names_host_rank_number_and_last_lines() {
        let crashed = failed(3, Exit::Signal(libc::SIGSEGV), 1, "last words");
        let other = failed(1, Exit::Status(1), 2, "rank 2 (b, 10.0.0.2) has not answered for 3.0 s");
        let lost = Failure::Lost { host: "c".into(), why: "c is lost".into(), at_ns: 2_000_000_000 };
        let text = text("train", 4, &[crashed, other, lost]).unwrap();
        for part in [
            "job train failed",
            "rank 3 on a (pid 43)",
            "SIGSEGV",
            "it crashed",
            "  | last words",
            "last words name rank 2 (b, 10.0.0.2), which had not failed",
            "after it also: rank 1 on a with status 1, host c lost",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(super::text("train", 4, &[]), None);
    }
}
