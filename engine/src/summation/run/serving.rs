//! The service of a process: it takes pushes in, sums, and answers pulls.
//!
//! Each worker has a seat. The payload of a push goes from the connection straight to where it is summed; one for which
//! there is no room yet stays in the connection. A pull that has no answer yet waits in its seat. The worker of the same
//! process has a seat without a connection.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustix::event::PollFd;

use super::adders::Adders;
use super::agree::Agreement;
use super::coding;
use super::line::{Line, Outcome, Trouble};
use super::observe::Heard;
use super::report::{Report, Waiting};
use super::urgency::urgencies;
use super::wire::{Message, Wire};
use crate::comm::links::Links;
use crate::error::Error;
use crate::net::link::Header;
use crate::summation::server::addition::Addition;
use crate::summation::server::message::{Admission, Answer, Landing, Pull, Push, Pushed, Sum};
use crate::summation::server::part::Reduction;
use crate::summation::server::refusal::Refusal;
use crate::summation::server::service::{Counters, Pending, Phase};
use crate::summation::server::sums::Sums;
use crate::summation::tensor::Declarations;
use crate::transport::Progress;

/// Frames that are taken from one connection before the next one is looked at.
const FRAMES_PER_LOOK: usize = 16;

/// The service and its connections.
#[derive(Debug)]
pub(super) struct Serving {
    service: Sums,
    wire: Wire,
    declarations: Arc<Declarations>,
    /// By tensor: its urgency.
    urgencies: Vec<u32>,
    frame_bytes: usize,
    /// Of its process.
    rank: usize,
    /// By worker.
    seats: Vec<Seat>,
    /// Whose answers are next.
    next_seat: usize,
    /// None: it adds on the driver's thread.
    adders: Option<Adders>,
    /// Only where somebody watches.
    pub(super) heard: Option<Box<Heard>>,
}

/// What a watcher is told of.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) counters: Counters,
    pub(super) waits: Vec<Pending>,
    /// By worker: answers that are not out, and their bytes.
    pub(super) unanswered: Vec<(u64, u64)>,
    pub(super) declarations: &'a Declarations,
}

/// What there is of one worker.
#[derive(Debug)]
struct Seat {
    /// None if it is this process's worker.
    line: Option<Line>,
    landing: Option<Filling>,
    /// Whether its next push waits for room.
    is_late: bool,
    /// By key: the rounds whose results it waits for.
    pulls: BTreeMap<u32, u64>,
    /// Results that are to go out, the most urgent first, behind the one whose bytes go out.
    answers: BTreeMap<(u32, u32), Ready>,
    answering: Option<Ready>,
    /// Bytes of it that are out.
    answered_bytes: usize,
    /// Answers that are out, whose memory may still be read, and the part of the connection that was their last.
    kept: VecDeque<(u64, Sum)>,
    has_left: bool,
    /// Whether it has left to declare more.
    goes_on: bool,
}

/// A contribution on its way in.
#[derive(Debug)]
struct Filling {
    landing: Landing,
    key: u32,
    round: u64,
    filled: usize,
}

/// A result on its way out.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) key: u32,
    pub(super) round: u64,
    pub(super) sum: Sum,
}

/// Bytes of a contribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) key: u32,
    pub(super) round: u64,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) reduction: Reduction,
}

impl Serving {
    /// For workers with these lines; none for the one of this process.
    pub(super) fn new(
        service: Sums,
        wire: Wire,
        declarations: Arc<Declarations>,
        frame_bytes: usize,
        rank: usize,
        lines: Vec<Option<Line>>,
    ) -> Self {
        let seats = lines.into_iter().map(Seat::new).collect();
        let urgencies = urgencies(&declarations);
        let (next_seat, adders, heard) = (0, None, None);
        Self { service, wire, declarations, urgencies, frame_bytes, rank, seats, next_seat, adders, heard }
    }

    /// With threads that add.
    pub(super) fn with(self, adders: Adders) -> Self {
        Self { adders: Some(adders), ..self }
    }

