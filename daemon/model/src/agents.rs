//! The agents: when each was heard, how its clock runs against ours, and what it lost.

use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::Dropped;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Batch;
use rustc_hash::FxHashMap;

use super::limits::{MAX_AGENTS, SILENT_KEPT};
use super::losses::{Losses, raise};
use super::names::clip;

/// Where a word about a process stands among the others: which of two is the newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    agent: u64,
    seq_number: u64,
    /// By our clock.
    at: Timestamp,
}

impl Stamp {
    /// What the store kept is older than anything that an agent says.
    pub(super) const STORE: Self = Self { agent: 0, seq_number: 0, at: Timestamp(0) };

    #[cfg(test)]
    pub(super) const fn of_agent(agent: u64, seq_number: u64) -> Self {
        Self { agent, seq_number, at: Timestamp(0) }
    }

    /// Whether both are words of one agent.
    pub(super) const fn is_of_agent_of(self, other: Self) -> bool {
        self.agent == other.agent
    }

    /// Whether this word replaces `other`. Of one agent's the numbers decide, of two our clock, so that the clock of a host
    /// may be set back.
    pub(super) fn replaces(self, other: Self) -> bool {
        if self.agent == other.agent { self.seq_number >= other.seq_number } else { self.at >= other.at }
    }

    /// The agent that said it.
    pub(super) fn agent(self) -> u64 {
        self.agent
    }
}

/// When an agent read what it told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// By the clock of its host.
    pub read_at: Timestamp,
    /// By our clock, as far as it can be told from the ways of its batches.
    pub at: Timestamp,
}

impl Reading {
    /// A time of the host's clock by our clock.
    #[must_use]
    pub fn ours(self, at: Timestamp) -> Timestamp {
        moved(at, self.read_at, self.at)
    }

    /// A time of our clock by the host's clock.
    #[must_use]
    pub fn theirs(self, at: Timestamp) -> Timestamp {
        moved(at, self.at, self.read_at)
    }
}

fn moved(at: Timestamp, from: Timestamp, to: Timestamp) -> Timestamp {
    let moved = i128::from(at.0) - i128::from(from.0) + i128::from(to.0);
    Timestamp(u64::try_from(moved).unwrap_or_default())
}

/// Every agent heard lately.
#[derive(Default)]
pub(super) struct Agents {
    ids: HashMap<String, u64>,
    /// By ids that we give.
    agents: FxHashMap<u64, Agent>,
    newest: u64,
    /// When any of them spoke last.
    spoke: Timestamp,
    forgotten: Dropped,
}

#[derive(Default)]
struct Agent {
    /// Where it runs.
    host: String,
    /// When it told something last.
    heard: Timestamp,
    /// When it spoke last, be it that it said once more what had been taken.
    spoke: Timestamp,
    newest_seq: u64,
    /// When it said that it ends, by our clock.
    ended: Option<Timestamp>,
    reading: Reading,
    lag: Lag,
    dropped: Dropped,
    /// Version of the segments that it reads. 0: it does not say.
    reads_segment_version: u32,
}

impl Agents {
    /// Notes a batch. Returns its stamp, and when its numbers were read.
    pub(super) fn hear(&mut self, batch: &Batch, now: Timestamp, losses: &mut Losses) -> (Stamp, Reading) {
        let sent_at = Timestamp(batch.sent_at_ns);
        let id = clip(&batch.agent_id);
        if self.ids.len() >= MAX_AGENTS && !self.ids.contains_key(id) {
            self.make_room(now);
        }
        let agent = match self.ids.get(id) {
            Some(known) => *known,
            None if self.ids.len() < MAX_AGENTS => {
                self.newest += 1;
                self.ids.insert(id.to_owned(), self.newest);
                self.newest
            }
            None => {
                losses.add("agent_limit");
                let stamp = Stamp { agent: u64::MAX, seq_number: batch.seq_number, at: now };
                return (stamp, Reading { read_at: sent_at, at: now });
            }
        };
        let entry = self.agents.entry(agent).or_default();
        entry.heard = entry.heard.max(now);
        entry.spoke = entry.spoke.max(now);
        self.spoke = self.spoke.max(now);
        if entry.host != clip(&batch.agent_host) {
            clip(&batch.agent_host).clone_into(&mut entry.host);
        }
        raise(&mut entry.dropped, &batch.dropped, losses);
        let posted_at = Some(Timestamp(batch.posted_at_ns)).filter(|at| at.0 > 0);
        let at = entry.lag.of(sent_at, posted_at, now);
        if batch.seq_number >= entry.newest_seq {
            entry.newest_seq = batch.seq_number;
            entry.ended = batch.ending.then_some(at);
            entry.reads_segment_version = batch.reads_segment_version;
        }
        let reading = Reading { read_at: sent_at, at };
        // Of a reading in several batches nobody knows what it says of a process before all are there.
        if at >= entry.reading.at && !batch.more_follows {
            entry.reading = reading;
        }
        (Stamp { agent, seq_number: batch.seq_number, at }, reading)
    }

