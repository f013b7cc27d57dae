//! What is told on of somebody who has ended meanwhile: nothing can be done to that process any more, and its number may soon
//! be another's.

use std::time::Duration;

use ringscope_api::Culprit;
use ringscope_api::clock::Timestamp;
use ringscope_api::words;

use super::gave_up::ended_at;
use super::scene::Taken;
use crate::halted::ADVICE_ENDED;
use crate::judgement::Judgement;

/// All who are to blame have ended.
pub(super) struct Gone {
    /// The last of them, by our clock.
    at: Timestamp,
}

impl Gone {
    /// `None`: somebody who is to blame lives, or nobody in particular is.
    pub(super) fn of(judgement: &Judgement, taken: &Taken<'_>) -> Option<Self> {
        let ended = judgement.blame.accused.iter().map(|one| ended(one, taken));
        let at = ended.collect::<Option<Vec<Timestamp>>>()?.into_iter().max()?;
        Some(Self { at })
    }

    /// Whether it is still told what they did.
    pub(super) fn matters(&self, now: Timestamp) -> bool {
        now.since(self.at) < TOLD_FOR
    }

    /// The same, as of somebody who is gone.
    pub(super) fn tell(&self, mut judgement: Judgement) -> Judgement {
        let whose = if judgement.blame.accused.len() == 1 { "its" } else { "their" };
        judgement.message = format!("Until {whose} end at {}: {}", words::clock(self.at), judgement.message);
        ADVICE_ENDED.clone_into(&mut judgement.blame.advice);
        judgement
    }
}

/// When a process ended. `None`: it lives, or nobody has told of it.
fn ended(one: &Culprit, taken: &Taken<'_>) -> Option<Timestamp> {
    let pid = one.pid?;
    let is_it = |identity: &ringscope_model::Identity| identity.pid == pid && *identity.host == *one.host;
    let mut lives = taken
        .processes
        .iter()
        .zip(&taken.scene.processes)
        .filter(|(process, _)| process.identity().is_some_and(is_it))
        .map(|(_, told)| ended_at(told));
    // One that is told of no more ended long ago.
    lives.try_fold(Timestamp(0), |last, ended| Some(last.max(ended?)))
}

/// For how long what they did is told after their end: those who were told of it learn that it is over.
const TOLD_FOR: Duration = Duration::from_secs(30);
