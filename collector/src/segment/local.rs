//! What one thread remembers between calls. Constant-initialised and without destructors: it is there until the thread's
//! last instruction. The C library allocates it at the thread's first call, as we are opened by `dlopen`.

use std::cell::Cell;

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::segment::closers::Closer;
use crate::segment::ticks;
use ringscope_wire::segment::calls::layout::Thread;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

/// Communicator inits that one group can hold open at once; more are not counted
/// (`DropReason::CommunicatorTableFull`). `ncclCommInitAll`-like loops make one per GPU of the process.
pub(crate) const MAX_PENDING: usize = 64;

/// A communicator whose init was called in a group: it is there when the group has ended.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) pointer: Pointer,
    /// Its slot.
    pub(crate) slot: usize,
    /// Its parent's.
    pub(crate) parent: Option<usize>,
}

/// The pointer to a communicator whose init was called in a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// The library has given it in the call. Its place is the caller's again.
    Given(u64),
    /// The library will write it here when the group ends: the address of the caller's `ncclComm_t`.
    At(usize),
}

/// A [`Pending`] in less room: pointer or address, slot, and the parent's slot plus one or 0, with [`IS_GIVEN`].
type Deferred = (u64, u16, u16);

/// The first word is the pointer.
const IS_GIVEN: u16 = 1 << 15;
const _: () = assert!(MAX_COMMUNICATORS < IS_GIVEN as usize);

/// Communicators of one group that are remembered. Those of a group with more are looked for among all.
const MAX_GROUP_SLOTS: usize = 64;

/// Distinct (communicator, primitive, stream) of one group: a process that drives eight GPUs, each with a send and a receive,
/// has sixteen. A group with more is counted as issued before its end; should it then fail, its end is
/// not known.
pub(crate) const MAX_GROUP_SUMS: usize = 32;

/// What the calls of a group come to for one (communicator, primitive) that are closed alike.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) slot: usize,
    pub(crate) primitive: usize,
    pub(crate) closer: Closer,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    /// Sum of the ticks at which they were called.
    pub(crate) issued_ticks: u64,
    /// Ticks of the last.
    pub(crate) last_ticks: u64,
    /// Their tickets lie from here ...
    pub(crate) first_ticket: u64,
    /// ... to before here.
    pub(crate) end_ticket: u64,
}

const NO_SUM: Sum = Sum {
    slot: 0,
    primitive: 0,
    closer: Closer::Profiler,
    calls: 0,
    bytes: 0,
    issued_ticks: 0,
    last_ticks: 0,
    first_ticket: 0,
    end_ticket: 0,
};

pub(crate) struct Local {
    /// This thread is inside the real library: what arrives now is the library calling itself.
    inside: Cell<bool>,
    /// The copy of the library that it is in, or was in last.
    pub(crate) library: Cell<usize>,
    /// Ticket plus one of the record whose call is being forwarded; 0 if none.
    pub(crate) current: Cell<u64>,
    /// The ticket after the one that was used last; where a block begins there, it has no more ([`super::places`]).
    pub(crate) next_ticket: Cell<u64>,
    /// Slot that the last call found.
    pub(crate) last_slot: Cell<usize>,
    /// Stream events that the last call found.
    pub(crate) last_stream_events: Cell<usize>,
    /// Slot and stream of the group's last call, and who closes it.
    pub(crate) group_closer: Cell<Option<(usize, u64, Closer)>>,
    /// Number and name of the stream that the last call found.
    pub(crate) last_stream: Cell<(u64, u32)>,
    /// The thread's entry in the segment, and whether it has been looked for.
    pub(crate) thread: Cell<Option<&'static Thread>>,
    pub(crate) has_looked_for_thread: Cell<bool>,
    /// Function that is being forwarded, by its number; only of those that are no operation.
    pub(crate) function: Cell<u8>,
    /// Number of the open group, 0 while it has no call.
    pub(crate) group: Cell<u64>,
    /// Slots with calls in the group.
    group_slots: [Cell<u16>; MAX_GROUP_SLOTS],
    /// How many there are; more than fit if some were not remembered.
    n_group_slots: Cell<usize>,
    /// Open `ncclGroupStart`s.
    pub(crate) group_depth: Cell<u32>,
    /// Ticket plus one of the group's newest record; 0 if it has none.
    pub(crate) group_last: Cell<u64>,
    /// Records in the group.
    pub(crate) group_len: Cell<usize>,
    group_sums: [Cell<Sum>; MAX_GROUP_SUMS],
    n_group_sums: Cell<usize>,
    /// Slot plus one of the communicator whose init is being forwarded; 0 if none.
    pub(crate) forming: Cell<usize>,
    pending: [Cell<Deferred>; MAX_PENDING],
    n_pending: Cell<usize>,
    laid_by: Cell<Option<LaidBy>>,
}

