//! What is kept of a job from look to look: what was seen before, how long calls and waits take, and the hashes that
//! most ranks have.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;

use super::Settings;
use super::scene::{Life, Operation};
use super::sight::Sight;
use super::verdict::{Found, Question, Wait};

/// What is kept of a job.
#[derive(Debug, Default)]
pub(super) struct Memory {
    seen: HashMap<String, Seen>,
    durations: BTreeMap<(u32, Primitive, u32), Durations>,
    /// From which calls of each communicator was learned, by its id.
    learned: HashMap<String, Learned>,
    longest_wait: Duration,
    /// Since when looks have not found peace.
    unrest_since: Option<Timestamp>,
    asked: HashMap<(String, String), Timestamp>,
    pub(super) sent: super::sent::Sent,
    pub(super) unequal: super::unequal::Unequal,
    pub(super) hashes: super::hashes::Hashes,
}

/// A condition that was seen.
#[derive(Debug)]
struct Seen {
    /// The newest reading of those it is about when it was first seen.
    first: Timestamp,
    told: bool,
    innocent: Option<Duration>,
    /// What is learned from where it ends well, with the number of the call. Absent: sends and receives have none.
    wait: Option<(Wait, Option<u64>)>,
    in_this_look: bool,
}

/// Of each sampled rank of a communicator the end of the newest call from which was learned, by its host's clock.
#[derive(Debug, Default)]
struct Learned {
    ends: [Timestamp; SAMPLED],
    in_use: bool,
}

/// How often calls took how long, by log2 of microseconds.
#[derive(Debug)]
struct Durations {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }
}

impl Memory {
    /// Learns from what completed lately.
    pub(super) fn learn(&mut self, sight: &Sight<'_, '_>) {
        self.sent.note(sight);
        for communicator in &sight.scene.communicators {
            let members = &communicator.members;
            let step = members.len().div_ceil(SAMPLED).max(1);
            if !self.learned.contains_key(communicator.id) {
                self.learned.insert(communicator.id.to_owned(), Learned::default());
            }
            let Some(learned) = self.learned.get_mut(communicator.id) else { continue };
            learned.in_use = true;
            for (member, newest) in members.iter().step_by(step).zip(&mut learned.ends) {
                let Some(last) = member.last_completed else { continue };
                let Some(end) = last.completed_at.filter(|end| *end > *newest) else { continue };
                // Ranks enqueue far ahead: until the one before it had ended it was not its turn.
                let began = last.issued_at.max(std::mem::replace(newest, end));
                let key = (communicator.n_ranks, last.signature.primitive, size_class(&last));
                if self.durations.len() < MAX_CLASSES || self.durations.contains_key(&key) {
                    self.durations.entry(key).or_default().add(end.since(began));
                }
            }
        }
        self.learned.retain(|_, learned| std::mem::replace(&mut learned.in_use, false));
    }

    /// What 99 of 100 calls like this one take at most. `None`: too few were seen.
    pub(super) fn p99(&self, n_ranks: u32, operation: &Operation) -> Option<Duration> {
        let key = (n_ranks, operation.signature.primitive, size_class(operation));
        self.durations.get(&key)?.p99()
    }

    /// The longest wait for a rank of this job that ended well.
    pub(super) fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// From when on a wait for a rank that is merely elsewhere is critical.
    pub(super) fn wait_critical(&self, settings: &Settings) -> Duration {
        let learned = self.longest_wait.saturating_mul(settings.wait_times_longest);
        learned.clamp(
            settings.wait_critical_least,
            settings.wait_critical_most.max(settings.wait_critical_least),
        )
    }

    /// Whether more may be known before the next second. In a job that waits for longer, looks by the second will do.
    pub(super) fn is_unsettled(&mut self, sight: &Sight<'_, '_>, at_peace: bool) -> bool {
        let now = sight.scene.now;
        self.unrest_since = (!at_peace).then(|| self.unrest_since.unwrap_or(now));
        self.unrest_since.is_some_and(|since| now.since(since) < UNSETTLED)
    }

