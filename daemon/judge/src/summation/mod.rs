//! The conditions on a summation group. Pure.

mod looks;
mod lost;
mod parameters;
mod prints;
mod shares;
mod straggler;
mod stuck;
#[cfg(test)]
mod tests;
mod words;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Culprit, FindingKind, Severity, SummationGroupState};
use ringscope_model::Model;
use ringscope_model::summation::{Group, Place};

pub(super) use looks::Looks;
pub(super) use lost::AFTER_DIFFERENCE;

use super::judgement::{Blame, Judgement};

/// Everything that holds for a group.
#[must_use]
pub(super) fn judge(group: &Group, model: &Model, now: Timestamp) -> Vec<Judgement> {
    let subject = Subject { group, model, now, restarted: group.restarted(model, now) };
    let is_running = group.state(model, now) == SummationGroupState::Running;
    let mut judgements = if is_running {
        stuck::judge(subject)
    } else {
        let waited_for = stuck::until_end(subject);
        let lost = lost::judge(subject, &waited_for);
        waited_for.told.into_iter().chain(lost).collect()
    };
    judgements.extend(prints::judge(subject));
    judgements.extend(parameters::judge(subject));
    if is_running {
        judgements.extend(shares::judge(subject));
        judgements.extend(straggler::judge(subject));
    }
    judgements
}

/// What is judged.
#[derive(Clone, Copy)]
struct Subject<'a> {
    group: &'a Group,
    model: &'a Model,
    now: Timestamp,
    /// When the job was started again after it.
    restarted: Option<Timestamp>,
}

impl Subject<'_> {
    /// A condition that holds of one member.
    fn judgement(
        self,
        kind: FindingKind,
        severity: Severity,
        place: Place,
        cause: &'static str,
        message: String,
    ) -> Judgement {
        Judgement {
            blame: Blame::default(),
            kind,
            severity,
            host: self.group.host(place, self.model).into(),
            rank: Some(self.group.rank(place)),
            channel: None,
            nic: None,
            cause,
            culprits: Vec::new(),
            message,
            evidence: Vec::new(),
        }
    }

    /// A member that is to blame. `None`: nothing was ever heard of its process.
    fn culprit(self, place: Place, doing: String) -> Option<Culprit> {
        let identity = self.group.process(place, self.model)?.identity()?;
        Some(Culprit {
            host: identity.host.to_string(),
            pid: Some(identity.pid),
            rank: Some(self.group.rank(place)),
            global_rank: identity.global_rank,
            place: Some(identity.scheduled.words.to_string()).filter(|place| !place.is_empty()),
            doing,
        })
    }
}
