//! What the discipline of the pipeline is worth, over simulated NICs of 100 Mbit/s with 95.4 % for payload.

use super::simulated::{Discipline, Outcome, Setup, run};
use super::{Part, Settings};

const BYTES_PER_S: f64 = 0.954 * 100e6 / 8.0;
const MODEL_BYTES: u64 = 24_000_000;
const UNBOUNDED: u64 = 1 << 40;

fn settings(frame_bytes: u64, credit_bytes_per_server: u64, credit_bytes: u64) -> Settings {
    Settings { frame_bytes, credit_bytes_per_server, credit_bytes, ..Settings::default() }
}

/// One server on each of `k` machines, with equal shares.
fn parameter_servers(n: usize, k: usize, settings: Settings) -> Setup {
    Setup {
        n_workers: n,
        node_of_server: (n..n + k).collect(),
        shares: vec![1.0 / k as f64; k],
        bytes_per_s: BYTES_PER_S,
        latency_ns: 50_000,
        window_bytes: 4 * settings.frame_bytes,
        discipline: Discipline::Proportional,
        settings,
        stopped: None,
        tensors: Vec::new(),
        orders: Vec::new(),
    }
}

fn part(key: u32, server: usize, bytes: u64) -> Part {
    Part { key, server, bytes, compress: false }
}

/// `bytes` in rows of `row_bytes`: a part of equal size for each of `k` servers.
fn rows(first_key: u32, bytes: u64, row_bytes: u64, k: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let row = row_bytes.min(left);
        for server in 0..k {
            let key = first_key + u32::try_from(parts.len()).unwrap();
            parts.push(part(key, server, row / k as u64));
        }
        left -= row;
    }
    parts
}

#[test]
fn small_parts_hide_the_way_back_behind_the_way_there() {
    let mut times = Vec::new();
    for (row_bytes, published_s) in
        [(MODEL_BYTES, 4.03), (4_000_000, 2.35), (1_000_000, 2.10), (64_000, 2.02)]
    {
        let mut setup = parameter_servers(4, 4, settings(16_000, UNBOUNDED, UNBOUNDED));
        setup.tensors = vec![(0, rows(0, MODEL_BYTES, row_bytes, 4))];
        let measured = run(&setup).end_s();
        let predicted = (MODEL_BYTES + row_bytes) as f64 / BYTES_PER_S;
        assert!((measured / published_s - 1.0).abs() < 0.05, "{row_bytes}: {measured} s");
        assert!((measured / predicted - 1.0).abs() < 0.05, "{row_bytes}: {measured} s");
        times.push(measured);
    }
    assert!(times.is_sorted_by(|longer, shorter| longer > shorter), "{times:?}");
}

/// Four workers and two machines of their own: 0.3 of the bytes to each of these, 0.1 to each worker (Eq. 1 and 2).
fn optimal_shares(discipline: Discipline, settings: Settings) -> Setup {
    let shares = vec![0.1, 0.1, 0.1, 0.1, 0.3, 0.3];
    let part_bytes = 48_000;
    // By key, every ten parts have one for each worker and three for each machine, as a placement by deficits gives.
    let cycle = [4, 5, 0, 4, 5, 1, 2, 4, 5, 3];
    let owner = |key: u32| cycle[key as usize % cycle.len()];
    let n_parts = u32::try_from(MODEL_BYTES / part_bytes).unwrap();
    let parts = (0..n_parts).map(|key| part(key, owner(key), part_bytes)).collect();
    let setup = parameter_servers(4, 6, settings);
    Setup { node_of_server: (0..6).collect(), shares, discipline, tensors: vec![(0, parts)], ..setup }
}

#[test]
fn a_sender_in_proportion_reaches_the_optimum_where_threads_for_each_connection_do_not() {
    let t_opt = 1.2 * MODEL_BYTES as f64 / BYTES_PER_S;
    let settings = settings(16_000, UNBOUNDED, UNBOUNDED);
    let end = |discipline| run(&optimal_shares(discipline, settings)).end_s();
    let (one, many) = (end(Discipline::Proportional), end(Discipline::PerConnection));
    assert!(one <= 1.05 * t_opt, "{one} s, {t_opt} s at best");
    assert!(many >= 1.15 * one, "{many} s per connection, {one} s in proportion");
}

