//! What a daemon that stands by knows of the one that leads, as time passes.

use std::time::{Duration, Instant};

use ringscope_store::Leader;
use tokio_util::sync::CancellationToken;

use super::probe::Answer;

/// Who leads, as it was last read, and what it said.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// `None`: nobody has led yet, or it is not known.
    pub(super) leader: Option<Leader>,
    read_at: Option<Instant>,
    /// Since when nobody that could be asked leads.
    pub(super) nobody_since: Option<Instant>,
    /// When it last answered in its term.
    answered_at: Option<Instant>,
    /// Since when it could have.
    asked_since: Option<Instant>,
    /// Why it takes no batches, as it said last; empty: it does.
    unready: String,
    /// Why it does not answer, or did not last time.
    silent: String,
    /// Cancelled when another one leads, or this one has said nothing for too long: what waits for it waits in vain.
    over: CancellationToken,
}

impl Known {
    /// Who leads, if that was read not longer ago than that.
    pub(super) fn read_within(&self, now: Instant, age_max: Duration) -> Option<Option<Leader>> {
        let age = self.read_at.map(|at| now.saturating_duration_since(at))?;
        (age < age_max).then(|| self.leader.clone())
    }

    /// Takes in what was read.
    pub(super) fn read(&mut self, leader: Option<Leader>, now: Instant) {
        if self.leader.as_ref().map(|known| known.term) != leader.as_ref().map(|leader| leader.term) {
            self.over.cancel();
            let silent = "it has not been asked yet".to_owned();
            *self =
                Self { silent, asked_since: Some(now), nobody_since: self.nobody_since, ..Self::default() };
        }
        self.leader = leader;
        self.read_at = Some(now);
    }

    /// Keeps to what was read before: the database does not answer, but that daemon does, and would say if its term were over.
    pub(super) fn read_nothing(&mut self, now: Instant) -> bool {
        let keeps = self.answered_lately(now);
        if keeps {
            self.read_at = Some(now);
        }
        keeps
    }

    /// Takes in what the daemon of that term said.
    pub(super) fn heard(&mut self, term: i64, said: Result<Answer, String>, now: Instant) {
        if self.leader.as_ref().is_none_or(|leader| leader.term != term) {
            return;
        }
        match said {
            Ok(answer) => {
                self.answered_at = Some(now);
                self.unready = match answer {
                    Answer::Ready => String::new(),
                    Answer::NotReady(why) => why,
                };
            }
            Err(why) => {
                self.silent = why;
                let heard_of = self.answered_at.max(self.asked_since);
                if heard_of.is_none_or(|at| now.saturating_duration_since(at) >= GIVEN_UP_AFTER) {
                    std::mem::take(&mut self.over).cancel();
                }
            }
        }
    }

    /// Whether the leader answers.
    pub(super) fn answered_lately(&self, now: Instant) -> bool {
        self.answered_at.is_some_and(|at| now.saturating_duration_since(at) < LATELY)
    }

    /// Whether it takes batches; else what is wrong with it, in words that follow on its address.
    pub(super) fn is_ready(&self, now: Instant) -> Result<(), String> {
        if !self.answered_lately(now) {
            return Err(format!("does not answer this one: {}", self.silent));
        }
        if !self.unready.is_empty() {
            return Err(format!("takes no batches: {}", self.unready));
        }
        Ok(())
    }

    /// See the field.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Nothing is handed on any more.
    pub(super) fn forget(&mut self) {
        self.over.cancel();
        *self = Self::default();
    }
}

/// How long after an answer a leader is taken for there: one answer may be late.
const LATELY: Duration = Duration::from_secs(5);
/// How long what waits for a leader waits that does not answer.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use ringscope_api::clock::{self, Timestamp};
    use ringscope_store::TermSecret;

    use super::*;

    fn leads(term: i64) -> Option<Leader> {
        let (url, secret) = ("http://a".to_owned(), TermSecret("x".to_owned()));
        Some(Leader { term, url, secret, since: Timestamp(0) })
    }

    #[test]
    fn what_waits_for_a_leader_ends_with_its_term_or_when_it_is_silent_for_long() {
        let start = clock::monotonic();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut known = Known::default();
        known.read(leads(1), at(0));
        let first = known.over();
        known.heard(1, Err("refused".to_owned()), at(1));
        assert_eq!(known.is_ready(at(1)), Err("does not answer this one: refused".to_owned()));
        assert!(!first.is_cancelled());
        known.heard(1, Ok(Answer::Ready), at(2));
        assert_eq!(known.is_ready(at(2)), Ok(()));
        known.heard(1, Err("silent".to_owned()), at(11));
        assert!(!known.answered_lately(at(11)) && !first.is_cancelled());
        known.heard(1, Err("silent".to_owned()), at(12));
        assert!(first.is_cancelled());
        let again = known.over();
        assert!(!again.is_cancelled(), "the next request is tried");
        known.read(leads(1), at(13));
        assert!(!again.is_cancelled());
        known.read(leads(2), at(14));
        assert!(again.is_cancelled() && !known.over().is_cancelled());
        known.heard(1, Ok(Answer::Ready), at(14));
        assert!(!known.answered_lately(at(14)), "that was the one before");
        known.heard(2, Ok(Answer::NotReady("the database is being opened".to_owned())), at(15));
        let words = "takes no batches: the database is being opened".to_owned();
        assert_eq!((known.answered_lately(at(15)), known.is_ready(at(15))), (true, Err(words)));
        assert!(known.read_nothing(at(16)) && !known.read_nothing(at(25)));
        let last = known.over();
        known.forget();
        assert!(last.is_cancelled() && known.leader.is_none());
    }
}
