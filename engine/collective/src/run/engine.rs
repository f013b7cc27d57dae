//! What one communicator is running: the jobs of one launch, and a lane for each connection that they use.
//!
//! A lane carries its jobs' slices in the order of the operations. Lanes do not wait for each other except through what
//! slices wait for, so the order of sends and receives within a group is free.

use std::collections::VecDeque;
use std::net::IpAddr;

use rustix::event::{PollFd, PollFlags};

use crate::collective::operation::Operation;
use crate::collective::plan::Direction;
use crate::collective::primitive::Primitive;
use crate::comm::links::{Links, Traffic};
use crate::comm::member::Member;
use crate::comm::plans::Plans;
use crate::error::{Error, Result};
use crate::memory::{Buffers, Own, Place, Span};
use crate::net::account::{EndState, MAX_TOLD};
use crate::net::link::Header;
use crate::run::flat;
use crate::run::job::{Job, Spare};
use crate::run::trouble::Trouble;
use crate::transport::{Description, Fault, RecvHalf, SendHalf};

/// Jobs whose memory is kept for later ones at most.
const MAX_SPARES: usize = 16;

/// A communicator's connections, and what runs over them.
#[derive(Debug, Default)]
pub struct Engine {
    /// Connections.
    pub links: Links,
    plans: Plans,
    jobs: Vec<Job>,
    spares: Vec<Spare>,
    /// The first [`Engine::n_lanes`] are in use.
    lanes: Vec<Lane>,
    n_lanes: usize,
    /// Where all ranks share memory.
    flat: Option<flat::Lane>,
    /// The first collective of the launch.
    call: Option<Header>,
    /// The collectives of all launches.
    history: flat::History,
    /// Whether a profiler is told which job a channel is at.
    is_told: bool,
}

/// One connection's queues, or one job's own work.
#[derive(Debug)]
struct Lane {
    direction: Direction,
    slot: usize,
    /// Job and queue.
    work: VecDeque<(usize, usize)>,
}

impl Engine {
    /// Over these connections, and the memory that all ranks share, if they do.
    pub(crate) fn new(links: Links, flat: Option<flat::Lane>) -> Self {
        Self { links, flat, ..Self::default() }
    }

    /// What each connection has carried.
    pub(crate) fn traffic(&self) -> Vec<Traffic> {
        let mut traffic = self.links.traffic();
        for flat in self.flat.iter().flat_map(flat::Lane::traffic) {
            let place = |end: &Traffic| (end.channel, end.peer, end.is_send);
            match traffic.iter_mut().find(|end| place(end) == place(&flat)) {
                Some(end) => {
                    end.payload_bytes += flat.payload_bytes;
                    end.parts += flat.parts;
                }
                None => traffic.push(flat),
            }
        }
        traffic
    }

    /// Prepares the operations of one launch.
    pub(crate) fn begin(&mut self, comm: &Member, operations: &[Operation]) -> Result<()> {
        let mut own = false;
        self.call = None;
        for operation in operations {
            if operation.count == 0 && operation.primitive.peer().is_some() {
                // It is here to be told: nothing moves.
                let events = &operation.events;
                events.kernel_stop(&events.kernel_start(0));
            } else if operation.primitive.peer() == Some(comm.rank) {
                own = true;
            } else if let Some(flat) = self.flat.as_mut().filter(|_| comm.is_flat(operation)) {
                let header = flat.add(comm, operation, &mut self.history);
                self.call.get_or_insert(header);
            } else {
                self.add(comm, operation)?;
            }
        }
        if let (Some(call), Some(host)) = (&self.call, &comm.host) {
            host.set_call(call);
        }
        self.begin_channels();
        if own { copy_to_self(comm.rank, operations) } else { Ok(()) }
    }

    fn begin_channels(&mut self) {
        let mut busy = Vec::new();
        self.is_told =
            self.jobs.iter_mut().fold(false, |is_told, job| job.begin_channels(&mut busy) | is_told);
    }

    fn add(&mut self, comm: &Member, operation: &Operation) -> Result<()> {
        let planned = self.plans.find(comm, &mut self.links, operation)?;
        let index = self.jobs.len();
        for (queue, (slot, of_plan)) in planned.slots.iter().zip(&planned.plan.queues).enumerate() {
            // The first job's queues are all different, and own work is every job's own.
            let is_new = index == 0 || of_plan.direction == Direction::Local;
            let lane = self.lane(of_plan.direction, *slot, is_new);
            self.lanes[lane].work.push_back((index, queue));
        }
        let spare = self.spares.pop().unwrap_or_default();
        let job = Job::new(operation, planned, spare)?;
        if operation.primitive.peer().is_none() {
            self.call.get_or_insert(*job.header());
            self.history.note(comm, operation, job.planned().signature);
        }
        self.jobs.push(job);
        Ok(())
    }