    /// What a watcher is told of.
    pub(super) fn view(&self) -> View<'_> {
        let unanswered = |seat: &Seat| {
            let answers = || seat.answering.iter().chain(seat.answers.values());
            let bytes: usize = answers().map(|ready| ready.sum.bytes().len()).sum();
            (answers().count() as u64, bytes.saturating_sub(seat.answered_bytes) as u64)
        };
        View {
            counters: self.service.counters(),
            waits: self.service.waits_for(),
            unanswered: self.seats.iter().map(unanswered).collect(),
            declarations: &self.declarations,
        }
    }

    /// What is to be summed, where that was not known from the beginning.
    pub(super) fn adopt(&mut self, service: Sums, declarations: Arc<Declarations>) {
        self.urgencies = urgencies(&declarations);
        (self.service, self.declarations) = (service, declarations);
    }

    /// A worker needs the service no more. It has had all its sums, so no round may wait for it.
    pub(super) fn leave(&mut self, worker: usize, is_last: bool) -> Outcome<()> {
        let Some(seat) = self.seats.get_mut(worker) else { return Ok(()) };
        let is_news = !std::mem::replace(&mut seat.has_left, true);
        seat.goes_on = !is_last;
        if self.service.is_store() {
            return if is_news { self.go_on_without(worker) } else { Ok(()) };
        }
        let pending = self.service.waits_for();
        let lacks = |pending: &&Pending| pending.phase == Phase::Push && pending.workers.contains(&worker);
        let Some(pending) = pending.iter().find(lacks) else { return Ok(()) };
        let lands = |other: &usize| self.seats[*other].landing.is_some();
        let began = (0..self.seats.len()).find(|other| !pending.workers.contains(other) || lands(other));
        self.check_all_here(began.unwrap_or(0))
    }

    /// How far it is.
    pub(super) fn report(&self) -> Report {
        let counters = self.service.counters();
        let waiting = self.service.waits_for().into_iter().min_by_key(|pending| pending.round);
        let name =
            |key| self.declarations.part(key).and_then(|part| self.declarations.tensors().get(part.tensor));
        let waiting = waiting.map(|Pending { key, round, phase, workers }| Waiting {
            tensor: name(key).map_or_else(String::new, |tensor| tensor.name.clone()),
            key,
            round,
            phase: if phase == Phase::Push { "push" } else { "pull" },
            workers,
        });
        let (finished_rounds, summed_bytes) = (counters.finished_rounds, counters.summed_bytes);
        Report { finished_rounds, summed_bytes, waiting, asynchronous: self.service.spread() }
    }

    /// Whether the workers go on, once they have declared more.
    pub(super) fn goes_on(&self) -> bool {
        self.seats.iter().any(|seat| seat.goes_on)
    }

    /// Says so much on every line first.
    pub(super) fn greet(&mut self, message: Message) {
        let header = self.wire.header(message, 0);
        self.lines().for_each(|line| line.note(header));
    }

    /// A new look begins.
    pub(super) fn unblock(&mut self) {
        self.lines().for_each(Line::unblock);
    }

    /// Whether all workers of other processes need this service no more.
    pub(super) fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| seat.line.as_ref().is_none_or(|line| seat.has_left && line.is_quiet()))
    }

    /// Takes in what has come. Whether anything has.
    pub(super) fn take_in(&mut self, links: &mut Links, agreement: &mut Agreement) -> Outcome<bool> {
        let mut moved = self.take_sums()?;
        for worker in 0..self.seats.len() {
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

    /// Sends one frame of the next answer that can go out. Whether anything moved.
    pub(super) fn answer(&mut self, links: &mut Links) -> Outcome<bool> {
        let n_seats = self.seats.len();
        for worker in (self.next_seat..n_seats).chain(0..self.next_seat.min(n_seats)) {
            let (wire, frame_bytes) = (self.wire, self.frame_bytes);
            if self.seats[worker].answer(links, wire, frame_bytes)? {
                self.next_seat = worker + 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends notes, and takes back the memory of answers that have come to their workers. Whether anything moved.
    pub(super) fn tidy(&mut self, links: &mut Links) -> Outcome<bool> {
        let mut moved = false;
        for worker in 0..self.seats.len() {
            let seat = &mut self.seats[worker];
            let Some(line) = &mut seat.line else { continue };
            moved |= line.send_notes(links)?;
            if seat.kept.is_empty() {
                continue;
            }
            let released = line.released(links)?;
            let n_released = seat.kept.iter().take_while(|(last, _)| *last <= released).count();
            let sums: Vec<Sum> = seat.kept.drain(..n_released).map(|(_, sum)| sum).collect();
            moved |= !sums.is_empty();
            sums.into_iter().try_for_each(|sum| self.answered(worker, sum))?;
        }
        Ok(moved)
    }

    /// Where bytes of a contribution go; nothing if there is no room for the contribution yet.
    pub(super) fn land(&mut self, worker: usize, frame: &Frame) -> Outcome<Option<&mut [u8]>> {
        if self.seats[worker].landing.is_none() {
            let part = self.declarations.part(frame.key);
            let size_bytes = part.map_or(0, |part| coding::summed(&self.declarations, &part).pushed_bytes());
            self.check_all_here(worker)?;
            let (epochs, Frame { key, round, reduction, .. }) = (self.service.epochs(), *frame);
            let push = Push { key, round, worker, size_bytes, reduction, epochs };
            match self.service.push(&push).map_err(|refusal| self.refused(worker, &refusal))? {
                Admission::Into(landing) => {
                    self.seats[worker].landing = Some(Filling { landing, key, round, filled: 0 });
                }
                Admission::Later => {
                    self.seats[worker].is_late = true;
                    return Ok(None);
                }
            }
        }
        let rank = self.rank;
        let filling = self.seats[worker].landing.as_mut();
        let filling = filling.filter(|filling| {
            (filling.key, filling.round, filling.filled) == (frame.key, frame.round, frame.offset)
        });
        let into = filling
            .and_then(|filling| filling.landing.bytes_mut().get_mut(frame.offset..frame.offset + frame.len));
        let wrong = || {
            let text = format!("worker {worker} pushed bytes to rank {rank} out of order: {frame:?}");
            Trouble::of(worker, Error::Internal(text))
        };
        into.map(Some).ok_or_else(wrong)
    }

    /// So many bytes more of a contribution have landed.
    pub(super) fn landed(&mut self, worker: usize, len: usize) -> Outcome<()> {
        let Some(mut filling) = self.seats[worker].landing.take() else { return Ok(()) };
        filling.filled += len;
        if filling.filled < filling.landing.bytes_mut().len() {
            self.seats[worker].landing = Some(filling);
            return Ok(());
        }
        if let Some(heard) = &mut self.heard {
            heard.arrived(worker, filling.key, filling.round, filling.filled);
        }
        let pushed =
            self.service.pushed(filling.landing).map_err(|refusal| self.refused(worker, &refusal))?;
        match pushed {
            Pushed::Kept => Ok(()),
            Pushed::Added(key) => self.answer_waiting(Some(key)),
            Pushed::Complete(addition) => self.add(addition),
        }
    }

    /// A worker wants a result.
    pub(super) fn pull(&mut self, worker: usize, key: u32, round: u64) -> Outcome<()> {
        let pull = Pull { key, round, worker, epochs: self.service.epochs() };
        let answer = self.service.pull(&pull).map_err(|refusal| self.refused(worker, &refusal))?;
        let urgency = self.urgency(key);
        let seat = &mut self.seats[worker];
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

    fn go_on_without(&mut self, worker: usize) -> Outcome<()> {
        self.service.leave(worker).map_err(|refusal| self.refused(worker, &refusal))?;
        self.answer_waiting(None)
    }

    /// Asks again for the pulls that wait, of one key or of all; pushes that were too early are tried again.
    fn answer_waiting(&mut self, key: Option<u32>) -> Outcome<()> {
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

    /// The next result for the worker of this process, which gives it back by [`Self::answered`].
    pub(super) fn next_own(&mut self, worker: usize) -> Option<Ready> {
        self.seats.get_mut(worker)?.answers.pop_first().map(|(_, ready)| ready)
    }

    /// A worker has its result.
    pub(super) fn answered(&mut self, worker: usize, sum: Sum) -> Outcome<()> {
        let is_over = self.service.answered(sum).map_err(|refusal| self.refused(worker, &refusal))?;
        if is_over {
            self.seats.iter_mut().for_each(|seat| seat.is_late = false);
        }
        Ok(())
    }

    /// Takes the results of additions. Whether there were any.
    fn take_sums(&mut self) -> Outcome<bool> {
        let done = self.adders.as_ref().map_or(Ok(Vec::new()), Adders::take);
        let done = done.map_err(|error| Trouble::of(self.rank, error))?;
        let moved = !done.is_empty();
        done.into_iter().try_for_each(|addition| self.added(addition))?;
        Ok(moved)
    }

    fn add(&mut self, mut addition: Addition) -> Outcome<()> {
        let Some(adders) = &self.adders else {
            addition.run();
            return self.added(addition);
        };
        adders.add(self.urgency(addition.key()), addition).map_or(Ok(()), |addition| self.added(addition))
    }

    /// A round has its result: whoever has asked for it is answered.
    fn added(&mut self, addition: Addition) -> Outcome<()> {
        let added = self.service.added(addition);
        let finished = added.map_err(|refusal| match refusal {
            Refusal::Malformed { worker, .. } => self.refused(worker, &refusal),
            _ => Trouble::of(self.rank, Error::Internal(format!("rank {}: {refusal}", self.rank))),
        })?;
        self.heard.iter_mut().for_each(|heard| heard.made(&finished));
        for worker in 0..self.seats.len() {
            if self.seats[worker].pulls.get(&finished.key) == Some(&finished.round) {
                self.pull(worker, finished.key, finished.round)?;
            }
        }
        Ok(())
    }

    fn urgency(&self, key: u32) -> u32 {
        let part = self.declarations.part(key);
        part.and_then(|part| self.urgencies.get(part.tensor).copied()).unwrap_or(u32::MAX)
    }

    /// What ends a sleep.
    pub(super) fn poll_fds<'a>(&'a self, links: &'a Links) -> impl Iterator<Item = PollFd<'a>> {
        self.seats.iter().filter_map(|seat| Some((seat, seat.line.as_ref()?))).flat_map(
            move |(seat, line)| {
                line.poll_fds(
                    links,
                    !seat.is_late && !seat.has_left,
                    seat.answering.is_some() || !seat.answers.is_empty(),
                )
            },
        )
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.seats.iter_mut().filter_map(|seat| seat.line.as_mut())
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
            Message::Push { key, round, offset, reduction } => {
                let (offset, len) = (offset as usize, front.len as usize);
                self.take_push(worker, links, &front, &Frame { key, round, offset, len, reduction })
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
            self.landed(worker, frame.len)?;
        }
        Ok(progress)
    }

    /// Who has left had all its sums, so a round that begins after that would wait for it without end.
    fn check_all_here(&self, worker: usize) -> Outcome<()> {
        let gone = self.seats.iter().position(|seat| seat.has_left && !self.service.is_store());
        let Some(gone) = gone else { return Ok(()) };
        let what = if self.seats[gone].goes_on { "declared more tensors" } else { "left the group" };
        let text =
            format!("worker {worker} began a round after worker {gone} had {what}; both must do the same");
        Err(Trouble::of(worker, Error::InvalidUsage(text)))
    }

    fn refused(&self, worker: usize, refusal: &Refusal) -> Trouble {
        let text = format!("rank {} refused worker {worker}: {refusal}", self.rank);
        Trouble::of(worker, Error::InvalidUsage(text))
    }
}

impl Seat {
    fn new(line: Option<Line>) -> Self {
        Self {
            line,
            landing: None,
            is_late: false,
            pulls: BTreeMap::new(),
            answers: BTreeMap::new(),
            answering: None,
            answered_bytes: 0,
            kept: VecDeque::new(),
            has_left: false,
            goes_on: false,
        }
    }

    fn answer(&mut self, links: &mut Links, wire: Wire, frame_bytes: usize) -> Outcome<bool> {
        let Some(line) = self.line.as_mut().filter(|line| line.is_open()) else { return Ok(false) };
        if self.answering.is_none() {
            self.answering = self.answers.pop_first().map(|(_, ready)| ready);
        }
        let Some(Ready { key, round, sum }) = &self.answering else { return Ok(false) };
        let rest = sum.bytes().get(self.answered_bytes..).unwrap_or(&[]);
        let payload = rest.get(..frame_bytes).unwrap_or(rest);
        let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let message = Message::Answer { key: *key, round: *round, offset: to_u32(self.answered_bytes) };
        let header = wire.header(message, to_u32(payload.len()));
        let progress = line.send_frame(links, header, payload)?;
        if progress == Progress::Done {
            self.answered_bytes += payload.len();
            if self.answered_bytes == sum.bytes().len() {
                self.answered_bytes = 0;
                let last = line.posted();
                self.kept.extend(self.answering.take().map(|ready| (last, ready.sum)));
            }
        }
        Ok(progress != Progress::Idle)
    }
}
