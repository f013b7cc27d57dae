//! How a process, a communicator, a job or a host stands: the rules, and nothing else.
//!
//! Pure: everything comes as an argument, so whoever knows more gives more. Green needs evidence. What nobody can say is
//! `unknown`, and its reason says what would be needed.

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{clock, duration, ends_not_known, other_segment_version, plural};
use ringscope_api::{Condition, Finding, FindingKind, FindingState, RankState, Severity, Standing, signal};
use ringscope_model::{Exit, ToldToEnd};

/// How long after the last completion a call may stay open before nobody can say any more that all goes well. Hangs are
/// named by the judge long before; this is for what it cannot see.
pub const EVIDENCE_HOLDS: Duration = Duration::from_secs(60);

/// What is known of one process, in one communicator or in all of its own.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    /// What has become of it.
    pub life: RankState,
    /// How it ended, as far as is known.
    pub exit: Exit,
    /// Time since something was last heard of it.
    pub silent: Duration,
    /// Whether its calls are recorded.
    pub watched: Watched,
    /// Of a process without a segment: what is not watched on its host, and why. Absent: nothing is known of that.
    pub not_watched_there: Option<&'a str>,
    /// Whether it ever made a communicator, or began to.
    pub has_communicators: bool,
    /// What it asked of the library.
    pub calls: Calls,
    /// What the rounds of its summation groups do.
    pub rounds: Rounds,
    /// The worst finding that accuses it.
    pub accused: Option<&'a Finding>,
    /// The worst finding because of which it waits.
    pub waits_for: Option<&'a Finding>,
    /// What failed, in words. Absent: nothing.
    pub failed: Option<String>,
    /// What is not as it should be, in words. Absent: nothing.
    pub lacks: Option<String>,
    /// Whether it has not ended a communicator.
    pub left_open: bool,
    /// Of a process that is known from files: whether they tell enough to judge it, and of no call that is open.
    pub files_tell: bool,
}

/// Whether the calls of a process are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watched {
    /// They are.
    #[default]
    Yes,
    /// Somebody switched the collector off.
    Off {
        /// Since when. Absent: not known.
        since: Option<Timestamp>,
        /// Who, in words: "its control word". Empty: not known.
        by: String,
    },
    /// The collector switched itself off after a fault of its own.
    Fault {
        /// Since when. Absent: not known.
        since: Option<Timestamp>,
    },
    /// Somebody removed the file of its segment.
    SegmentRemoved {
        /// Since when. Absent: not known.
        since: Option<Timestamp>,
    },
    /// The agent of its host was ended in good order.
    AgentStopped {
        /// Since when.
        since: Timestamp,
    },
    /// Its agent speaks, and tells nothing new.
    NotTaken,
    /// Its collector writes segments of a version that its agent does not read.
    OtherVersion {
        /// Which.
        written: u32,
        /// The one that its agent reads. Absent: the agent does not say.
        read: Option<u32>,
    },
    /// Only its log is read, which tells of no call.
    LogOnly,
}

/// What the rounds of a process's summation groups do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rounds {
    /// It has had none, or is in no group.
    #[default]
    None,
    /// It has had some, and nothing moves now.
    Stand,
    /// Parts are pushed, summed or pulled.
    Move,
}

/// What was asked of the library, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls handed to the library.
    pub issued: u64,
    /// Calls finished.
    pub completed: u64,
    /// Whether anything tells that calls complete.
    pub completion_known: bool,
    /// Why it is not known of some calls whether they are over, though it was to be told. Empty: it is known of all.
    pub completion_lost: String,
    /// Of several communicators: the same of some of them, which are left out, for others are known.
    pub left_out: bool,
    /// Time since the newest completion. Absent: none, or not known.
    pub completed_ago: Option<Duration>,
    /// Age of the oldest call that is open, init included. Absent: none is.
    pub open_for: Option<Duration>,
    /// Of several communicators: the same over those in which nothing has completed lately. Absent: there is none.
    pub stands_for: Option<Duration>,
}

