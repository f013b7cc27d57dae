//! What comes back: results, from the services of others and from its own, in the callers' memory.

use super::super::agree::Agreement;
use super::super::line::{Line, Outcome, Trouble};
use super::super::serving::{Ready, Serving};
use super::super::timeline::Kind;
use super::super::wire::{Message, strange};
use super::relaying::HOST_SUM;
use super::{Contributing, FRAMES_PER_LOOK};
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use rsccl_collective::memory::{Place, Span};
use rsccl_collective::transport::Progress;

impl Contributing {
    /// Takes in what has come. Whether anything has.
    pub(in crate::run) fn take_in(
        &mut self,
        links: &mut Links,
        agreement: &mut Agreement,
        now_ns: u64,
    ) -> Outcome<bool> {
        let mut moved = false;
        for service in 0..self.services.len() {
            for _ in 0..FRAMES_PER_LOOK {
                let progress = self.take_one(service, links, agreement, now_ns)?;
                moved |= progress != Progress::Idle;
                if progress != Progress::Done {
                    break;
                }
            }
        }
        Ok(moved)
    }

    /// Takes the results of the service of this process. Whether there were any.
    pub(in crate::run) fn take_own(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let mut moved = false;
        while let Some(Ready { key, round, sum }) = serving.next_own(self.worker) {
            moved = true;
            let len = sum.bytes().len();
            self.room(key, round, 0, len, self.worker)?.copy_from_slice(sum.bytes());
            let service = self.routes.target(self.worker, key);
            self.pulled(service, key, round, (0, len, true), now_ns)?;
            serving.answered(self.worker, sum)?;
        }
        Ok(moved)
    }

    /// Where bytes of a result go.
    fn room(&mut self, key: u32, round: u64, offset: usize, len: usize, peer: usize) -> Outcome<&mut [u8]> {
        let wrong = |why: &str| {
            let text = format!("rank {peer} answered round {round} of part {key} {why}");
            Trouble::of(peer, Error::Internal(text))
        };
        let part = self.declarations.part(key).ok_or_else(|| wrong("that there is none of"))?;
        let first = self.first_byte(&part);
        let running = self.running.get_mut(&part.tensor).filter(|running| running.round == round);
        let (buffers, _) =
            running.and_then(|running| running.pull.as_mut()).ok_or_else(|| wrong("unasked"))?;
        if let Some(room) = self.coding.answer(key, offset, len) {
            return room.ok_or_else(|| wrong("with more bytes than it has"));
        }
        if offset.saturating_add(len) as u64 > part.size_bytes {
            return Err(wrong("with more bytes than it has"));
        }
        let span = Span { place: Place::Recv, offset: first + offset, len };
        buffers.write(span).map_err(|error| Trouble::of(peer, error))
    }

    /// Done: there may be more.
    fn take_one(
        &mut self,
        service: usize,
        links: &mut Links,
        agreement: &mut Agreement,
        now_ns: u64,
    ) -> Outcome<Progress> {
        // The line and the caller's memory are both this worker's: the line is put back at once.
        let line = if self.has_left { None } else { self.services[service].line.take() };
        let Some(mut line) = line else { return Ok(Progress::Idle) };
        let progress = self.receive(&mut line, links, agreement, (service, now_ns));
        self.services[service].line = Some(line);
        progress
    }

    fn receive(
        &mut self,
        line: &mut Line,
        links: &mut Links,
        agreement: &mut Agreement,
        (service, now_ns): (usize, u64),
    ) -> Outcome<Progress> {
        let Some(front) = line.front(links)? else { return Ok(Progress::Idle) };
        match self.wire.message(&front, line.peer).map_err(|error| line.broken(error))? {
            Message::Answer { key, round, offset, .. } if self.is_relayed(key) => {
                let len = front.len as usize;
                let room = self.result_room((key, round), offset as usize, len, line.peer)?;
                let progress = line.receive(links, &front, room)?;
                if progress == Progress::Done {
                    self.relay_pulled(service, (key, round), len, now_ns)?;
                }
                Ok(progress)
            }
            Message::Answer { key, round, offset, ends } => {
                let room = self.room(key, round, offset as usize, front.len as usize, line.peer)?;
                let progress = line.receive(links, &front, room)?;
                if progress == Progress::Done {
                    let bytes = (offset as usize, front.len as usize, ends);
                    self.pulled(service, key, round, bytes, now_ns)?;
                }
                Ok(progress)
            }
            Message::Again { key, round } => {
                let key = if self.is_relayed(key) { key | HOST_SUM } else { key };
                let progress = line.receive(links, &front, &mut [])?;
                self.push_again(service, key, round, line.peer)?;
                Ok(progress)
            }
            Message::Digest { .. } | Message::List { .. } => line.agree(links, &front, self.wire, agreement),
            _ => Err(line.broken(strange(&front, line.peer))),
        }
    }

    /// Bytes of a result are here, from the `offset` on; whether they are its last ones.
    fn pulled(
        &mut self,
        service: usize,
        key: u32,
        round: u64,
        (offset, len, ends): (usize, usize, bool),
        now_ns: u64,
    ) -> Outcome<()> {
        if let Some(timeline) = self.timeline.as_ref().filter(|_| ends) {
            timeline.note(Kind::Pulled, key, round, service);
        }
        let is_open = self.coding.is_answer_open(key);
        if is_open && let Some(moved) = &mut self.moved {
            // Nobody could know before how many these would be.
            moved.pull_issued(self.routes.owner(key), key, len as u64);
        }
        self.see_pulled(service, key, round, (offset, len, ends))?;
        let mut pulled = Ok(());
        if is_open && ends {
            pulled = self.pipeline.ends_with(key, len as u64);
        }
        let pulled = pulled.and_then(|()| self.pipeline.pulled(service, key, len as u64, now_ns));
        pulled.map_err(|misreport| self.internal(&misreport))
    }

    /// Where somebody watches: bytes of a result are in the caller's memory.
    fn see_pulled(
        &mut self,
        service: usize,
        key: u32,
        round: u64,
        (offset, len, ends): (usize, usize, bool),
    ) -> Outcome<()> {
        let Some(moved) = &mut self.moved else { return Ok(()) };
        moved.pulled((self.routes.owner(key), service), key, len as u64);
        if !ends || !moved.wants_result(key, round) {
            return Ok(());
        }
        let part = self.declarations.part(key);
        let running = part.and_then(|part| self.running.get(&part.tensor));
        let submitted_ns = running.map_or(0, |running| running.submitted_ns);
        let Some(moved) = self.moved.take() else { return Ok(()) };
        let room = self.room(key, round, 0, offset + len, self.worker);
        let seen = room.map(|bytes| moved.result(key, round, bytes, submitted_ns));
        self.moved = Some(moved);
        seen
    }
}
