//! The worker of a process: it pushes what its caller submits, and pulls the sums into the caller's buffers.
//!
//! Of what is submitted the most urgent goes out first. Workers may submit in different orders: a part holds its place in
//! a connection only until it is sent, and services take in whatever comes, so nobody waits for who waits for it. The rounds
//! of one tensor go one after the other, which bounds what services keep of it. [`sending`] has what goes out, [`receiving`] what
//! comes back, [`encoding`] what codecs do before and after that, [`relaying`] what this process sums for its host.

mod encoding;
mod receiving;
mod relaying;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFd;

use super::coding::{self, Coding, Residuals};
use super::line::{Line, Outcome, Trouble};
use super::observe::{Ended, Moved};
use super::pool::Pool;
use super::requests::{Ending, Request};
use super::serving::Serving;
use super::timeline::Timeline;
use super::urgency::urgencies;
use super::wire::{Message, Wire};
use crate::codec::Choice;
use crate::placement::routes::Routes;
use crate::server::reduction::Reduction;
use crate::server::tier::Partial;
use crate::tensor::{Declarations, Part};
use crate::worker::{self, Pipeline, Refusal, Send, Stage, TensorId};
use relaying::{Relayed, relayed_key};
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use rsccl_collective::memory::{Buffers, Own, Region};

/// Frames that are taken from one connection before the next one is looked at.
const FRAMES_PER_LOOK: usize = 16;

/// The worker, its connections and what is under way.
#[derive(Debug)]
pub(super) struct Contributing {
    /// Its number among the workers, which is its rank.
    worker: usize,
    pipeline: Pipeline,
    wire: Wire,
    declarations: Arc<Declarations>,
    routes: Arc<Routes>,
    /// By service.
    services: Vec<Target>,
    /// Which service is tried first to go on with a frame.
    next_service: usize,
    /// By tensor: the next round.
    rounds: Vec<u64>,
    /// By tensor.
    running: BTreeMap<usize, Running>,
    tensors: BTreeMap<TensorId, usize>,
    /// By tensor: its urgency.
    urgencies: Vec<u32>,
    coding: Coding,
    /// None: it encodes and decodes on the driver's thread.
    pool: Option<Arc<Pool>>,
    /// By key: sums of this process's host that have gone on.
    relayed: BTreeMap<u32, Relayed>,
    /// Results of those, for the host's workers.
    returned: Vec<Partial>,
    /// By tensor: rounds behind the one that is running.
    waiting: BTreeMap<usize, VecDeque<Request>>,
    /// Tensors that wait and are not running, in the order in which they came to that.
    ready: VecDeque<usize>,
    /// By ticket: pulls of pushes that have not begun.
    early_pulls: BTreeMap<u64, (Region, Ending)>,
    /// Tickets of pushes that are over before their sums were asked for.
    unasked: BTreeSet<u64>,
    has_left: bool,
    /// Only where somebody watches.
    pub(super) moved: Option<Box<Moved>>,
    /// Only where it is asked for.
    pub(super) timeline: Option<Arc<Timeline>>,
}

/// A service, as the worker sees it.
#[derive(Debug)]
struct Target {
    /// None if it is this process's.
    line: Option<Line>,
    /// The frame that is to go out, or goes out.
    current: Option<Send>,
    /// Whether frames of its part follow.
    is_amid: bool,
    /// The next frames of parts that were turned away and are wanted once more.
    again: VecDeque<Send>,
}

/// A round of a tensor.
#[derive(Debug)]
struct Running {
    ticket: u64,
    round: u64,
    send: Region,
    reduction: Reduction,
    submitted_ns: u64,
    /// Where the sum goes; none while the caller has not asked for it.
    pull: Option<(Buffers, Ending)>,
    /// The same memory, for whoever decodes into it.
    recv: Option<Region>,
    /// Services and keys of the parts that are pushed, while the caller has not asked for the sum.
    pushed: Vec<(usize, u32)>,
}

