//! The loop that drives operations: all pipes of one or more communicators at once, through one poll.
//!
//! A launch is what one group (or one call) asks of one communicator. Its collectives follow each other on each channel;
//! its sends and receives run beside them, whatever their order in the group. Launches of one communicator take turns in
//! the order they were issued, on whatever streams.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::collective::operation::{Operation, Primitive};
use crate::collective::program::{Program, Ready};
use crate::comm::{Comm, Links};
use crate::error::{Error, Result};
use crate::memory::{Buffers, Place, Region, Span};
use crate::net::connect::RingLinks;
use crate::net::control::{Failure, lock};
use crate::net::link::{Header, Link};
use crate::net::wake;
use crate::run::pipe::{Fault, Pipe, Task};
use crate::run::source::Sources;

/// A poll ends by itself after this, in case a wake was lost: a safety net, not a rhythm.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// What one group asks of one communicator.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Of which communicator.
    pub(crate) comm: Arc<Comm>,
    /// Its place among the communicator's launches.
    pub(crate) ticket: u64,
    /// In the order of the calls.
    pub(crate) operations: Vec<Operation>,
}

/// Runs launches together; the first error, if any. Every launch's turn is over on return.
pub(crate) fn run(launches: &[Launch]) -> Result<()> {
    let _turns: Vec<_> = launches.iter().map(|launch| launch.comm.turns.take(launch.ticket)).collect();
    let mut runs: Vec<Run<'_>> = launches.iter().map(Run::new).collect();
    loop {
        let mut moved = false;
        for run in runs.iter_mut().filter(|run| run.outcome.is_none()) {
            moved |= run.step();
        }
        if runs.iter().all(|run| run.outcome.is_some()) {
            break;
        }
        if !moved {
            let unfinished = || runs.iter().filter(|run| run.outcome.is_none());
            let mut fds: Vec<PollFd<'_>> = unfinished().flat_map(Run::poll_fds).collect();
            wake::sleep(&mut fds, MAX_SLEEP)?;
        }
    }
    runs.iter_mut().filter_map(|run| run.outcome.take()).collect()
}

struct Run<'a> {
    launch: &'a Launch,
    links: MutexGuard<'a, Links>,
    rings: Vec<Pipe>,
    sends: BTreeMap<usize, Pipe>,
    recvs: BTreeMap<usize, Pipe>,
    sources: Sources,
    outcome: Option<Result<()>>,
}

impl<'a> Run<'a> {
    fn new(launch: &'a Launch) -> Self {
        let mut links = lock(&launch.comm.links);
        let mut staging = std::mem::take(&mut links.staging).into_iter();
        let ring = |links: &RingLinks| {
            let pipe = Pipe::new(Some(Arc::clone(&links.next)), Some(Arc::clone(&links.prev)));
            pipe.with_staging(staging.next().unwrap_or_default())
        };
        let rings = links.rings.iter().map(ring).collect();
        let mut run = Self {
            launch,
            links,
            rings,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            sources: Sources::default(),
            outcome: None,
        };
        if run.healthy()
            && let Err(error) = run.plan()
        {
            run.break_off(&error);
        }
        run
    }

    /// One round over all pipes; whether anything moved.
    fn step(&mut self) -> bool {
        if !self.healthy() {
            return false;
        }
        self.take_inbound();
        let mut moved = false;
        let mut fault = None;
        for pipe in self.rings.iter_mut().chain(self.sends.values_mut()).chain(self.recvs.values_mut()) {
            match pipe.progress() {
                Ok(pipe_moved) => moved |= pipe_moved,
                Err(found) => {
                    fault = Some(found);
                    break;
                }
            }
        }
        match fault {
            Some(Fault::Closed { peer, label }) => self.blame(peer, &label),
            Some(Fault::Broken(error)) => self.break_off(&error),
            None if self.pipes().all(Pipe::is_done) => self.outcome = Some(Ok(())),
            None => {}
        }
        moved
    }

    /// Whether the communicator has not failed; otherwise the run is over.
    fn healthy(&mut self) -> bool {
        let Some(failure) = self.launch.comm.health.failure() else { return true };
        self.end(failure.error(&self.current_label()));
        false
    }

    /// The operation that the run is at.
    fn current_label(&self) -> String {
        let comm = &self.launch.comm;
        let first = || self.launch.operations.first().map(|operation| comm.label(operation));
        let label = self.pipes().find_map(|pipe| pipe.label().map(str::to_owned)).or_else(first);
        label.unwrap_or_else(|| comm.name())
    }

    fn blame(&mut self, peer: usize, label: &str) {
        let comm = &self.launch.comm;
        let what = format!("{} closed the connection", comm.names[peer]);
        let failure = comm.health.suspect(Failure { code: 6, what });
        self.end(failure.error(label));
    }

    fn break_off(&mut self, error: &Error) {
        let comm = &self.launch.comm;
        let failure = comm.health.suspect(Failure {
            code: error.code(),
            what: format!("{error} (seen by {})", comm.names[comm.rank]),
        });
        self.end(failure.error(&self.current_label()));
    }

    fn end(&mut self, error: Error) {
        self.launch.comm.set_last_error(&error);
        self.outcome = Some(Err(error));
    }

    fn pipes(&self) -> impl Iterator<Item = &Pipe> {
        self.rings.iter().chain(self.sends.values()).chain(self.recvs.values())
    }

    fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let wake = PollFd::new(&self.launch.comm.health.runner, PollFlags::IN);
        self.pipes().flat_map(Pipe::poll_fds).chain(std::iter::once(wake))
    }

    fn take_inbound(&mut self) {
        self.launch.comm.health.runner.reset();
        for link in self.launch.comm.health.take_inbound() {
            let link = Arc::new(link);
            if let Some(pipe) = self.recvs.get_mut(&link.peer) {
                pipe.attach(Arc::clone(&link));
            }
            self.links.recvs.insert(link.peer, link);
        }
    }

    fn plan(&mut self) -> Result<()> {
        let comm = &self.launch.comm;
        let (mut to_self, mut from_self) = (Vec::new(), Vec::new());
        for operation in &self.launch.operations {
            match operation.primitive {
                Primitive::Send { peer } if peer == comm.rank => to_self.push(operation),
                Primitive::Recv { peer } if peer == comm.rank => from_self.push(operation),
                Primitive::Send { peer } => self.plan_send(operation, peer)?,
                Primitive::Recv { peer } => self.plan_recv(operation, peer),
                primitive if primitive.is_pairwise() => {
                    let source = self.sources.of(operation, comm.n_ranks)?;
                    self.plan_pairwise(operation, source)?;
                }
                _ => {
                    let source = self.sources.of(operation, comm.n_ranks)?;
                    self.plan_collective(operation, source);
                }
            }
        }
        if to_self.len() != from_self.len() {
            return Err(Error::InvalidUsage(format!(
                "a group of rank {} has {} sends to itself and {} receives from itself",
                comm.rank,
                to_self.len(),
                from_self.len()
            )));
        }
        to_self.iter().zip(&from_self).try_for_each(|(send, recv)| copy_to_self(send, recv))
    }

    fn plan_collective(&mut self, operation: &Operation, source: Region) {
        let comm = &self.launch.comm;
        if comm.n_ranks == 1 {
            let mut alone = Pipe::new(None, None);
            alone.push(self.task(operation, source, operation.copy_of_one_rank(), 0));
            self.rings.push(alone);
            return;
        }
        let n_channels = operation.n_channels(self.rings.len());
        for channel in 0..n_channels {
            let program = operation.program(&comm.rings[channel], channel, n_channels, comm.rank);
            let task = self.task(operation, source, program, channel);
            self.rings[channel].push(task);
        }
    }

    fn plan_send(&mut self, operation: &Operation, peer: usize) -> Result<()> {
        let task = self.task(operation, operation.send, operation.message(), 0);
        self.send(peer, task)
    }

    fn plan_recv(&mut self, operation: &Operation, peer: usize) {
        let task = self.task(operation, operation.send, operation.message(), 0);
        self.recv(peer, task);
    }

    /// One message per pair of ranks, over the connections of `ncclSend`; the own block is copied.
    fn plan_pairwise(&mut self, operation: &Operation, source: Region) -> Result<()> {
        let (own, n_ranks) = (self.launch.comm.rank, self.launch.comm.n_ranks);
        if operation.primitive.sends(own, own) {
            let mut buffers = Buffers::new(source, operation.recv, 0);
            buffers.copy(operation.block_to(own), operation.block_from(own))?;
        }
        for distance in 1..n_ranks {
            let (to, from) = ((own + distance) % n_ranks, (own + n_ranks - distance) % n_ranks);
            if operation.primitive.sends(own, to) {
                let mut program = Program::default();
                program.send(operation.block_to(to), Ready::Now);
                let task = self.task(operation, source, program, 0);
                self.send(to, task)?;
            }
            if operation.primitive.sends(from, own) {
                let mut program = Program::default();
                program.recv_copy(operation.block_from(from));
                let task = self.task(operation, source, program, 0);
                self.recv(from, task);
            }
        }
        Ok(())
    }

    fn send(&mut self, peer: usize, task: Task) -> Result<()> {
        if !self.sends.contains_key(&peer) {
            let link = match self.links.sends.get(&peer) {
                Some(link) => Arc::clone(link),
                None => self.call(peer)?,
            };
            self.sends.insert(peer, Pipe::new(Some(link), None));
        }
        if let Some(pipe) = self.sends.get_mut(&peer) {
            pipe.push(task);
        }
        Ok(())
    }

    fn call(&mut self, peer: usize) -> Result<Arc<Link>> {
        let stream = self.launch.comm.call(peer)?;
        let link = Arc::new(Link { stream, peer });
        self.links.sends.insert(peer, Arc::clone(&link));
        Ok(link)
    }

    fn recv(&mut self, peer: usize, task: Task) {
        let link = self.links.recvs.get(&peer).map(Arc::clone);
        self.recvs.entry(peer).or_insert_with(|| Pipe::new(None, link)).push(task);
    }

    fn task(&self, operation: &Operation, source: Region, program: Program, channel: usize) -> Task {
        let buffers = Buffers::new(source, operation.recv, program.scratch_bytes);
        let header = Header {
            function: operation.primitive.code(),
            sequence: operation.sequence,
            signature: operation.signature(),
            part: 0,
            len: 0,
        };
        let (reduction, events) = (operation.reduction, operation.events.clone());
        Task {
            program,
            buffers,
            reduction,
            header,
            label: self.launch.comm.label(operation),
            channel,
            events,
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.links.staging = self.rings.iter_mut().map(Pipe::take_staging).collect();
    }
}

fn copy_to_self(send: &Operation, recv: &Operation) -> Result<()> {
    if send.bytes() != recv.bytes() {
        return Err(Error::InvalidUsage(format!(
            "a send to itself of {} bytes meets a receive of {} bytes",
            send.bytes(),
            recv.bytes()
        )));
    }
    let events = [send.events.channel(0, None, None), recv.events.channel(0, None, None)];
    let mut buffers = Buffers::new(send.send, recv.recv, 0);
    let whole = |place| Span { place, offset: 0, len: send.bytes() };
    buffers.copy(whole(Place::Send), whole(Place::Recv))?;
    events.iter().for_each(crate::profiler::emit::ChannelEvents::finish);
    Ok(())
}
