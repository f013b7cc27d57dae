//! What waits to be told: put there by whoever runs the operations, taken by the progress thread.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex};

use crate::profiler::event::{State, Work};
use crate::profiler::plugin::{Context, Handle};

/// What is above an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent {
    /// One of which the plugin has been told.
    Told(Handle),
    /// One before it in the same queue.
    Queued(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Start { number: u64, parent: Parent, rank: c_int, work: Work },
    State { number: u64, state: State },
    Stop { number: u64 },
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) context: Arc<Context>,
    /// Whether it is the thread of the proxies, which tells of itself.
    pub(super) tells_control: bool,
    pub(super) queue: Mutex<Queue>,
    pub(super) came: Condvar,
    pub(super) left: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) items: VecDeque<Item>,
    /// The number of the last event that began.
    pub(super) last: u64,
    /// Events that began and have not been told to be over.
    pub(super) in_flight: usize,
    pub(super) dropped: u64,
    pub(super) has_thread: bool,
    pub(super) sleeps: bool,
    pub(super) ending: Ending,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    No,
    /// Once all is told.
    Drained,
    /// Now: what was not told never is.
    Aborted,
}