impl Target {
    fn new(line: Option<Line>) -> Self {
        Self { line, current: None, is_amid: false, again: VecDeque::new() }
    }

    /// What goes out next, and whether that is for the second time.
    fn next(&self) -> Option<(Send, bool)> {
        let again = self.again.front().filter(|_| !self.is_amid);
        self.current.map(|send| (send, false)).or_else(|| Some((*again?, true)))
    }
}

impl Contributing {
    /// With lines by service; none for the one of this process.
    pub(super) fn new(
        worker: usize,
        pipeline: Pipeline,
        wire: Wire,
        declarations: Arc<Declarations>,
        routes: Arc<Routes>,
        lines: Vec<Option<Line>>,
    ) -> Self {
        let rounds = vec![0; declarations.tensors().len()];
        let urgencies = urgencies(&declarations);
        Self {
            worker,
            pipeline,
            wire,
            declarations,
            routes,
            services: lines.into_iter().map(Target::new).collect(),
            next_service: 0,
            rounds,
            running: BTreeMap::new(),
            tensors: BTreeMap::new(),
            urgencies,
            coding: Coding::default(),
            pool: None,
            relayed: BTreeMap::new(),
            returned: Vec::new(),
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            early_pulls: BTreeMap::new(),
            unasked: BTreeSet::new(),
            has_left: false,
            moved: None,
            timeline: None,
        }
    }

    /// With threads that encode and decode, and with what earlier generations have left out.
    pub(super) fn with(self, pool: Arc<Pool>, residuals: &Arc<Residuals>) -> Self {
        Self { pool: Some(pool), coding: Coding::new(Arc::clone(residuals)), ..self }
    }

