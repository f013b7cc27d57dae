//! The operations of one communicator of which not all ranks have told yet.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_wire::Primitive;
use rustc_hash::FxHashMap;

use super::super::Completed;
use super::HostId;

/// After this long nobody tells any more of an operation: agents wait for two seconds at most with what is no news.
const AWAITED: Duration = Duration::from_secs(10);
/// Operations that are waited for at once: four times what ranks tell in that time at the level counters.
const MAX_OPEN: usize = 96;
/// Of a communicator over thousands of hosts fewer: so many words of hosts, each some 60 bytes ...
const MAX_SIDES: usize = 1 << 16;
/// ... but so many operations all the same.
const FEWEST_OPEN: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// By when they were heard of first.
    open: VecDeque<Open>,
    /// Operations are looked at whose number is divisible by two to the power of this: where all are told, it is more than
    /// is of use.
    log2: u32,
    /// When that changed last.
    changed_ns: u64,
}

/// What the ranks of a host told of one operation, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) host: HostId,
    /// When the first of them completed it.
    pub(super) completed_ns: u64,
    /// When the last of them called it.
    pub(super) called_ns: u64,
    /// When the last of them began it: its start where that was told, else its call.
    pub(super) begun_ns: u64,
    /// When the last of them completed it.
    pub(super) done_ns: u64,
    /// How long it took the one of them that took the least.
    pub(super) least_ns: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    primitive: Primitive,
    /// The most that any rank told.
    bytes: u64,
    n_told: u32,
    /// Of these, those that called this primitive; and of these, those of which the start was told.
    n_same: u32,
    n_started: u32,
    at_ns: u64,
    /// By host: of a large communicator there are thousands.
    sides: FxHashMap<HostId, Side>,
}

/// An operation of which nothing more is told.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) primitive: Primitive,
    pub(super) bytes: u64,
    /// When it completed.
    pub(super) at_ns: u64,
    /// Whether all ranks have told of it, and of the same one.
    pub(super) is_whole: bool,
    /// Whether the start was told by all that told of it.
    pub(super) is_started: bool,
    /// What its hosts told.
    pub(super) sides: Vec<Side>,
}

impl Side {
    /// What one rank told.
    pub(super) fn of(host: HostId, operation: &Completed) -> Self {
        let (called_ns, completed_ns) = (operation.issued_at_ns, operation.completed_at_ns);
        let begun_ns = operation.started_at_ns.unwrap_or(called_ns).clamp(called_ns, completed_ns);
        Self {
            host,
            completed_ns,
            called_ns,
            begun_ns,
            done_ns: completed_ns,
            least_ns: completed_ns - begun_ns,
        }
    }
}

impl Gathered {
    /// Takes a rank's word. Returns the operations of which nothing more will come.
    pub(super) fn take(
        &mut self,
        (number, operation): (u64, &Completed),
        host: HostId,
        n_ranks: u32,
        at_ns: u64,
    ) -> Vec<Settled> {
        let mut settled = Vec::new();
        let is_old = |open: &Open| at_ns.saturating_sub(open.at_ns) > nanos(AWAITED);
        while self.open.front().is_some_and(is_old) {
            settled.extend(self.open.pop_front().map(Open::settled));
        }
        if number.trailing_zeros() < self.log2 {
            return settled;
        }
        let place = match self.open.iter().rposition(|open| open.number == number) {
            Some(place) => place,
            None => {
                self.make_room(at_ns);
                if number.trailing_zeros() < self.log2 {
                    return settled;
                }
                self.open.push_back(Open {
                    number,
                    primitive: operation.primitive,
                    bytes: 0,
                    n_told: 0,
                    n_same: 0,
                    n_started: 0,
                    at_ns,
                    sides: FxHashMap::default(),
                });
                self.open.len() - 1
            }
        };
        if self.open.get_mut(place).is_some_and(|open| open.tell(host, operation) >= n_ranks) {
            let whole = |open: Open| Settled { is_whole: open.n_same >= n_ranks, ..open.settled() };
            settled.extend(self.open.remove(place).map(whole));
        }
        settled
    }

    /// Whether nothing more will come of what it has.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        self.open.back().is_none_or(|open| now_ns.saturating_sub(open.at_ns) > 2 * nanos(AWAITED))
    }

    /// What is left.
    pub(super) fn rest(self) -> impl Iterator<Item = Settled> {
        self.open.into_iter().map(Open::settled)
    }

    /// The hosts that have told of one of these.
    pub(super) fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.open.iter().flat_map(|open| open.sides.keys().copied())
    }

    /// Looks at fewer operations where more are told than can be waited for, and at more where few are left.
    fn make_room(&mut self, at_ns: u64) {
        let n_hosts = self.open.iter().map(|open| open.sides.len()).max().unwrap_or_default();
        let most = (MAX_SIDES / n_hosts.max(1)).clamp(FEWEST_OPEN, MAX_OPEN);
        if self.open.len() >= most {
            self.changed_ns = at_ns;
            while self.open.len() > most / 2 && self.log2 < 63 {
                self.log2 += 1;
                let log2 = self.log2;
                self.open.retain(|open| open.number.trailing_zeros() >= log2);
            }
        } else if self.log2 > 0
            && self.open.len() < most / 8
            && at_ns.saturating_sub(self.changed_ns) > nanos(AWAITED)
        {
            self.log2 -= 1;
            self.changed_ns = at_ns;
        }
    }
}

impl Open {
    /// Returns how many ranks have told.
    fn tell(&mut self, host: HostId, operation: &Completed) -> u32 {
        self.n_told += 1;
        // Who called something else at this place has not completed the same operation.
        if operation.primitive == self.primitive {
            self.n_same += 1;
            self.n_started += u32::from(operation.started_at_ns.is_some());
            self.bytes = self.bytes.max(operation.bytes);
            let told = Side::of(host, operation);
            let side = self.sides.entry(host).or_insert(told);
            side.completed_ns = side.completed_ns.min(told.completed_ns);
            side.called_ns = side.called_ns.max(told.called_ns);
            side.begun_ns = side.begun_ns.max(told.begun_ns);
            side.done_ns = side.done_ns.max(told.done_ns);
            side.least_ns = side.least_ns.min(told.least_ns);
        }
        self.n_told
    }

    fn settled(self) -> Settled {
        Settled {
            primitive: self.primitive,
            bytes: self.bytes,
            at_ns: self.at_ns,
            is_whole: false,
            is_started: self.n_started == self.n_same,
            sides: self.sides.into_values().collect(),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
