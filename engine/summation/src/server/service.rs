//! The rounds of the keys that a service owns: contributions are gathered, summed when the last one is there, and kept
//! until every contributor has its answer.
//!
//! A worker numbers the rounds of each key from 0 and goes through them in order: it pushes a round, and pulls it. It
//! may push the next round before it has pulled this one. Two rounds of a key are open at once; a push of the round behind
//! the two is told [`Admission::Later`]. Nobody is ever answered with the bytes of another round.
//!
//! Contributions are kept until all are there, and added at once. Where they are more than half of
//! [the bytes that may be kept](Service::keeping), the first of a round are added as soon as they are there: memory of one
//! sum then, whatever the number of workers. Beyond all those bytes, what is complete is kept only of who is added soon, two
//! of a round; others are turned away, and asked again when it is their turn. Bits do not depend on that: the order of the
//! addition is the same. Encoded contributions, which are short, are all kept.
//!
//! A worker that is lost ends the group, and with it the service: what follows is another one.

use std::collections::VecDeque;
use std::sync::Arc;

use super::addition::Addition;
use super::buffers::Buffers;
use super::keys::{Entry, Keys};
use super::members::Members;
use super::message::{Added, Admission, Again, Answer, Finished, Landing, Pull, Push, Pushed, Sum};
use super::part::Part;
use super::refusal::Refusal;
use super::rounds::{Gathering, Outside, Prefix, Rounds, Slot, Summed, Taken};
use super::tier::{Partial, Tier};
use crate::codec::Feedback;

/// A summation service without its sockets.
#[derive(Debug)]
pub struct Service {
    pub(super) members: Members,
    pub(super) keys: Keys<State>,
    pub(super) buffers: Buffers,
    pub(super) counters: Counters,
    /// Sums of hosts that are to go on.
    pub(super) partials: VecDeque<Partial>,
    max_kept_bytes: usize,
    /// Of contributions that are complete, also while they are being added.
    pub(super) kept_bytes: usize,
    /// Who is to be asked again.
    again: VecDeque<Again>,
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
    /// Contributions that were turned away, and asked again later.
    pub turned_away: u64,
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
    /// What answers in the form of a codec have left out; nothing while a round is added up.
    feedback: Option<Box<Feedback>>,
}

impl Service {
    /// A service of workers with ranks from 0 and of these keys; of a key that is there twice, the later part counts.
    pub fn new(n_workers: usize, parts: impl IntoIterator<Item = (u32, Part)>) -> Self {
        Self {
            members: Members::new(n_workers),
            keys: Keys::new(parts),
            buffers: Buffers::default(),
            counters: Counters::default(),
            partials: VecDeque::new(),
            max_kept_bytes: usize::MAX,
            kept_bytes: 0,
            again: VecDeque::new(),
        }
    }

    /// That keeps so many bytes of contributions that are complete, beside two of each round; without it, all.
    #[must_use]
    pub fn keeping(self, max_kept_bytes: usize) -> Self {
        Self { max_kept_bytes, ..self }
    }

