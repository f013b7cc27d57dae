//! What comes in: contributions, straight to where they are summed, pulls and farewells.

use super::super::agree::Agreement;
use super::super::coding;
use super::super::line::{Outcome, Trouble};
use super::super::timeline::Kind;
use super::super::wire::Message;
use super::seat::Filling;
use super::{FRAMES_PER_LOOK, Frame, Level, Serving};
use crate::server::message::{Admission, Push, Pushed};
use crate::server::part::Part;
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use rsccl_collective::net::link::Header;
use rsccl_collective::transport::Progress;

impl Serving {
    /// Takes in what has come. Whether anything has.
    pub(in crate::run) fn take_in(&mut self, links: &mut Links, agreement: &mut Agreement) -> Outcome<bool> {
        let mut moved = self.take_sums()?;
        for worker in 0..self.n_workers() {
            for _ in 0..FRAMES_PER_LOOK {
                let progress = self.take_one(worker, links, agreement)?;
                moved |= progress != Progress::Idle;
                if progress != Progress::Done {
                    break;
                }
            }
        }
        Ok(moved)
    }

    /// Where bytes of a contribution go; nothing if there is no room for the contribution yet.
    pub(in crate::run) fn land(&mut self, seat: usize, frame: &Frame) -> Outcome<Option<&mut [u8]>> {
        let worker = self.worker(seat);
        if self.seats[seat].landing.is_none() {
            let part = self.declarations.part(frame.key);
            let summed = part.map(|part| coding::summed(&self.declarations, &part, self.n_workers()));
            let size_bytes = summed.map_or(0, Part::pushed_bytes);
            self.check_all_here(worker)?;
            let level = self.level(seat, frame.key);
            let Frame { key, round, reduction, .. } = *frame;
            let push = Push { key, round, worker, size_bytes, reduction };
            let admitted = self.sums_mut(level).push(&push);
            match admitted.map_err(|refusal| self.refused(worker, &refusal))? {
                Admission::Into(landing) => {
                    let grows_to = summed.filter(|part| !part.has_one_length()).map(|_| size_bytes);
                    self.seats[seat].landing = Some(Filling { landing, key, round, filled: 0, grows_to });
                }
                Admission::Later => {
                    self.seats[seat].is_late = true;
                    return Ok(None);
                }
            }
        }
        let rank = self.rank;
        let into = self.seats[seat].landing.as_mut().and_then(|filling| filling.room(frame));
        let wrong = || {
            let text = format!("worker {worker} pushed bytes to rank {rank} out of order: {frame:?}");
            Trouble::of(worker, Error::Internal(text))
        };
        into.map(Some).ok_or_else(wrong)
    }

    /// The bytes of a frame have landed.
    pub(in crate::run) fn landed(&mut self, seat: usize, frame: &Frame) -> Outcome<()> {
        let Some(mut filling) = self.seats[seat].landing.take() else { return Ok(()) };
        filling.filled += frame.len;
        if !filling.is_whole(frame) {
            self.seats[seat].landing = Some(filling);
            return Ok(());
        }
        let (worker, level) = (self.worker(seat), self.level(seat, frame.key));
        if !filling.landing.is_again() {
            self.hear(worker, level, frame.last, &filling);
            if let Some(timeline) = self.timeline.as_ref().filter(|_| level == Level::All) {
                timeline.note(Kind::Arrived, filling.key, filling.round, worker);
            }
        }
        let pushed = self.sums_mut(level).pushed(filling.landing);
        match pushed.map_err(|refusal| self.refused(worker, &refusal))? {
            Pushed::Kept => {}
            Pushed::Added(key) => self.answer_waiting(Some(key))?,
            Pushed::Add(addition) => self.add(addition)?,
            Pushed::TurnedAway => self.tell_turned_away(),
        }
        self.ask_again(level);
        Ok(())
    }

    /// Where somebody watches: a contribution is complete. Those in a host's sum were counted on their host, which says who
    /// came last.
    fn hear(&mut self, worker: usize, level: Level, last: Option<usize>, filling: &Filling) {
        let place = self.heard_key(level, filling.key);
        let Some(heard) = &mut self.heard else { return };
        if last.is_none() {
            heard.contributed(worker, filling.filled);
        }
        heard.arrived(last.unwrap_or(worker), place, filling.round);
    }

    /// Done: there may be more.
    fn take_one(&mut self, worker: usize, links: &mut Links, agreement: &mut Agreement) -> Outcome<Progress> {
        let seat = &mut self.seats[worker];
        let Some(line) = seat.line.as_mut().filter(|_| !seat.is_late && !seat.has_left) else {
            return Ok(Progress::Idle);
        };
        let Some(front) = line.front(links)? else { return Ok(Progress::Idle) };
        let message = self.wire.message(&front, line.peer).map_err(|error| line.broken(error))?;
        match message {
            Message::Push { key, round, offset, reduction, last, ends } => {
                let (offset, len) = (offset as usize, front.len as usize);
                let frame = Frame { key, round, offset, len, reduction, last, ends };
                self.take_push(worker, links, &front, &frame)
            }
            Message::Pull { key, round } => {
                line.receive(links, &front, &mut [])?;
                self.pull(worker, key, round)?;
                Ok(Progress::Done)
            }
            Message::Leave { is_last } => {
                line.receive(links, &front, &mut [])?;
                self.leave(worker, is_last)?;
                Ok(Progress::Done)
            }
            _ => line.agree(links, &front, self.wire, agreement),
        }
    }

    fn take_push(
        &mut self,
        worker: usize,
        links: &mut Links,
        front: &Header,
        frame: &Frame,
    ) -> Outcome<Progress> {
        // The line and the memory are both this service's: the line is put back at once.
        let Some(line) = self.seats[worker].line.take() else { return Ok(Progress::Idle) };
        let received = match self.land(worker, frame) {
            Ok(Some(into)) => line.receive(links, front, into),
            Ok(None) => Ok(Progress::Idle),
            Err(trouble) => Err(trouble),
        };
        self.seats[worker].line = Some(line);
        let progress = received?;
        if progress == Progress::Done {
            self.landed(worker, frame)?;
        }
        Ok(progress)
    }
}
