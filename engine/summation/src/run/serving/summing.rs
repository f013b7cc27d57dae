//! What becomes of contributions: sums, answers to those who wait for them, and sums of a host that go on.

use super::super::line::{Outcome, Trouble};
use super::super::pool::Pool;
use super::super::timeline::Kind;
use super::super::wire::Message;
use super::{Level, Ready, Serving};
use crate::server::addition::Addition;
use crate::server::message::{Added, Again, Answer, Pull, Sum};
use crate::server::refusal::Refusal;
use crate::server::tier::Partial;
use rsccl_collective::error::Error;
use rsccl_collective::log;

impl Serving {
    /// Who has this seat wants a result.
    pub(in crate::run) fn pull(&mut self, seat: usize, key: u32, round: u64) -> Outcome<()> {
        let (worker, level) = (self.worker(seat), self.level(seat, key));
        let pull = Pull { key, round, worker };
        let answer = self.sums_mut(level).pull(&pull).map_err(|refusal| self.refused(worker, &refusal))?;
        let urgency = self.urgency(key);
        let seat = &mut self.seats[seat];
        match answer {
            Answer::Ready(sum) => {
                seat.pulls.remove(&key);
                seat.answers.insert((urgency, key), Ready { key, round, sum });
            }
            Answer::Waiting(_) => {
                seat.pulls.insert(key, round);
            }
        }
        Ok(())
    }

    /// Asks again for the pulls that wait, of one key or of all; pushes that were too early are tried again.
    pub(super) fn answer_waiting(&mut self, key: Option<u32>) -> Outcome<()> {
        for worker in 0..self.seats.len() {
            let seat = &mut self.seats[worker];
            seat.is_late = false;
            let is_wanted = |(pulled, _): &(&u32, &u64)| key.is_none_or(|key| key == **pulled);
            let pulls: Vec<(u32, u64)> =
                seat.pulls.iter().filter(is_wanted).map(|(key, round)| (*key, *round)).collect();
            pulls.into_iter().try_for_each(|(key, round)| self.pull(worker, key, round))?;
        }
        Ok(())
    }

    /// The next result for a seat of this process, which gives it back by [`Self::answered`].
    pub(in crate::run) fn next_own(&mut self, seat: usize) -> Option<Ready> {
        let ready = self.seats.get_mut(seat)?.answers.pop_first().map(|(_, ready)| ready)?;
        if let Some(timeline) = self.timeline.as_ref().filter(|_| seat != self.host_seat()) {
            timeline.note(Kind::Left, ready.key, ready.round, seat);
        }
        Some(ready)
    }

    /// Who has this seat has a result.
    pub(in crate::run) fn answered(&mut self, seat: usize, sum: Sum) -> Outcome<()> {
        let (worker, level) = (self.worker(seat), self.level(seat, sum.key()));
        let answered = self.sums_mut(level).answered(sum);
        if answered.map_err(|refusal| self.refused(worker, &refusal))? {
            self.seats.iter_mut().for_each(|seat| seat.is_late = false);
        }
        Ok(())
    }

    /// The next sum of this process's host that is to go on.
    pub(in crate::run) fn next_partial(&mut self) -> Option<Partial> {
        self.host_sums.next_partial()
    }

    /// The result that came of a host's sum: the host's workers are answered.
    pub(in crate::run) fn returned(&mut self, partial: Partial) -> Outcome<()> {
        let (key, round) = (partial.key, partial.round);
        self.host_sums.returned(partial).map_err(|refusal| self.own(&refusal))?;
        self.answer_round(key, round)
    }

    /// Takes the results of additions. Whether there were any.
    pub(super) fn take_sums(&mut self) -> Outcome<bool> {
        let done = self.pool.as_deref().map_or(Ok(Vec::new()), Pool::take);
        let done = done.map_err(|error| Trouble::of(self.rank, error))?;
        let moved = !done.is_empty();
        done.into_iter().try_for_each(|addition| self.added(addition))?;
        Ok(moved)
    }

    pub(super) fn add(&mut self, mut addition: Addition) -> Outcome<()> {
        let Some(pool) = &self.pool else {
            addition.run();
            return self.added(addition);
        };
        pool.add(self.urgency(addition.key()), addition).map_or(Ok(()), |addition| self.added(addition))
    }

    /// Contributions were added. Where a round has its sum, that goes on, or whoever has asked for it is answered.
    fn added(&mut self, addition: Addition) -> Outcome<()> {
        let level = if addition.is_host() { Level::Host } else { Level::All };
        let added = self.sums_mut(level).added(addition);
        let added = added.map_err(|refusal| match refusal {
            Refusal::Malformed { worker, .. } => self.refused(worker, &refusal),
            _ => self.own(&refusal),
        })?;
        self.ask_again(level);
        let finished = match added {
            Added::Finished(finished) => finished,
            Added::Kept => return Ok(()),
            Added::Add(addition) => return self.add(addition),
        };
        if let Some(timeline) = self.timeline.as_ref().filter(|_| level == Level::All) {
            timeline.note(Kind::Summed, finished.key, finished.round, finished.last_arriver);
        }
        let place = self.heard_key(level, finished.key);
        match (&mut self.heard, level) {
            (Some(heard), Level::Host) => heard.summed(place, finished.round),
            (Some(heard), Level::All) => heard.made(&finished),
            (None, _) => {}
        }
        if level == Level::Host { Ok(()) } else { self.answer_round(finished.key, finished.round) }
    }

    /// Asks those again whose contributions were turned away and are added soon.
    pub(super) fn ask_again(&mut self, level: Level) {
        while let Some(Again { key, round, worker }) = self.sums_mut(level).next_again() {
            // What is not the worker's own contribution is its host's sum.
            let is_own = self.level(worker, key) == level;
            let seat = if is_own || worker != self.rank { worker } else { self.host_seat() };
            let header = self.wire.header(Message::Again { key, round }, 0);
            match &mut self.seats[seat].line {
                Some(line) => line.note(header),
                None => self.seats[seat].again.push_back((key, round)),
            }
        }
    }

    /// The next contribution for a seat of this process to make once more.
    pub(in crate::run) fn next_again(&mut self, seat: usize) -> Option<(u32, u64)> {
        self.seats.get_mut(seat)?.again.pop_front()
    }

    /// Says once why bytes go twice.
    pub(super) fn tell_turned_away(&mut self) {
        if std::mem::replace(&mut self.has_turned_away, true) {
            return;
        }
        let waits = self.waits().into_iter().flat_map(|wait| wait.workers).min();
        let text = format!(
            "rank {} keeps as many bytes of contributions as it may (RSUM_KEPT_BYTES={}), while rounds wait for worker {}: others are sent again \
             when they can be added",
            self.rank,
            self.max_kept_bytes,
            waits.map_or_else(|| "?".to_owned(), |worker| worker.to_string()),
        );
        log::warn(self.rank, &text);
    }

    fn answer_round(&mut self, key: u32, round: u64) -> Outcome<()> {
        for seat in 0..self.seats.len() {
            if self.seats[seat].pulls.get(&key) == Some(&round) {
                self.pull(seat, key, round)?;
            }
        }
        Ok(())
    }

    fn own(&self, refusal: &Refusal) -> Trouble {
        Trouble::of(self.rank, Error::Internal(format!("rank {}: {refusal}", self.rank)))
    }
}
