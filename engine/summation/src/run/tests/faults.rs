//! Groups that cannot go on: every rank learns why, and nobody waits.

use std::sync::OnceLock;
use std::time::Duration;

use super::{Shape, TRANSPORTS, Transport, contribution, declare, declare_one, reduction};
use crate::run::group::Group;
use crate::run::members::Role;
use rsccl_collective::clock;
use rsccl_collective::error::Result;
use rsccl_collective::memory::Region;
use rsccl_collective::types::DataType;

/// What a machine that does much other work may take; less than the silence from which ranks would learn of a loss.
const LOAD_WAIT: Duration = Duration::from_secs(20);

#[test]
fn declarations_that_differ_are_refused_on_all_ranks() {
    for transport in TRANSPORTS {
        let shape = Shape::new(transport, 3, 1, 64);
        let errors = shape.run(|mut group, role| {
            let odd = role == Role::Worker(1);
            if matches!(role, Role::Worker(_)) {
                declare_one(&mut group, "conv", 9, DataType::F32).unwrap();
                declare_one(&mut group, "fc", if odd { 10 } else { 11 }, DataType::F32).unwrap();
            }
            group.start().unwrap_err().to_string()
        });
        for error in errors {
            let names = |text: &str| error.contains(text);
            assert!(names("tensor 1: \"fc\" of 1") && names("on rank"), "{error}");
        }
    }
}

#[test]
fn who_gives_up_before_the_start_is_named_too() {
    let shape = Shape::new(Transport::Tcp, 2, 1, 64);
    let errors = shape.run(|mut group, role| {
        if role == Role::Worker(1) {
            drop(group);
            return "rank 1 (".to_owned();
        }
        group.start().unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("rank 1 (")), "{errors:?}");
}

/// One gives up in the middle; how long the others took to learn that, and what they were told.
fn give_up(transport: Transport, culprit: Role) -> Vec<(Duration, String)> {
    let shape = Shape::new(transport, 3, 1, 1000);
    let given_up = OnceLock::new();
    let outcomes = shape.run(|mut group, role| {
        declare(&mut group, role);
        let n_rounds = if role == culprit { 3 } else { u64::MAX };
        let outcome = group.start().and_then(|()| match role {
            Role::Worker(worker) => go_round(&group, worker, n_rounds),
            Role::Server(_) if role == culprit => Ok(()),
            Role::Server(_) => group.finish(),
        });
        if role == culprit {
            given_up.get_or_init(clock::now);
            return None;
        }
        let (now, error) = (clock::now(), outcome.unwrap_err().to_string());
        assert_eq!(group.leave().unwrap_err().to_string(), error);
        Some((now.saturating_duration_since(*given_up.wait()), error))
    });
    outcomes.into_iter().flatten().collect()
}

/// Sums a tensor until that fails, or so many times.
fn go_round(group: &Group, worker: usize, n_rounds: u64) -> Result<()> {
    let mut bytes = contribution(0, 0, worker);
    let region = Region::of_slice_mut(&mut bytes);
    let once = |_| group.push_pull(0, region, region, reduction(0))?.wait();
    let outcome = (0..n_rounds).try_for_each(once);
    assert!(outcome.is_ok() || group.push(0, region, reduction(0)).is_err());
    outcome
}

#[test]
fn who_gives_up_is_named_to_all_others() {
    for transport in TRANSPORTS {
        for (culprit, name) in
            [(Role::Worker(1), "rank 1"), (Role::Server(0), "rank 3"), (Role::Worker(0), "rank 0")]
        {
            let told = give_up(transport, culprit);
            assert_eq!(told.len(), 3);
            for (waited, error) in told {
                assert!(error.contains(&format!("{name} (")), "{transport:?}: {error}");
                assert!(waited < LOAD_WAIT, "{waited:?}");
            }
        }
    }
}
