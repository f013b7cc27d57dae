//! One operation after another over one pair of connections: to the next rank, and from the previous one.
//!
//! A pipe never blocks: it moves what the sockets take and give, and says what it waits for. A channel's ring is a pipe
//! with both directions; sends to a peer, and receives from one, are pipes with one.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use crate::collective::operation::Primitive;
use crate::collective::program::{Action, Program, RecvStep};
use crate::collective::reduction::Reduction;
use crate::error::{Error, Result};
use crate::memory::{Buffers, Span};
use crate::net::link::{HEADER_BYTES, Header, Link};
use crate::profiler::emit::{ChannelEvents, OperationEvents, Transfers};

/// A pipe's trouble.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A connection ended.
    Closed {
        /// The rank at its other end.
        peer: usize,
        /// During which operation.
        label: String,
    },
    /// The peers do not fit each other, or the engine is broken.
    Broken(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// One operation on one pipe.
#[derive(Debug)]
pub(crate) struct Job {
    program: Program,
    buffers: Buffers,
    reduction: Reduction,
    header: Header,
    label: String,
    channel: usize,
    source: OperationEvents,
    events: ChannelEvents,
    started: bool,
    /// Sends and receives that are done, and bytes of the current ones (header included).
    sent: usize,
    sent_bytes: usize,
    received: usize,
    received_bytes: usize,
    head: [u8; HEADER_BYTES],
}

/// What a job is made of.
#[derive(Debug)]
pub(crate) struct Task {
    /// The steps.
    pub(crate) program: Program,
    /// Over these buffers.
    pub(crate) buffers: Buffers,
    /// Element arithmetic.
    pub(crate) reduction: Reduction,
    /// Primitive, sequence and signature of its messages.
    pub(crate) header: Header,
    /// The operation in messages to the user.
    pub(crate) label: String,
    /// The channel.
    pub(crate) channel: usize,
    /// What a profiler is told.
    pub(crate) events: OperationEvents,
}

/// A queue of jobs over a pair of connections.
#[derive(Debug)]
pub(crate) struct Pipe {
    next: Option<Arc<Link>>,
    prev: Option<Arc<Link>>,
    jobs: VecDeque<Job>,
    staging: Vec<u8>,
}

impl Pipe {
    /// Over these connections.
    pub(crate) fn new(next: Option<Arc<Link>>, prev: Option<Arc<Link>>) -> Self {
        Self { next, prev, jobs: VecDeque::new(), staging: Vec::new() }
    }

    /// With memory of an earlier pipe for received parts: fresh memory costs page faults on every operation.
    pub(crate) fn with_staging(self, staging: Vec<u8>) -> Self {
        Self { staging, ..self }
    }

    /// That memory, for a later pipe.
    pub(crate) fn take_staging(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.staging)
    }

    /// The connection from the previous rank has come.
    pub(crate) fn attach(&mut self, prev: Arc<Link>) {
        self.prev = Some(prev);
    }

    /// The operation that it is at.
    pub(crate) fn label(&self) -> Option<&str> {
        self.jobs.front().map(|job| job.label.as_str())
    }

    /// Queues a job.
    pub(crate) fn push(&mut self, task: Task) {
        let Task { program, buffers, reduction, header, label, channel, events } = task;
        self.jobs.push_back(Job {
            program,
            buffers,
            reduction,
            header,
            label,
            channel,
            source: events,
            events: ChannelEvents::default(),
            started: false,
            sent: 0,
            sent_bytes: 0,
            received: 0,
            received_bytes: 0,
            head: [0; HEADER_BYTES],
        });
    }

    /// Whether all jobs are done.
    pub(crate) fn is_done(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Moves what can be moved; whether anything was.
    pub(crate) fn progress(&mut self) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while let Some(job) = self.jobs.front_mut() {
            if job.waits_for_connection(self.next.is_some(), self.prev.is_some()) {
                break;
            }
            job.start(self.next.as_deref(), self.prev.as_deref())?;
            // A receive may free a send and a send a receive, so both go on until neither moves.
            loop {
                let pushed = self.next.as_ref().map_or(Ok(false), |link| job.push(link))?;
                let pulled =
                    self.prev.as_ref().map_or(Ok(false), |link| job.pull(link, &mut self.staging))?;
                moved |= pushed || pulled;
                if !pushed && !pulled {
                    break;
                }
            }
            if !job.is_done() {
                break;
            }
            job.events.finish();
            self.jobs.pop_front();
            moved = true;
        }
        Ok(moved)
    }

    /// What it waits for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let job = self.jobs.front();
        let next = self.next.as_ref().filter(|_| job.is_some_and(Job::can_send));
        let prev = self.prev.as_ref().filter(|_| job.is_some_and(Job::can_receive));
        let next = next.map(|link| PollFd::new(&link.stream, PollFlags::OUT));
        next.into_iter().chain(prev.map(|link| PollFd::new(&link.stream, PollFlags::IN)))
    }
}

impl Job {
    fn is_done(&self) -> bool {
        self.sent == self.program.sends.len() && self.received == self.program.recvs.len()
    }

    fn waits_for_connection(&self, next: bool, prev: bool) -> bool {
        (!next && !self.program.sends.is_empty()) || (!prev && !self.program.recvs.is_empty())
    }

    fn can_send(&self) -> bool {
        self.program.sends.get(self.sent).is_some_and(|step| step.after_recvs <= self.received)
    }

