//! Groups whose services may keep few bytes of contributions that wait for others.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const N_ROUNDS: u64 = 2;

/// Worker 0 pushes nothing until a service has turned somebody away.
fn sums_are_right_behind_a_late_worker(shape: Shape) {
    let wanted: Vec<Vec<u8>> =
        rounds(N_ROUNDS).map(|(tensor, round)| wanted(tensor, round, shape.n_workers)).collect();
    let was_turned_away = AtomicBool::new(false);
    let watch = |group: &Group| {
        while !was_turned_away.load(Ordering::Acquire) {
            let report = group.probe().and_then(|probe| probe.ask(Duration::from_secs(1)));
            if report.is_some_and(|report| report.turned_away > 0) {
                was_turned_away.store(true, Ordering::Release);
            }
            std::thread::yield_now();
        }
    };
    shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        std::thread::scope(|scope| {
            let late = scope.spawn(|| watch(&group));
            if let Role::Worker(worker) = role {
                if worker == 0 {
                    late.join().unwrap();
                }
                sum_all(&group, worker, N_ROUNDS, &wanted);
            }
        });
        group.leave().unwrap();
    });
}

#[test]
fn what_was_turned_away_comes_once_more_and_sums_have_the_same_bits() {
    for transport in TRANSPORTS {
        for (n_workers, n_servers) in [(4, 0), (4, 1), (5, 2)] {
            let shape = Shape::new(transport, n_workers, n_servers, PARTITION_BYTES);
            sums_are_right_behind_a_late_worker(Shape { kept_bytes: Some(0), ..shape });
        }
    }
}

#[test]
fn frames_of_parts_that_come_twice_stay_together() {
    let pipeline = worker::Settings { frame_bytes: 1000, ..worker::Settings::default() };
    let shape = Shape { pipeline, kept_bytes: Some(10_000), ..Shape::new(Transport::Tcp, 5, 1, 7000) };
    sums_are_right_behind_a_late_worker(shape);
}
