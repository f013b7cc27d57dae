use std::mem::offset_of;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::clock::ClockAnchor;
use ringscope_wire::segment::summation::layout::{Area, Round as RoundLayout, STATE_FAILED, STATE_RUNNING};
use ringscope_wire::segment::summation::read::{Wait, Worker};

use super::*;

/// Ten nanoseconds of monotonic time are the wall's thousand.
fn clock() -> Clock {
    ClockAnchor { is_counter: false, ticks: 10, monotonic_ns: 10, wall_ns: 1000 }.clock(10, 10)
}

fn group(generation: u32, next_ticket: u64) -> Group {
    Group {
        generation,
        state: STATE_RUNNING,
        role: 1,
        n_workers: 2,
        joined_ns: 20,
        sampled_ns: 60,
        next_ticket,
        ..Group::default()
    }
}

/// A segment with results of the first generation in all places up to this ticket.
fn segment(next_ticket: u64) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Segment>()];
    for ticket in next_ticket.saturating_sub(1024)..next_ticket {
        let at = offset_of!(Segment, summation) + offset_of!(Area, rounds);
        let at = at + usize::try_from(ticket % 1024).unwrap() * size_of::<RoundLayout>();
        bytes[at..at + 8].copy_from_slice(&(ticket + 1).to_le_bytes());
        let round = at + offset_of!(RoundLayout, round);
        bytes[round..round + 8].copy_from_slice(&ticket.to_le_bytes());
        bytes[at + offset_of!(RoundLayout, generation)] = 1;
    }
    bytes
}

fn read(summations: &mut Summations, group: Group) {
    let bytes = segment(group.next_ticket);
    let group = Summation::Group(Box::new(group));
    summations.update(&mut bytes.as_slice(), &group, clock()).unwrap();
}

fn numbers(member: &SummationMember) -> Vec<u64> {
    member.rounds.iter().map(|round| round.round).collect()
}

#[test]
fn results_are_said_once_and_those_not_sent_again() {
    let mut summations = Summations::default();
    read(&mut summations, group(1, 2));
    let unsent = summations.tell(Vec::new(), clock());
    assert_eq!(numbers(&unsent[0]), [0, 1]);
    read(&mut summations, group(1, 3));
    let mut told = summations.tell(unsent, clock());
    assert_eq!(numbers(&told[0]), [0, 1, 2]);
    told[0].rounds.clear();
    read(&mut summations, group(1, 3));
    assert!(numbers(&summations.tell(told, clock())[0]).is_empty());
}

#[test]
fn results_that_are_too_many_are_counted() {
    let mut summations = Summations::default();
    read(&mut summations, group(1, 5000));
    let unsent = summations.tell(Vec::new(), clock());
    assert_eq!(
        (unsent[0].rounds.len(), unsent[0].rounds_dropped),
        (1024, 0),
        "nobody knows what came before"
    );
    read(&mut summations, group(1, 5010));
    let unsent = summations.tell(unsent, clock());
    assert_eq!((unsent[0].rounds.len(), unsent[0].rounds_dropped), (1024, 10), "no room in a batch");
    read(&mut summations, group(1, 7010));
    let told = summations.tell(Vec::new(), clock());
    assert_eq!((told[0].rounds.len(), told[0].rounds_dropped), (1024, 10 + 976), "overwritten");
}

#[test]
fn a_group_that_another_follows_is_over() {
    let mut summations = Summations::default();
    read(&mut summations, group(1, 0));
    read(&mut summations, Group { joined_ns: 40, ..group(2, 0) });
    let told = summations.tell(Vec::new(), clock());
    let states: Vec<_> = told.iter().map(|one| (one.local_id, one.state, one.ended_at_ns)).collect();
    let (suspended, running) = (SummationState::Suspended.into(), SummationState::Running.into());
    assert_eq!(states, [(1, suspended, Some(1030)), (2, running, None)]);
    read(&mut summations, group(3, 0));
    read(&mut summations, group(4, 0));
    let told = summations.tell(told, clock());
    assert_eq!(told.iter().map(|one| one.local_id).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_group_that_failed_between_two_readings_is_told_as_failed() {
    let failed = |generation| {
        let services = (0..3).map(|rank| Service { rank, ..Service::default() }).collect();
        let (state, lost_rank, ended_ns) = (STATE_FAILED, Some(1), Some(30));
        Some(Box::new(Group { state, lost_rank, ended_ns, services, ..group(generation, 0) }))
    };
    let ends = |told: &[SummationMember]| -> Vec<_> {
        told.iter().map(|one| (one.local_id, one.state(), one.lost_rank, one.ended_at_ns)).collect()
    };
    let failure = |generation| (generation, SummationState::Failed, Some(1), Some(1020));
    let mut summations = Summations::default();
    // One that was never read at work, and one that was.
    read(&mut summations, Group { failed_before: failed(1), ..group(2, 3) });
    let told = summations.tell(Vec::new(), clock());
    assert_eq!(ends(&told), [failure(1), (2, SummationState::Running, None, None)]);
    assert!(told[0].services[1].lost && told[0].rounds.len() == 3, "results are those of generation 1");
    read(&mut summations, Group { failed_before: failed(2), ..group(3, 3) });
    let told = summations.tell(Vec::new(), clock());
    assert_eq!(ends(&told), [failure(1), failure(2), (3, SummationState::Running, None, None)]);
}

#[test]
fn a_failure_that_was_read_stays_as_it_was_read() {
    let mut summations = Summations::default();
    let (state, waits) = (STATE_FAILED, vec![Wait::default()]);
    let ended = Group { state, lost_rank: Some(1), ended_ns: Some(30), waits, ..group(1, 0) };
    read(&mut summations, ended.clone());
    let kept = Group { waits: Vec::new(), ..ended };
    read(&mut summations, Group { failed_before: Some(Box::new(kept)), ..group(2, 0) });
    assert_eq!(summations.tell(Vec::new(), clock())[0].waits.len(), 1);
}

#[test]
fn what_is_being_written_stays_as_it_was() {
    let mut summations = Summations::default();
    read(&mut summations, group(1, 1));
    let before = summations.tell(Vec::new(), clock());
    for state in [Summation::Torn, Summation::None] {
        summations.update(&mut [].as_slice(), &state, clock()).unwrap();
    }
    assert_eq!(summations.tell(before.clone(), clock()), before);
}

#[test]
fn times_become_the_walls_and_the_lost_one_is_marked() {
    let wait = Wait { key: 3, first_arrival_ns: 15, workers: vec![1], ..Wait::default() };
    let service = |rank| Service { rank, ..Service::default() };
    let worker = |last_arrival_ns| Worker { last_arrival_ns, ..Worker::default() };
    let mut summations = Summations::default();
    let group = Group {
        lost_rank: Some(1),
        ended_ns: Some(70),
        waits: vec![wait],
        services: vec![service(2), service(0), service(1)],
        workers: vec![worker(None), worker(Some(30))],
        ..group(1, 0)
    };
    read(&mut summations, group);
    let told = summations.tell(Vec::new(), clock());
    assert_eq!((told[0].joined_at_ns, told[0].ended_at_ns), (1010, Some(1060)));
    assert_eq!((told[0].waits[0].age_ns, told[0].waits[0].workers.as_slice()), (45, &[1][..]));
    let lost: Vec<_> = told[0].services.iter().map(|one| one.lost).collect();
    assert_eq!(lost, [false, false, true]);
    let arrivals: Vec<_> =
        told[0].contributors.iter().map(|one| (one.last_arrival_at_ns, one.lost)).collect();
    assert_eq!(arrivals, [(None, false), (Some(1020), true)]);
}