/// What of a thread is its process's: records and slots.
#[derive(Clone, Copy)]
struct LaidBy {
    current: u64,
    next_ticket: u64,
    group: u64,
    group_closer: Option<(usize, u64, Closer)>,
    group_last: u64,
    group_len: usize,
    thread: Option<&'static Thread>,
    has_looked_for_thread: bool,
    forming: usize,
    n_group_sums: usize,
    n_group_slots: usize,
    n_pending: usize,
}

const NOTHING: LaidBy = LaidBy {
    current: 0,
    next_ticket: 0,
    group: 0,
    group_closer: None,
    group_last: 0,
    group_len: 0,
    thread: None,
    has_looked_for_thread: false,
    forming: 0,
    n_group_sums: 0,
    n_group_slots: 0,
    n_pending: 0,
};

thread_local! {
    static LOCAL: Local = const {
        Local {
            inside: Cell::new(false),
            library: Cell::new(0),
            current: Cell::new(0),
            next_ticket: Cell::new(0),
            last_slot: Cell::new(0),
            last_stream_events: Cell::new(0),
            group_closer: Cell::new(None),
            last_stream: Cell::new((0, 0)),
            thread: Cell::new(None),
            has_looked_for_thread: Cell::new(false),
            function: Cell::new(0),
            group: Cell::new(0),
            group_slots: [const { Cell::new(0) }; MAX_GROUP_SLOTS],
            n_group_slots: Cell::new(0),
            group_depth: Cell::new(0),
            group_last: Cell::new(0),
            group_len: Cell::new(0),
            group_sums: [const { Cell::new(NO_SUM) }; MAX_GROUP_SUMS],
            n_group_sums: Cell::new(0),
            forming: Cell::new(0),
            pending: [const { Cell::new((0, 0, 0)) }; MAX_PENDING],
            n_pending: Cell::new(0),
            laid_by: Cell::new(None),
        }
    };
}

/// Runs `f` on this thread's memory.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

/// While it lives, calls of this thread come from inside the library. Ends also when an exception passes.
pub(crate) struct Inside<'a> {
    local: &'a Local,
    thread: Option<&'static Thread>,
    is_slow: bool,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.local.inside.set(false);
        self.local.current.set(0);
        if let Some(thread) = self.thread {
            let returned = if self.is_slow { ticks::now() } else { thread.entered_ticks.load(Relaxed) };
            thread.returned_ticks.store(returned, Release);
        }
    }
}

