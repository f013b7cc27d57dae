use std::time::Duration;

use super::fabric::{Fabric, Link};
use super::outcome::{Fate, Outcome};
use super::{Job, ordered, simulate};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Action, Chunk, Schedule, Step};
use crate::memory::Place;

/// Steps as given, of each rank.
struct Given(Vec<Vec<Step>>);

impl Schedule for Given {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        Box::new(self.0[rank].iter().copied())
    }
}

const LINK: Link = Link { latency: Duration::from_nanos(1000), bytes_per_s: 1e9 };

fn fabric(n_ranks: usize, n_hosts: usize) -> Fabric {
    Fabric::even(n_ranks, n_hosts, LINK, Link { latency: Duration::from_nanos(100), bytes_per_s: 1e10 })
}

fn chunk(place: Place, start: usize, len: usize) -> Chunk {
    Chunk { place, start, len }
}

fn send(peer: usize, from: Chunk) -> Step {
    Step::send(peer, from)
}

fn store(peer: usize, into: Chunk) -> Step {
    Step::store(peer, into)
}

fn copy(from: Chunk, into: Chunk) -> Step {
    Step::copy(from, into)
}

fn reduce(peer: usize, into: Chunk) -> Step {
    Step::reduce(peer, false, into, chunk(Place::Send, into.start, into.len), true)
}

fn run(fabric: &Fabric, primitive: Primitive, count: usize, steps: Vec<Vec<Step>>) -> Outcome {
    simulate(&Job::new(fabric, &[Box::new(Given(steps))], primitive, count))
}

/// Both ranks send all they have to the other one.
fn exchange(count: usize) -> Vec<Vec<Step>> {
    let all = |place| chunk(place, 0, count);
    (0..2).map(|rank| vec![send(1 - rank, all(Place::Send)), reduce(1 - rank, all(Place::Recv))]).collect()
}

#[test]
fn an_exchange_takes_latency_and_transfer_and_reduction() {
    let mut fabric = fabric(2, 2);
    fabric.reduced_bytes_per_s = 2e9;
    let outcome = run(&fabric, Primitive::AllReduce, 1000, exchange(1000));
    assert_eq!(outcome.flaw, None);
    // 4000 bytes: 1 us of latency, 4 us at 1 GB/s, 2 us at 2 GB/s.
    assert_eq!(outcome.fates, [Fate::Finished { at_picos: 7_000_000 }; 2]);
    assert_eq!(outcome.links.iter().map(|link| link.bytes).collect::<Vec<_>>(), [4000, 4000]);
    assert!(outcome.ports.iter().all(|port| port.is_nic && port.bytes == 4000), "{:?}", outcome.ports);
}

#[test]
fn ranks_of_a_host_share_its_nics_and_not_their_own_links() {
    let own = chunk(Place::Send, 0, 1000);
    let block = |rank: usize| chunk(Place::Recv, rank * 1000, 1000);
    let mut steps = vec![vec![send(2, own)]; 4];
    steps[2] = vec![store(0, block(0)), store(1, block(1)), copy(own, block(2)), store(3, block(3))];
    let finished = |fabric: &Fabric| {
        let outcome = run(fabric, Primitive::Gather { root: 2 }, 1000, steps.clone());
        assert_eq!(outcome.flaw, None);
        let ns = |fate: &Fate| match fate {
            Fate::Finished { at_picos } => at_picos / 1000,
            other => panic!("{other:?}"),
        };
        outcome.fates.iter().map(ns).collect::<Vec<_>>()
    };
    // Two transfers of 4 us through one NIC, and one of 0.4 us beside them.
    let mut fabric = fabric(4, 2);
    assert_eq!(finished(&fabric), [4000, 8000, 9000, 400]);
    // Two NICs for what leaves, and still one for what arrives.
    fabric.nics_per_host = 2;
    assert_eq!(finished(&fabric), [4000, 4000, 9000, 400]);
    fabric.odd_nics = vec![(0, 1, 0.5e9)];
    assert_eq!(finished(&fabric), [4000, 8000, 9000, 400]);
}