    /// Whether what is found was found before, with older readings of those it is about.
    pub(super) fn is_confirmed(&mut self, sight: &Sight<'_, '_>, found: &Found) -> bool {
        let judgement = &found.judgement;
        let key = key(sight, found);
        let alive = judgement.culprits.iter().chain(judgement.victims.first());
        let read = alive.filter_map(|process| {
            let process = sight.process(*process);
            (process.life == Life::Running && !sight.is_unheard(process)).then_some(process.heard_at)
        });
        let (oldest, newest) = read.fold((None::<Timestamp>, Timestamp(0)), |(oldest, newest), at| {
            (Some(oldest.map_or(at, |oldest| oldest.min(at))), newest.max(at))
        });
        // Of the dead nobody reads any more: then our own clock tells one look from the next.
        let (oldest, newest) = oldest.map_or((sight.scene.now, sight.scene.now), |oldest| (oldest, newest));
        let imported = judgement
            .culprits
            .iter()
            .chain(&judgement.victims)
            .next()
            .is_some_and(|process| sight.process(*process).life == Life::Imported);
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            first: newest,
            told: false,
            innocent: None,
            wait: None,
            in_this_look: true,
        });
        seen.in_this_look = true;
        seen.innocent = found.innocent;
        if found.innocent.is_some() {
            seen.wait = judgement.communicator.map(|index| {
                let communicator = sight.communicator(index).id.to_owned();
                (Wait { kind: judgement.kind, communicator, key: judgement.key.clone() }, found.number)
            });
        }
        seen.told |= imported || !found.certain || oldest > seen.first;
        seen.told
    }

    /// Forgets what was not found in this look, and learns from waits that have ended well. Returns these.
    pub(super) fn end_of_look(&mut self, sight: &Sight<'_, '_>) -> Vec<Wait> {
        let ended: Vec<Seen> = self
            .seen
            .extract_if(|_, seen| !std::mem::replace(&mut seen.in_this_look, false))
            .map(|(_, seen)| seen)
            .collect();
        let mut ended_well = Vec::new();
        for seen in ended {
            let (Some(lasted), Some((wait, number))) = (seen.innocent, seen.wait) else { continue };
            if has_ended(sight, &wait.communicator, number, seen.first) {
                self.learn_wait(lasted, sight.settings);
                ended_well.push(wait);
            }
        }
        let now = sight.scene.now;
        self.asked.retain(|_, at| now.since(*at) < ASK_AGAIN);
        ended_well
    }

    /// Learns from a wait that has ended well. Somebody may have freed it, so it teaches no more than the next one to wait
    /// twice as long.
    pub(super) fn learn_wait(&mut self, lasted: Duration, settings: &Settings) {
        self.longest_wait = self.longest_wait.max(lasted.min(self.wait_critical(settings)));
    }

    /// Whether to put this question now: not if it was put lately.
    pub(super) fn may_ask(&mut self, sight: &Sight<'_, '_>, process: u32, what: Question) -> bool {
        if self.asked.len() >= MAX_ASKED {
            return false;
        }
        let it = sight.process(process);
        let what = match what {
            Question::Recall { communicator, first, last } => {
                format!("{} {first}-{last}", sight.communicator(communicator).id)
            }
            Question::Pairs { communicator } => {
                // Once for as many calls: what was told before says nothing of those since.
                let parts = sight.parts(process).iter().find(|(of, _)| *of == communicator);
                let made = parts.and_then(|(of, place)| sight.member(*of, *place).transfers);
                let made = made.map_or(0, |made| made.sends + made.recvs);
                format!("pairs {} {made}", sight.communicator(communicator).id)
            }
            Question::Look => {
                let function = it.open_calls.first().map_or("", |call| &*call.function);
                format!("look {function}")
            }
        };
        let key = (it.key.to_owned(), what);
        if self.asked.contains_key(&key) {
            return false;
        }
        self.asked.insert(key, sight.scene.now);
        true
    }
}

