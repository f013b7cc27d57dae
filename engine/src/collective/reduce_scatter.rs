//! Ring reduce-scatter: the first half of all-reduce, with whole blocks for chunks.
//!
//! The send buffer has n blocks of S bytes in rank order; rank r gets the reduction of block r. With p the rank's place
//! in the ring, in step j of n−1 it sends the block of the rank at p−1−j and reduces that of the rank at p−2−j with
//! what arrives; the last is its own. A channel carries the same slice of every block. Bytes on the wire: (n−1)·S per
//! rank.
//!
//! Partial sums live in two scratch halves by turns, since the send buffer is the caller's. A receive into a half waits
//! until the send from it, two steps before, is over.

use std::ops::Range;

use crate::collective::program::{Program, Ready};
use crate::memory::{Place, Span};
use crate::topology::RingPlace;

/// The steps for `share`, a channel's range of elements of `size_bytes` in each block of `block_count` elements.
pub(crate) fn program(
    ring: &RingPlace,
    share: &Range<usize>,
    block_count: usize,
    size_bytes: usize,
) -> Program {
    let n_ranks = ring.order.len();
    let len = share.len() * size_bytes;
    let block = |steps_behind: usize| Span {
        place: Place::Send,
        offset: (ring.behind(steps_behind) * block_count + share.start) * size_bytes,
        len,
    };
    let half = |step: usize| Span { place: Place::Scratch, offset: (step % 2) * len, len };
    let result = Span { place: Place::Recv, offset: share.start * size_bytes, len };
    let mut program = Program { scratch_bytes: if n_ranks > 2 { 2 * len } else { 0 }, ..Program::default() };
    let mut ready = Ready::Now;
    for step in 0..n_ranks - 1 {
        program.send(if step == 0 { block(1) } else { half(step - 1) }, ready);
        let last = step == n_ranks - 2;
        let into = if last { result } else { half(step) };
        // At `step`, the sends queued so far end with half(step-1); those of half(step-2) end one chunk before.
        let chunk_sends = program.sends.len() / (step + 1);
        let after_sends = if step >= 2 && !last { step * chunk_sends } else { 0 };
        ready = program.recv_reduce(into, block(step + 2), last, after_sends);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_sends_all_blocks_but_one() {
        let ring = RingPlace::new(vec![0, 1, 2, 3], 2);
        assert_eq!(program(&ring, &(0..1000), 1000, 4).sent_bytes(), 3 * 4000);
    }

    #[test]
    fn a_scratch_half_is_reused_only_after_its_send() {
        let ring = RingPlace::new((0..6).collect(), 2);
        let program = program(&ring, &(0..300_000), 300_000, 4);
        for recv in program.recvs.iter().filter(|recv| recv.into.place == Place::Scratch) {
            let index = program.recvs.iter().position(|other| other == recv).unwrap();
            let sends = program.sends.iter().take_while(|send| send.after_recvs <= index);
            let clash = sends.enumerate().filter(|(_, send)| send.from == recv.into).map(|(at, _)| at).last();
            assert!(clash.is_none_or(|at| at < recv.after_sends), "{recv:?} overtakes send {clash:?}");
        }
    }
}
