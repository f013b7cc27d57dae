//! The service of a process: it takes pushes in, sums, and answers pulls.
//!
//! Each worker has a seat. The payload of a push goes from the connection straight to where it is summed; one for which
//! there is no room yet stays in the connection. A pull that has no answer yet waits in its seat. The worker of the same
//! process has a seat without a connection.
//!
//! Where the workers of a host sum first, a process has two services: one of the parts that it owns, and one of those that
//! it sums for its host. A sum of the second one goes on to the part's owner, and what comes back answers the host's
//! workers. If the owner is this process, the sum takes a seat of its own there, behind those of the workers.

mod intake;
mod seat;
mod summing;

use std::sync::Arc;

use rustix::event::PollFd;

use super::line::{Line, Outcome, Trouble};
use super::observe::Heard;
use super::patience::{Wait, What};
use super::pool::Pool;
use super::report::{Report, Waiting};
use super::timeline::{Kind, Timeline};
use super::urgency::urgencies;
use super::wire::{Message, Wire};
use crate::placement::routes::Routes;
use crate::server::message::Sum;
use crate::server::refusal::Refusal;
use crate::server::service::{Counters, Pending, Phase};
use crate::server::sums::Sums;
use crate::tensor::Declarations;
use rsccl_collective::clock;
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use seat::Seat;
pub(super) use seat::{Frame, Ready};

/// Frames that are taken from one connection before the next one is looked at.
const FRAMES_PER_LOOK: usize = 16;

/// The service and its connections.
#[derive(Debug)]
pub(super) struct Serving {
    service: Sums,
    /// What it sums for its host.
    host_sums: Sums,
    /// None before it is known what is declared.
    routes: Option<Arc<Routes>>,
    wire: Wire,
    declarations: Arc<Declarations>,
    /// By tensor: its urgency.
    urgencies: Vec<u32>,
    frame_bytes: usize,
    /// Of its process.
    rank: usize,
    /// By worker, then that of what this process sums for its host.
    seats: Vec<Seat>,
    /// Whose answers are next.
    next_seat: usize,
    /// None: it adds on the driver's thread.
    pool: Option<Arc<Pool>>,
    /// Of contributions; of its own sums and of those for its host, each.
    max_kept_bytes: usize,
    has_turned_away: bool,
    /// Only where somebody watches.
    pub(super) heard: Option<Box<Heard>>,
    /// Only where it is asked for.
    pub(super) timeline: Option<Arc<Timeline>>,
}

/// Whose sums they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Of the workers of this process's host.
    Host,
    /// Of all workers.
    All,
}

/// What a watcher is told of.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) counters: Counters,
    /// Each with the key under which its arrivals were heard.
    pub(super) waits: Vec<(Pending, u32)>,
    /// By worker: answers that are not out, and their bytes.
    pub(super) unanswered: Vec<(u64, u64)>,
    /// As [`Sums::leads`].
    pub(super) leads: &'a [u64],
    pub(super) declarations: &'a Declarations,
}

impl Serving {
    /// For workers with these lines; none for the one of this process. `services` has those of what it owns and of what it
    /// sums for its host.
    pub(super) fn new(
        services: (Sums, Sums),
        wire: Wire,
        declarations: Arc<Declarations>,
        frame_bytes: usize,
        rank: usize,
        lines: Vec<Option<Line>>,
    ) -> Self {
        Self {
            service: services.0,
            host_sums: services.1,
            routes: None,
            wire,
            urgencies: urgencies(&declarations),
            declarations,
            frame_bytes,
            rank,
            seats: lines.into_iter().chain(std::iter::once(None)).map(Seat::new).collect(),
            next_seat: 0,
            pool: None,
            max_kept_bytes: usize::MAX,
            has_turned_away: false,
            heard: None,
            timeline: None,
        }
    }

    /// With threads that add, and so many bytes of contributions that are kept.
    pub(super) fn with(self, pool: Arc<Pool>, max_kept_bytes: usize) -> Self {
        Self { pool: Some(pool), max_kept_bytes, ..self }
    }

