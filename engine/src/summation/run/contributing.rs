//! The worker of a process: it pushes what its caller submits, and pulls the sums into the caller's buffers.
//!
//! Of what is submitted the most urgent goes out first. Workers may submit in different orders: a part holds its place in
//! a connection only until it is sent, and services take in whatever comes, so nobody waits for who waits for it. The rounds
//! of one tensor go one after the other, which bounds what services keep of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rustix::event::PollFd;

use super::agree::Agreement;
use super::coding::{self, Coding};
use super::line::{Line, Outcome, Trouble};
use super::observe::{Ended, Moved};
use super::requests::{Ending, Request};
use super::serving::{Frame, Ready, Serving};
use super::urgency::urgencies;
use super::wire::{Message, Wire, strange};
use crate::comm::links::Links;
use crate::error::Error;
use crate::memory::{Buffers, Own, Place, Region, Span};
use crate::summation::placement::assign::Placement;
use crate::summation::server::part::Reduction;
use crate::summation::tensor::{Declarations, Part};
use crate::summation::worker::{self, Pipeline, Refusal, Send, Stage, TensorId};
use crate::transport::Progress;

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
    placement: Arc<Placement>,
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
}

/// A service, as the worker sees it.
#[derive(Debug)]
struct Target {
    /// None if it is this process's.
    line: Option<Line>,
    /// The frame that is to go out, or goes out.
    current: Option<Send>,
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
    /// Services and keys of the parts that are pushed, while the caller has not asked for the sum.
    pushed: Vec<(usize, u32)>,
}