    fn lane(&mut self, direction: Direction, slot: usize, is_new: bool) -> usize {
        let used = &self.lanes[..self.n_lanes];
        let same = |lane: &Lane| (lane.direction, lane.slot) == (direction, slot);
        if !is_new && let Some(known) = used.iter().position(same) {
            return known;
        }
        let at = self.n_lanes;
        self.n_lanes += 1;
        match self.lanes.get_mut(at) {
            Some(lane) => (lane.direction, lane.slot) = (direction, slot),
            None => self.lanes.push(Lane { direction, slot, work: VecDeque::new() }),
        }
        at
    }

    /// One round over all lanes; whether anything moved.
    pub(crate) fn round(&mut self) -> std::result::Result<bool, Trouble> {
        let mut moved = self.flat.as_mut().map_or(Ok(false), flat::Lane::round)?;
        for lane in &mut self.lanes[..self.n_lanes] {
            while let Some((job, queue)) = lane.work.front().copied() {
                let job = &mut self.jobs[job];
                moved |= job
                    .step(queue, &mut self.links)
                    .map_err(|fault| trouble(fault, job, queue, &self.links))?;
                if !job.is_done(queue) {
                    break;
                }
                lane.work.pop_front();
            }
        }
        if moved && self.is_told && self.jobs.len() > 1 {
            self.begin_channels();
        }
        Ok(moved)
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        let open = self.lanes[..self.n_lanes].iter().any(|lane| !lane.work.is_empty());
        !open && self.flat.as_ref().is_none_or(flat::Lane::is_over)
    }

    /// Ready for the next launch; what memory is worth keeping stays.
    pub(crate) fn end(&mut self) {
        self.lanes[..self.n_lanes].iter_mut().for_each(|lane| lane.work.clear());
        self.n_lanes = 0;
        self.flat.iter_mut().for_each(flat::Lane::end);
        self.spares.extend(self.jobs.drain(..).map(Job::into_spare));
        self.spares.truncate(MAX_SPARES);
    }

    /// What has gone wrong where another rank of the host calls something else than this one: neither would ever hear of
    /// it, if what they call goes different ways.
    pub(crate) fn compare(&self, comm: &Member) -> Option<Trouble> {
        let (primitive, sequence) = self.current()?;
        let own = self.call.as_ref().filter(|call| call.sequence == sequence)?;
        let (peer, theirs) = comm.host.as_ref()?.other_call(own)?;
        let fault = Fault::Mismatch(theirs);
        Some(Trouble { fault, peer, remote: None, primitive, sequence, before: None })
    }

    /// The operation that the launch is at: primitive and number.
    pub(crate) fn current(&self) -> Option<(Primitive, u64)> {
        let open = self.lanes[..self.n_lanes].iter().filter_map(|lane| lane.work.front());
        let job = open.map(|(job, _)| *job).min().and_then(|job| self.jobs.get(job));
        let flat = || self.flat.as_ref().and_then(flat::Lane::current);
        job.map(|job| (job.primitive, job.sequence)).or_else(flat)
    }

    /// The signature of that operation.
    pub(crate) fn current_signature(&self) -> u64 {
        let open = self.lanes[..self.n_lanes].iter().filter_map(|lane| lane.work.front());
        let job = open.map(|(job, _)| *job).min().and_then(|job| self.jobs.get(job));
        let of_flat = || self.flat.iter().find_map(flat::Lane::current_signature);
        job.map(|job| job.planned().signature).or_else(of_flat).unwrap_or(0)
    }

    /// The state of each connection that the launch uses, and whether it waits for that.
    pub(crate) fn ends(&self) -> Vec<EndState> {
        let lanes = self.lanes[..self.n_lanes].iter().filter_map(|lane| self.end_state(lane));
        lanes.chain(self.flat.iter().flat_map(flat::Lane::ends)).take(MAX_TOLD).collect()
    }