impl Local {
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.get()
    }

    /// Marks the thread as inside the library, on behalf of the record `current` (ticket plus one, or 0). What it entered
    /// in its entry in the segment, if it did, ends with it.
    #[inline(always)]
    pub(crate) fn enter(&self, current: u64, thread: Option<&'static Thread>) -> Inside<'_> {
        self.inside.set(true);
        self.current.set(current);
        Inside { local: self, thread, is_slow: false }
    }

    /// The same for a call that may take long, and has no record.
    pub(crate) fn enter_slow(&self, thread: Option<&'static Thread>) -> Inside<'_> {
        let mut inside = self.enter(0, thread);
        inside.is_slow = true;
        inside
    }

    /// Keeps a communicator's slot for the end of the group.
    #[inline(always)]
    pub(crate) fn note_group_slot(&self, slot: usize) {
        let used = self.n_group_slots.get();
        // The newest first: the calls of one communicator mostly follow each other.
        if self.group_slots().rev().any(|known| known == slot) {
            return;
        }
        if let Some(cell) = self.group_slots.get(used) {
            cell.set(u16::try_from(slot).unwrap_or_default());
        }
        self.n_group_slots.set(used + 1);
    }

    /// The slots with calls in the group, as far as they are remembered.
    pub(crate) fn group_slots(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.group_slots.iter().take(self.n_group_slots.get()).map(|slot| usize::from(slot.get()))
    }

    /// Whether these are all.
    pub(crate) fn has_all_group_slots(&self) -> bool {
        self.n_group_slots.get() <= MAX_GROUP_SLOTS
    }

    /// Forgets them.
    pub(crate) fn clear_group_slots(&self) {
        self.n_group_slots.set(0);
    }

    /// Adds a call to its group's sums; false if there is no room.
    pub(crate) fn add_to_group(&self, call: &Sum) -> bool {
        let used = self.n_group_sums.get();
        // The newest first: the calls of one communicator mostly follow each other.
        let known = self.group_sums.iter().take(used).rev().find(|sum| {
            let sum = sum.get();
            sum.slot == call.slot && sum.primitive == call.primitive && sum.closer == call.closer
        });
        if let Some(cell) = known {
            let sum = cell.get();
            cell.set(Sum {
                calls: sum.calls + call.calls,
                bytes: sum.bytes.wrapping_add(call.bytes),
                issued_ticks: sum.issued_ticks.wrapping_add(call.issued_ticks),
                last_ticks: call.last_ticks,
                end_ticket: call.end_ticket,
                ..sum
            });
            return true;
        }
        let Some(cell) = self.group_sums.get(used) else { return false };
        cell.set(*call);
        self.n_group_sums.set(used + 1);
        true
    }

    /// The sums of the group.
    pub(crate) fn group_sums(&self) -> impl Iterator<Item = Sum> + '_ {
        self.group_sums.iter().take(self.n_group_sums.get()).map(Cell::get)
    }

    /// Forgets the group's records and sums.
    pub(crate) fn clear_group(&self) {
        self.group_last.set(0);
        self.group_len.set(0);
        self.n_group_sums.set(0);
        self.group_closer.set(None);
    }

    /// Keeps a communicator for the end of the group; false if there is no room.
    pub(crate) fn defer(&self, pending: Pending) -> bool {
        let at = self.n_pending.get();
        let Some(cell) = self.pending.get(at) else { return false };
        let narrow = |slot: usize| u16::try_from(slot).unwrap_or_default();
        let parent = pending.parent.map_or(0, |parent| narrow(parent + 1));
        cell.set(match pending.pointer {
            Pointer::Given(pointer) => (pointer, narrow(pending.slot), parent | IS_GIVEN),
            Pointer::At(address) => (address as u64, narrow(pending.slot), parent),
        });
        self.n_pending.set(at + 1);
        true
    }

    /// The communicators kept for the end of the group; they are forgotten.
    pub(crate) fn take_pending(&self) -> impl Iterator<Item = Pending> + '_ {
        self.pending.iter().take(self.n_pending.take()).map(|cell| {
            let (word, slot, parent) = cell.get();
            let is_given = parent & IS_GIVEN != 0;
            let pointer = if is_given {
                Pointer::Given(word)
            } else {
                Pointer::At(usize::try_from(word).unwrap_or_default())
            };
            let parent = usize::from(parent & !IS_GIVEN).checked_sub(1);
            Pending { pointer, slot: slot.into(), parent }
        })
    }

    /// Before a fork: the child is to know nothing of its parent's records and slots.
    pub(crate) fn lay_by(&self) {
        self.laid_by.set(Some(LaidBy {
            current: self.current.get(),
            next_ticket: self.next_ticket.get(),
            group: self.group.get(),
            group_closer: self.group_closer.get(),
            group_last: self.group_last.get(),
            group_len: self.group_len.get(),
            thread: self.thread.get(),
            has_looked_for_thread: self.has_looked_for_thread.get(),
            forming: self.forming.get(),
            n_group_sums: self.n_group_sums.get(),
            n_group_slots: self.n_group_slots.get(),
            n_pending: self.n_pending.get(),
        }));
        self.forget();
    }

    /// After it, in the parent.
    pub(crate) fn take_back(&self) {
        if let Some(laid_by) = self.laid_by.take() {
            self.put(&laid_by);
        }
    }

    /// In a forked child that was made without [`Local::lay_by`].
    pub(crate) fn forget(&self) {
        self.put(&NOTHING);
    }

    fn put(&self, of: &LaidBy) {
        self.current.set(of.current);
        self.next_ticket.set(of.next_ticket);
        self.group.set(of.group);
        self.group_closer.set(of.group_closer);
        self.group_last.set(of.group_last);
        self.group_len.set(of.group_len);
        self.thread.set(of.thread);
        self.has_looked_for_thread.set(of.has_looked_for_thread);
        self.forming.set(of.forming);
        self.n_group_sums.set(of.n_group_sums);
        self.n_group_slots.set(of.n_group_slots);
        self.n_pending.set(of.n_pending);
    }
}

#[cfg(test)]
mod tests {
    use super::with;

    #[test]
    fn a_child_finds_nothing_and_the_parent_has_all_back() {
        with(|local| {
            let set = || {
                local.next_ticket.set(7);
                local.group.set(3);
                local.note_group_slot(5);
                local.forming.set(2);
                local.has_looked_for_thread.set(true);
            };
            let told = || {
                let slots: Vec<usize> = local.group_slots().collect();
                (local.next_ticket.get(), local.group.get(), slots, local.forming.get())
            };
            set();
            local.lay_by();
            assert_eq!(told(), (0, 0, vec![], 0));
            assert!(!local.has_looked_for_thread.get());
            local.take_back();
            assert_eq!(told(), (7, 3, vec![5], 2));
            assert!(local.has_looked_for_thread.get());
            // The end of a fork whose beginning was not seen.
            local.take_back();
            assert_eq!(told(), (7, 3, vec![5], 2));
            local.forget();
            assert_eq!(told(), (0, 0, vec![], 0));
        });
    }
}
