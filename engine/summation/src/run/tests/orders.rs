//! Groups whose workers submit in orders of their own, and tensors that go before others.

use super::{Shape, TENSORS, Transport, contribution, declare, mix, reduction, rounds, wanted};
use crate::run::members::Role;
use crate::worker;
use rsccl_collective::memory::Region;

const N_ROUNDS: u64 = 3;

/// Every round of every tensor: the rounds of a tensor in order, all else at random.
fn order(seed: u64) -> Vec<(usize, u64)> {
    let mut next = [0; TENSORS.len()];
    let mut order = Vec::new();
    for turn in 0.. {
        let open: Vec<usize> = (0..next.len()).filter(|tensor| next[*tensor] < N_ROUNDS).collect();
        let Some(drawn) = mix(seed ^ mix(turn)).checked_rem(open.len() as u64) else { break };
        let tensor = open[usize::try_from(drawn).unwrap()];
        order.push((tensor, next[tensor]));
        next[tensor] += 1;
    }
    order
}

fn sums_are_right_in_any_order(seed: u64) {
    let transport = [Transport::Tcp, Transport::Shm, Transport::Mixed][usize::try_from(seed % 3).unwrap()];
    let credits = worker::Settings {
        credit_bytes_per_server: 1,
        patience_ns: 1_000_000,
        frame_bytes: 4000,
        ..worker::Settings::default()
    };
    let shape = Shape { pipeline: credits, ..Shape::new(transport, 3, 1, 10_000) };
    let wanted: Vec<Vec<u8>> = rounds(N_ROUNDS).map(|(tensor, round)| wanted(tensor, round, 3)).collect();
    shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            let order = order(mix(seed) ^ worker as u64);
            let mut buffers: Vec<Vec<u8>> =
                order.iter().map(|(tensor, round)| contribution(*tensor, *round, worker)).collect();
            let submit = |((tensor, _), bytes): (&(usize, u64), &mut Vec<u8>)| {
                let region = Region::of_slice_mut(bytes);
                group.push_pull(*tensor, region, region, reduction(*tensor)).unwrap()
            };
            let handles: Vec<_> = order.iter().zip(&mut buffers).map(submit).collect();
            handles.iter().for_each(|handle| handle.wait().unwrap());
            for ((tensor, round), got) in order.iter().zip(&buffers) {
                let wanted = &wanted[usize::try_from(*round).unwrap() * TENSORS.len() + tensor];
                assert!(got == wanted, "seed {seed}: round {round} of tensor {tensor} on {worker}");
            }
        }
        group.leave().unwrap();
    });
}

#[test]
fn workers_that_submit_in_any_orders_never_wait_for_each_other() {
    (0..45).for_each(sums_are_right_in_any_order);
}
