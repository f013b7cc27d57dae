//! Groups whose machines have NICs of different rates.

use super::{PARTITION_BYTES, Shape, Transport, declare, rounds, sum_all, wanted};
use crate::run::members::Role;

#[test]
fn slow_machines_own_less_and_all_processes_place_alike() {
    let rates = [10_000, 10_000, 4_000, 1_000];
    let shape = Shape { nic_mbit: Some(rates), ..Shape::new(Transport::Tcp, 3, 1, PARTITION_BYTES / 25) };
    let wanted: Vec<Vec<u8>> = rounds(2).map(|(tensor, round)| wanted(tensor, round, 3)).collect();
    let placements = shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            sum_all(&group, worker, 2, &wanted);
        }
        group.finish().unwrap();
        let placement = group.placement().unwrap();
        group.leave().unwrap();
        (placement.owners().to_vec(), placement.owned_bytes().to_vec())
    });
    assert!(placements.windows(2).all(|pair| pair[0] == pair[1]), "{placements:?}");
    let [server, fast, also_fast, slow] = placements[0].1[..] else { panic!("{placements:?}") };
    assert!(server < fast && slow < fast && slow < also_fast, "{placements:?}");
}