#[test]
fn a_send_does_not_wait_for_a_receive_that_comes_before_it_in_the_program() {
    for n_hosts in [1, 2] {
        let swapped = |fabric: &Fabric| {
            let mut steps = exchange(1000);
            steps[1].reverse();
            run(fabric, Primitive::AllReduce, 1000, steps)
        };
        let fabric = fabric(2, n_hosts);
        assert_eq!(swapped(&fabric).fates, run(&fabric, Primitive::AllReduce, 1000, exchange(1000)).fates);
    }
}

#[test]
fn both_passes_find_the_same_times() {
    let fabric = fabric(2, 2);
    let steps = vec![exchange(1000), exchange(1000)];
    for steps in steps {
        let schedules: [Box<dyn Schedule>; 1] = [Box::new(Given(steps))];
        let job = Job::new(&fabric, &schedules, Primitive::AllReduce, 1000);
        assert_eq!(ordered::run(&job).fates, simulate(&job).fates);
    }
}

#[test]
fn memory_that_is_still_being_sent_is_not_overwritten() {
    // Rank 0 sends a partial result for 4 us, and what it writes there next came after 1.1 us.
    let slot = chunk(Place::Partial, 0, 1000);
    let all = |place| chunk(place, 0, 1000);
    let into_slot = copy(all(Place::Send), slot);
    let steps = vec![
        vec![into_slot, send(1, slot), into_slot, copy(slot, chunk(Place::Partial, 1000, 1000))],
        vec![Step::Recv { peer: 0, partial: true, into: all(Place::Recv), action: Action::Store }],
    ];
    let outcome = run(&fabric(2, 2), Primitive::Broadcast { root: 0 }, 1000, steps);
    assert_eq!(outcome.fates[0], Fate::Finished { at_picos: 4_000_000 });
}

#[test]
fn a_wrong_data_flow_is_named() {
    let all = |place| chunk(place, 0, 10);
    let once = exchange(10);
    let doubled = Step::reduce_local(all(Place::Send), all(Place::Send), all(Place::Partial), false);
    let twice =
        |rank: usize| vec![doubled, send(1 - rank, all(Place::Partial)), reduce(1 - rank, all(Place::Recv))];
    let cases: [(Vec<Vec<Step>>, &str); 6] = [
        (vec![once[0].clone(), twice(1)], "sent 10 partial results instead"),
        (vec![once[0].clone(), vec![send(0, all(Place::Partial))]], "nothing that is remembered"),
        (
            vec![once[0].clone(), vec![send(0, all(Place::Send))]],
            "ends with its result up to element 0 of 10",
        ),
        (vec![once[0].clone(), vec![once[1][0], store(0, all(Place::Recv))]], "not the result"),
        (
            vec![
                vec![send(1, chunk(Place::Send, 0, 5)), once[0][1]],
                vec![once[1][0], reduce(0, chunk(Place::Recv, 5, 5))],
            ],
            "reduced with other elements",
        ),
        (
            vec![vec![send(1, chunk(Place::Send, 0, 5)), once[0][1]], once[1].clone()],
            "sent 5 elements instead",
        ),
    ];
    for (steps, words) in cases {
        let flaw = run(&fabric(2, 1), Primitive::AllReduce, 10, steps).flaw.map(|flaw| flaw.to_string());
        assert!(flaw.as_ref().is_some_and(|flaw| flaw.contains(words)), "{flaw:?} does not say {words}");
    }
}

#[test]
fn who_waits_for_a_lost_rank_is_named() {
    let fabric = fabric(2, 2);
    let schedules: [Box<dyn Schedule>; 1] = [Box::new(Given(exchange(1000)))];
    let lose = |at_ns| {
        let at = Duration::from_nanos(at_ns);
        simulate(&Job::new(&fabric, &schedules, Primitive::AllReduce, 1000).losing(1, at)).fates
    };
    assert_eq!(lose(3_999), [Fate::Waits { peer: 1 }, Fate::Lost], "in the middle of its transfer");
    assert_eq!(lose(4_000), [Fate::Finished { at_picos: 5_000_000 }, Fate::Lost], "its data is out");
    assert_eq!(lose(5_000), [Fate::Finished { at_picos: 5_000_000 }; 2]);
    let outcome = simulate(&Job::new(&fabric, &schedules, Primitive::AllReduce, 1000));
    assert_eq!(outcome.finished_after(), Some(Duration::from_nanos(5_000)));
}
