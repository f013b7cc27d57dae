//! Ring all-reduce: reduce-scatter, then all-gather.
//!
//! The buffer of S bytes is cut over the channels, a channel's share into n chunks, one per rank. With p the rank's
//! place in the ring, in step j of n−1 it sends chunk p−j and reduces chunk p−j−1 with what arrives; after that, chunk
//! p+1 is whole. In step j of n−1 more it sends chunk p+1−j and stores chunk p−j.
//!
//! Bytes on the wire: a rank sends 2S less two of its chunks, in each channel; all ranks together exactly 2(n−1)·S; each
//! rank exactly 2(n−1)/n·S where n·channels divides the number of elements. No rank can send less than (n−1)/n·S in
//! either half, since that much of the result depends on the others (Patarasuk and Yuan, 2009).
//!
//! Chunk c of the receive buffer is overwritten with the result only after this rank's partial sum of it has travelled
//! the whole ring, so its send is over: no step waits for a send.

use std::ops::Range;

use crate::collective::partition::part;
use crate::collective::program::{Program, Ready};
use crate::memory::{Place, Span};
use crate::topology::RingPlace;

/// The steps for `share`, a channel's range of elements of `size_bytes`.
pub(crate) fn program(ring: &RingPlace, share: &Range<usize>, size_bytes: usize) -> Program {
    let n_ranks = ring.order.len();
    let chunk = |place: Place, steps_behind: usize| {
        let range = part(share.len(), n_ranks, ring.behind(steps_behind));
        Span { place, offset: (share.start + range.start) * size_bytes, len: range.len() * size_bytes }
    };
    let mut program = Program::default();
    let mut ready = Ready::Now;
    for step in 0..n_ranks - 1 {
        let source = if step == 0 { Place::Send } else { Place::Recv };
        program.send(chunk(source, step), ready);
        let last = step == n_ranks - 2;
        ready = program.recv_reduce(chunk(Place::Recv, step + 1), chunk(Place::Send, step + 1), last, 0);
    }
    for step in n_ranks - 1..2 * (n_ranks - 1) {
        program.send(chunk(Place::Recv, step), ready);
        ready = program.recv_copy(chunk(Place::Recv, step + 1));
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(n_ranks: usize, count: usize) -> Vec<usize> {
        let place = |rank| RingPlace::new((0..n_ranks).collect(), rank);
        (0..n_ranks).map(|rank| program(&place(rank), &(0..count), 4).sent_bytes()).collect()
    }

    #[test]
    fn all_ranks_together_send_twice_n_less_one_times_the_buffer() {
        for n_ranks in 2..9 {
            for count in [0, 1, 7, 64, 1000, 300_001] {
                assert_eq!(sent(n_ranks, count).iter().sum::<usize>(), 2 * (n_ranks - 1) * count * 4);
            }
        }
    }

    #[test]
    fn each_rank_sends_the_same_where_it_divides() {
        assert_eq!(sent(4, 1000), [2 * 3 * 1000; 4]);
    }
}
