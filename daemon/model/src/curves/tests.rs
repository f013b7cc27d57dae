//! Operations of known times, and what is made of them.

use ringscope_samples::cluster::{Cluster, at, batch};
use ringscope_wire::batch::{Batch, Process};

use super::super::Model;
use super::*;

const US: u64 = 1_000;

fn timed(bytes: u64, us: u64) -> Timed {
    let primitive = Primitive::AllReduce;
    Timed { primitive, bytes, ns: us * US, at: at(1), n_hosts: 1, is_aligned: true, is_started: false }
}

fn comm(index: usize) -> CommunicatorId {
    format!("{index:012x}").parse().unwrap()
}

/// Lets all ranks tell of operations: those of a host call at `called_us`, complete `took_us` after the last call, by a clock that is
/// ahead of ours.
fn tell(cluster: &Cluster, numbers: std::ops::Range<u64>, hosts: &[(u64, u64, u64)]) -> Model {
    let mut model = Model::new();
    let last_us = hosts.iter().map(|(_, called_us, _)| called_us).max().unwrap();
    let told = |rank: u32| {
        let mut process = cluster.process(rank);
        let (ahead_us, called_us, took_us) = hosts[rank as usize % hosts.len()];
        let operation = |number: u64| {
            let mut operation = cluster.operation(number, 10 + number, Some(11));
            operation.call_number = Some(number);
            operation.bytes = 4096;
            operation.issued_at_ns += (ahead_us + called_us) * US;
            operation.completed_at_ns = Some(at(10 + number).0 + (ahead_us + last_us + took_us) * US);
            operation
        };
        process.completed_operations = numbers.clone().map(operation).collect();
        process
    };
    for rank in 0..cluster.n_ranks() {
        hear(&mut model, told(rank), hosts[rank as usize % hosts.len()].0);
    }
    model
}

/// Takes a process from an agent of its own, whose clock is so far ahead.
fn hear(model: &mut Model, process: Process, ahead_us: u64) {
    let told = batch(1, 60, Vec::new());
    let (agent_id, sent_at_ns) = (process.key.clone(), told.sent_at_ns + ahead_us * US);
    model.apply(&Batch { agent_id, sent_at_ns, processes: vec![process], ..told }, at(60));
}

fn only(model: &Model, cluster: &Cluster) -> (Timed, u64, u64) {
    let curve = model.curve(cluster.id()).unwrap();
    let sizes: Vec<_> = curve.sizes().collect();
    assert_eq!((sizes.len(), sizes[0].0, sizes[0].1), (1, Primitive::AllReduce, 12));
    (sizes[0].2.median().unwrap(), sizes[0].2.n(), sizes[0].2.n_aligned())
}

#[test]
fn of_one_host_the_time_goes_from_the_last_call_to_the_last_completion() {
    let cluster = Cluster::new(&[("a", 2, 2)], 2);
    let model = tell(&cluster, 0..8, &[(0, 0, 100), (0, 5_000, 90)]);
    let (median, n, n_aligned) = only(&model, &cluster);
    assert_eq!((median.ns, n, n_aligned), (100 * US, 8, 8));
    assert!((median.bytes_per_s() - 40_960_000.0).abs() < 1.0);
    let curve = model.curve(cluster.id()).unwrap();
    assert_eq!((curve.n_ranks(), curve.n_hosts()), (2, 1));
}

#[test]
fn an_operation_that_was_queued_counts_from_its_start() {
    let cluster = Cluster::new(&[("a", 2, 2)], 2);
    let mut model = Model::new();
    let mut processes = cluster.processes();
    for process in &mut processes {
        let mut operation = cluster.operation(0, 10, Some(13));
        (operation.call_number, operation.started_at_ns) = (Some(0), Some(at(12).0));
        process.completed_operations = vec![operation];
    }
    model.apply(&batch(1, 60, processes), at(60));
    let (_, _, size) = model.curve(cluster.id()).unwrap().sizes().next().unwrap();
    let newest: Vec<_> = size.newest().map(|timed| (timed.ns, timed.is_started)).collect();
    assert_eq!(newest, [(1_000_000_000, true)]);
}

#[test]
fn of_hosts_whose_clocks_are_not_known_well_the_least_time_of_a_rank_counts() {
    let cluster = Cluster::new(&[("a", 1, 2), ("b", 1, 2)], 2);
    // Host b always calls 5 ms later, and its clock is 30 s ahead.
    let model = tell(&cluster, 0..8, &[(0, 0, 100), (30_000_000, 5_000, 90)]);
    let (median, n, n_aligned) = only(&model, &cluster);
    assert_eq!((median.ns, n, n_aligned), (90 * US, 8, 0));
    assert_eq!(model.curve(cluster.id()).unwrap().n_hosts(), 2);
}