impl Durations {
    fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let bucket = (micros.ilog2() as usize).min(BUCKETS - 1);
        self.counts[bucket] += 1;
        self.total += 1;
        if self.total >= FULL {
            // What is old counts half.
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    fn p99(&self) -> Option<Duration> {
        if self.total < FEWEST {
            return None;
        }
        let mut above = (self.total / 100).max(WARM_UP);
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            if *count > above {
                return Some(Duration::from_micros(
                    2_u64.saturating_pow(u32::try_from(bucket + 1).unwrap_or(63)),
                ));
            }
            above -= count;
        }
        None
    }
}

/// Whether a call was seen to end well; of a transfer, whether one has ended since. That nobody waits in it any more is not
/// enough: waiters may have given up, or not be heard.
fn has_ended(sight: &Sight<'_, '_>, communicator: &str, number: Option<u64>, since: Timestamp) -> bool {
    let known = sight.scene.communicators.iter().find(|known| known.id == communicator);
    let mut members = known.into_iter().flat_map(|known| &known.members);
    members.any(|member| {
        let Some(last) = &member.last_completed else { return false };
        match (number, last.number) {
            (Some(number), ended) => ended.is_some_and(|ended| ended >= number),
            (None, None) => {
                let ended = last.completed_at.map(|at| sight.process(member.process).ours(at));
                ended.is_some_and(|ended| ended >= since)
            }
            (None, Some(_)) => false,
        }
    })
}

/// What a condition is known by from look to look. A wait that may be healthy changes its kind when it has lasted too long,
/// and is still the same: else it would be taken for one that has ended well.
pub(super) fn key(sight: &Sight<'_, '_>, found: &Found) -> String {
    let judgement = &found.judgement;
    let comm = judgement.communicator.map_or("", |index| sight.communicator(index).id);
    let kind = if found.innocent.is_some() { "wait" } else { judgement.kind.label() };
    format!("{kind}/{comm}/{}", judgement.key)
}

fn size_class(operation: &Operation) -> u32 {
    operation.bytes.checked_ilog2().unwrap_or(0)
}

/// Ranks of a communicator from whose calls is learned at a time: they wait for each other, so they are alike.
const SAMPLED: usize = 4;
/// See [`Memory::is_unsettled`].
const UNSETTLED: Duration = Duration::from_secs(10);
/// So many of the longest calls are left out, however few there are: one that warms up is sampled of so many ranks.
const WARM_UP: u32 = 4;
/// Kinds of calls of which the time is learned: a job has some dozens.
const MAX_CLASSES: usize = 1_024;
/// Up to 2^40 microseconds, twelve days.
const BUCKETS: usize = 41;
/// After so many samples the old ones count half.
const FULL: u32 = 20_000;
/// Fewer tell nothing.
const FEWEST: u32 = 10;
/// A question without an answer is put again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// Questions that may be open at a time.
const MAX_ASKED: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_warms_up_does_not_say_how_long_others_take() {
        let mut durations = Durations::default();
        (0..4).for_each(|_| durations.add(Duration::from_secs(60)));
        (0..5).for_each(|_| durations.add(Duration::from_millis(40)));
        assert_eq!(durations.p99(), None);
        (0..5).for_each(|_| durations.add(Duration::from_millis(40)));
        assert_eq!(durations.p99(), Some(Duration::from_micros(65_536)));
        // Of many, one of a hundred is left out.
        (0..1_000).for_each(|_| durations.add(Duration::from_millis(40)));
        (0..20).for_each(|_| durations.add(Duration::from_secs(1)));
        assert_eq!(durations.p99(), Some(Duration::from_micros(1 << 20)));
    }
}