    /// Notes that an agent said once more what had been taken: its answers do not reach it, or what it says is not stored.
    pub(super) fn hear_again(&mut self, agent_id: &str, now: Timestamp) {
        self.spoke = self.spoke.max(now);
        let agent = self.ids.get(clip(agent_id)).and_then(|agent| self.agents.get_mut(agent));
        if let Some(agent) = agent {
            agent.spoke = agent.spoke.max(now);
        }
    }

    /// The number of an agent of which something was heard.
    pub(super) fn number(&self, agent_id: &str) -> Option<u64> {
        self.ids.get(clip(agent_id)).copied()
    }

    /// The newest reading of this agent.
    pub(super) fn reading(&self, agent: u64) -> Option<Reading> {
        self.agents.get(&agent).map(|agent| agent.reading)
    }

    /// When this agent said that it ends, if that was its last word.
    pub(super) fn ended(&self, agent: u64) -> Option<Timestamp> {
        self.agents.get(&agent)?.ended
    }

    /// When this agent last told something.
    pub(super) fn heard(&self, agent: u64) -> Option<Timestamp> {
        self.agents.get(&agent).map(|agent| agent.heard)
    }

    /// When this agent spoke last, be it in repetition.
    pub(super) fn spoke(&self, agent: u64) -> Option<Timestamp> {
        self.agents.get(&agent).map(|agent| agent.spoke)
    }

    /// When any agent spoke last. Zero: none has since this daemon started.
    pub(super) fn any_spoke(&self) -> Timestamp {
        self.spoke
    }

    /// Version of the segments that this agent reads, if it says so.
    pub(super) fn reads_segment_version(&self, agent: u64) -> Option<u32> {
        self.agents.get(&agent).map(|agent| agent.reads_segment_version).filter(|version| *version > 0)
    }

    /// Where this agent runs. Empty: it does not say.
    pub(super) fn host(&self, agent: u64) -> &str {
        self.agents.get(&agent).map_or("", |agent| &agent.host)
    }

    /// Hosts whose agents were heard within this time, and have not said that they end.
    pub(super) fn hosts(&self, now: Timestamp, within: Duration) -> impl Iterator<Item = &str> {
        let is_there = move |agent: &&Agent| agent.ended.is_none() && now.since(agent.spoke) < within;
        self.agents.values().filter(is_there).map(|agent| agent.host.as_str())
    }

    /// What all agents lost, by reason.
    pub(super) fn dropped(&self) -> Dropped {
        let mut sum = self.forgotten.clone();
        for agent in self.agents.values() {
            add(&mut sum, &agent.dropped);
        }
        sum
    }

    /// Forgets the agents that have been silent for long; their losses stay counted.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.forget(|agent| now.since(agent.spoke) >= SILENT_KEPT);
    }

    /// Forgets those that have said nothing for longest, of those of which nobody expects a word: so that an agent that is
    /// started again and again, or made up, leaves others their room.
    fn make_room(&mut self, now: Timestamp) {
        let silent = self.agents.values().map(|agent| agent.spoke);
        let mut silent: Vec<Timestamp> =
            silent.filter(|heard| now.since(*heard) >= SILENT_MAKES_ROOM).collect();
        if silent.is_empty() {
            return;
        }
        let at = (MAX_AGENTS / 100).min(silent.len() - 1);
        let (_, newest, _) = silent.select_nth_unstable(at);
        let newest = *newest;
        self.forget(|agent| agent.spoke <= newest);
    }

    fn forget(&mut self, goes: impl Fn(&Agent) -> bool) {
        let forgotten = &mut self.forgotten;
        self.agents.retain(|_, agent| {
            let keep = !goes(agent);
            if !keep {
                add(forgotten, &agent.dropped);
            }
            keep
        });
        self.ids.retain(|_, id| self.agents.contains_key(id));
    }
}

/// An agent speaks at least every five seconds.
const SILENT_MAKES_ROOM: Duration = Duration::from_secs(60);

fn add(sum: &mut Dropped, more: &Dropped) {
    for (reason, events) in more {
        let entry = sum.entry(reason.clone()).or_default();
        *entry = entry.saturating_add(*events);
    }
}

/// How far an agent's clock, and the way from it, lie behind our clock: the shortest delay seen lately. A batch that
/// waited in the agent's backlog came later than that, and its numbers are dated back by as much; or a backlog that
/// is sent at once would look like a burst of traffic. An agent that says when it sent a batch, and not only when it read
/// what is in it, tells the delay with its first one.
struct Lag {
    /// Nanoseconds; negative if the agent's clock is ahead. Of an agent that does not say when it sends, the clock is taken
    /// to be right at first.
    shortest_ns: i128,
    next_ns: i128,
    since: Option<Timestamp>,
}

impl Default for Lag {
    fn default() -> Self {
        Self { shortest_ns: 0, next_ns: i128::MAX, since: None }
    }
}

