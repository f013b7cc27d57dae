//! What one thread remembers between calls. Constant-initialised and without destructors, so that it costs no
//! allocation and is there until the thread's last instruction.

use std::cell::Cell;

/// Communicator inits that one group can hold open at once; more are not counted
/// (`DropReason::CommunicatorTableFull`). `ncclCommInitAll`-like loops make one per GPU of the process.
pub(crate) const MAX_PENDING: usize = 64;

/// A communicator whose init was called in a group: its pointer is only there when the group has ended.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// Address of the caller's `ncclComm_t`.
    pub(crate) comm_address: usize,
    /// Its slot.
    pub(crate) slot: usize,
    /// Its parent's.
    pub(crate) parent: Option<usize>,
}

/// Distinct (communicator, primitive) of one group: a process that drives eight GPUs, each with a send and a receive,
/// has sixteen. A group with more is counted as issued before its end.
pub(crate) const MAX_GROUP_SUMS: usize = 32;

/// What the calls of a group come to for one (communicator, primitive).
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) slot: usize,
    pub(crate) primitive: usize,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

const NO_SUM: Sum = Sum { slot: 0, primitive: 0, calls: 0, bytes: 0 };

pub(crate) struct Local {
    /// This thread is inside the real library: what arrives now is the library calling itself.
    inside: Cell<bool>,
    /// The copy of the library that it is in, or was in last.
    pub(crate) library: Cell<usize>,
    /// Ticket plus one of the record whose call is being forwarded; 0 if none.
    pub(crate) current: Cell<u64>,
    /// Slot that the last call found.
    pub(crate) last_slot: Cell<usize>,
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
    pending: [Cell<Pending>; MAX_PENDING],
    n_pending: Cell<usize>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            inside: Cell::new(false),
            library: Cell::new(0),
            current: Cell::new(0),
            last_slot: Cell::new(0),
            group_depth: Cell::new(0),
            group_last: Cell::new(0),
            group_len: Cell::new(0),
            group_sums: [const { Cell::new(NO_SUM) }; MAX_GROUP_SUMS],
            n_group_sums: Cell::new(0),
            forming: Cell::new(0),
            pending: [const { Cell::new(Pending { comm_address: 0, slot: 0, parent: None }) }; MAX_PENDING],
            n_pending: Cell::new(0),
        }
    };
}

/// Runs `f` on this thread's memory.
#[inline(always)]
pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

/// While it lives, calls of this thread come from inside the library. Ends also when an exception passes.
pub(crate) struct Inside<'a>(&'a Local);

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.inside.set(false);
        self.0.current.set(0);
    }
}

impl Local {
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.get()
    }

    /// Marks the thread as inside the library, on behalf of the record `current` (ticket plus one, or 0).
    #[inline(always)]
    pub(crate) fn enter(&self, current: u64) -> Inside<'_> {
        self.inside.set(true);
        self.current.set(current);
        Inside(self)
    }

    /// Adds a call to its group's sums; false if there is no room.
    pub(crate) fn add_to_group(&self, slot: usize, primitive: usize, bytes: u64) -> bool {
        let used = self.n_group_sums.get();
        // The newest first: the calls of one communicator mostly follow each other.
        let known = self.group_sums.iter().take(used).rev().find(|sum| {
            let sum = sum.get();
            sum.slot == slot && sum.primitive == primitive
        });
        if let Some(cell) = known {
            let sum = cell.get();
            cell.set(Sum { calls: sum.calls + 1, bytes: sum.bytes.wrapping_add(bytes), ..sum });
            return true;
        }
        let Some(cell) = self.group_sums.get(used) else { return false };
        cell.set(Sum { slot, primitive, calls: 1, bytes });
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
    }

    /// Keeps a communicator for the end of the group; false if there is no room.
    pub(crate) fn defer(&self, pending: Pending) -> bool {
        let at = self.n_pending.get();
        let Some(cell) = self.pending.get(at) else { return false };
        cell.set(pending);
        self.n_pending.set(at + 1);
        true
    }

    /// The communicators kept for the end of the group; they are forgotten.
    pub(crate) fn take_pending(&self) -> impl Iterator<Item = Pending> + '_ {
        self.pending.iter().take(self.n_pending.take()).map(Cell::get)
    }

    /// In a forked child: the records and slots that it remembers are the parent's.
    pub(crate) fn forget(&self) {
        self.current.set(0);
        self.clear_group();
        self.forming.set(0);
        self.n_pending.set(0);
    }
}