    /// The next worker that is to push a round once more.
    pub fn next_again(&mut self) -> Option<Again> {
        self.again.pop_front()
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

    /// A payload is complete; contributions are to be added up if it is the last one, or memory is short.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if the round is none that gathers.
    pub fn pushed(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        let pushed = self.keep(landing);
        self.counted(pushed)
    }

    /// Contributions were added up: where these were all of a round, pulls of it have an answer now.
    ///
    /// # Errors
    ///
    /// [`Refusal::Over`] if it is no addition of this service that was [run](Addition::run).
    pub fn added(&mut self, addition: Addition) -> Result<Added, Refusal> {
        let added = if addition.is_whole { self.finish(addition) } else { self.continue_with(addition) };
        self.counted(added)
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
        let Entry { part, state: State { rounds, .. }, .. } = self.keys.find(key)?;
        match rounds.slot(round) {
            Ok(slot @ Slot::Summed(_)) if is_for(slot, worker) => {
                let buffers = part.has_one_length().then_some(&mut self.buffers);
                let is_over = release(slot, worker, buffers);
                rounds.advance();
                Ok(is_over)
            }
            _ => Err(Refusal::Over { key, round, worker }),
        }
    }

    fn admit(&mut self, message: &Push) -> Result<Admission, Refusal> {
        let Push { key, round, worker, size_bytes, reduction } = *message;
        self.members.check(worker)?;
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
        let Some(is_again) = gathering.admit(worker) else {
            return Err(Refusal::PushedTwice { key, round, worker });
        };
        // Memory of another length each time is not kept: no key would use it again.
        let bytes = if entry.part.has_one_length() { self.buffers.take(size_bytes) } else { Vec::new() };
        Ok(Admission::Into(Landing { key, round, worker, is_first: false, is_again, bytes }))
    }

    fn keep(&mut self, landing: Landing) -> Result<Pushed, Refusal> {
        let Landing { key, round, worker, is_again, bytes, .. } = landing;
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Ok(Slot::Gathering(gathering)) = state.rounds.slot(round) else {
            return Err(Refusal::Over { key, round, worker });
        };
        let is_full = self.kept_bytes.saturating_add(bytes.len()) > self.max_kept_bytes;
        if is_full && has_prefixes(*part) && !gathering.is_in_turn(&state.tier, worker) {
            gathering.turn_away(worker);
            self.counters.turned_away += 1;
            self.buffers.give(bytes);
            return Ok(Pushed::TurnedAway);
        }
        self.kept_bytes += bytes.len();
        gathering.keep(worker, is_again, bytes);
        Ok(self.go_on(key, round)?.map_or(Pushed::Kept, Pushed::Add))
    }

    /// What can be added of a round, once something of it was kept or added.
    fn go_on(&mut self, key: u32, round: u64) -> Result<Option<Addition>, Refusal> {
        let is_short = self.kept_bytes > self.max_kept_bytes / 2;
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Ok(slot @ Slot::Gathering(_)) = state.rounds.slot(round) else { return Ok(None) };
        let Slot::Gathering(gathering) = slot else { return Ok(None) };
        let again = gathering.ask_again(&state.tier).into_iter();
        self.again.extend(again.map(|worker| Again { key, round, worker }));
        let (adding, is_whole) = (gathering.adding(), gathering.is_complete());
        let next = if is_whole {
            Some(gathering.take_all(&state.tier))
        } else if is_short && has_prefixes(*part) {
            gathering.take_next(&state.tier)
        } else {
            None
        };
        let Some(Taken { prefix, contributions }) = next else { return Ok(None) };
        let contributors = state.tier.in_order(adding.contributors());
        let result_bytes = match (&prefix, is_whole) {
            (None, false) => part.prefix_bytes(),
            (Some(_), true) => part.size_bytes(),
            (None, true) if part.codec.is_some() && part.has_one_length() => part.answered_bytes(),
            (None, true) => 0,
            (Some(_), false) => 0,
        };
        let result = if result_bytes > 0 { self.buffers.take(result_bytes) } else { Vec::new() };
        let addition = Addition {
            key,
            round,
            last_arriver: gathering.last_arriver,
            part: *part,
            reduction: gathering.reduction,
            divisor: state.tier.divisor(contributors.len()),
            is_host: state.tier.is_host(),
            contributors,
            prefix,
            contributions,
            result,
            is_whole,
            feedback: state.feedback.take_if(|_| is_whole),
            malformed: None,
            fingerprint: None,
        };
        if is_whole {
            *slot = Slot::Adding(adding);
        }
        Ok(Some(addition))
    }

    /// Keeps the new prefix of a round.
    fn continue_with(&mut self, addition: Addition) -> Result<Added, Refusal> {
        let Addition { key, round, last_arriver, prefix, contributions, .. } = addition;
        let over = Refusal::Over { key, round, worker: last_arriver };
        let Ok(Slot::Gathering(gathering)) = self.keys.find(key)?.state.rounds.slot(round) else {
            return Err(over);
        };
        let (Prefix::Away, Some(prefix)) = (&gathering.prefix, prefix) else { return Err(over) };
        gathering.prefix = Prefix::Here(prefix);
        self.give_contributions(contributions, true);
        Ok(self.go_on(key, round)?.map_or(Added::Kept, Added::Add))
    }

    fn give_contributions(&mut self, contributions: impl IntoIterator<Item = Vec<u8>>, has_one_length: bool) {
        for bytes in contributions {
            self.kept_bytes -= bytes.len();
            if has_one_length {
                self.buffers.give(bytes);
            }
        }
    }

    fn finish(&mut self, addition: Addition) -> Result<Added, Refusal> {
        let Addition { key, round, reduction, last_arriver, prefix, contributions, result, .. } = addition;
        let (n_contributors, n_added) = (addition.divisor, addition.contributors.len());
        if let Some(malformed) = addition.malformed {
            let (worker, error) = *malformed;
            return Err(Refusal::Malformed { key, round, worker, error });
        }
        let over = Refusal::Over { key, round, worker: last_arriver };
        let Entry { part, state, .. } = self.keys.find(key)?;
        let Ok(slot @ Slot::Adding(_)) = state.rounds.slot(round) else { return Err(over) };
        state.feedback = addition.feedback;
        let mut buffers = contributions.into_iter();
        let is_in_result = part.codec.is_some() || prefix.is_some();
        let result = if is_in_result { Some(result) } else { buffers.next() };
        let has_one_length = part.has_one_length();
        let (Slot::Adding(adding), Some(result), Some(fingerprint)) = (&*slot, result, addition.fingerprint)
        else {
            return Err(over);
        };
        self.kept_bytes -= if is_in_result { 0 } else { result.len() };
        *slot = if state.tier.is_host() {
            self.partials.push_back(Partial { key, round, reduction, last_arriver, bytes: result });
            Slot::Away(adding.clone())
        } else {
            self.counters.finished_rounds += 1;
            Slot::Summed(Summed::new(result, adding, &self.members))
        };
        let finished = Finished { key, round, n_contributors, last_arriver, fingerprint };
        self.counters.summed_bytes += (n_added * part.size_bytes()) as u64;
        prefix.into_iter().for_each(|prefix| self.buffers.give(prefix));
        self.give_contributions(buffers, has_one_length);
        Ok(Added::Finished(finished))
    }

    fn answer(&mut self, message: &Pull) -> Result<Answer, Refusal> {
        let Pull { key, round, worker } = *message;
        self.members.check(worker)?;
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

/// Whether the first contributions to a part can be added before the others are there.
fn has_prefixes(part: Part) -> bool {
    part.codec.is_none()
}

fn is_for(slot: &Slot, worker: usize) -> bool {
    matches!(slot, Slot::Summed(summed) if summed.is_for(worker))
}

/// A worker needs a result no more. Whether that was the last one.
fn release(slot: &mut Slot, worker: usize, buffers: Option<&mut Buffers>) -> bool {
    let Slot::Summed(summed) = slot else { return false };
    let is_over = summed.release(worker);
    if is_over
        && let Slot::Summed(summed) = std::mem::replace(slot, Slot::Over)
        && let Some(buffers) = buffers
    {
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