impl Calls {
    /// Takes in those of another communicator. Where some tell of all their calls, what another one has lost says nothing of
    /// those: it is unknown alone.
    pub fn add(&mut self, other: &Self) {
        let (has_lost, has_other_lost) =
            (!self.completion_lost.is_empty(), !other.completion_lost.is_empty());
        if self.issued > 0 && other.issued > 0 && has_lost != has_other_lost {
            if has_lost {
                *self = other.after_none();
            }
            self.left_out = true;
            return;
        }
        // Of a communicator that nothing was asked of nobody needs to know how its calls would complete.
        self.completion_known = match (self.issued, other.issued) {
            (_, 0) => self.completion_known,
            (0, _) => other.completion_known,
            _ => self.completion_known && other.completion_known,
        };
        if self.completion_lost.is_empty() {
            self.completion_lost.clone_from(&other.completion_lost);
        }
        self.issued = self.issued.saturating_add(other.issued);
        self.completed = self.completed.saturating_add(other.completed);
        self.completed_ago = [self.completed_ago, other.completed_ago].into_iter().flatten().min();
        self.open_for = self.open_for.max(other.open_for);
        // What completes in one communicator says nothing of a call in another.
        self.stands_for = self.stands_for.max(other.stands());
    }

    /// These as the first of several.
    fn after_none(&self) -> Self {
        Self { stands_for: self.stands(), ..self.clone() }
    }

    /// The age of the oldest open call of a communicator in which nothing has completed lately.
    fn stands(&self) -> Option<Duration> {
        self.open_for.filter(|open| *open > EVIDENCE_HOLDS && !self.is_recent())
    }

    /// Whether something completed lately.
    fn is_recent(&self) -> bool {
        self.completed_ago.is_some_and(|ago| ago <= EVIDENCE_HOLDS)
    }
}

/// What a firing finding says of what it is about. `None`: nothing, it is information.
#[must_use]
pub fn condition_of(finding: &Finding) -> Option<Condition> {
    use FindingKind as Kind;
    if finding.severity < Severity::Warning || finding.state != FindingState::Firing {
        return None;
    }
    let is_critical = finding.severity == Severity::Critical;
    Some(match finding.finding {
        Kind::RankDead | Kind::HostLost | Kind::AsyncError | Kind::SumServerLost if is_critical => {
            Condition::Failed
        }
        Kind::SumFingerprintMismatch | Kind::SumParametersDiffer => Condition::Failed,
        // While nobody waits, results are wrong that nobody sees.
        Kind::CallMismatch if is_critical && finding.n_victims == 0 => Condition::Failed,
        kind if is_hang(kind) && is_critical => Condition::Hung,
        _ => Condition::Degraded,
    })
}

/// Whether something does not end where a finding of this kind is critical.
#[must_use]
pub fn is_hang(kind: FindingKind) -> bool {
    use FindingKind as Kind;
    matches!(
        kind,
        Kind::Waiting
            | Kind::RankMissing
            | Kind::RankDead
            | Kind::HostLost
            | Kind::CallMismatch
            | Kind::OrderDeadlock
            | Kind::P2pUnmatched
            | Kind::TransferStalled
            | Kind::DeviceStalled
            | Kind::InitStuck
            | Kind::TeardownStuck
            | Kind::SumRoundStuck
    )
}

/// How a process stands.
#[must_use]
pub fn of_process(evidence: &Evidence<'_>) -> Standing {
    if let Some((finding, condition)) = evidence.accused.and_then(|one| Some((one, condition_of(one)?))) {
        return standing(condition, finding.message.clone());
    }
    let has_ended = matches!(evidence.life, RankState::Killed | RankState::Exited | RankState::Gone);
    if let Some(told) = evidence.exit.told.filter(|_| has_ended) {
        return told_to_end(told);
    }
    if evidence.life == RankState::Killed {
        return killed(evidence.exit);
    }
    if let Some(words) = &evidence.failed {
        return standing(Condition::Failed, words.clone());
    }
    if let Some(words) = &evidence.lacks {
        return standing(Condition::Degraded, words.clone());
    }
    if evidence.life == RankState::Exited {
        return exited(evidence.exit.status);
    }
    if evidence.life == RankState::Gone {
        let failed = evidence.exit.status.filter(|status| *status != 0);
        return failed.map_or_else(|| gone(evidence.left_open), |status| exited(Some(status)));
    }
    if let Some(finding) = evidence.waits_for {
        let reason = format!("it waits: {}", finding.message);
        return Standing { condition: Condition::Hung, reason, waits: true };
    }
    if evidence.life == RankState::Imported && evidence.files_tell {
        return standing(Condition::Healthy, "read from files, which show nothing wrong".to_owned());
    }
    unwatched(evidence)
        .or_else(|| of_rounds(evidence))
        .unwrap_or_else(|| with_left_out(&evidence.calls, of_calls(&evidence.calls)))
}

