//! Calls of the summation service and what its engine tells, with an engine that tells what a scenario wants.

use ringscope_wire::Primitive::{Pull, Push, PushPull};
use ringscope_wire::segment::layout;
use ringscope_wire::segment::read::Communicator;
use ringscope_wire::segment::summation::layout::{ROLE_WORKER, STATE_FAILED, STATE_LEFT, STATE_RUNNING};
use ringscope_wire::segment::summation::read::{Group, Summation};

use crate::harness::{Left, compile, job, library, programs, summation_job};

fn left_by(scenario: &str) -> Left {
    summation_job(scenario).env("RSUM_OBSERVER", library()).succeed().only_segment()
}

fn group(left: &Left) -> &Group {
    let Summation::Group(group) = &left.snapshot.summation else { panic!("{:?}", left.snapshot.summation) };
    group
}

#[test]
fn calls_are_issued_when_they_are_made_and_completed_when_the_engine_says_so() {
    let left = left_by("calls");
    let communicator: &Communicator = left.communicator(0);
    assert_eq!((communicator.rank, communicator.n_ranks, communicator.pointer), (1, 3, 0x5000));
    assert_eq!((communicator.name.as_str(), communicator.comm_hash), ("summation", 77));
    assert_eq!(communicator.state, layout::COMMUNICATOR_DESTROYED);
    // Three at once, one in two steps, one that nobody saw called, and one that was refused: of a call
    // that blocks that is known only afterwards.
    let bytes = 2 * 400 + 2 * 40 + 40;
    left.expect(0, PushPull, (6, bytes), (5, bytes), 1);
    left.expect(0, Push, (1, 400), (1, 400), 0);
    left.expect(0, Pull, (1, 400), (1, 400), 0);
    assert!(left.records.iter().filter(|one| one.state == layout::OPERATION_COMPLETED).count() == 7);
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_communicator_that_the_profiler_has_told_of_ends_with_the_group_that_it_carries() {
    let left = left_by("announced");
    let [communicator] = &left.snapshot.communicators[..] else { panic!("one communicator") };
    assert_eq!((communicator.made_by, communicator.comm_hash), (layout::MADE_BY_SUMMATION, 77));
    assert_eq!(communicator.state, layout::COMMUNICATOR_DESTROYED);
    left.expect(0, PushPull, (1, 400), (1, 400), 0);
}

#[test]
fn calls_with_memory_of_a_gpu_are_counted_as_the_others_are() {
    let left = left_by("stream");
    left.expect(0, PushPull, (3, 840), (3, 840), 1);
}

#[test]
fn what_the_engine_tells_is_in_the_segment() {
    let left = left_by("calls");
    let group = group(&left);
    assert_eq!((group.generation, group.state, group.role, group.index), (1, STATE_LEFT, ROLE_WORKER, 1));
    assert_eq!((group.group, group.session, group.lost_rank), (77, 5, None));
    assert_eq!(group.communicator, left.communicator(0).local_id());
    let services: Vec<_> =
        group.services.iter().map(|one| (one.rank, one.host.as_str(), one.owned_bytes)).collect();
    assert_eq!(services, [(2, "cpu-1", 51), (0, "node-1", 49), (1, "node-2", 0)]);
    let traffic = group.services[1].traffic[1];
    assert_eq!((traffic.push_issued_bytes, traffic.push_completed_bytes, traffic.local_bytes), (100, 90, 10));
    let stages: Vec<_> = group.stages.iter().map(|one| (one.name.as_str(), one.waiting_parts)).collect();
    assert_eq!(stages, [("push", 2), ("pull", 0)]);
    assert_eq!((group.workers[1].host.as_str(), group.workers[1].late_ns), ("node-2", 12));
    assert_eq!((group.workers[0].last_arrival_ns, group.staleness.as_slice()), (None, &[7, 1][..]));
    let [wait] = &group.waits[..] else { panic!("{:?}", group.waits) };
    assert_eq!((wait.key, wait.round, wait.for_push, wait.workers.as_slice()), (8, 2, true, &[1][..]));
    assert_eq!(wait.tensor, "gradient.a.rather.long.name.that.is.cut.to.fit.h");
    let comparison = group.comparison.as_ref().unwrap();
    assert_eq!((comparison.count, comparison.steps, comparison.equal_steps), (2, 10, Some(5)));
    let difference = comparison.difference.as_ref().unwrap();
    assert_eq!((difference.steps, difference.parameter.as_str()), (10, "fc.bias"));
    assert_eq!(difference.hashes, [0x11, 0x22]);
    assert!(group.joined_ns > 0 && group.ended_ns >= Some(group.joined_ns));
    let [round] = &left.rounds[..] else { panic!("{:?}", left.rounds) };
    assert_eq!((round.key, round.round, round.fingerprint, round.made), (8, 1, 0xabc, true));
    assert_eq!((round.generation, round.contributors, round.last_arriver), (1, 2, 1));
}

#[test]
fn an_older_engine_tells_nothing_of_comparisons_and_all_else() {
    let job = summation_job("calls").env("RSUM_OBSERVER", library()).env("OLDER_ENGINE", "1");
    let left = job.succeed().only_segment();
    let group = group(&left);
    assert_eq!((group.comparison.as_ref(), group.staleness.as_slice()), (None, &[7, 1][..]));
}

#[test]
fn a_call_that_does_not_come_back_is_in_flight() {
    let left = left_by("stuck");
    left.expect(0, PushPull, (2, 800), (1, 400), 0);
    assert_eq!(left.records.iter().filter(|one| one.state == layout::OPERATION_ISSUED).count(), 1);
}

#[test]
fn a_failure_ends_what_is_open() {
    let left = left_by("failure");
    let group = group(&left);
    assert_eq!((group.state, group.lost_rank), (STATE_FAILED, Some(2)));
    assert_eq!(group.failure, "rank 2 (cpu-1) is gone");
    left.expect(0, PushPull, (3, 840), (1, 400), 2);
    assert_eq!(left.records.iter().filter(|one| one.state == layout::OPERATION_FAILED).count(), 2);
}

#[test]
fn the_next_group_begins_with_nothing_of_the_one_before() {
    let left = left_by("again");
    let group = group(&left);
    assert_eq!((group.generation, group.state, group.group), (2, STATE_RUNNING, 78));
    assert_eq!((group.stages.len(), group.waits.len(), group.finished_rounds), (0, 0, 0));
    assert_eq!((group.ended_ns, group.workers[1].late_ns), (None, 0));
    assert_eq!(group.comparison, None);
    left.expect(0, PushPull, (2, 800), (1, 400), 1);
    left.expect(1, PushPull, (2, 800), (2, 800), 0);
}

#[test]
fn how_a_group_failed_is_kept_beside_the_next_one() {
    assert_eq!(group(&left_by("again")).failed_before, None, "suspended");
    let left = left_by("lost");
    let now = group(&left);
    assert_eq!(
        (now.generation, now.state, now.lost_rank, now.failure.as_str()),
        (2, STATE_RUNNING, None, "")
    );
    let failed = now.failed_before.as_ref().unwrap();
    assert_eq!((failed.generation, failed.state, failed.group), (1, STATE_FAILED, 77));
    assert_eq!((failed.lost_rank, failed.failure.as_str()), (Some(2), "rank 2 (cpu-1) is gone"));
    assert!(failed.ended_ns >= Some(failed.joined_ns) && now.joined_ns >= failed.joined_ns);
    let services: Vec<_> =
        failed.services.iter().map(|one| (one.rank, one.host.as_str(), one.owned_bytes)).collect();
    assert_eq!(services, [(2, "cpu-1", 51), (0, "node-1", 49), (1, "node-2", 0)]);
    assert_eq!(failed.services[1].traffic[1].push_completed_bytes, 90);
    assert!(failed.finished_rounds > 0 && now.finished_rounds == 0);
}

#[test]
fn a_child_leaves_the_parents_calls_alone() {
    let left = left_by("fork");
    left.expect(0, PushPull, (3, 1200), (2, 800), 0);
}

#[test]
fn a_group_that_does_not_fit_is_counted_and_not_followed() {
    let job = summation_job("large").env("RSUM_OBSERVER", library()).env("N_SERVICES", "257");
    let left = job.succeed().only_segment();
    assert_eq!(left.snapshot.dropped, [(layout::DropReason::SummationGroupTooLarge, 1)]);
    assert_eq!((&left.snapshot.summation, left.snapshot.communicators.len()), (&Summation::None, 0));
}

#[test]
fn a_child_that_makes_a_group_of_its_own_begins_with_none_of_its_parents_calls() {
    let job = summation_job("child_group").env("RSUM_OBSERVER", library()).succeed();
    let mut left = job.segments();
    assert_eq!(left.len(), 2);
    left.sort_by_key(|one| group(one).group);
    left[0].expect(0, PushPull, (3, 1200), (2, 800), 0);
    left[1].expect(0, PushPull, (2, 800), (2, 800), 0);
    assert_eq!((group(&left[0]).group, group(&left[1]).group), (77, 78));
}

#[test]
fn a_process_without_a_group_never_has_the_watcher_in_memory() {
    let left = job("no_watcher").env("RSUM_OBSERVER", library()).succeed().only_segment();
    assert_eq!(left.snapshot.dropped, []);
}

#[test]
fn a_group_is_not_followed_and_counted_where_the_watcher_is_missing_or_another() {
    for name in ["missing", "no-library", "other"] {
        let folder = programs().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let collector = folder.join("libringscope.so");
        std::fs::copy(library(), &collector).unwrap();
        match name {
            "no-library" => std::fs::write(folder.join("libringscope_watcher.so"), "text").unwrap(),
            "other" => {
                compile(&folder, "libringscope_watcher.so", "other_watcher.c", &["-shared", "-fPIC"]);
            }
            _ => {}
        }
        let job = summation_job("calls").env("LD_PRELOAD", &collector).env("RSUM_OBSERVER", &collector);
        let left = job.without("NCCL_PROFILER_PLUGIN").succeed().only_segment();
        assert_eq!(left.snapshot.dropped, [(layout::DropReason::NoSummationWatcher, 1)], "{name}");
        assert_eq!((&left.snapshot.summation, left.records.len()), (&Summation::None, 0), "{name}");
    }
}

#[test]
fn without_an_observer_calls_only_pass() {
    let job = summation_job("calls").succeed();
    assert!(job.segments().is_empty());
}
