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
}

pub(crate) struct Local {
    /// This thread is inside the real library: what arrives now is the library calling itself.
    inside: Cell<bool>,
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
    /// Slot plus one of the communicator whose init is being forwarded; 0 if none.
    pub(crate) forming: Cell<usize>,
    pending: [Cell<Pending>; MAX_PENDING],
    n_pending: Cell<usize>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            inside: Cell::new(false),
            current: Cell::new(0),
            last_slot: Cell::new(0),
            group_depth: Cell::new(0),
            group_last: Cell::new(0),
            group_len: Cell::new(0),
            forming: Cell::new(0),
            pending: [const { Cell::new(Pending { comm_address: 0, slot: 0 }) }; MAX_PENDING],
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
        self.group_last.set(0);
        self.group_len.set(0);
        self.forming.set(0);
        self.n_pending.set(0);
    }
}