/// How a process stands that was killed, or crashed. Where nobody knows by what, it may have been because another one failed.
fn killed(exit: Exit) -> Standing {
    let reason = match (exit.signal, exit.status) {
        (Some(number), _) => {
            let hint = signal::hint(number.into()).map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("it was ended by {}{hint}", signal::name(number.into()))
        }
        (None, Some(status)) => {
            format!("it was killed, or crashed, while it ended with exit status {status}")
        }
        (None, None) => {
            let reason = "it was killed, or crashed".to_owned();
            return Standing { waits: true, ..standing(Condition::Failed, reason) };
        }
    };
    standing(Condition::Failed, reason)
}

/// How a process stands that its launch has ended. Whether it would have been well nobody knows.
fn told_to_end(told: ToldToEnd) -> Standing {
    let condition = match told {
        ToldToEnd::WorkersDone => Condition::Healthy,
        ToldToEnd::Failure | ToldToEnd::Signal(_) | ToldToEnd::LaunchGone => Condition::Unknown,
    };
    standing(condition, ended_by_launch(told))
}

/// Why a launch has ended a process, or all of a job, in words.
#[must_use]
pub fn ended_by_launch(told: ToldToEnd) -> String {
    let why = match told {
        ToldToEnd::Failure => "another process of the job had failed, or a host was lost".to_owned(),
        ToldToEnd::Signal(0) => "the launch was sent a signal".to_owned(),
        ToldToEnd::Signal(number) => format!("the launch was sent {}", signal::name(number.into())),
        ToldToEnd::WorkersDone => "all workers were done".to_owned(),
        ToldToEnd::LaunchGone => return "its launch was gone, and what it had started was ended".to_owned(),
    };
    format!("its launch ended it: {why}")
}

/// How a process stands that has called `exit`, or came to its end.
fn exited(status: Option<u8>) -> Standing {
    match status {
        Some(0) => standing(Condition::Healthy, "it ended by itself".to_owned()),
        Some(status) => {
            let reason = format!("it ended with exit status {status}; what it wrote last may say why");
            standing(Condition::Failed, reason)
        }
        None => standing(Condition::Unknown, "it ended; its exit status is not known".to_owned()),
    }
}

/// How a process stands that has ended, and nobody knows as what. Who had ended its communicators was done with its work.
fn gone(left_open: bool) -> Standing {
    let how = "it ended without saying so: by _exit, exec or a signal, which is not known";
    if left_open {
        return standing(Condition::Unknown, format!("{how}; it had not destroyed its communicator"));
    }
    standing(Condition::Healthy, format!("{how}; no communicator of it was open"))
}

/// Green of the rest only, if some communicators were left out.
fn with_left_out(calls: &Calls, standing: Standing) -> Standing {
    if !calls.left_out {
        return standing;
    }
    let reason = format!(
        "{}; of some calls on another communicator it is not known whether they are over, as its page says",
        standing.reason
    );
    Standing { reason, ..standing }
}