#[test]
fn of_hosts_whose_clocks_short_operations_tell_a_long_one_is_timed_by_all_of_them() {
    let cluster = Cluster::new(&[("a", 1, 2), ("b", 1, 2)], 2);
    let mut model = Model::new();
    let told = |rank: u32| {
        let mut process = cluster.process(rank);
        // Host b's clock is 30 s ahead. Of the long one it calls 2 ms later and is through 1 ms later.
        let (ahead_us, late_us) = (u64::from(rank) * 30_000_000, u64::from(rank) * 1_000);
        let operation = |number: u64| {
            let mut operation = cluster.operation(number, 10 + number, Some(11));
            let (called_us, done_us) = if number == 16 { (2 * late_us, 40_000 + late_us) } else { (0, 100) };
            operation.call_number = Some(number);
            operation.issued_at_ns += (ahead_us + called_us) * US;
            operation.completed_at_ns = Some(at(10 + number).0 + (ahead_us + done_us) * US);
            operation
        };
        process.completed_operations = (0..=16).map(operation).collect();
        process
    };
    hear(&mut model, told(0), 0);
    hear(&mut model, told(1), 30_000_000);
    let (_, _, size) = model.curve(cluster.id()).unwrap().sizes().next().unwrap();
    let newest = *size.newest().next_back().unwrap();
    assert!(newest.is_aligned, "{newest:?}");
    assert!(newest.ns.abs_diff(39_000 * US) < 100 * US, "{newest:?}");
}

#[test]
fn what_some_ranks_have_not_told_has_no_time() {
    let cluster = Cluster::new(&[("a", 2, 2)], 2);
    let mut model = Model::new();
    let mut processes = cluster.processes();
    let mut operation = cluster.operation(0, 10, Some(11));
    operation.call_number = Some(0);
    processes[0].completed_operations = vec![operation];
    model.apply(&batch(1, 60, processes), at(60));
    assert!(model.curve(cluster.id()).is_none());
}

#[test]
fn the_best_is_the_middle_of_eight_and_stays() {
    let mut curves = Curves::default();
    let mut losses = Losses::default();
    let mut take = |us: u64, n: usize| {
        (0..n).for_each(|_| curves.take(comm(0), 2, timed(4096, us), &mut losses));
    };
    // One that was fast by chance, then eight that were fast, then many that were not.
    take(1, 1);
    take(50, 15);
    take(200, 48);
    let curve = curves.of(comm(0)).unwrap();
    let size = curve.size(Primitive::AllReduce, 12).unwrap();
    assert_eq!(size.best().unwrap().ns, 50 * US);
    assert_eq!((size.median().unwrap().ns, size.least_ns(), size.n()), (200 * US, 200 * US, 64));
    assert_eq!(size.newest().len(), NEWEST);
    curves.take(comm(0), 2, timed(4096, 264), &mut losses);
    let mean = curves.of(comm(0)).and_then(|curve| curve.size(Primitive::AllReduce, 12)?.mean()).unwrap();
    assert_eq!((mean.ns, mean.bytes), (202 * US, 4096));
}

#[test]
fn sizes_are_bounded_and_those_of_what_is_forgotten_are_free_again() {
    let (mut curves, mut losses) = (Curves::default(), Losses::default());
    for index in 0..=MAX_SIZES {
        curves.take(comm(index), 2, timed(4096, 1), &mut losses);
    }
    assert_eq!(losses.by_reason().get("size_limit"), Some(&1));
    curves.forget(comm(0));
    curves.take(comm(1), 2, timed(1 << 20, 1), &mut losses);
    assert_eq!(curves.of(comm(1)).unwrap().sizes().count(), 2);
}

#[test]
fn factors_are_those_of_nccl_tests() {
    for (primitive, alg, bus) in [
        (Primitive::AllReduce, 1.0, 1.5),
        (Primitive::AllGather, 4.0, 3.0),
        (Primitive::ReduceScatter, 4.0, 3.0),
        (Primitive::AllToAll, 4.0, 3.0),
        (Primitive::Broadcast, 1.0, 1.0),
        (Primitive::Send, 1.0, 1.0),
    ] {
        let factors = (alg_factor(primitive, 4), bus_factor(primitive, 4));
        assert_eq!(factors, (alg, bus), "{primitive}");
    }
}
