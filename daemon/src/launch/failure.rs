//! What ended a job, and which of it came first: of what fails at about the same time, most are victims of one. No I/O.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ringscope_api::blame::{self, AT_ONCE_NS};

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
    /// The process, where it is not a host that is lost.
    pub(super) fn process(&self) -> Option<&FailedProcess> {
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
    let named = named_by_others(failures, earliest);
    let counts = |process: &FailedProcess| {
        let is_first = !process.was_told && process.is_at_once(earliest);
        // One that is named may take its time to end, and may have been told to meanwhile.
        is_first || votes(&named, process) > 0
    };
    let candidates = failures.iter().filter(|failure| failure.process().is_some_and(counts));
    candidates.min_by_key(|failure| {
        let process = failure.process();
        let votes = process.map_or(0, |process| votes(&named, process));
        let order = process.map(|process| order(process.exit));
        (order, Reverse(votes), process.map(FailedProcess::last_sign_ns))
    })
}

/// Whom the others name in their last words rather than the first of the failures, as they name it: `rank 3 (h2, 10.0.0.2)`. One
/// of so many workers, which did not fail: it may be stopped, or have ended with status 0 while the others needed it.
pub(super) fn blamed(failures: &[Failure], workers: u32) -> Option<String> {
    let first = first(failures)?.process()?;
    let named = named_by_others(failures, first.at_ns);
    let has_failed = |rank: u32| {
        let processes = failures.iter().filter_map(Failure::process);
        processes.map(|process| process.role).any(|role| role == Role::Worker(rank))
    };
    let others = named.iter().filter(|(rank, _)| **rank < workers && !has_failed(**rank));
    let (rank, named_most) = others.max_by_key(|(rank, named)| (named.votes, Reverse(**rank)))?;
    let is_blamed = named_most.votes > votes(&named, first);
    let place = Some(&named_most.place).filter(|place| !place.is_empty());
    is_blamed.then(|| place.map_or_else(|| format!("rank {rank}"), |place| format!("rank {rank} ({place})")))
}

/// A rank that others name in their last words.
#[derive(Debug, Default)]
struct Named {
    /// How many do.
    votes: usize,
    /// Where it is, as they say it.
    place: String,
}

/// Ranks that others name in their last words, of those that had failed by about `at_ns`.
fn named_by_others(failures: &[Failure], at_ns: u64) -> BTreeMap<u32, Named> {
    let mut all: BTreeMap<u32, Named> = BTreeMap::new();
    let processes = failures.iter().filter_map(Failure::process);
    for process in processes.filter(|process| process.is_at_once(at_ns)) {
        let words = process.tail.iter().rev().take(3);
        let mut named: BTreeMap<u32, &str> = words.flat_map(|line| ranks_in(line)).collect();
        if let Role::Worker(own) = process.role {
            named.remove(&own);
        }
        for (rank, place) in named {
            let known = all.entry(rank).or_default();
            known.votes += 1;
            place.clone_into(&mut known.place);
        }
    }
    all
}

fn votes(named: &BTreeMap<u32, Named>, process: &FailedProcess) -> usize {
    match process.role {
        Role::Worker(rank) => named.get(&rank).map_or(0, |named| named.votes),
        Role::Server(_) => 0,
    }
}

/// Ranks that a line names as the engine does, and where they are: `rank 3 (h2, 10.0.0.2)`, or `worker 3 had left the group`, which
/// does not say where. Who only saw it (`(seen by rank 0 (h1, 10.0.0.1))`) is none of them.
fn ranks_in(line: &str) -> impl Iterator<Item = (u32, &str)> {
    let said = line.split_once(" (seen by ").map_or(line, |(said, _)| said);
    let ranks = said.split("rank ").skip(1).filter_map(|rest| {
        let (rank, rest) = rest.split_once(" (")?;
        Some((rank.parse().ok()?, rest.split_once(')')?.0))
    });
    let leavers = said.split("worker ").skip(1).filter_map(|rest| {
        let (rank, rest) = rest.split_once(' ')?;
        rest.starts_with("had left the group").then(|| Some((rank.parse().ok()?, ""))).flatten()
    });
    ranks.chain(leavers)
}