/// Why nobody can say how a process does, if so.
fn unwatched(evidence: &Evidence<'_>) -> Option<Standing> {
    let reason = match (evidence.life, &evidence.watched) {
        (RankState::Imported, _) if evidence.calls.open_for.is_some() => {
            "a call was open when its files ended, and nothing tells how it went on".to_owned()
        }
        (RankState::Imported, Watched::LogOnly) => {
            "its log tells of its channels, and not whether its calls end: add Flight Recorder dumps or RAS answers"
                .to_owned()
        }
        (RankState::Imported, _) => "read from files, which do not tell enough to judge it".to_owned(),
        (_, Watched::AgentStopped { since }) => format!(
            "not watched since {}: the agent on its host was stopped; starting it again would say more",
            clock(*since)
        ),
        (_, Watched::NotTaken) => format!(
            "nothing new of it for {}: its agent sends the same again and again, so the daemon cannot store it, as it then says of \
             itself, or its answers do not reach the agent",
            duration(evidence.silent)
        ),
        (RankState::Stale, _) => format!(
            "nothing heard of it for {}; whether its host and the agent there run would say more",
            duration(evidence.silent)
        ),
        (_, Watched::Off { since, by }) => {
            let by = if by.is_empty() { "somebody" } else { by };
            format!(
                "not watched{}, by {by}: its collector is switched off; `ringscope level` switches it on",
                told_since(*since)
            )
        }
        (_, Watched::Fault { since }) => format!(
            "not watched{}: its collector switched itself off after a fault; `ringscope doctor` on its host says which",
            told_since(*since)
        ),
        (_, Watched::SegmentRemoved { since }) => format!(
            "not watched{}: its segment was removed or cut, by somebody or by logind when its user logged out; a restart of \
             the process brings it back, and against logind helps `RemoveIPC=no` in logind.conf",
            told_since(*since)
        ),
        (_, Watched::OtherVersion { written, read }) => other_segment_version(*written, *read),
        (_, Watched::LogOnly) if let Some(why) = evidence.not_watched_there => {
            format!("only its log is read, which tells of no call; on its host {why}")
        }
        (_, Watched::LogOnly) => {
            "only its log is read, which tells of no call; start it with `ringscope run`".to_owned()
        }
        (_, Watched::Yes) if !evidence.has_communicators && let Some(why) = evidence.not_watched_there => {
            format!("no call of it is seen; on its host {why}")
        }
        (_, Watched::Yes) if !evidence.has_communicators => {
            "no call of NCCL so far; `ringscope doctor` says whether its calls can be seen".to_owned()
        }
        (_, Watched::Yes) => return None,
    };
    Some(standing(Condition::Unknown, reason))
}

/// " since …" if it is known.
fn told_since(since: Option<Timestamp>) -> String {
    since.map_or_else(String::new, |since| format!(" since {}", clock(since)))
}

/// How a process stands that asks nothing of the library for collectives, and takes part in summation rounds. One that waits
/// there is told by a finding.
fn of_rounds(evidence: &Evidence<'_>) -> Option<Standing> {
    let calls = &evidence.calls;
    let reason = match evidence.rounds {
        _ if calls.issued > 0 || calls.open_for.is_some() => return None,
        Rounds::None => return None,
        Rounds::Stand => "it has taken part in summation rounds, and none goes on now",
        Rounds::Move => "its summation rounds go on",
    };
    Some(standing(Condition::Healthy, reason.to_owned()))
}

fn of_calls(calls: &Calls) -> Standing {
    let unknown = |reason: String| standing(Condition::Unknown, reason);
    let healthy = |reason: String| standing(Condition::Healthy, reason);
    let completed = usize::try_from(calls.completed).unwrap_or(usize::MAX);
    let stands = calls.stands_for.filter(|_| calls.is_recent());
    match (calls.open_for, calls.completed_ago) {
        (None, _) if calls.issued == 0 => healthy("nothing was asked of the library yet".to_owned()),
        _ if !calls.completion_lost.is_empty() => {
            let oldest = calls.open_for.map(|open| format!("; the oldest that may be open was made {} ago", duration(open)));
            unknown(ends_not_known(&calls.completion_lost) + &oldest.unwrap_or_default())
        }
        _ if calls.issued > 0 && !calls.completion_known => unknown(
            "nothing tells when its calls complete; that needs the profiler interface of NCCL 2.23 or newer, or CUDA events"
                .to_owned(),
        ),
        _ if let Some(open) = stands => unknown(format!(
            "a call has been open for {}, and nothing completes in its communicator, while others go on",
            duration(open)
        )),
        (_, Some(ago)) if calls.is_recent() => healthy(format!("its last call completed {} ago", duration(ago))),
        // Who is idle is well, and says for how long.
        (None, Some(ago)) if calls.completed >= calls.issued => {
            healthy(format!("it completed {}, and none was asked for since {}", plural(completed, "call"), duration(ago)))
        }
        (None, Some(ago)) => {
            healthy(format!("no call is open; its last one completed {} ago", duration(ago)))
        }
        (None, None) if calls.completed >= calls.issued => healthy("all its calls have completed".to_owned()),
        (None, None) => unknown(format!("{} calls made, {} completed as far as is known", calls.issued, calls.completed)),
        (Some(open), None) if calls.completed > 0 && open <= EVIDENCE_HOLDS => {
            healthy(format!("{} of its calls completed; its oldest open one is {} old", calls.completed, duration(open)))
        }
        (Some(open), Some(ago)) => unknown(format!(
            "its oldest call has been open for {}, and none has completed for {}",
            duration(open),
            duration(ago)
        )),
        (Some(open), None) if calls.issued == 0 => {
            unknown(format!("its init has been open for {}, and nothing completed yet", duration(open)))
        }
        (Some(open), None) => {
            unknown(format!("its oldest call has been open for {}, and none has completed yet", duration(open)))
        }
    }
}

