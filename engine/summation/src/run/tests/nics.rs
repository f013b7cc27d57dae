//! Groups whose machines have NICs of different rates.

use super::{PARTITION_BYTES, Shape, Transport, declare, rounds, sum_all, wanted};
use crate::run::members::Role;
use crate::run::nics::Nic;

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

const UNTOLD: Nic = Nic { told: None, measured: None, said: Some(40), measures: true };
const TOLD: Nic = Nic { told: Some(7), ..UNTOLD };
const SILENT: Nic = Nic { measures: false, ..UNTOLD };

/// What all ranks know in the end, after sums that are right, and who owns what.
fn known(hosts: &'static [usize], nics: &'static [Nic]) -> (Vec<Nic>, Vec<u16>) {
    let n_workers = hosts.len() - 1;
    let transport = Transport::Mixed;
    let shape = Shape {
        hosts: Some(hosts),
        nics: Some(nics),
        ..Shape::new(transport, n_workers, 1, PARTITION_BYTES / 25)
    };
    let wanted: Vec<Vec<u8>> = rounds(1).map(|(tensor, round)| wanted(tensor, round, n_workers)).collect();
    let mut ranks = shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            sum_all(&group, worker, 1, &wanted);
        }
        group.finish().unwrap();
        let known = (group.nics().to_vec(), group.placement().unwrap().owners().to_vec());
        group.leave().unwrap();
        known
    });
    assert!(ranks.windows(2).all(|pair| pair[0] == pair[1]), "{ranks:?}");
    ranks.remove(0)
}

#[test]
fn what_nobody_was_told_is_measured_once_for_all() {
    let (nics, owners) = known(&[1, 2, 2, 3, 4], &[UNTOLD, UNTOLD, UNTOLD, TOLD, UNTOLD]);
    assert_eq!(nics[3], TOLD, "of one that was told nothing is measured");
    let measured: Vec<Option<u32>> = nics.iter().map(|nic| nic.measured).collect();
    assert!([0, 1, 2, 4].iter().all(|rank| measured[*rank].is_some_and(|rate| rate > 40)), "{nics:?}");
    assert_eq!(measured[1], measured[2], "two processes of one machine");
    // The told one is the slowest by far, and gets next to nothing.
    let owned = |service: u16| owners.iter().filter(|owner| **owner == service).count();
    assert!(owned(1 + 3) < owned(1), "{owners:?}");
}

#[test]
fn nothing_is_measured_where_one_does_not_want_it_or_all_are_on_one_machine() {
    let (nics, _) = known(&[1, 2, 3], &[UNTOLD, SILENT, UNTOLD]);
    assert_eq!(nics, [UNTOLD, SILENT, UNTOLD]);
    let (nics, _) = known(&[1, 1, 1], &[UNTOLD; 3]);
    assert_eq!(nics, [UNTOLD; 3]);
}
