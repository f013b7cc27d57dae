//! Stores with their first values, against what is written down.

use proptest::prelude::*;

use super::*;
use rsccl_collective::types::DataType;

const N_WORKERS: usize = 3;

fn sums(max_ahead: Option<u64>) -> Sums {
    let part = Part { count: 1, data_type: DataType::F32, codec: None };
    Sums::new(Mode::Store { max_ahead }, N_WORKERS, [(0, part)])
}

fn push(sums: &mut Sums, round: u64, worker: usize, value: f32) {
    let reduction = Reduction::Sum;
    let push = Push { key: 0, round, worker, size_bytes: 4, reduction };
    let Admission::Into(mut landing) = sums.push(&push).unwrap() else { panic!("a push waits") };
    landing.bytes_mut().copy_from_slice(&value.to_ne_bytes());
    assert_eq!(sums.pushed(landing), Ok(Pushed::Added(0)));
}

/// The value, or for whom it waits.
fn pull(sums: &mut Sums, round: u64, worker: usize) -> Result<f32, Vec<usize>> {
    match sums.pull(&Pull { key: 0, round, worker }).unwrap() {
        Answer::Ready(sum) => {
            let value = f32::from_ne_bytes(sum.bytes().try_into().unwrap());
            assert_eq!(sums.answered(sum), Ok(false));
            Ok(value)
        }
        Answer::Waiting(workers) => Err(workers),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A worker pushes its next round once it has what it has pulled, in any order of the workers' turns.
    #[test]
    fn whoever_has_pulled_is_never_further_ahead_than_allowed(
        max_ahead in 0..4_u64,
        turns in prop::collection::vec(0..N_WORKERS, 0..120),
    ) {
        let mut sums = sums(Some(max_ahead));
        let (mut pushed, mut pulled, mut total) = ([0_u64; N_WORKERS], [0_u64; N_WORKERS], 1.0_f32);
        for worker in turns {
            if pulled[worker] == pushed[worker] {
                let is_first = pushed[worker] == 0;
                push(&mut sums, pushed[worker], worker, if is_first && worker != 0 { 99.0 } else { 1.0 });
                total += f32::from(!is_first);
                pushed[worker] += 1;
            }
            let rounds = |worker: usize| pushed[worker].saturating_sub(1);
            let slower = |other: &usize| rounds(worker) - rounds(*other).min(rounds(worker)) > max_ahead;
            let wanted = if pushed[0] == 0 {
                Err(vec![0])
            } else {
                let slower: Vec<usize> = (0..N_WORKERS).filter(slower).collect();
                if slower.is_empty() { Ok(total) } else { Err(slower) }
            };
            let got = pull(&mut sums, pushed[worker] - 1, worker);
            prop_assert_eq!(&got, &wanted);
            pulled[worker] += u64::from(got.is_ok());
        }
        let spread = sums.spread().unwrap();
        prop_assert!(spread.lead.max <= max_ahead);
        prop_assert_eq!(sums.waits_for().len(), (0..N_WORKERS).filter(|worker| pulled[*worker] < pushed[*worker]).count());
    }
}

#[test]
fn the_first_value_is_worker_0s_whoever_comes_first() {
    let mut sums = sums(None);
    push(&mut sums, 0, 2, 7.0);
    assert_eq!(pull(&mut sums, 0, 2), Err(vec![0]));
    push(&mut sums, 0, 0, 5.0);
    assert_eq!(pull(&mut sums, 0, 2), Ok(5.0));
    push(&mut sums, 1, 2, 0.5);
    push(&mut sums, 0, 1, 9.0);
    assert_eq!((pull(&mut sums, 0, 1), pull(&mut sums, 0, 0)), (Ok(5.5), Ok(5.5)));
    assert_eq!((sums.counters().finished_rounds, sums.counters().summed_bytes), (1, 4));
}

#[test]
fn averages_are_refused_and_so_is_to_wait_for_a_first_value_that_never_comes() {
    let mut sums = sums(None);
    let average = Push { key: 0, round: 0, worker: 1, size_bytes: 4, reduction: Reduction::Average };
    assert_eq!(sums.push(&average), Err(Refusal::OtherReduction { key: 0, round: 0, worker: 1 }));
    assert_eq!(sums.leave(0), Ok(()));
    let pull = Pull { key: 0, round: 0, worker: 1 };
    assert_eq!(sums.pull(&pull), Err(Refusal::NeverInitialised { key: 0 }));
}

#[test]
fn nobody_waits_for_who_has_left() {
    let mut sums = sums(Some(0));
    for worker in 0..N_WORKERS {
        push(&mut sums, 0, worker, 1.0);
        pull(&mut sums, 0, worker).unwrap();
    }
    push(&mut sums, 1, 0, 1.0);
    push(&mut sums, 1, 1, 1.0);
    assert_eq!(pull(&mut sums, 1, 0), Err(vec![2]));
    assert_eq!(sums.leave(2), Ok(()));
    assert_eq!(pull(&mut sums, 1, 0), Ok(3.0));
}
