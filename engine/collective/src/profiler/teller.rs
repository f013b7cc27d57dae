//! Who tells one communicator's plugin of what: calls and tasks on the calling thread, and what happens while an operation
//! runs on the progress thread in the faithful mode, at once without it.

use std::ffi::c_int;
use std::sync::Arc;

use crate::faithful::Version;
use crate::profiler::event::{Descriptor, Details, State, Work};
use crate::profiler::plugin::{Context, Handle};
use crate::profiler::progress::{Parent, Progress, WhenFull};

/// A communicator's plugin.
#[derive(Debug)]
pub(crate) struct Teller {
    /// Proxies' first; the last is that of the channels. None without the faithful mode.
    threads: Vec<Progress>,
    context: Arc<Context>,
}

/// An event that begins while an operation runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The plugin has been told of it.
    Told(Handle),
    /// It is in the queue of this thread.
    Queued { thread: usize, number: u64 },
}

impl Teller {
    /// Of a communicator with `n_local` ranks on this one's node.
    pub(crate) fn new(context: Context, nccl: Option<Version>, n_local: usize) -> Self {
        let context = Arc::new(context);
        let thread = |name: &str, when_full| {
            // NCCL's names, if `NCCL_SET_THREAD_NAME` is 1; the number is that of the local ranks.
            Progress::new(Arc::clone(&context), format!("{name}{n_local:2}"), when_full)
        };
        let mut threads = Vec::new();
        if let Some(version) = nccl {
            threads.push(thread("NCCL Progress", WhenFull::Wait));
            if version >= Version::V2_32 {
                threads.push(thread("NCCL Profiler", WhenFull::Drop));
            }
        }
        Self { threads, context }
    }

    /// For what is told at once.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Connections of a network are there, and with them the thread that moves what they carry.
    pub(crate) fn start_progress(&self) {
        self.threads.first().into_iter().for_each(Progress::begin);
    }

    /// An event begins.
    pub(crate) fn start(&self, parent: Option<Event>, rank: c_int, work: Work) -> Option<Event> {
        let is_kernel = matches!(work, Work::KernelCh { .. });
        let thread = if is_kernel { self.threads.len().saturating_sub(1) } else { 0 };
        let Some(progress) = self.threads.get(thread) else {
            let parent = if let Some(Event::Told(parent)) = parent { parent } else { Handle::NONE };
            let descriptor = Descriptor { parent: parent.pointer(), rank, details: Details::from(work) };
            return Some(Event::Told(self.context.start(&descriptor)));
        };
        let parent = match parent {
            Some(Event::Queued { number, .. }) => Parent::Queued(number),
            Some(Event::Told(handle)) => Parent::Told(handle),
            None => Parent::Told(Handle::NONE),
        };
        progress.start(parent, rank, work).map(|number| Event::Queued { thread, number })
    }

    /// Something happens to it.
    pub(crate) fn record(&self, event: Event, state: State) {
        match event {
            Event::Told(handle) => self.context.record(handle, state),
            Event::Queued { thread, number } => {
                self.threads.get(thread).into_iter().for_each(|thread| thread.record(number, state));
            }
        }
    }

    /// It is over.
    pub(crate) fn stop(&self, event: Event) {
        match event {
            Event::Told(handle) => self.context.stop(handle),
            Event::Queued { thread, number } => {
                self.threads.get(thread).into_iter().for_each(|thread| thread.stop(number));
            }
        }
    }

    /// The communicator is aborted: what is not told never is, so that nobody waits for a slow plugin.
    pub(crate) fn abort(&self) {
        self.threads.iter().for_each(Progress::abort);
    }

    /// Ends the threads, once what is left is told, unless it was aborted.
    pub(crate) fn stop_progress(&self) {
        self.threads.iter().for_each(Progress::end);
    }

    /// The communicator ends: what is left is told, and then the plugin that it is over.
    pub(crate) fn end(&self) {
        self.stop_progress();
        self.context.finalize();
    }
}