#[test]
fn every_node_sends_what_its_shares_say() {
    let outcome = run(&optimal_shares(Discipline::Proportional, settings(16_000, UNBOUNDED, UNBOUNDED)));
    assert_eq!(outcome.sent_bytes, [MODEL_BYTES * 12 / 10; 6]);
    for server in outcome.pipelines[0].snapshot(0).servers {
        assert!((server.sent_share - server.share).abs() < 1e-9, "{server:?}");
        assert_eq!((server.unsent_bytes, server.pulled_bytes), (0, server.sent_bytes));
    }
}

fn layers(by_priority: bool) -> Outcome {
    const CREDIT_BYTES: u64 = 256_000;
    let settings = settings(16_000, CREDIT_BYTES / 4, CREDIT_BYTES);
    let mut setup = parameter_servers(4, 4, settings);
    let layer = |layer: u32| rows(layer * 1000, 2_000_000, 64_000, 4);
    let priority = |of: u32| if by_priority { of } else { 11 - of };
    setup.tensors = (0..12).rev().map(|of| (priority(of), layer(of))).collect();
    let outcome = run(&setup);
    let most = if by_priority { 12 * CREDIT_BYTES } else { CREDIT_BYTES };
    assert!(outcome.most_credits_used <= most, "{} bytes", outcome.most_credits_used);
    outcome
}

#[test]
fn the_first_layer_is_back_first_though_it_was_produced_last() {
    let by_priority = layers(true);
    let (first, last) = (by_priority.tensor_s(11), layers(false).tensor_s(11));
    assert!(first <= 0.25, "{first} s");
    assert!((last / 2.01 - 1.0).abs() < 0.05, "{last} s");
    assert!(by_priority.end_s() < 2.01 * 1.05, "{} s", by_priority.end_s());
}

/// Three workers and two machines, with credits for one part of each server; every worker submits in an order of its own,
/// and first come is first served.
fn in_any_order(seed: u64, patience_ns: u64) -> Outcome {
    let settings = Settings { patience_ns, ..settings(1000, 4000, UNBOUNDED) };
    let mut setup = parameter_servers(3, 2, settings);
    setup.tensors = (0..8).map(|of| (of % 3, rows(of * 100, 8000 + 1000 * u64::from(of), 8000, 2))).collect();
    let mut draw = seed;
    setup.orders = vec![(0..8).collect(); 3];
    for order in &mut setup.orders {
        for left in (1..order.len()).rev() {
            // Knuth, "The Art of Computer Programming" 2, §3.3.4 (MMIX); §3.4.2 has the shuffle.
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(left, usize::try_from(draw >> 33).unwrap() % (left + 1));
        }
    }
    run(&setup)
}

#[test]
fn workers_may_submit_in_any_orders() {
    let ends = |outcome: &Outcome| outcome.done_ns.iter().flatten().all(Option::is_some);
    for seed in 0..500 {
        assert!(ends(&in_any_order(seed, Settings::default().patience_ns)), "seed {seed}");
    }
    assert!(
        (0..500).any(|seed| !ends(&in_any_order(seed, u64::MAX))),
        "without patience they wait for each other"
    );
}

#[test]
fn a_server_that_stops_holds_up_nobody_elses_parts() {
    let few = Settings { stage_parts: 2, ..settings(16_000, 512_000, 2_048_000) };
    let mut setup = parameter_servers(4, 4, few);
    let parts = rows(0, MODEL_BYTES / 10, 64_000, 4);
    let (lost, others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.server == 2);
    setup.tensors = vec![(0, lost), (1, others)];
    setup.stopped = Some(2);
    let outcome = run(&setup);
    for (done, pipeline) in outcome.done_ns.iter().zip(&outcome.pipelines) {
        assert!(done[0].is_none() && done[1].is_some(), "{done:?}");
        let oldest = pipeline.snapshot(5_000_000_000).oldest.unwrap();
        assert_eq!((oldest.server, oldest.age_ns), (2, 5_000_000_000));
    }
}