    /// What a watcher is told of.
    pub(super) fn view(&self) -> View<'_> {
        let host = self.host_sums.counters();
        let mut counters = self.service.counters();
        counters.summed_bytes += host.summed_bytes;
        counters.refused += host.refused;
        let waits = |level| {
            let place = move |pending: Pending| {
                let key = self.heard_key(level, pending.key);
                (pending, key)
            };
            self.sums(level).waits_for().into_iter().map(place)
        };
        View {
            counters,
            waits: waits(Level::All).chain(waits(Level::Host)).collect(),
            unanswered: self.seats.iter().take(self.n_workers()).map(Seat::unanswered).collect(),
            leads: self.service.leads(),
            declarations: &self.declarations,
        }
    }

    /// What is to be summed, once that is known.
    pub(super) fn adopt(
        &mut self,
        services: (Sums, Sums),
        routes: &Arc<Routes>,
        declarations: Arc<Declarations>,
    ) {
        self.urgencies = urgencies(&declarations);
        self.service = services.0.keeping(self.max_kept_bytes);
        self.host_sums = services.1.keeping(self.max_kept_bytes);
        (self.routes, self.declarations) = (Some(Arc::clone(routes)), declarations);
    }

    /// The seat of what this process sums for its host.
    pub(super) fn host_seat(&self) -> usize {
        self.n_workers()
    }

    /// A worker needs the service no more. It has had all its sums, so no round may wait for it.
    pub(super) fn leave(&mut self, worker: usize, is_last: bool) -> Outcome<()> {
        let Some(seat) = self.seats.get_mut(worker) else { return Ok(()) };
        let is_news = !std::mem::replace(&mut seat.has_left, true);
        seat.goes_on = !is_last;
        // The link may not have heard yet that the last of them have come.
        let kept = std::mem::take(&mut seat.kept);
        kept.into_iter().try_for_each(|(_, sum)| self.answered(worker, sum))?;
        if self.service.is_store() {
            return if is_news { self.go_on_without(worker) } else { Ok(()) };
        }
        let pending = self.service.waits_for().into_iter().chain(self.host_sums.waits_for());
        let lacks = |pending: &Pending| pending.phase == Phase::Push && pending.workers.contains(&worker);
        let Some(pending) = pending.into_iter().find(lacks) else { return Ok(()) };
        let lands = |other: &usize| self.seats[*other].landing.is_some();
        let began = (0..self.n_workers()).find(|other| !pending.workers.contains(other) || lands(other));
        self.check_all_here(began.unwrap_or(0))
    }

    /// What waits for somebody: rounds, and who has left for those that have not.
    pub(super) fn waits(&self) -> Vec<Wait> {
        let pending = self.service.waits_for().into_iter().chain(self.host_sums.waits_for());
        // Who takes an answer late keeps nobody waiting, unless a contribution has no room because of that.
        let is_full = self.seats.iter().any(|seat| seat.is_late);
        let pending = pending.filter(|pending| pending.phase == Phase::Push || is_full);
        pending.map(Wait::from).chain(self.waits_to_leave()).collect()
    }

    /// The workers that have not left, where others have. None where each goes as it likes.
    pub(super) fn waits_to_leave(&self) -> Option<Wait> {
        let seats = self.seats.iter().take(self.n_workers()).enumerate();
        let workers: Vec<usize> =
            seats.filter(|(_, seat)| !seat.has_left).map(|(worker, _)| worker).collect();
        let waits = !self.service.is_store() && (1..self.n_workers()).contains(&workers.len());
        waits.then_some(Wait { what: What::Leave, workers })
    }

    /// Name of a part's tensor.
    pub(super) fn tensor(&self, key: u32) -> &str {
        let tensor =
            self.declarations.part(key).and_then(|part| self.declarations.tensors().get(part.tensor));
        tensor.map_or("", |tensor| tensor.name.as_str())
    }

    /// How far it is.
    pub(super) fn report(&self) -> Report {
        let counters = self.service.counters();
        let waiting = self.service.waits_for().into_iter().chain(self.host_sums.waits_for());
        let waiting = waiting.min_by_key(|pending| pending.round);
        let waiting = waiting.map(|Pending { key, round, phase, workers }| Waiting {
            tensor: self.tensor(key).to_owned(),
            key,
            round,
            phase: if phase == Phase::Push { Waiting::PUSH } else { Waiting::PULL },
            workers,
            waited_s: 0,
        });
        let turned_away = counters.turned_away + self.host_sums.counters().turned_away;
        let (finished_rounds, summed_bytes) = (counters.finished_rounds, counters.summed_bytes);
        let asynchronous = self.service.spread();
        Report { finished_rounds, summed_bytes, turned_away, waiting, asynchronous }
    }

    /// A worker that has left, and not to declare more.
    pub(super) fn left_for_good(&self) -> Option<usize> {
        self.seats.iter().take(self.n_workers()).position(|seat| seat.has_left && !seat.goes_on)
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

    /// Sends one frame of the next answer that can go out. Whether anything moved.
    pub(super) fn answer(&mut self, links: &mut Links) -> Outcome<bool> {
        let n_seats = self.seats.len();
        for worker in (self.next_seat..n_seats).chain(0..self.next_seat.min(n_seats)) {
            let (wire, frame_bytes) = (self.wire, self.frame_bytes);
            let begun_ns = self.timeline.as_ref().map(|_| clock::monotonic_ns());
            let (moved, left) = self.seats[worker].answer(links, wire, frame_bytes)?;
            if let (Some(timeline), Some((key, round)), Some(at_ns)) = (&self.timeline, left, begun_ns) {
                timeline.note_at(Kind::Left, key, round, worker, at_ns);
            }
            if moved {
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

    fn go_on_without(&mut self, worker: usize) -> Outcome<()> {
        self.service.leave(worker).map_err(|refusal| self.refused(worker, &refusal))?;
        self.answer_waiting(None)
    }

    fn urgency(&self, key: u32) -> u32 {
        let part = self.declarations.part(key);
        part.and_then(|part| self.urgencies.get(part.tensor).copied()).unwrap_or(u32::MAX)
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.seats.iter_mut().filter_map(|seat| seat.line.as_mut())
    }

    fn n_workers(&self) -> usize {
        self.seats.len() - 1
    }

    /// Who contributes from a seat.
    fn worker(&self, seat: usize) -> usize {
        if seat == self.host_seat() { self.rank } else { seat }
    }

    /// Whose sums those are to which a seat contributes.
    fn level(&self, seat: usize, key: u32) -> Level {
        let of_host =
            |routes: &Arc<Routes>| seat != self.host_seat() && routes.sums_for(self.rank, seat, key);
        if self.routes.as_ref().is_some_and(of_host) { Level::Host } else { Level::All }
    }

    /// The key under which arrivals are heard: of a host's sums others than of the same parts' results.
    fn heard_key(&self, level: Level, key: u32) -> u32 {
        if level == Level::Host { key.saturating_add(self.declarations.n_parts()) } else { key }
    }

    fn sums(&self, level: Level) -> &Sums {
        if level == Level::Host { &self.host_sums } else { &self.service }
    }

    fn sums_mut(&mut self, level: Level) -> &mut Sums {
        if level == Level::Host { &mut self.host_sums } else { &mut self.service }
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
