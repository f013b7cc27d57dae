//! What a plugin is told while an operation runs: KernelCh of its channels, ProxyOp and ProxyStep of its connections.
//!
//! They come from the thread that runs the operation; in the faithful mode the progress thread tells them, so that they may
//! come after the operation is over.

use crate::clock;
use crate::collective::primitive::Primitive;
use crate::comm::links::P2P_CHANNEL;
use crate::profiler::emit::{OperationEvents, TRANSFERS, Task, byte, int};
use crate::profiler::event::{ProxyOp, State, Work, kind};
use crate::profiler::teller::Event;

/// What a channel will transfer in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfers {
    /// With whom.
    pub(crate) peer: usize,
    /// How many.
    pub(crate) n_steps: usize,
    /// The largest.
    pub(crate) chunk_bytes: usize,
}

impl OperationEvents {
    /// Whether connections within a host have no proxy, as in NCCL.
    pub(crate) fn has_proxies_of_networks_alone(&self) -> bool {
        self.faithful.is_some()
    }

    /// A channel begins its work: one event for each task that is on it.
    pub(crate) fn kernel_start(&self, channel: u32) -> Vec<Event> {
        let Some(teller) = self.teller.as_ref().filter(|_| self.mask & kind::KERNEL_CH != 0) else {
            return Vec::new();
        };
        let kernel = Work::KernelCh { channel_id: channel_id(channel), p_timer: clock::monotonic_ns() };
        self.tasks.iter().filter_map(|task| teller.start(task.task.map(Event::Told), 0, kernel)).collect()
    }

    /// A channel has done its work.
    pub(crate) fn kernel_stop(&self, kernels: &[Event]) {
        let Some(teller) = &self.teller else { return };
        for kernel in kernels {
            teller.record(*kernel, State::KernelChStop(clock::monotonic_ns()));
            teller.stop(*kernel);
        }
    }

    /// A connection begins to carry the operation in one direction.
    pub(crate) fn proxy_op(&self, channel: u32, transfers: Transfers, is_send: bool) -> Option<Event> {
        let teller = self.teller.as_ref().filter(|_| self.mask & TRANSFERS != 0)?;
        let proxy_op = ProxyOp {
            pid: int(std::process::id() as usize),
            channel_id: channel_id(channel),
            peer: int(transfers.peer),
            n_steps: int(transfers.n_steps),
            chunk_size: int(transfers.chunk_bytes),
            is_send,
        };
        let with = if is_send {
            Primitive::Send { peer: transfers.peer }
        } else {
            Primitive::Recv { peer: transfers.peer }
        };
        let task = self.tasks.iter().find(|task| task.primitive == with).or(self.tasks.first())?.task;
        let op = teller.start(task.map(Event::Told), self.rank, Work::ProxyOp(proxy_op))?;
        self.in_faithful(op, State::ProxyOpInProgress);
        Some(op)
    }

    /// Steps of one connection under way at most: `NCCL_STEPS` buffers, of which a step takes `…_SLICESTEPS`
    /// (`src/include/device.h`, `src/include/collectives.h`).
    pub(crate) fn steps_at_once(&self) -> u32 {
        let is_sliced = |task: &Task| {
            let primitive = task.primitive;
            matches!(primitive, Primitive::AllReduce | Primitive::AllGather | Primitive::ReduceScatter)
        };
        if self.tasks.first().is_some_and(is_sliced) { 4 } else { 8 }
    }

    /// There is a buffer for a part to be sent.
    pub(crate) fn send_step(&self, op: Option<Event>, index: u32) -> Option<Event> {
        let step = self.proxy_step(op, index)?;
        self.in_faithful(step, State::SendGpuWait);
        Some(step)
    }

    /// There is a buffer for a part to be received.
    pub(crate) fn recv_step(&self, op: Option<Event>, index: u32) -> Option<Event> {
        let step = self.proxy_step(op, index)?;
        self.in_faithful(step, State::RecvWait);
        Some(step)
    }

    /// A step begins.
    pub(crate) fn proxy_step(&self, op: Option<Event>, index: u32) -> Option<Event> {
        let wanted = self.mask & (kind::PROXY_STEP | kind::NET_PLUGIN) != 0;
        let teller = self.teller.as_ref().filter(|_| wanted)?;
        teller.start(op, self.rank, Work::ProxyStep { step: int(index as usize) })
    }

    /// A part may be sent: what it waits for is the peer.
    pub(crate) fn ready(&self, step: Option<Event>) {
        step.into_iter().for_each(|step| self.in_faithful(step, State::SendPeerWait));
    }

    /// A part of `bytes` is being sent.
    pub(crate) fn sending(&self, step: Option<Event>, bytes: usize) {
        if let (Some(teller), Some(step)) = (&self.teller, step) {
            teller.record(step, State::SendWait(bytes));
        }
    }

    /// A part of `bytes` has been received.
    pub(crate) fn received(&self, step: Option<Event>, bytes: usize) {
        if let (Some(teller), Some(step)) = (&self.teller, step) {
            teller.record(step, State::RecvFlushWait(bytes));
            self.in_faithful(step, State::RecvGpuWait);
        }
    }

    fn in_faithful(&self, event: Event, state: State) {
        if let Some(teller) = self.teller.as_ref().filter(|_| self.faithful.is_some()) {
            teller.record(event, state);
        }
    }

    /// An event is over.
    pub(crate) fn stop(&self, event: Option<Event>) {
        if let (Some(teller), Some(event)) = (&self.teller, event) {
            teller.stop(event);
        }
    }
}

/// Sends and receives are the first channel's, as far as a profiler can tell.
fn channel_id(channel: u32) -> u8 {
    if channel == P2P_CHANNEL { 0 } else { byte(channel as usize) }
}