    fn can_receive(&self) -> bool {
        self.program.recvs.get(self.received).is_some_and(|step| step.after_sends <= self.sent)
    }

    fn start(&mut self, next: Option<&Link>, prev: Option<&Link>) -> Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let transfers = |link: Option<&Link>, n_steps, chunk_bytes: Option<usize>| {
            link.filter(|_| n_steps > 0).map(|link| Transfers {
                peer: link.peer,
                n_steps,
                chunk_bytes: chunk_bytes.unwrap_or(0),
            })
        };
        let Program { sends, recvs, .. } = &self.program;
        let send = transfers(next, sends.len(), sends.iter().map(|step| step.from.len).max());
        let recv = transfers(prev, recvs.len(), recvs.iter().map(|step| step.into.len).max());
        self.events = self.source.channel(self.channel, send, recv);
        for (from, to) in std::mem::take(&mut self.program.copies) {
            self.buffers.copy(from, to)?;
        }
        Ok(())
    }

    fn push(&mut self, link: &Link) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while self.can_send() {
            let from = self.program.sends[self.sent].from;
            if self.sent_bytes == 0 && !self.events.is_sending() {
                self.events.send_start(self.sent, from.len);
            }
            let Some(count) = self.write(link, from)? else { return Ok(moved) };
            moved = true;
            self.sent_bytes += count;
            if self.sent_bytes == HEADER_BYTES + from.len {
                self.events.send_stop();
                self.sent += 1;
                self.sent_bytes = 0;
            }
        }
        Ok(moved)
    }

    fn write(&self, link: &Link, from: Span) -> std::result::Result<Option<usize>, Fault> {
        let head = self.header(self.sent, from.len).to_bytes();
        let payload = self.buffers.read(from)?;
        let done = self.sent_bytes;
        let parts = [
            IoSlice::new(head.get(done..).unwrap_or(&[])),
            IoSlice::new(&payload[done.saturating_sub(HEADER_BYTES)..]),
        ];
        let socket = SockRef::from(&link.stream);
        loop {
            // Without MSG_NOSIGNAL, a dead peer would end the caller's process by SIGPIPE.
            match socket.send_vectored_with_flags(&parts, libc::MSG_NOSIGNAL) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(self.closed(link)),
            }
        }
    }

    fn header(&self, part: usize, len: usize) -> Header {
        // Parts and their lengths fit: a part is at most STEP_BYTES, and 2^32 parts of it exceed any memory.
        Header {
            part: u32::try_from(part).unwrap_or(u32::MAX),
            len: u32::try_from(len).unwrap_or(0),
            ..self.header
        }
    }

    fn pull(&mut self, link: &Link, staging: &mut Vec<u8>) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while self.can_receive() {
            let step = self.program.recvs[self.received];
            let Some(count) = self.read_some(link, &step, staging)? else { return Ok(moved) };
            moved = true;
            self.received_bytes += count;
            if self.received_bytes == HEADER_BYTES {
                self.check(link, step.into.len)?;
                self.events.recv_start(self.received);
            }
            if self.received_bytes == HEADER_BYTES + step.into.len {
                self.finish(&step, staging)?;
            }
        }
        Ok(moved)
    }

    fn read_some(
        &mut self,
        link: &Link,
        step: &RecvStep,
        staging: &mut Vec<u8>,
    ) -> std::result::Result<Option<usize>, Fault> {
        let done = self.received_bytes;
        let target = if done < HEADER_BYTES {
            &mut self.head[done..]
        } else if step.action == Action::Copy {
            &mut self.buffers.write(step.into)?[done - HEADER_BYTES..]
        } else {
            staging.resize(staging.len().max(step.into.len), 0);
            &mut staging[done - HEADER_BYTES..step.into.len]
        };
        match read(&link.stream, target) {
            Ok(0) => Err(self.closed(link)),
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(self.closed(link)),
        }
    }

    fn finish(&mut self, step: &RecvStep, staging: &[u8]) -> Result<()> {
        if let Action::Reduce { with, last } = step.action {
            self.buffers.copy(with, step.into)?;
            let reduction = self.reduction;
            reduction.apply(self.buffers.write(step.into)?, &staging[..step.into.len], last);
        }
        self.events.recv_stop(step.into.len);
        self.received += 1;
        self.received_bytes = 0;
        Ok(())
    }

    /// A message that is not the one expected means that the ranks called different things.
    fn check(&self, link: &Link, len: usize) -> Result<()> {
        let expected = self.header(self.received, len);
        let Some(got) = Header::from_bytes(&self.head) else {
            return Err(Error::Internal(format!("rank {} sent no valid header", link.peer)));
        };
        if got == expected {
            return Ok(());
        }
        let peer = link.peer;
        let theirs = format!("{} #{}", Primitive::name_of(got.function), got.sequence);
        let why = if (got.function, got.sequence) == (expected.function, expected.sequence) {
            "with another count, data type, operator or root".to_owned()
        } else {
            format!("instead of {} #{}", Primitive::name_of(expected.function), expected.sequence)
        };
        Err(Error::InvalidUsage(format!("rank {peer} called {theirs} {why}")))
    }

    fn closed(&self, link: &Link) -> Fault {
        Fault::Closed { peer: link.peer, label: self.label.clone() }
    }
}

fn read(mut stream: &TcpStream, target: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(target) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
