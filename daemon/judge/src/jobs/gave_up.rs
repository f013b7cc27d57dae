//! Who has ended after having waited for long: a watchdog of the program gives up, and the launcher ends the rest. Such a
//! death is no cause. What they waited for is, and it is told on as it was known last.

use std::collections::HashSet;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::words::{self, plural};
use ringscope_api::{Detail, FindingKind, Severity};
use ringscope_model::{Name, Process};

use super::scene::Taken;
use crate::halted::GIVES_UP_AFTER;
use crate::hangs::scene::{Life, Process as Told};
use crate::judgement::{GAVE_UP, Judgement};

/// Those who have given up waiting because of one judgement.
pub(super) struct GaveUp<'a> {
    processes: Vec<&'a Process>,
    /// Host and pid of each.
    ids: HashSet<(&'a str, u32)>,
    first: Timestamp,
    last: Timestamp,
    /// So many waited.
    of: usize,
}

impl<'a> GaveUp<'a> {
    /// Those of `waited` who have ended since the judgement has held for long. `None`: there is none, or nobody can say that
    /// what they waited for was wrong: then who ended has something of its own.
    pub(super) fn of(judgement: &Judgement, waited: &HashSet<Name>, taken: &Taken<'a>) -> Option<Self> {
        let is_hang = judgement.severity == Severity::Critical
            && !matches!(judgement.kind, FindingKind::RankDead | FindingKind::HostLost);
        let began = judgement.blame.began_at.filter(|_| is_hang && !waited.is_empty())?;
        let ended = taken.processes.iter().zip(&taken.scene.processes).filter_map(|(process, told)| {
            let at = ended_at(told).filter(|at| at.since(began) >= GIVES_UP_AFTER)?;
            waited.contains(process.name()).then_some((at, *process))
        });
        let ended: Vec<(Timestamp, &Process)> = ended.collect();
        let at = || ended.iter().map(|(at, _)| *at);
        let identities = ended.iter().filter_map(|(_, process)| process.identity());
        Some(Self {
            first: at().min()?,
            last: at().max()?,
            of: waited.len(),
            ids: identities.map(|identity| (&*identity.host, identity.pid)).collect(),
            processes: ended.into_iter().map(|(_, process)| process).collect(),
        })
    }

    /// Whether a judgement blames nobody but them, for having ended, and nothing else explains that.
    pub(super) fn explains(&self, judgement: &Judgement) -> bool {
        let is_one = |host: &str, pid: Option<u32>| pid.is_some_and(|pid| self.ids.contains(&(host, pid)));
        let accused = &judgement.blame.accused;
        judgement.kind == FindingKind::RankDead
            && matches!(judgement.cause, "killed" | "exited")
            && !accused.is_empty()
            && accused.iter().all(|one| is_one(&one.host, one.pid))
    }

    /// Whether it still matters what they waited for: nobody was started since and no call has completed, and somebody is
    /// left, or the job is over for a moment only.
    pub(super) fn matters(&self, taken: &Taken<'_>) -> bool {
        let processes = &taken.scene.processes;
        let is_new = |told: &Told<'_>| told.ours(told.started_at) > self.last;
        let mut members = taken.scene.communicators.iter().flat_map(|of| &of.members);
        let goes_on = members.any(|member| {
            let ended = member.last_completed.and_then(|last| last.completed_at);
            ended.is_some_and(|at| processes[member.process as usize].ours(at) > self.last)
        });
        let lives = processes.iter().any(|told| told.life == Life::Running);
        let last = processes.iter().filter_map(ended_at).max().unwrap_or(self.last);
        !goes_on && !processes.iter().any(is_new) && (lives || taken.scene.now.since(last) < TOLD_FOR)
    }

    /// Says so in a judgement.
    pub(super) fn tell(&self, judgement: &mut Judgement) {
        let (n, at) = (self.processes.len(), words::clock(self.first));
        let who =
            if n >= self.of { "those who waited".to_owned() } else { format!("{n} of those who waited") };
        judgement.message += &format!("; {who} ended at {at}");
        let identities = self.processes.iter().filter_map(|process| process.identity());
        let mut lines: Vec<String> = identities
            .take(NAMED)
            .map(|identity| match identity.global_rank {
                Some(rank) => format!("rank {rank} on {} (pid {})", identity.host, identity.pid),
                None => format!("pid {} on {}", identity.pid, identity.host),
            })
            .collect();
        if n > NAMED {
            lines.push(format!("and {}", plural(n - NAMED, "more process")));
        }
        judgement.blame.details.push(Detail { title: GAVE_UP.to_owned(), lines });
    }
}

/// When it was gone, by our clock.
pub(super) fn ended_at(told: &Told<'_>) -> Option<Timestamp> {
    let is_gone = matches!(told.life, Life::Killed | Life::Exited);
    is_gone.then(|| told.ours(told.ended_at.unwrap_or(told.read_at)))
}

/// For how long after the end of a job it is told what ended it.
const TOLD_FOR: Duration = Duration::from_secs(120);
/// Processes that are named.
const NAMED: usize = 16;
