//! The rounds of the keys that a service owns: contributions are gathered, summed when the last one is there, and kept
//! until every contributor has its answer.
//!
//! A worker numbers the rounds of each key from 0 and goes through them in order: it pushes a round, and pulls it. It
//! may push the next round before it has pulled this one. Two rounds of a key are open at once, so n workers make a
//! service keep at most 2n + 1 buffers of the part's size per key, and n + 2 if they pull a round before they push the
//! next; a push of the round behind the two is told [`Admission::Later`]. Nobody is ever answered with the bytes of
//! another round.
//!
//! A worker that is lost ends the group, and with it the service: what follows is another one.

use std::collections::VecDeque;
use std::sync::Arc;

use super::addition::Addition;
use super::buffers::Buffers;
use super::keys::{Entry, Keys};
use super::members::Members;
use super::message::{Admission, Answer, Epochs, Finished, Landing, Pull, Push, Pushed, Sum};
use super::part::{Association, Part};
use super::refusal::Refusal;
use super::rounds::{Gathering, Outside, Rounds, Slot, Summed};
use super::tier::{Partial, Tier};
use crate::codec::Feedback;

/// A summation service without its sockets.
#[derive(Debug)]
pub struct Service {
    pub(super) members: Members,
    association: Association,
    pub(super) keys: Keys<State>,
    pub(super) buffers: Buffers,
    pub(super) counters: Counters,
    /// Sums of hosts that are to go on.
    pub(super) partials: VecDeque<Partial>,
}

/// What has happened since the service began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rounds that got a result.
    pub finished_rounds: u64,
    /// Bytes of the contributions that are in results.
    pub summed_bytes: u64,
    /// Pushes that were told to come later, each time.
    pub later: u64,
    /// Messages and payloads that were refused.
    pub refused: u64,
}

/// A round that is open, and for whom it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Whose round.
    pub key: u32,
    /// Which.
    pub round: u64,
    /// For what.
    pub phase: Phase,
    /// For whom, in the order of the ranks.
    pub workers: Vec<usize>,
}

/// What an open round waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Contributions.
    Push,
    /// Answers to be taken.
    Pull,
}

/// What a key has beside its part.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tier: Tier,
    pub(super) rounds: Rounds,
    pub(super) last: Option<Finished>,
    /// What answers in the form of a codec have left out; nothing while a round is added up.
    feedback: Option<Box<Feedback>>,
}

impl Service {
    /// A service of workers with ranks from 0 and of these keys; of a key that is there twice, the later part counts.
    pub fn new(
        n_workers: usize,
        parts: impl IntoIterator<Item = (u32, Part)>,
        association: Association,
        epochs: Epochs,
    ) -> Self {
        Self {
            members: Members::new(n_workers, epochs),
            association,
            keys: Keys::new(parts),
            buffers: Buffers::default(),
            counters: Counters::default(),
            partials: VecDeque::new(),
        }
    }

    /// A worker wants to contribute.
    ///
    /// # Errors
    ///
    /// It is none of ours, speaks of what is not ours, of a round that is over, or has pushed it before.
    pub fn push(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let admission = self.admit(message);
        self.counters.later += u64::from(matches!(admission, Ok(Admission::Later)));
        self.counted(admission)
    }

    /// A payload is complete; the contributions are to be added up if it is the last one.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if the round is none that gathers.
    pub fn pushed(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        let pushed = self.keep(landing);
        self.counted(pushed)
    }

    /// A round's contributions were added up: pulls of it have an answer now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if it is no addition of this service that was [run](Addition::run).
    pub fn added(&mut self, addition: Addition) -> Result<Finished, Refusal> {
        let finished = self.finish(addition);
        self.counted(finished)
    }

    /// A worker wants a result. It may ask again until it was [`Self::answered`].
    ///
    /// # Errors
    ///
    /// It is none of ours, speaks of what is not ours, or has had this one.
    pub fn pull(&mut self, message: &Pull) -> Result<Answer, Refusal> {
        let answer = self.answer(message);
        self.counted(answer)
    }

    /// A worker has its answer. Whether the round is over: pushes that came too early may be admitted now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if it had been answered before, or was lost.
    pub fn answered(&mut self, sum: Sum) -> Result<bool, Refusal> {
        let Sum { key, round, worker, bytes } = sum;
        drop(bytes);
        let rounds = &mut self.keys.find(key)?.state.rounds;
        match rounds.slot(round) {
            Ok(slot @ Slot::Summed(_)) if is_for(slot, worker) => {
                let is_over = release(slot, worker, &mut self.buffers);
                rounds.advance();
                Ok(is_over)
            }
            _ => Err(Refusal::Over { key, round, worker }),
        }
    }

    /// What messages must have been sent under.
    #[must_use]
    pub fn epochs(&self) -> Epochs {
        self.members.epochs()
    }

    fn admit(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let Push { key, round, worker, size_bytes, reduction, epochs } = *message;
        self.members.check(worker, epochs)?;
        let entry = self.keys.find(key)?.of_length(size_bytes)?;
        let next = entry.state.rounds.next();
        let slot = match entry.state.rounds.slot(round) {
            Ok(slot) => slot,
            Err(Outside::Next) => return Ok(Admission::Later),
            Err(outside) => return Err(refusal(outside, key, round, worker, next)),
        };
        if let Slot::Free = slot {
            *slot = Slot::Gathering(Gathering::new(reduction, &self.members, &entry.state.tier));
        }
        let gathering = match slot {
            Slot::Gathering(gathering) => gathering,
            Slot::Over => return Err(Refusal::Over { key, round, worker }),
            Slot::Free | Slot::Adding(_) | Slot::Away(_) | Slot::Summed(_) => {
                return Err(Refusal::PushedTwice { key, round, worker });
            }
        };
        if gathering.reduction != reduction {
            return Err(Refusal::OtherReduction { key, round, worker });
        }
        if !gathering.admit(worker) {
            return Err(Refusal::PushedTwice { key, round, worker });
        }
        let bytes = self.buffers.take(size_bytes);
        Ok(Admission::Into(Landing { key, round, worker, is_first: false, bytes }))
    }

