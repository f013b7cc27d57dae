//! The segment's file and its lock: what forks, closed descriptors and a death do to them.

use ringscope_wire::Primitive::AllReduce;

use crate::harness::segment_job;

#[test]
fn a_killed_rank_is_seen_to_be_dead_while_its_child_lives() {
    segment_job("killed_rank").succeed();
}

#[test]
fn descriptors_are_the_programs_own() {
    let left = segment_job("closed_descriptors").succeed().only_segment();
    left.expect(0, AllReduce, (1, 4), (1, 4), 0);
}

#[test]
fn a_child_that_returns_from_its_parents_call_goes_on() {
    let job = segment_job("forked_in_a_call").succeed();
    let mut segments = job.segments();
    segments.sort_by_key(|left| left.snapshot.identity.pid);
    let [parent, child] = &segments[..] else { panic!("{} segments", segments.len()) };
    parent.expect(0, AllReduce, (2, 12), (2, 12), 0);
    child.expect(0, AllReduce, (1, 400), (1, 400), 0);
}

#[test]
fn a_child_that_calls_nothing_has_hardly_a_page_of_its_own() {
    segment_job("idle_child").succeed();
}

#[test]
fn a_child_made_without_the_c_library_has_a_segment_of_its_own() {
    let job = segment_job("raw_child").succeed();
    let mut segments = job.segments();
    segments.sort_by_key(|left| left.snapshot.next_ticket);
    let [child, parent] = &segments[..] else { panic!("{} segments", segments.len()) };
    parent.expect(0, AllReduce, (2, 8), (2, 8), 0);
    child.expect(0, AllReduce, (1, 400), (1, 400), 0);
}

#[test]
fn children_that_share_the_memory_take_nothing_from_the_parent() {
    let left = segment_job("shared_memory").succeed().only_segment();
    left.expect(0, AllReduce, (3, 444), (3, 444), 0);
}

#[test]
fn a_child_forked_while_the_segment_is_made_does_not_keep_its_lock() {
    for _ in 0..20 {
        segment_job("forked_at_the_first_init").succeed();
    }
}