impl Lag {
    fn of(&mut self, sent_at: Timestamp, posted_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
        let lag = i128::from(now.0) - i128::from(posted_at.unwrap_or(sent_at).0);
        // No way is that much longer than it was: the clock was set back.
        if posted_at.is_some() && (self.since.is_none() || lag - self.shortest_ns > CLOCK_SET_NS) {
            *self = Self { shortest_ns: lag, next_ns: lag, since: Some(now) };
        }
        let since = *self.since.get_or_insert(now);
        self.next_ns = self.next_ns.min(lag);
        if now.since(since) >= LAG_WINDOW {
            self.shortest_ns = self.next_ns;
            self.next_ns = lag;
            self.since = Some(now);
        }
        self.shortest_ns = self.shortest_ns.min(lag);
        u64::try_from(i128::from(sent_at.0) + self.shortest_ns).map_or(now, Timestamp)
    }
}

/// After this long the shortest delay is measured anew, or a clock that was set back would never be believed again.
const LAG_WINDOW: Duration = Duration::from_secs(60);
/// A request takes less; longer than that only a clock that was set makes it.
const CLOCK_SET_NS: i128 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp((1_000_000 + s) * 1_000_000_000)
    }

    #[test]
    fn lag_dates_a_backlog_back_and_follows_a_wrong_clock() {
        let mut lag = Lag::default();
        assert_eq!(lag.of(at(0), None, at(30)), at(0), "a backlog");
        assert_eq!(lag.of(at(31), None, at(31)), at(31));
        let mut ahead = Lag::default();
        assert_eq!(ahead.of(at(500), None, at(0)), at(0), "a clock that is ahead");
        let mut behind = Lag::default();
        for s in 100..160 {
            assert_eq!(behind.of(at(s - 100), None, at(s)), at(s - 100));
        }
        assert_eq!(behind.of(at(61), None, at(161)), at(161), "a clock that is behind, after a while");
    }

    #[test]
    fn who_says_when_it_sends_is_dated_right_from_the_first_batch() {
        let mut behind = Lag::default();
        assert_eq!(behind.of(at(0), Some(at(0)), at(20)), at(20), "a clock that is behind");
        let mut late = Lag::default();
        assert_eq!(late.of(at(0), Some(at(30)), at(50)), at(20), "and a backlog");
        assert_eq!(late.of(at(31), Some(at(31)), at(51)), at(51));
        assert_eq!(late.of(at(22), Some(at(22)), at(52)), at(52), "the clock is set back");
        assert_eq!(late.of(at(93), Some(at(93)), at(53)), at(53), "and forward");
    }

    #[test]
    fn a_reading_in_several_batches_counts_when_all_are_there() {
        let mut agents = Agents::default();
        let mut read_at = |seq_number, s, more_follows| {
            let agent_id = "a".to_owned();
            let sent_at_ns = at(s).0;
            let batch = Batch { agent_id, seq_number, sent_at_ns, more_follows, ..Batch::default() };
            let (stamp, _) = agents.hear(&batch, at(s), &mut Losses::default());
            agents.reading(stamp.agent()).map(|reading| reading.read_at)
        };
        assert_eq!(read_at(1, 1, false), Some(at(1)));
        assert_eq!(read_at(2, 2, true), Some(at(1)));
        assert_eq!(read_at(3, 2, false), Some(at(2)));
    }

    #[test]
    fn the_newer_word_replaces() {
        let of = |agent, seq_number, s| Stamp { agent, seq_number, at: at(s) };
        assert!(of(1, 2, 0).replaces(of(1, 1, 9)), "one agent: by number");
        assert!(!of(1, 1, 9).replaces(of(1, 2, 0)));
        assert!(of(2, 1, 9).replaces(of(1, 5, 8)), "two agents: by time");
        assert!(!of(1, 5, 8).replaces(of(2, 1, 9)));
        assert!(of(1, 1, 0).replaces(Stamp::STORE));
        assert!(!Stamp::STORE.replaces(of(1, 1, 0)));
    }

    #[test]
    fn an_agent_that_starts_after_its_clock_was_set_back_is_believed() {
        let mut agents = Agents::default();
        let mut stamp = |agent: &str, clock_s, s| {
            let (agent_id, sent_at_ns) = (agent.to_owned(), at(clock_s).0);
            let batch =
                Batch { agent_id, seq_number: 1, sent_at_ns, posted_at_ns: sent_at_ns, ..Batch::default() };
            agents.hear(&batch, at(s), &mut Losses::default()).0
        };
        let before = stamp("a", 5_000, 1);
        assert!(stamp("b", 2, 2).replaces(before));
    }

    #[test]
    fn times_of_a_host_and_ours() {
        let reading = Reading { read_at: at(500), at: at(100) };
        assert_eq!((reading.ours(at(490)), reading.theirs(at(90))), (at(90), at(490)));
        assert_eq!(reading.ours(Timestamp(0)), Timestamp(0), "before all clocks");
    }
}
