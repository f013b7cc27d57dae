//! The rounds of a step: every worker pushes every part to its owner, and gets the sum from there.
//!
//! A worker asks its port for one push after the other, so that what its own service answers goes in between, as with
//! one sender for both. A part that its worker owns touches no NIC on that machine. What comes in asks the port of the receiver
//! when its first byte is there; so a part is in when its last byte has left and travelled, unless the port is busy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rsccl::summation::placement::assign::Placement;
use rsccl::summation::tensor::Declarations;

use crate::fabric::{Nanos, Nic, Port};

/// A tensor of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    /// When its gradients are there, on all workers.
    pub(crate) ready: Nanos,
}

/// What is simulated.
pub(crate) struct Step<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) declarations: &'a Declarations,
    pub(crate) placement: &'a Placement,
    pub(crate) n_workers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A worker's sender is free for its next part.
    Pushes { worker: u32, part: u32 },
    /// A contribution comes in at the owner's port.
    Contributes { part: u32, left: Nanos },
    /// A contribution is there.
    Added { part: u32 },
    /// A sum comes in at a worker's port.
    Returns { worker: u32, part: u32, left: Nanos },
}

/// A part, as far as it matters here.
struct Part {
    bytes: u64,
    ready: Nanos,
    /// Service; servers come first.
    owner: usize,
    /// Contributions that are still to come.
    missing: usize,
}

struct Run<'a> {
    step: &'a Step<'a>,
    nic: Nic,
    parts: Vec<Part>,
    /// By service.
    out: Vec<Port>,
    into: Vec<Port>,
    due: BinaryHeap<Reverse<(Nanos, What)>>,
    end: Nanos,
}

impl Step<'_> {
    /// When the last worker has the last sum.
    pub(crate) fn simulate(&self, nic: Nic, n_services: usize) -> Nanos {
        let part = |part: rsccl::summation::tensor::Part| Part {
            bytes: part.size_bytes,
            ready: self.messages[part.tensor].ready,
            owner: self.placement.owner(part.key).map_or(0, usize::from),
            missing: self.n_workers,
        };
        let ports = || vec![Port::default(); n_services];
        let parts = self.declarations.parts().map(part).collect();
        let run = Run { step: self, nic, parts, out: ports(), into: ports(), due: BinaryHeap::new(), end: 0 };
        run.until_done()
    }
}

impl Run<'_> {
    fn until_done(mut self) -> Nanos {
        for worker in 0..index(self.step.n_workers) {
            self.when(0, What::Pushes { worker, part: 0 });
        }
        while let Some(Reverse((now, what))) = self.due.pop() {
            match what {
                What::Pushes { worker, part } => self.push(now, worker, part),
                What::Contributes { part, left } => {
                    let Part { owner, bytes, .. } = self.parts[part as usize];
                    let at = self.receive(now, owner, bytes, left);
                    self.when(at, What::Added { part });
                }
                What::Added { part } => self.add(now, part),
                What::Returns { worker, part, left } => {
                    let bytes = self.parts[part as usize].bytes;
                    let service = self.service(worker);
                    self.end = self.end.max(self.receive(now, service, bytes, left));
                }
            }
        }
        self.end
    }

    fn push(&mut self, now: Nanos, worker: u32, index: u32) {
        let Some(&Part { bytes, ready, owner, .. }) = self.parts.get(index as usize) else { return };
        if ready > now {
            return self.when(ready, What::Pushes { worker, part: index });
        }
        let service = self.service(worker);
        let next = What::Pushes { worker, part: index + 1 };
        if service == owner {
            self.when(now, What::Added { part: index });
            return self.when(now, next);
        }
        let (begins, left) = self.out[service].serve(self.nic, bytes, now);
        self.when(begins + self.nic.latency, What::Contributes { part: index, left });
        self.when(left, next);
    }

    fn add(&mut self, now: Nanos, index: u32) {
        let part = &mut self.parts[index as usize];
        part.missing -= 1;
        if part.missing > 0 {
            return;
        }
        self.end = self.end.max(now);
        let (bytes, owner) = (part.bytes, part.owner);
        for worker in (0..self::index(self.step.n_workers))
            .filter(|worker| self.service(*worker) != owner)
            .collect::<Vec<_>>()
        {
            let (begins, left) = self.out[owner].serve(self.nic, bytes, now);
            self.when(begins + self.nic.latency, What::Returns { worker, part: index, left });
        }
    }

    /// When what left its sender at `left` is in.
    fn receive(&mut self, now: Nanos, service: usize, bytes: u64, left: Nanos) -> Nanos {
        let (_, in_at) = self.into[service].serve(self.nic, bytes, now);
        in_at.max(left + self.nic.latency)
    }

    fn service(&self, worker: u32) -> usize {
        self.out.len() - self.step.n_workers + worker as usize
    }

    fn when(&mut self, at: Nanos, what: What) {
        self.due.push(Reverse((at, what)));
    }
}

#[expect(clippy::cast_possible_truncation, reason = "there are 65 536 services at most")]
fn index(n: usize) -> u32 {
    n as u32
}
