//! One operation that is being run: how far each queue of its plan is.

use std::sync::Arc;

use crate::collective::operation::Operation;
use crate::collective::plan::{Direction, Outcome, Plan, Slice};
use crate::collective::primitive::Primitive;
use crate::comm::links::{Connector, Links};
use crate::comm::plans::Planned;
use crate::error::Result;
use crate::kernels::Reducer;
use crate::memory::{Buffers, Own};
use crate::net::link::Header;
use crate::run::sink::Target;
use crate::run::source::multiply;
use crate::run::trace::Trace;
use crate::transport::{self, Fault, Progress, RecvHalf, SendHalf};

/// Slices of this size or less go on one after the other; after a larger one, the other connections have their turn.
const SMALL_SLICE_BYTES: usize = 16 * 1024;

/// An operation that is being run.
#[derive(Debug)]
pub(crate) struct Job {
    /// Which primitive.
    pub(crate) primitive: Primitive,
    /// Which operation of its kind.
    pub(crate) sequence: u64,
    planned: Arc<Planned>,
    reducer: Reducer,
    header: Header,
    buffers: Buffers,
    counters: Vec<Counter>,
    trace: Option<Box<Trace>>,
}

/// How far a queue is.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Slices that the transport has whole, or has delivered whole.
    posted: u32,
    /// Slices whose memory may be written again.
    done: u32,
    /// Slices of earlier operations on the same connection.
    base: u64,
}

/// What a job is built on and leaves to the next one.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    own: Own,
    counters: Vec<Counter>,
}

impl Job {
    /// Ready to begin.
    pub(crate) fn new(operation: &Operation, planned: Arc<Planned>, spare: Spare) -> Result<Self> {
        let Spare { own, mut counters } = spare;
        let Plan { scratch_bytes, partial_bytes, .. } = planned.plan;
        counters.clear();
        counters.resize(planned.plan.queues.len(), Counter::default());
        let mut buffers = Buffers::new(operation.send, operation.recv, own, scratch_bytes, partial_bytes);
        if planned.keeps_input {
            let input = buffers.keep_input()?;
            operation.pre_mul.map_or(Ok(()), |operator| multiply(input, operator))?;
        }
        let header = Header {
            function: operation.primitive.code(),
            sequence: operation.sequence,
            signature: planned.signature,
            part: 0,
            len: 0,
        };
        Ok(Self {
            primitive: operation.primitive,
            sequence: operation.sequence,
            reducer: planned.reducer,
            trace: Trace::new(&operation.events, &planned.plan, &planned.is_network),
            planned,
            header,
            buffers,
            counters,
        })
    }

    /// What the next job may use again.
    pub(crate) fn into_spare(mut self) -> Spare {
        Spare { own: self.buffers.take_own(), counters: self.counters }
    }

    /// The plan's queues and the connection of each.
    pub(crate) fn planned(&self) -> &Arc<Planned> {
        &self.planned
    }

    /// What its slices say about themselves, but for their number and length.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Tells a profiler which of its channels begin; whether one listens. See [`Trace::begin_channels`].
    pub(crate) fn begin_channels(&mut self, busy: &mut Vec<u32>) -> bool {
        self.trace.iter_mut().for_each(|trace| trace.begin_channels(busy));
        self.trace.is_some()
    }

    /// Whether a queue is over.
    pub(crate) fn is_done(&self, queue: usize) -> bool {
        self.counters[queue].done as usize == self.planned.plan.queues[queue].slices.len()
    }

    /// Whether a queue's next slice may move.
    pub(crate) fn is_ready(&self, queue: usize) -> bool {
        head(&self.planned.plan, &self.counters, queue).is_some()
    }

    /// Whether a queue waits for the peer, and not for other queues.
    pub(crate) fn waits_for_peer(&self, queue: usize) -> bool {
        let counter = &self.counters[queue];
        self.is_ready(queue) || counter.done < counter.posted
    }

    /// Moves what can be moved of a queue; whether anything was.
    pub(crate) fn step(&mut self, queue: usize, links: &mut Links) -> std::result::Result<bool, Fault> {
        let slot = self.planned.slots[queue];
        match self.planned.plan.queues[queue].direction {
            Direction::Send => links.sends.get_mut(slot).map_or(Ok(false), |end| self.send(queue, end)),
            Direction::Recv => links.recvs.get_mut(slot).map_or(Ok(false), |end| self.recv(queue, end)),
            Direction::Local => self.work(queue),
        }
    }

