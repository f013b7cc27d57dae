//! A communicator on described machines: what the log says of its connections when operations begin, and of how long its init
//! took.

use crate::collective::nccl::Taken;
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::Comm;
use crate::comm::spans::Spans;
use crate::comm::wiring::{Line, Own, Wiring};
use crate::lock::lock;
use crate::log::{machine, subsystem};

impl Comm {
    /// Operations begin, on this thread: where NCCL connects with the first collective, the log says now what init has
    /// connected.
    pub(crate) fn connect_at_runtime(&self, operations: &[Operation]) {
        let lines = match (self.on_machine(), &self.wiring) {
            (Some(own), Some(wiring)) => {
                let mut wiring = lock(wiring);
                operations.iter().flat_map(|operation| self.wire(&own, &mut wiring, operation)).collect()
            }
            _ if self.connects_late => std::mem::take(&mut *lock(&self.late_lines)),
            _ => return,
        };
        lines.iter().for_each(|(subsystem, line)| self.info(*subsystem, line));
        if !lines.is_empty() {
            self.start_progress();
        }
    }

    /// What an operation connects on a described machine: rings, trees or NVLS unless init has, and what is sent and received.
    fn wire(&self, own: &Own<'_>, wiring: &mut Wiring, operation: &Operation) -> Vec<Line> {
        let all = |sends: bool| (0..self.n_ranks).map(move |peer| (peer, sends));
        let with_root = |root: usize, sends: bool| {
            let of_root = all(sends).filter(move |_| root == self.rank);
            of_root.chain((root != self.rank).then_some((root, !sends)))
        };
        match operation.primitive {
            Primitive::Send { peer } => wiring.pairs(own, std::iter::once((peer, true))),
            Primitive::Recv { peer } => wiring.pairs(own, std::iter::once((peer, false))),
            Primitive::AllToAll => wiring.pairs(own, all(true).chain(all(false))),
            Primitive::Gather { root } => wiring.pairs(own, with_root(root, false)),
            Primitive::Scatter { root } => wiring.pairs(own, with_root(root, true)),
            _ if !self.connects_late => Vec::new(),
            _ => match self.taken(operation, self.whole_bytes(operation)) {
                Taken::Ring => wiring.rings(own),
                Taken::Tree => wiring.trees(own),
                Taken::Nvls | Taken::NvlsTree => wiring.nvls(own),
            },
        }
    }

    /// This rank on its machine, if one is described.
    pub(crate) fn on_machine(&self) -> Option<Own<'_>> {
        let machine = (self.topology.machine.as_ref()?, &self.topology);
        let limits = Self::limits(&self.settings, &self.config);
        Some(Own::new(machine, (&self.identity, &self.rings), &self.settings.machine, limits))
    }

    /// The GPU that a communicator made from this one takes over.
    pub(super) fn given_device(&self) -> Option<u32> {
        self.topology.machine.as_ref().map(|machine| machine.device(self.rank))
    }

    /// How long the init took, which NCCL writes at its end.
    pub(super) fn note_timings(&self, spans: &Spans) {
        if self.is_silent() {
            let parts = [spans.total(), spans.bootstrap, spans.graphs, spans.connections];
            let line = machine::timings(&self.identity, parts.map(|part| part.as_secs_f64()));
            self.info(subsystem::INIT | subsystem::PROFILE, &line);
        }
    }
}