    fn keep(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        let Landing { key, round, worker, bytes, .. } = landing;
        let Entry { part, state, .. } = self.keys.find(key)?;
        let over = Refusal::Over { key, round, worker };
        let Ok(slot @ Slot::Gathering(_)) = state.rounds.slot(round) else { return Err(over) };
        let Slot::Gathering(gathering) = slot else { return Err(over) };
        gathering.keep(worker, bytes);
        if gathering.missing().next().is_some() {
            return Ok(Pushed::Kept);
        }
        let adding = gathering.adding();
        let contributors = state.tier.in_order(adding.contributors());
        let Slot::Gathering(gathered) = std::mem::replace(slot, Slot::Adding(adding)) else {
            return Ok(Pushed::Kept);
        };
        let reduction = gathered.reduction;
        let contributions = gathered.into_buffers(&contributors);
        Ok(Pushed::Complete(Addition {
            key,
            round,
            last_arriver: worker,
            part: *part,
            reduction,
            association: self.association,
            divisor: state.tier.divisor(contributors.len()),
            is_host: state.tier.is_host(),
            contributors,
            contributions,
            result: part.codec.map_or_else(Vec::new, |_| self.buffers.take(part.answered_bytes())),
            feedback: state.feedback.take(),
            malformed: None,
            fingerprint: None,
        }))
    }

    fn finish(&mut self, addition: Addition) -> Result<Finished, Refusal> {
        let Addition {
            key,
            round,
            reduction,
            last_arriver,
            contributions,
            contributors,
            result,
            feedback,
            ..
        } = addition;
        let (n_contributors, n_added) = (addition.divisor, contributors.len());
        if let Some(malformed) = addition.malformed {
            let (worker, error) = *malformed;
            return Err(Refusal::Malformed { key, round, worker, error });
        }
        let over = Refusal::Over { key, round, worker: last_arriver };
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Ok(slot @ Slot::Adding(_)) = state.rounds.slot(round) else { return Err(over) };
        state.feedback = feedback;
        let mut buffers = contributions.into_iter();
        let result = part.codec.map_or_else(|| buffers.next(), |_| Some(result));
        let (Slot::Adding(adding), Some(result), Some(fingerprint)) = (&*slot, result, addition.fingerprint)
        else {
            return Err(over);
        };
        *slot = if state.tier.is_host() {
            self.partials.push_back(Partial { key, round, reduction, last_arriver, bytes: result });
            Slot::Away(adding.clone())
        } else {
            self.counters.finished_rounds += 1;
            Slot::Summed(Summed::new(result, adding, &self.members))
        };
        buffers.for_each(|buffer| self.buffers.give(buffer));
        let finished = Finished { key, round, n_contributors, last_arriver, fingerprint };
        self.counters.summed_bytes += (n_added * part.size_bytes()) as u64;
        state.last = Some(finished);
        Ok(finished)
    }

    fn answer(&mut self, message: &Pull) -> Result<Answer, Refusal> {
        let Pull { key, round, worker, epochs } = *message;
        self.members.check(worker, epochs)?;
        let rounds = &mut self.keys.find(key)?.state.rounds;
        let next = rounds.next();
        match rounds.slot(round) {
            Ok(Slot::Gathering(gathering)) => Ok(Answer::Waiting(gathering.missing().collect())),
            Ok(Slot::Adding(_) | Slot::Away(_)) => Ok(Answer::Waiting(Vec::new())),
            Ok(Slot::Summed(summed)) if summed.is_for(worker) => {
                let bytes = Arc::clone(&summed.bytes);
                Ok(Answer::Ready(Sum { key, round, worker, bytes }))
            }
            Ok(Slot::Summed(_) | Slot::Over) => Err(Refusal::Over { key, round, worker }),
            Ok(Slot::Free) | Err(Outside::Next) => Ok(Answer::Waiting(self.members.here().collect())),
            Err(outside) => Err(refusal(outside, key, round, worker, next)),
        }
    }

    fn counted<T>(&mut self, outcome: Result<T, Refusal>) -> Result<T, Refusal> {
        self.counters.refused += u64::from(outcome.is_err());
        outcome
    }
}

fn is_for(slot: &Slot, worker: usize) -> bool {
    matches!(slot, Slot::Summed(summed) if summed.is_for(worker))
}

/// A worker needs a result no more. Whether that was the last one.
fn release(slot: &mut Slot, worker: usize, buffers: &mut Buffers) -> bool {
    let Slot::Summed(summed) = slot else { return false };
    let is_over = summed.release(worker);
    if is_over && let Slot::Summed(summed) = std::mem::replace(slot, Slot::Over) {
        buffers.give_shared(summed.bytes);
    }
    is_over
}

fn refusal(outside: Outside, key: u32, round: u64, worker: usize, next: u64) -> Refusal {
    match outside {
        Outside::Over => Refusal::Over { key, round, worker },
        Outside::Next | Outside::Beyond => Refusal::Skipped { key, round, worker, next },
    }
}