    fn send(&mut self, queue: usize, end: &mut Connector<dyn SendHalf>) -> std::result::Result<bool, Fault> {
        if end.half.is_none() {
            return Ok(false);
        }
        let mut moved = false;
        if self.counters[queue].posted == 0 {
            self.counters[queue].base = end.parts;
        }
        while self.post(queue, end, &mut moved)? {}
        let counter = &mut self.counters[queue];
        if counter.done < counter.posted
            && let Some(half) = &mut end.half
        {
            let released = half.released()?.saturating_sub(counter.base);
            let done = u32::try_from(released).unwrap_or(u32::MAX).min(counter.posted);
            if done > counter.done {
                moved = true;
                counter.done = done;
                self.trace.iter_mut().for_each(|trace| trace.sent(queue, done));
            }
        }
        Ok(moved)
    }

    /// Posts the next slice; whether to go on with the one after it.
    fn post(
        &mut self,
        queue: usize,
        end: &mut Connector<dyn SendHalf>,
        moved: &mut bool,
    ) -> std::result::Result<bool, Fault> {
        let Self { planned, counters, buffers, trace, header, .. } = self;
        let (Some(slice), Some(half)) = (head(&planned.plan, counters, queue), &mut end.half) else {
            return Ok(false);
        };
        let index = counters[queue].posted;
        let len = slice.from.len;
        trace.iter_mut().for_each(|trace| trace.send_ready(queue, index));
        let payload = buffers.read(slice.from).map_err(Fault::Broken)?;
        let progress = half.post(transport::Part { header: header_of(header, index, len), payload })?;
        if progress == Progress::Idle {
            return Ok(false);
        }
        *moved = true;
        trace.iter_mut().for_each(|trace| trace.send_start(queue, index, len));
        if progress == Progress::Moved {
            return Ok(false);
        }
        counters[queue].posted += 1;
        end.count(len);
        trace.iter_mut().for_each(|trace| trace.send_posted(&planned.plan, queue));
        Ok(len <= SMALL_SLICE_BYTES)
    }

    fn recv(&mut self, queue: usize, end: &mut Connector<dyn RecvHalf>) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while self.pull(queue, end, &mut moved)? {}
        Ok(moved)
    }

    /// Takes what has come of the next slice; whether to go on with the one after it.
    fn pull(
        &mut self,
        queue: usize,
        end: &mut Connector<dyn RecvHalf>,
        moved: &mut bool,
    ) -> std::result::Result<bool, Fault> {
        let Self { planned, counters, buffers, trace, header, reducer, .. } = self;
        let (Some(slice), Some(half)) = (head(&planned.plan, counters, queue), &mut end.half) else {
            return Ok(false);
        };
        let index = counters[queue].posted;
        let len = slice.from.len;
        let mut target = Target::new(buffers, *reducer, slice);
        let progress = half.pull(&header_of(header, index, len), &mut target)?;
        if let Some(error) = target.error() {
            return Err(Fault::Broken(error));
        }
        if progress == Progress::Idle {
            return Ok(false);
        }
        *moved = true;
        if progress == Progress::Moved {
            return Ok(false);
        }
        let counter = &mut counters[queue];
        counter.posted += 1;
        counter.done += 1;
        end.count(len);
        trace.iter_mut().for_each(|trace| trace.received(&planned.plan, queue, index, len));
        Ok(len <= SMALL_SLICE_BYTES)
    }

    fn work(&mut self, queue: usize) -> std::result::Result<bool, Fault> {
        let Self { planned, counters, buffers, trace, reducer, .. } = self;
        let mut moved = false;
        while let Some(slice) = head(&planned.plan, counters, queue) {
            let worked = match slice.outcome {
                Outcome::Store => buffers.copy(slice.from, slice.into),
                Outcome::Reduce { with, shape } => {
                    buffers.reduce_own(*reducer, shape, slice.into, with, slice.from)
                }
            };
            worked.map_err(Fault::Broken)?;
            counters[queue].posted += 1;
            counters[queue].done += 1;
            moved = true;
            if let Some(trace) = trace {
                trace.work_stop(&planned.plan, queue);
            }
            if slice.from.len > SMALL_SLICE_BYTES {
                break;
            }
        }
        Ok(moved)
    }
}

/// A queue's next slice, if all that it waits for is done.
fn head<'a>(plan: &'a Plan, counters: &[Counter], queue: usize) -> Option<&'a Slice> {
    let slice = plan.queues[queue].slices.get(counters[queue].posted as usize)?;
    let ready = |(queue, count): &(u32, u32)| counters[*queue as usize].done >= *count;
    plan.waits(slice).iter().all(ready).then_some(slice)
}

/// Slices and their lengths fit into 32 bits: a slice is at most 512 KiB.
fn header_of(header: &Header, part: u32, len: usize) -> Header {
    Header { part, len: u32::try_from(len).unwrap_or(0), ..*header }
}