impl Contributing {
    /// With lines by service; none for the one of this process.
    pub(super) fn new(
        worker: usize,
        pipeline: Pipeline,
        wire: Wire,
        declarations: Arc<Declarations>,
        placement: Arc<Placement>,
        lines: Vec<Option<Line>>,
    ) -> Self {
        let rounds = vec![0; declarations.tensors().len()];
        let urgencies = urgencies(&declarations);
        Self {
            worker,
            pipeline,
            wire,
            declarations,
            placement,
            services: lines.into_iter().map(|line| Target { line, current: None }).collect(),
            next_service: 0,
            rounds,
            running: BTreeMap::new(),
            tensors: BTreeMap::new(),
            urgencies,
            coding: Coding::default(),
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            early_pulls: BTreeMap::new(),
            unasked: BTreeSet::new(),
            has_left: false,
            moved: None,
        }
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
                        running.pull = Some((buffers(recv), ending));
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
    pub(super) fn announce(&mut self, n_workers: usize, list: &[u8]) {
        if list.is_empty() {
            return;
        }
        let wire = self.wire;
        let servers = self.lines().filter(|line| line.peer >= n_workers);
        servers.for_each(|line| line.send_list(wire, list));
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

    /// Takes in what has come. Whether anything has.
    pub(super) fn take_in(
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
    pub(super) fn take_own(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let mut moved = false;
        while let Some(Ready { key, round, sum }) = serving.next_own(self.worker) {
            moved = true;
            let len = sum.bytes().len();
            self.room(key, round, 0, len, self.worker)?.copy_from_slice(sum.bytes());
            let service = self.placement.owner(key).map_or(0, usize::from);
            self.see_pulled(service, key, round, (0, len))?;
            let pulled = self.pipeline.pulled(service, key, len as u64, now_ns);
            pulled.map_err(|misreport| self.internal(&misreport))?;
            serving.answered(self.worker, sum)?;
        }
        Ok(moved)
    }

    /// Finishes the parts that are back in the form of a codec, and asks for the sums of those that are pushed. Whether there were any.
    pub(super) fn ask(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let mut asked = self.decode(now_ns)?;
        while let Some(work) = self.pipeline.next_work(Stage::Pull, now_ns) {
            asked = true;
            let (key, round) = (work.key, self.round_of(work.key));
            self.moved.iter_mut().for_each(|moved| moved.pull_issued(work.server, key, work.bytes));
            match &mut self.services[work.server].line {
                Some(line) => line.note(self.wire.header(Message::Pull { key, round }, 0)),
                None => serving.pull(self.worker, key, round)?,
            }
        }
        Ok(asked)
    }

    /// Sends notes, which are small. Whether anything moved.
    pub(super) fn send_notes(&mut self, links: &mut Links) -> Outcome<bool> {
        self.lines().try_fold(false, |moved, line| Ok(line.send_notes(links)? || moved))
    }

    /// Sends one frame. Whether anything moved.
    pub(super) fn push(&mut self, links: &mut Links, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let n_services = self.services.len();
        for service in (self.next_service..n_services).chain(0..self.next_service.min(n_services)) {
            if self.go_on(service, links, serving, now_ns)? {
                self.next_service = service + 1;
                return Ok(true);
            }
        }
        // A service whose connection takes nothing keeps its frame, and must not hold up the others'.
        while let Some(send) = self.pipeline.next_send(&self.writable(), now_ns) {
            self.services[send.server].current = Some(send);
            if self.go_on(send.server, links, serving, now_ns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells callers of rounds that are over. How many there were.
    pub(super) fn finish(&mut self) -> usize {
        let mut n_finished = 0;
        while let Some(finished) = self.pipeline.next_finished() {
            n_finished += 1;
            let tensor = self.tensors.remove(&finished.tensor);
            let running = tensor.and_then(|tensor| self.running.remove(&tensor));
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

    /// What ends a sleep.
    pub(super) fn poll_fds<'a>(&'a self, links: &'a Links) -> impl Iterator<Item = PollFd<'a>> {
        let lines = self.services.iter().filter_map(|service| Some((service, service.line.as_ref()?)));
        lines.flat_map(move |(service, line)| line.poll_fds(links, !self.has_left, service.current.is_some()))
    }

    /// Tells a watcher that what is under way has failed.
    pub(super) fn tell_failed(&self, code: i32) {
        let Some(moved) = &self.moved else { return };
        self.running.iter().for_each(|(tensor, running)| moved.finished(running.ended(*tensor, code)));
    }

    /// All that is under way, to be told that it has failed.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Ending> {
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
            server: self.placement.owner(part.key).map_or(0, usize::from),
            bytes: part.size_bytes,
            compress: coding::summed(&self.declarations, &part).codec.is_some(),
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
            plain.for_each(|part| moved.push_issued(part.server, part.key, part.bytes));
        }
        if let Some(Request::Push { ticket, tensor, send, reduction, submitted_ns }) = self.next_round(tensor)
        {
            let round = self.rounds[tensor];
            self.rounds[tensor] += 1;
            let pull = self.early_pulls.remove(&ticket);
            let pull = pull.map(|(recv, ending)| (buffers(recv), ending));
            self.tensors.insert(id, tensor);
            let pushed = Vec::new();
            self.running
                .insert(tensor, Running { ticket, round, send, reduction, submitted_ns, pull, pushed });
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

    /// Which services take another frame.
    fn writable(&self) -> Vec<bool> {
        let takes =
            |service: &Target| service.current.is_none() && service.line.as_ref().is_none_or(Line::is_open);
        self.services.iter().map(takes).collect()
    }

    /// Posts a service's present frame, or more of it. Whether anything moved.
    fn go_on(
        &mut self,
        service: usize,
        links: &mut Links,
        serving: &mut Serving,
        now_ns: u64,
    ) -> Outcome<bool> {
        let is_open = self.services[service].line.as_ref().is_none_or(|line| line.is_open());
        let Some(send) = self.services[service].current.filter(|_| is_open) else { return Ok(false) };
        let frame = self.frame(&send)?;
        let payload = self.payload(&frame)?;
        let payload = payload.bytes();
        let Frame { key, round, reduction, .. } = frame;
        let progress = match &mut self.services[service].line {
            Some(line) => {
                let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
                let message = Message::Push { key, round, offset: to_u32(frame.offset), reduction };
                line.send_frame(links, self.wire.header(message, to_u32(frame.len)), payload)?
            }
            None => match serving.land(self.worker, &frame)? {
                Some(into) => {
                    into.copy_from_slice(payload);
                    serving.landed(self.worker, frame.len)?;
                    Progress::Done
                }
                None => Progress::Idle,
            },
        };
        if progress == Progress::Done {
            self.services[service].current = None;
            self.sent(&send, now_ns)?;
        }
        Ok(progress != Progress::Idle)
    }

    fn sent(&mut self, send: &Send, now_ns: u64) -> Outcome<()> {
        let Send { server, key, offset, len } = *send;
        let sent = self.pipeline.sent(server, key, len, now_ns);
        sent.map_err(|misreport| self.internal(&misreport))?;
        self.moved.iter_mut().for_each(|moved| moved.pushed(server, key, len));
        let pushed = self.coding.pushed(key).map(|pushed| pushed.len() as u64);
        let is_through = |part: &Part| offset + len == pushed.unwrap_or(part.size_bytes);
        let Some(part) = self.declarations.part(key).filter(is_through) else { return Ok(()) };
        match self.running.get_mut(&part.tensor) {
            Some(running) if running.pull.is_none() => {
                running.pushed.push((server, key));
                Ok(())
            }
            _ => self.summed(server, key, now_ns),
        }
    }

    /// The service has the part, or will have: its sum may be asked for, and is answered once it is there.
    fn summed(&mut self, server: usize, key: u32, now_ns: u64) -> Outcome<()> {
        let summed = self.pipeline.summed(server, key, now_ns);
        summed.map_err(|misreport| self.internal(&misreport))
    }

    fn frame(&self, send: &Send) -> Outcome<Frame> {
        let part = self.declarations.part(send.key);
        let running = part.and_then(|part| self.running.get(&part.tensor));
        let to_usize = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let frame = running.map(|running| Frame {
            key: send.key,
            round: running.round,
            offset: to_usize(send.offset),
            len: to_usize(send.len),
            reduction: running.reduction,
        });
        frame.ok_or_else(|| self.internal(&format_args!("part {} is not running", send.key)))
    }

    fn payload(&self, frame: &Frame) -> Outcome<Payload> {
        if let Some(pushed) = self.coding.pushed(frame.key) {
            return Ok(Payload::Encoded(pushed, frame.offset..frame.offset.saturating_add(frame.len)));
        }
        let part = self.declarations.part(frame.key);
        let running = part.and_then(|part| Some((self.running.get(&part.tensor)?, part)));
        let Some((running, part)) = running else {
            return Err(self.internal(&format_args!("part {} is not running", frame.key)));
        };
        let start = self.first_byte(&part).saturating_add(frame.offset);
        let read = running.send.read(start..start.saturating_add(frame.len));
        read.map(Payload::Plain).map_err(|error| Trouble::of(self.worker, error))
    }

    /// Encodes one part, so that bytes move between two of them. Whether there was one.
    fn encode(&mut self, now_ns: u64) -> Outcome<bool> {
        let Some(work) = self.pipeline.next_work(Stage::Compress, now_ns) else { return Ok(false) };
        let part = self.declarations.part(work.key);
        let running = part.and_then(|part| Some((self.running.get(&part.tensor)?, part)));
        let Some((running, part)) = running else {
            return Err(self.internal(&format_args!("part {} is not running", work.key)));
        };
        let start = self.first_byte(&part);
        let contribution = running.send.read(start..start.saturating_add(self.size(&part)));
        let contribution = contribution.map_err(|error| Trouble::of(self.worker, error))?;
        let summed = coding::summed(&self.declarations, &part);
        let encoded = self.coding.encode(&part, summed, contribution);
        let (push_bytes, pull_bytes) = encoded.map_err(|error| self.internal(&error))?;
        if let Some(moved) = &mut self.moved {
            moved.push_issued(work.server, work.key, push_bytes);
        }
        let compressed = self.pipeline.compressed(work.key, push_bytes, pull_bytes, now_ns);
        compressed.map_err(|misreport| self.internal(&misreport))?;
        Ok(true)
    }

    /// Decodes what is back. Whether there was anything.
    fn decode(&mut self, now_ns: u64) -> Outcome<bool> {
        let mut decoded = false;
        while let Some(work) = self.pipeline.next_work(Stage::Decompress, now_ns) {
            decoded = true;
            let (key, round) = (work.key, self.round_of(work.key));
            let part = self.declarations.part(key);
            let count = part.map_or(Ok(0), |part| usize::try_from(part.elements)).unwrap_or(0);
            let peer = self.services[work.server].line.as_ref().map_or(self.worker, |line| line.peer);
            let elements = self.coding.finish(key, count).map_err(|error| {
                let text = format!("rank {peer} answered round {round} of part {key} wrongly: {error}");
                Trouble::of(peer, Error::Internal(text))
            })?;
            if let Some(elements) = elements {
                self.room(key, round, 0, elements.len(), peer)?.copy_from_slice(&elements);
            }
            let decompressed = self.pipeline.decompressed(key, now_ns);
            decompressed.map_err(|misreport| self.internal(&misreport))?;
        }
        Ok(decoded)
    }

    fn size(&self, part: &Part) -> usize {
        usize::try_from(part.size_bytes).unwrap_or(usize::MAX)
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
        if let Some(answer) = self.coding.answer(key) {
            let range = offset..offset.saturating_add(len);
            return answer.get_mut(range).ok_or_else(|| wrong("with more bytes than it has"));
        }
        if offset.saturating_add(len) as u64 > part.size_bytes {
            return Err(wrong("with more bytes than it has"));
        }
        let span = Span { place: Place::Recv, offset: first + offset, len };
        buffers.write(span).map_err(|error| Trouble::of(peer, error))
    }

    fn first_byte(&self, part: &Part) -> usize {
        let tensor = &self.declarations.tensors()[part.tensor];
        let first_byte = part.first_element.saturating_mul(tensor.data_type.size_bytes() as u64);
        usize::try_from(first_byte).unwrap_or(usize::MAX)
    }

    fn round_of(&self, key: u32) -> u64 {
        let part = self.declarations.part(key);
        part.and_then(|part| self.running.get(&part.tensor)).map_or(0, |running| running.round)
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
            Message::Answer { key, round, offset } => {
                let room = self.room(key, round, offset as usize, front.len as usize, line.peer)?;
                let progress = line.receive(links, &front, room)?;
                if progress == Progress::Done {
                    self.see_pulled(service, key, round, (offset as usize, front.len as usize))?;
                    let pulled = self.pipeline.pulled(service, key, u64::from(front.len), now_ns);
                    pulled.map_err(|misreport| self.internal(&misreport))?;
                }
                Ok(progress)
            }
            Message::Digest { .. } | Message::List { .. } => line.agree(links, &front, self.wire, agreement),
            _ => Err(line.broken(strange(&front, line.peer))),
        }
    }

    /// Where somebody watches: bytes of a result are in the caller's memory.
    fn see_pulled(
        &mut self,
        service: usize,
        key: u32,
        round: u64,
        (offset, len): (usize, usize),
    ) -> Outcome<()> {
        let Some(moved) = &mut self.moved else { return Ok(()) };
        moved.pulled(service, key, len as u64);
        let part = self.declarations.part(key);
        let answer = self.coding.answer(key).map(|answer| answer.len() as u64);
        let is_whole = |part: &Part| (offset + len) as u64 == answer.unwrap_or(part.size_bytes);
        if !part.as_ref().is_some_and(is_whole) || !moved.wants_result(key, round) {
            return Ok(());
        }
        let running = part.and_then(|part| self.running.get(&part.tensor));
        let submitted_ns = running.map_or(0, |running| running.submitted_ns);
        let Some(moved) = self.moved.take() else { return Ok(()) };
        let room = self.room(key, round, 0, offset + len, self.worker);
        let seen = room.map(|bytes| moved.result(key, round, bytes, submitted_ns));
        self.moved = Some(moved);
        seen
    }

    fn internal(&self, what: &impl std::fmt::Display) -> Trouble {
        Trouble::of(self.worker, Error::Internal(format!("worker {}: {what}", self.worker)))
    }
}

/// Bytes that go out.
#[derive(Debug)]
enum Payload {
    /// Of the caller's memory.
    Plain(&'static [u8]),
    /// Of what a codec made.
    Encoded(Arc<Vec<u8>>, Range<usize>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Encoded(encoded, range) => encoded.get(range.clone()).unwrap_or_default(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summation::placement::machines::Machines;
    use crate::summation::placement::shares::Shares;
    use crate::summation::server::message::Epochs;
    use crate::summation::server::sums::{Mode, Sums};
    use crate::summation::tensor::Declaration;
    use crate::transport::sim::{Terms, connect};
    use crate::types::DataType;

    #[test]
    fn a_connection_that_takes_nothing_holds_up_no_other() {
        let tensor = Declaration { name: "a".to_owned(), elements: 80, data_type: DataType::F32 };
        let declarations = Arc::new(Declarations::of(40, [tensor]).unwrap());
        let shares = Shares::parameter_server(&Machines::even(1, 4, 1).unwrap()).unwrap();
        let placement = Arc::new(Placement::by_shares(0, &declarations, &shares));
        let wire = Wire::new(Epochs::default());
        let (mut links, mut receivers) = (Links::default(), Vec::new());
        let mut line = |peer: usize| {
            let (half, receiver) = connect(Terms { seed: peer as u64, bound_bytes: 8, lost_after: None });
            links.sends.connect(0, peer, Box::new(half));
            receivers.push(receiver);
            Some(Line::new(peer, links.recvs.index(0, peer), links.sends.index(0, peer)))
        };
        let lines = vec![line(1), line(2), line(3), line(4), None];
        let service = Sums::new(Mode::Rounds, 1, [], Epochs::default());
        let mut serving = Serving::new(service, wire, Arc::clone(&declarations), 64, 0, vec![None]);
        let pipeline = Pipeline::new(&shares.fractions(), worker::Settings::default());
        let mut contributing = Contributing::new(0, pipeline, wire, declarations, placement, lines);
        let bytes = vec![0; 320];
        let (send, reduction) = (Region::of_slice(&bytes), Reduction::Sum);
        contributing
            .submit(Request::Push { ticket: 0, tensor: 0, send, reduction, submitted_ns: 0 }, 0)
            .unwrap();
        contributing.begin(0).unwrap();
        while contributing.push(&mut links, &mut serving, 0).unwrap() {}
        assert!(contributing.services.iter().take(4).all(|service| service.current.is_some()));
    }
}