impl FailedProcess {
    /// Whether it ended no later than about the time at which another one did.
    fn is_at_once(&self, at_ns: u64) -> bool {
        self.at_ns.saturating_sub(at_ns) <= AT_ONCE_NS
    }

    /// When it last spoke, where that was just before its end; else its end.
    fn last_sign_ns(&self) -> u64 {
        let is_near = self.at_ns.saturating_sub(self.said_at_ns) <= LAST_WORDS_NS;
        if is_near { self.said_at_ns.min(self.at_ns) } else { self.at_ns }
    }
}

/// How an end counts, the lowest first.
fn order(exit: Exit) -> u8 {
    match exit {
        Exit::Signal(number) => blame::order(Some(number)),
        Exit::Status(_) => blame::order(None),
    }
}

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

    fn server(at_ms: u64, words: &str) -> Failure {
        match said(0, Exit::Status(1), at_ms, at_ms, words) {
            Failure::Process(process) => Failure::Process(FailedProcess { role: Role::Server(0), ..process }),
            lost => lost,
        }
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
        // Who is named may also take longer to end: what it holds is large.
        let later = told(said(3, Exit::Status(3), 6900, 4999, "ValueError"));
        let server = server(5000, "the group has failed: rank 3 (h2, 10.0.0.2) closed the connection");
        assert_eq!(first_rank(&[server, later.clone()]), Some(Role::Worker(3)));
        assert_eq!(first_rank(&[victim.clone(), later]), Some(Role::Worker(1)), "nobody names it");
        // Words of long ago say nothing.
        let quiet = said(2, one, 5020, 100, "epoch 1");
        assert_eq!(first_rank(&[victim, culprit, quiet]), Some(Role::Worker(3)));
    }

    #[test]
    fn who_only_saw_it_is_not_named_and_who_left_is() {
        let one = Exit::Status(1);
        let closed =
            "all_reduce #10: rank 3 (h2, 10.0.0.2) closed the connection (seen by rank 0 (h1, 10.0.0.1))";
        let victims = [said(0, one, 5000, 4990, closed), said(1, one, 5001, 4991, closed)];
        let culprit = said(3, one, 5040, 5030, "ValueError");
        assert_eq!(first_rank(&[&victims[..], &[culprit]].concat()), Some(Role::Worker(3)));
        let left = "worker 2 began a round after worker 1 had left the group (seen by rank 0 (h1, 10.0.0.1))";
        let failures = [server(5000, left), said(2, one, 5001, 4999, left)];
        assert_eq!(blamed(&failures, 3), Some("rank 1".to_owned()));
        let leaver = told(said(1, Exit::Status(3), 5030, 4999, left));
        assert_eq!(first_rank(&[&failures[..], &[leaver]].concat()), Some(Role::Worker(1)));
    }

    #[test]
    fn whom_the_others_name_is_blamed_though_it_did_not_fail() {
        let silent = |rank, of| {
            let words = format!("all_reduce #10: rank {of} (h2, 10.0.0.2) has not answered for 3.0 s");
            said(rank, Exit::Status(1), 5000, 4999, &words)
        };
        let name = Some("rank 1 (h2, 10.0.0.2)".to_owned());
        assert_eq!(blamed(&[silent(0, 1)], 3), name);
        assert_eq!(blamed(&[silent(2, 1), silent(0, 1)], 3), name);
        assert_eq!(blamed(&[server(5000, "rank 1 (h2, 10.0.0.2) has not answered"), silent(0, 1)], 3), name);
        // It is the first of the failures, or has another one's word against it, or is no worker, or is nobody.
        assert_eq!(blamed(&[silent(0, 1), told(failed(1, Exit::Status(3), 7000))], 3), None);
        assert_eq!(blamed(&[silent(0, 1), silent(1, 0)], 3), None);
        assert_eq!(blamed(&[silent(0, 3)], 3), None);
        assert_eq!(blamed(&[failed(0, Exit::Status(1), 1)], 3), None);
    }
}