/// How something stands that consists of parts: a communicator, a job, a host. `noun`: what the parts
/// are, as of several. `worst` is the worst finding about the whole; `nothing` says how it stands if it has no
/// part, and why.
#[must_use]
pub fn of_whole<N: FnOnce() -> String>(
    parts: impl Iterator<Item = (N, Standing)>,
    noun: &str,
    worst: Option<&Finding>,
    nothing: (Condition, &str),
) -> Standing {
    let (mut n_parts, mut n_like_worst) = (0, 0);
    let mut worst_part: Option<(N, Standing)> = None;
    // Who waits, and who may have been killed because another one failed, is told after who is to blame.
    let badness = |part: &Standing| (part.condition, !part.waits);
    for (name, part) in parts {
        n_parts += 1;
        let than = worst_part.as_ref().map(|(_, known)| (known.condition, badness(known)));
        n_like_worst = match than {
            Some((known, _)) if known > part.condition => n_like_worst,
            Some((known, _)) if known == part.condition => n_like_worst + 1,
            _ => 1,
        };
        if than.is_none_or(|(_, known)| badness(&part) > known) {
            worst_part = Some((name, part));
        }
    }
    let by_finding = worst.and_then(|finding| Some((condition_of(finding)?, finding)));
    let of_parts = worst_part.as_ref().map_or(Condition::Healthy, |(_, part)| part.condition);
    if let Some((condition, finding)) = by_finding.filter(|(condition, _)| *condition >= of_parts) {
        return standing(condition, finding.message.clone());
    }
    let Some((name, part)) = worst_part else {
        return standing(nothing.0, nothing.1.to_owned());
    };
    let name = name();
    let reason = match part.condition {
        Condition::Healthy if n_parts == 1 => format!("{name}: {}", part.reason),
        Condition::Healthy => format!("all {n_parts} {noun}: {}", part.reason),
        condition if n_like_worst > 1 => {
            format!("{n_like_worst} of {n_parts} {noun} {}: {name}: {}", condition.label(), part.reason)
        }
        _ => format!("{name}: {}", part.reason),
    };
    Standing { reason, ..part }
}

/// Why nobody can say how a host does on which nothing runs that is known, and which no agent looks after.
pub const NOBODY_THERE: &str = "nothing is known to run on it, and no agent reports from it: it may be gone";

/// How a host stands on which not all can be watched, for this reason.
#[must_use]
pub fn unseen_there(why: &str) -> Standing {
    standing(Condition::Unknown, why.to_owned())
}

/// How a job stands that could not be judged since then.
#[must_use]
pub fn not_judged(since: Timestamp) -> Standing {
    let since = clock(since);
    let reason =
        format!("not judged since {since}: an error of ringscope's own, which the daemon's log tells");
    standing(Condition::Unknown, reason)
}

fn standing(condition: Condition, reason: String) -> Standing {
    Standing { condition, reason, waits: false }
}

#[cfg(test)]
mod tests;
