//! Ring broadcast: a pipelined chain from the root.
//!
//! The root sends its S bytes part by part; every other rank stores each part and passes it on, except the last one
//! before the root. Bytes on the wire: S for every rank but that last one, which sends nothing.

use std::ops::Range;

use crate::collective::program::{Program, Ready};
use crate::memory::{Place, Span};
use crate::topology::RingPlace;

/// The steps for `share`, a channel's range of bytes.
pub(crate) fn program(ring: &RingPlace, share: &Range<usize>, root: usize, rank: usize) -> Program {
    let whole = |place| Span { place, offset: share.start, len: share.len() };
    let mut program = Program::default();
    if rank == root {
        program.copies.push((whole(Place::Send), whole(Place::Recv)));
        program.send(whole(Place::Send), Ready::Now);
        return program;
    }
    let ready = program.recv_copy(whole(Place::Recv));
    if ring.next() != root {
        program.send(whole(Place::Recv), ready);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_last_sends_the_buffer() {
        let order = vec![1, 0, 3, 2];
        let sent =
            |rank| program(&RingPlace::new(order.clone(), rank), &(0..1_000_000), 3, rank).sent_bytes();
        assert_eq!([sent(0), sent(1), sent(2), sent(3)], [0, 1_000_000, 1_000_000, 1_000_000]);
    }
}
