//! Ring all-gather: every rank's block travels round the ring.
//!
//! Each rank contributes S bytes; the receive buffer has n blocks in rank order. With p the rank's place in the ring, in
//! step j of n−1 it sends the block of the rank at p−j and stores the block of the rank at p−j−1. A channel carries the
//! same slice of every block. Bytes on the wire: (n−1)·S per rank, which no algorithm can lower for what a rank
//! receives.

use std::ops::Range;

use crate::collective::program::{Program, Ready};
use crate::memory::{Place, Span};
use crate::topology::RingPlace;

/// The steps for `share`, a channel's range of bytes in each block of `block_bytes`.
pub(crate) fn program(ring: &RingPlace, share: &Range<usize>, block_bytes: usize) -> Program {
    let block = |steps_behind: usize| Span {
        place: Place::Recv,
        offset: ring.behind(steps_behind) * block_bytes + share.start,
        len: share.len(),
    };
    let own = Span { place: Place::Send, offset: share.start, len: share.len() };
    let mut program = Program { copies: vec![(own, block(0))], ..Program::default() };
    let mut ready = Ready::Now;
    for step in 0..ring.order.len() - 1 {
        program.send(if step == 0 { own } else { block(step) }, ready);
        ready = program.recv_copy(block(step + 1));
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_sends_all_blocks_but_one() {
        let ring = RingPlace::new(vec![2, 0, 1], 0);
        assert_eq!(program(&ring, &(0..1_000_001), 1_000_001).sent_bytes(), 2 * 1_000_001);
    }
}
