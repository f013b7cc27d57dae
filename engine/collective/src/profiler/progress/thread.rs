//! What the progress thread does: takes events from its queue, and tells the plugin of them and of itself.
//!
//! Where the plugin asks for ProxyCtrl: Idle and Active as operations stand or move, Sleep and Wakeup when there are none,
//! Append when it takes up new ones. No lock is held while the plugin is called.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{MutexGuard, PoisonError};

use crate::lock::lock;
use crate::profiler::event::{Descriptor, Details, State, Work, kind};
use crate::profiler::plugin::Handle;
use crate::profiler::progress::queue::{Ending, Item, Parent, Queue, Shared};

/// Events that are taken at once: after so many, who waits for room has some.
const BATCH: usize = 256;

/// The thread's own.
pub(super) struct Thread<'a> {
    shared: &'a Shared,
    /// The plugin's handles of events that are not over.
    handles: HashMap<u64, Handle>,
    /// Whether nothing has moved lately.
    idle: bool,
}

impl<'a> Thread<'a> {
    /// Of this queue.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, handles: HashMap::new(), idle: false }
    }

    /// Until the queue ends.
    pub(super) fn run(&mut self) {
        while let Some(batch) = self.take() {
            let is_op = |item: &&Item| {
                matches!(item, Item::Start { work: Work::ProxyOp(_) | Work::KernelCh { .. }, .. })
            };
            let ops = batch.iter().filter(is_op).count();
            if ops > 0 {
                let ops = c_int::try_from(ops).unwrap_or(c_int::MAX);
                self.control(&[State::ProxyCtrlAppend, State::ProxyCtrlAppendEnd(ops)]);
            }
            if self.idle {
                self.idle = false;
                self.control(&[State::ProxyCtrlActive]);
            }
            for item in batch {
                if lock(&self.shared.queue).ending == Ending::Aborted {
                    return;
                }
                self.tell(item);
            }
        }
    }

    /// What is there, once something is; nothing at the end.
    fn take(&mut self) -> Option<Vec<Item>> {
        let shared = self.shared;
        let mut queue = lock(&shared.queue);
        if queue.items.is_empty() && queue.ending == Ending::No {
            drop(queue);
            queue = self.wait();
        }
        let is_over = match queue.ending {
            Ending::No => false,
            Ending::Drained => queue.items.is_empty(),
            Ending::Aborted => true,
        };
        if is_over {
            return None;
        }
        let n = queue.items.len().min(BATCH);
        let batch: Vec<Item> = queue.items.drain(..n).collect();
        let stopped = batch.iter().filter(|item| matches!(item, Item::Stop { .. })).count();
        queue.in_flight -= stopped.min(queue.in_flight);
        shared.left.notify_all();
        Some(batch)
    }

    fn wait(&mut self) -> MutexGuard<'a, Queue> {
        let shared = self.shared;
        if !self.idle {
            self.idle = true;
            self.control(&[State::ProxyCtrlIdle]);
        }
        let sleep = if self.handles.is_empty() { self.control_start() } else { None };
        sleep.into_iter().for_each(|sleep| shared.context.record(sleep, State::ProxyCtrlSleep));
        let mut queue = lock(&shared.queue);
        while queue.items.is_empty() && queue.ending == Ending::No {
            queue.sleeps = true;
            queue = shared.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.sleeps = false;
        let Some(sleep) = sleep else { return queue };
        drop(queue);
        shared.context.record(sleep, State::ProxyCtrlWakeup);
        shared.context.stop(sleep);
        lock(&shared.queue)
    }

    fn tell(&mut self, item: Item) {
        let context = &self.shared.context;
        match item {
            Item::Start { number, parent, rank, work } => {
                let parent = match parent {
                    Parent::Told(handle) => handle,
                    Parent::Queued(number) => self.handles.get(&number).copied().unwrap_or(Handle::NONE),
                };
                let descriptor = Descriptor { parent: parent.pointer(), rank, details: Details::from(work) };
                self.handles.insert(number, context.start(&descriptor));
            }
            Item::State { number, state } => {
                if let Some(handle) = self.handles.get(&number) {
                    context.record(*handle, state);
                }
            }
            Item::Stop { number } => {
                if let Some(handle) = self.handles.remove(&number) {
                    context.stop(handle);
                }
            }
        }
    }

    /// An event of itself, with these states.
    fn control(&self, states: &[State]) {
        let Some(handle) = self.control_start() else { return };
        states.iter().for_each(|state| self.shared.context.record(handle, *state));
        self.shared.context.stop(handle);
    }

    /// The mask counts as it is now, as in NCCL.
    fn control_start(&self) -> Option<Handle> {
        let context = &self.shared.context;
        let wanted = self.shared.tells_control && context.mask() & kind::PROXY_CTRL != 0;
        let control = Descriptor { parent: Handle::NONE.pointer(), rank: 0, details: Details::ProxyCtrl };
        wanted.then(|| context.start(&control))
    }
}
