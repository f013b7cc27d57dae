//! Two communicators of known times.

use ringscope_samples::cluster::{Cluster, at, batch};

use super::*;

/// Lets all ranks tell of operations, which all call at once: bytes, microseconds and how many.
fn tell(model: &mut Model, cluster: &Cluster, seq_number: u64, told: &[(u64, u64, usize)]) {
    let mut processes = cluster.processes();
    for process in &mut processes {
        let all = told.iter().flat_map(|(bytes, us, n)| std::iter::repeat_n((*bytes, *us), *n));
        let operations = all.zip(0..).map(|((bytes, us), number)| {
            let mut operation = cluster.operation(number, 10, None);
            operation.bytes = bytes;
            operation.call_number = Some(number);
            operation.completed_at_ns = Some(at(10).0 + us * 1_000);
            operation
        });
        process.completed_operations = operations.collect();
    }
    model.apply(&batch(seq_number, 20, processes), at(20));
}

#[test]
fn each_size_stands_beside_the_best_of_its_like() {
    let cluster = Cluster::new(&[("a", 4, 2)], 2);
    let other = cluster.again(0xdef, 8, 5);
    let small = Cluster { job: "small", ..Cluster::new(&[("a", 2, 2)], 2) };
    let mut model = Model::new();
    tell(&mut model, &cluster, 1, &[(4096, 100, 8), (5000, 100, 3), (1 << 20, 2_000, 2)]);
    tell(&mut model, &other, 2, &[(4096, 50, 8), (1 << 22, 4_000, 8)]);
    tell(&mut model, &small, 3, &[(4096, 1, 8)]);
    let shown = bandwidths(&model, &cluster.id().to_string()).unwrap();
    assert_eq!((shown.n_ranks, shown.n_hosts, shown.n_like), (4, Some(1), 1));
    let [curve] = &shown.curves[..] else { panic!("{:?}", shown.curves) };
    let sizes: Vec<_> = curve.sizes.iter().map(|size| (size.from_bytes, size.n_operations)).collect();
    assert_eq!((&*curve.primitive, &sizes[..]), ("all_reduce", &[(4096, 11), (1 << 20, 2)][..]));
    let large = &curve.sizes[1];
    assert!((large.algorithm_bytes_per_s - 524_288_000.0).abs() < 1.0, "{large:?}");
    assert!((large.bus_bytes_per_s - 1.5 * 524_288_000.0).abs() < 1.0, "{large:?}");
    assert!((large.seconds - 0.002).abs() < 1e-9 && large.n_by_clocks == 2, "{large:?}");
    // The other one's is twice as fast, and knows a size more. Two operations make no best.
    let best: Vec<_> = curve.best.iter().map(|best| (best.from_bytes, &*best.comm)).collect();
    let other_id = other.id().to_string();
    assert_eq!(best, [(4096, &*other_id), (1 << 22, &*other_id)]);
    assert!((curve.best[0].bus_bytes_per_s - 1.5 * 81_920_000.0).abs() < 1.0, "{:?}", curve.best);
}

#[test]
fn what_is_not_known_is_said() {
    let cluster = Cluster::new(&[("a", 2, 2)], 2);
    let mut model = Model::new();
    let lacks = |model: &Model| bandwidths(model, &cluster.id().to_string()).unwrap().lacks;
    tell(&mut model, &cluster, 1, &[]);
    assert!(lacks(&model)[0].starts_with("No operation was timed"), "{:?}", lacks(&model));
    tell(&mut model, &cluster, 2, &[(4096, 100, 8)]);
    let said = lacks(&model);
    assert!(said.iter().any(|words| words.starts_with("Times begin with the program's call")), "{said:?}");
    assert!(said.iter().any(|words| words.starts_with("No other communicator")), "{said:?}");
    assert!(bandwidths(&model, "000000000000").is_none() && bandwidths(&model, "x").is_none());
}