    fn end_state(&self, lane: &Lane) -> Option<EndState> {
        let waiting = |(job, queue): &(usize, usize)| self.jobs[*job].waits_for_peer(*queue);
        let waits = lane.work.front().is_some_and(waiting);
        let is_send = lane.direction == Direction::Send;
        let (channel, peer, parts) = match lane.direction {
            Direction::Send => self.links.sends.get(lane.slot)?.place(),
            Direction::Recv => self.links.recvs.get(lane.slot)?.place(),
            Direction::Local => return None,
        };
        Some(EndState { channel, peer, is_send, waits, parts })
    }

    /// What lanes wait for; connections without a descriptor ring the doorbell.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.lanes[..self.n_lanes].iter().filter_map(|lane| self.poll_fd(lane))
    }

    /// Whether a connection that the launch uses wakes nobody.
    pub(crate) fn must_be_asked(&self) -> bool {
        let lanes = self.lanes[..self.n_lanes].iter().filter(|lane| !lane.work.is_empty());
        lanes.into_iter().any(|lane| match lane.direction {
            Direction::Send => {
                let end = self.links.sends.get(lane.slot).and_then(|end| end.half.as_deref());
                end.is_some_and(SendHalf::must_be_asked)
            }
            Direction::Recv => {
                let end = self.links.recvs.get(lane.slot).and_then(|end| end.half.as_deref());
                end.is_some_and(RecvHalf::must_be_asked)
            }
            Direction::Local => false,
        })
    }

    fn poll_fd(&self, lane: &Lane) -> Option<PollFd<'_>> {
        let (job, queue) = *lane.work.front()?;
        if !self.jobs[job].is_ready(queue) {
            return None;
        }
        match lane.direction {
            Direction::Send => {
                let half = self.links.sends.get(lane.slot)?.half.as_deref()?;
                Some(PollFd::from_borrowed_fd(SendHalf::wait_fd(half)?, PollFlags::OUT))
            }
            Direction::Recv => {
                let half = self.links.recvs.get(lane.slot)?.half.as_deref()?;
                Some(PollFd::from_borrowed_fd(RecvHalf::wait_fd(half)?, PollFlags::IN))
            }
            Direction::Local => None,
        }
    }
}

fn trouble(fault: Fault, job: &Job, queue: usize, links: &Links) -> Trouble {
    let peer = job.planned().plan.queues[queue].peer;
    let remote = remote(job, queue, links);
    Trouble { fault, peer, remote, primitive: job.primitive, sequence: job.sequence, before: None }
}

/// Address and port of the other end of a queue's connection; none in shared memory.
fn remote(job: &Job, queue: usize, links: &Links) -> Option<(IpAddr, u16)> {
    let planned = job.planned();
    let slot = planned.slots[queue];
    let description = match planned.plan.queues[queue].direction {
        Direction::Send => links.sends.get(slot)?.half.as_deref()?.describe(),
        Direction::Recv => links.recvs.get(slot)?.half.as_deref()?.describe(),
        Direction::Local => return None,
    };
    match description {
        Description::Tcp { sockets } => {
            sockets.first().map(|socket| (socket.remote.ip(), socket.remote.port()))
        }
        _ => None,
    }
}

/// Sends to itself meet receives from itself, in their order.
fn copy_to_self(rank: usize, operations: &[Operation]) -> Result<()> {
    let own = |primitive| {
        operations.iter().filter(move |operation| operation.primitive == primitive && operation.count > 0)
    };
    let sends = own(Primitive::Send { peer: rank });
    let recvs = own(Primitive::Recv { peer: rank });
    let (n_sends, n_recvs) = (sends.clone().count(), recvs.clone().count());
    if n_sends != n_recvs {
        return Err(Error::InvalidUsage(format!(
            "a group of rank {rank} has {n_sends} sends to itself and {n_recvs} receives from itself"
        )));
    }
    sends.zip(recvs).try_for_each(|(send, recv)| copy_message(send, recv))
}

fn copy_message(send: &Operation, recv: &Operation) -> Result<()> {
    if send.bytes() != recv.bytes() {
        return Err(Error::InvalidUsage(format!(
            "a send to itself of {} bytes meets a receive of {} bytes",
            send.bytes(),
            recv.bytes()
        )));
    }
    let kernels = [&send.events, &recv.events].map(|events| (events, events.kernel_start(0)));
    let mut buffers = Buffers::new(send.send, recv.recv, Own::default(), 0, 0);
    let whole = |place| Span { place, offset: 0, len: send.bytes() };
    buffers.copy(whole(Place::Send), whole(Place::Recv))?;
    kernels.iter().for_each(|(events, kernels)| events.kernel_stop(kernels));
    Ok(())
}