    /// Its number among the workers.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// What a watcher is told of.
    pub(super) fn view(&self, now_ns: u64) -> worker::Snapshot {
        self.pipeline.snapshot(now_ns)
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

    /// Takes what the caller wants.
    pub(super) fn submit(&mut self, request: Request, now_ns: u64) -> Outcome<()> {
        match request {
            Request::Push { tensor, .. } => {
                let waiting = self.waiting.entry(tensor).or_default();
                waiting.push_back(request);
                if waiting.len() == 1 && !self.running.contains_key(&tensor) {
                    self.ready.push_back(tensor);
                }
            }
            Request::Pull { ticket, ending, .. } if self.unasked.remove(&ticket) => ending.set(Ok(())),
            Request::Pull { ticket, recv, ending } => {
                let mut running = self.running.values_mut();
                match running.find(|running| running.ticket == ticket) {
                    Some(running) => {
                        (running.recv, running.pull) = (Some(recv), Some((buffers(recv), ending)));
                        for (server, key) in std::mem::take(&mut running.pushed) {
                            self.summed(server, key, now_ns)?;
                        }
                    }
                    None => {
                        self.early_pulls.insert(ticket, (recv, ending));
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins the submissions that can begin. Whether any did.
    pub(super) fn begin(&mut self, now_ns: u64) -> Outcome<bool> {
        let mut begun = false;
        while let Some(tensor) = self.ready.front().copied() {
            if !self.begin_push(tensor, now_ns)? {
                break;
            }
            self.ready.pop_front();
            begun = true;
        }
        Ok(self.encode(now_ns)? || begun)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// Tells the services of processes without a worker, which declare nothing, what is declared.
    pub(super) fn announce(&mut self, n_workers: usize, list: &[u8], is_local: bool) {
        if list.is_empty() {
            return;
        }
        let wire = self.wire;
        let servers = self.lines().filter(|line| line.peer >= n_workers);
        servers.for_each(|line| line.send_list(wire, list, is_local));
    }

    /// Tells all services that it needs them no more: for good, or until more is declared.
    pub(super) fn leave(&mut self, is_last: bool) {
        if !self.has_left {
            self.greet(Message::Leave { is_last });
            self.has_left = true;
        }
    }

    /// Whether all services have been told.
    pub(super) fn is_over(&self) -> bool {
        self.has_left && self.services.iter().filter_map(|service| service.line.as_ref()).all(Line::is_quiet)
    }

    /// Finishes the parts that are back in the form of a codec, and asks for the sums of those that are pushed. Whether there were any.
    pub(super) fn ask(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let mut asked = self.decode(now_ns)?;
        while let Some(work) = self.pipeline.next_work(Stage::Pull, now_ns) {
            asked = true;
            let (key, round) = (relayed_key(work.key).unwrap_or(work.key), self.round_of(work.key));
            let owner = self.routes.owner(key);
            if let Some(moved) = self.moved.as_mut().filter(|_| !self.coding.is_answer_open(work.key)) {
                moved.pull_issued(owner, key, work.bytes);
            }
            let own_seat = if key == work.key { self.worker } else { serving.host_seat() };
            match &mut self.services[work.server].line {
                Some(line) => line.note(self.wire.header(Message::Pull { key, round }, 0)),
                None => serving.pull(own_seat, key, round)?,
            }
        }
        Ok(asked)
    }

    /// Sends notes, which are small. Whether anything moved.
    pub(super) fn send_notes(&mut self, links: &mut Links) -> Outcome<bool> {
        self.lines().try_fold(false, |moved, line| Ok(line.send_notes(links)? || moved))
    }

    /// Tells callers of rounds that are over. How many there were.
    pub(super) fn finish(&mut self) -> usize {
        let mut n_finished = 0;
        while let Some(finished) = self.pipeline.next_finished() {
            // Without a tensor it was a host's sum.
            let tensor = self.tensors.remove(&finished.tensor);
            n_finished += usize::from(tensor.is_some());
            let running = tensor.and_then(|tensor| self.running.remove(&tensor));
            if let Some(tensor) = tensor.filter(|tensor| self.is_fed_back(*tensor)) {
                self.coding.settle(self.declarations.parts_of(tensor).map(|part| part.key));
            }
            self.ready.extend(tensor.filter(|tensor| self.waiting.contains_key(tensor)));
            if let (Some(moved), Some(tensor), Some(running)) = (&self.moved, tensor, &running) {
                moved.finished(running.ended(tensor, 0));
            }
            // A tensor without parts is over before its sum is asked for.
            match running.map(|running| (running.ticket, running.pull)) {
                Some((_, Some((_, ending)))) => ending.set(Ok(())),
                Some((ticket, None)) => {
                    self.unasked.insert(ticket);
                }
                None => {}
            }
        }
        n_finished
    }

    /// How long to sleep at most.
    pub(super) fn bound(&self, most: Duration, now_ns: u64) -> Duration {
        let left = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(now_ns));
        self.pipeline.stuck_at_ns().map_or(most, |at_ns| most.min(left(at_ns)))
    }

    /// What ends a sleep.
    pub(super) fn poll_fds<'a>(&'a self, links: &'a Links) -> impl Iterator<Item = PollFd<'a>> {
        let lines = self.services.iter().filter_map(|service| Some((service, service.line.as_ref()?)));
        lines.flat_map(move |(service, line)| line.poll_fds(links, !self.has_left, service.next().is_some()))
    }

    /// Tells a watcher that what is under way has failed.
    pub(super) fn tell_failed(&self, code: i32) {
        let Some(moved) = &self.moved else { return };
        self.running.iter().for_each(|(tensor, running)| moved.finished(running.ended(*tensor, code)));
    }

    /// All that is under way, to be told that it has failed.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Ending> {
        self.give_back_residuals();
        let running = std::mem::take(&mut self.running).into_values();
        let early = std::mem::take(&mut self.early_pulls).into_values();
        running.filter_map(|running| Some(running.pull?.1)).chain(early.map(|(_, ending)| ending))
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.services.iter_mut().filter_map(|service| service.line.as_mut())
    }

    /// Whether the first submission has begun; otherwise there is no room yet.
    fn begin_push(&mut self, tensor: usize, now_ns: u64) -> Outcome<bool> {
        let part = |part: Part| worker::Part {
            key: part.key,
            server: self.routes.target(self.worker, part.key),
            bytes: part.size_bytes,
            compress: coding::summed(&self.declarations, &part, self.routes.n_workers()).codec.is_some(),
        };
        let parts: Vec<worker::Part> = self.declarations.parts_of(tensor).map(part).collect();
        let name = self.declarations.tensors().get(tensor).map_or("", |tensor| tensor.name.as_str());
        let urgency = self.urgencies.get(tensor).copied().unwrap_or(u32::MAX);
        let id = match self.pipeline.submit(name, urgency, &parts, now_ns) {
            Ok(id) => id,
            Err(Refusal::Full { .. }) if !self.running.is_empty() => return Ok(false),
            Err(refusal) => return Err(Trouble::of(self.worker, Error::InvalidUsage(refusal.to_string()))),
        };
        if let Some(moved) = &mut self.moved {
            let plain = parts.iter().filter(|part| !part.compress);
            plain.for_each(|part| moved.push_issued(self.routes.owner(part.key), part.key, part.bytes));
        }
        if let Some(Request::Push { ticket, tensor, send, reduction, submitted_ns }) = self.next_round(tensor)
        {
            let round = self.rounds[tensor];
            self.rounds[tensor] += 1;
            let pull = self.early_pulls.remove(&ticket);
            let recv = pull.as_ref().map(|(recv, _)| *recv);
            let pull = pull.map(|(recv, ending)| (buffers(recv), ending));
            self.tensors.insert(id, tensor);
            let pushed = Vec::new();
            self.running
                .insert(tensor, Running { ticket, round, send, reduction, submitted_ns, pull, recv, pushed });
        }
        Ok(true)
    }

    /// What waits first of a tensor.
    fn next_round(&mut self, tensor: usize) -> Option<Request> {
        let waiting = self.waiting.get_mut(&tensor)?;
        let request = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&tensor);
        }
        request
    }

    /// The service has the part, or will have: its sum may be asked for, and is answered once it is there.
    fn summed(&mut self, server: usize, key: u32, now_ns: u64) -> Outcome<()> {
        let summed = self.pipeline.summed(server, key, now_ns);
        summed.map_err(|misreport| self.internal(&misreport))
    }

    /// Whether what a round of a tensor leaves out goes into the next one.
    fn is_fed_back(&self, tensor: usize) -> bool {
        self.declarations.options(tensor).codec.is_some_and(Choice::wants_feedback)
    }

    fn first_byte(&self, part: &Part) -> usize {
        let tensor = &self.declarations.tensors()[part.tensor];
        let first_byte = part.first_element.saturating_mul(tensor.data_type.size_bytes() as u64);
        usize::try_from(first_byte).unwrap_or(usize::MAX)
    }

    fn round_of(&self, key: u32) -> u64 {
        if let Some(key) = relayed_key(key) {
            return self.relayed.get(&key).map_or(0, |relayed| relayed.round);
        }
        let part = self.declarations.part(key);
        part.and_then(|part| self.running.get(&part.tensor)).map_or(0, |running| running.round)
    }

    fn internal(&self, what: &impl std::fmt::Display) -> Trouble {
        Trouble::of(self.worker, Error::Internal(format!("worker {}: {what}", self.worker)))
    }
}

impl Running {
    /// How it ended.
    fn ended(&self, tensor: usize, result: i32) -> Ended {
        let (round, bytes) = (self.round, self.send.len() as u64);
        Ended { tensor, round, bytes, result, submitted_ns: self.submitted_ns }
    }
}

fn buffers(recv: Region) -> Buffers {
    Buffers::new(recv, recv, Own::default(), 0, 0)
}
