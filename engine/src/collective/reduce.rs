//! Ring reduce: a pipelined chain to the root.
//!
//! The rank after the root sends its S bytes part by part; every other rank reduces each part with its own and passes it
//! on, and the root keeps the result. Bytes on the wire: S for every rank but the root, which sends nothing.

use std::ops::Range;

use crate::collective::program::{Program, Ready};
use crate::memory::{Place, Span};
use crate::topology::RingPlace;

/// The steps for `share`, a channel's range of elements of `size_bytes`.
pub(crate) fn program(
    ring: &RingPlace,
    share: &Range<usize>,
    size_bytes: usize,
    root: usize,
    rank: usize,
) -> Program {
    let len = share.len() * size_bytes;
    let offset = share.start * size_bytes;
    let own = Span { place: Place::Send, offset, len };
    let mut program = Program::default();
    if ring.prev() == root {
        program.send(own, Ready::Now);
    } else if rank == root {
        program.recv_reduce(Span { place: Place::Recv, offset, len }, own, true, 0);
    } else {
        program.scratch_bytes = len;
        let partial = Span { place: Place::Scratch, offset: 0, len };
        let ready = program.recv_reduce(partial, own, false, 0);
        program.send(partial, ready);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_sends_the_buffer() {
        let order = vec![1, 0, 3, 2];
        let sent = |rank| program(&RingPlace::new(order.clone(), rank), &(0..1000), 4, 3, rank).sent_bytes();
        assert_eq!([sent(0), sent(1), sent(2), sent(3)], [4000, 4000, 4000, 0]);
    }
}
