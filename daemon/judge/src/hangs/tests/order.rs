//! Orders: circles over communicators, and sends and receives that do not match.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::Primitive;

use super::super::Question;
use super::super::scene::{MemberState, OpenCall, Operation, OperationState, Pair, Transfers};
use super::build::{World, all_reduce, at, found, job, nothing, only, transfer};

fn two_comms(world: &mut World, n: u32) -> (u32, u32) {
    let all: Vec<u32> = (0..n).collect();
    (world.comm("aaaa", "tensor", &all), world.comm("bbbb", "data", &all))
}

/// Calls in both, the second one behind the first on the same stream.
fn both(world: &mut World, rank: u32, first: u32, second: u32) {
    world.call(first, rank, all_reduce(60, at(0.0)));
    world.call(second, rank, all_reduce(60, at(0.001)));
}

#[test]
fn swapped_orders_on_one_stream_are_a_circle_and_the_odd_rank_is_named() {
    let mut world = job(4);
    let (one, other) = two_comms(&mut world, 4);
    for rank in [0, 1, 3] {
        both(&mut world, rank, one, other);
    }
    both(&mut world, 2, other, one);
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    assert_eq!(found(&verdict), [(FindingKind::OrderDeadlock, Severity::Critical, "odd_order", vec![2])]);
    let judgement = only(&verdict);
    assert_eq!(judgement.victims, [0, 1, 3]);
    assert_eq!(
        judgement.message,
        "rank 2 (host-0, pid 4002) calls in another order than the others, and all wait for each other: ranks 0, 1 and 3 in \
         all_reduce #60 of aaaa (tensor) and rank 2 in all_reduce #60 of bbbb (data); 3 others wait since 14:00:00 UTC"
    );
}

#[test]
fn two_that_wait_for_each_other_are_both_named() {
    let mut world = job(2);
    let (one, other) = two_comms(&mut world, 2);
    // Nobody has made its second call: each one's thread waits for the first.
    world.call(one, 0, all_reduce(60, at(0.0)));
    world.call(other, 1, all_reduce(60, at(0.0)));
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::OrderDeadlock, Severity::Critical, "circle", vec![0, 1])]);
    assert!(only(&verdict).message.contains("wait for each other: rank 0 in all_reduce #60 of aaaa"));
}

#[test]
fn the_same_order_everywhere_is_no_circle() {
    let mut world = job(4);
    let (one, other) = two_comms(&mut world, 4);
    for rank in 0..4 {
        both(&mut world, rank, one, other);
    }
    nothing(&world.until(4));
    world.look(20.0);
    let verdict = world.look(21.0);
    assert_eq!(only(&verdict).kind, FindingKind::TransferStalled);
}

#[test]
fn orders_that_differ_over_streams_are_suspected_once_nothing_moves() {
    let mut world = job(4);
    let (one, other) = two_comms(&mut world, 4);
    for rank in 0..4 {
        let (first, second) = if rank == 1 { (other, one) } else { (one, other) };
        let on = |comm| if comm == one { 1 } else { 2 };
        let mut call = all_reduce(60, at(0.0));
        call.stream = on(first);
        world.call(first, rank, call);
        call.issued_at = at(0.001);
        call.stream = on(second);
        world.call(second, rank, call);
    }
    world.look(10.0);
    world.look(11.0);
    let verdict = world.look(12.0);
    assert_eq!(found(&verdict), [(FindingKind::OrderDeadlock, Severity::Critical, "odd_order", vec![1])]);
}

#[test]
fn a_group_that_does_not_end_holds_all_back() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, 0..3);
    let queued = Operation { state: OperationState::Queued, group: 9, ..all_reduce(60, at(0.0)) };
    world.call(comm, 3, queued);
    let verdict = world.until(3);
    assert_eq!(only(&verdict).culprits, [3]);
    // Within ncclGroupEnd it is handed over: then all are in.
    let call = OpenCall { function: Cow::Borrowed("ncclGroupEnd"), communicator: None, entered_at: at(0.0) };
    world.process(3).open_calls.to_mut().push(call);
    nothing(&world.look(4.0));
}

/// The same rank, with another call in its group than the others have made.
fn open_group(completion_known: bool) -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, 0..3);
    let mut queued = Operation { state: OperationState::Queued, group: 9, ..all_reduce(60, at(0.0)) };
    queued.signature.count = 1;
    world.call(comm, 3, queued);
    world.member(comm, 3).completion_known = completion_known;
    (world, comm)
}

#[test]
fn what_an_open_group_queues_is_not_called_yet() {
    for completion_known in [true, false] {
        let (mut world, comm) = open_group(completion_known);
        let verdict = world.until(2);
        assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "group_open", vec![3])]);
        let judgement = only(&verdict);
        assert_eq!(
            judgement.message,
            "rank 3 (host-0, pid 4003) is inside ncclGroupStart since 14:00:00 UTC, 1 call queued; 3 others wait for it in \
             all_reduce #60 of c0ffee since 14:00:00 UTC"
        );
        assert!(judgement.details.iter().any(|detail| detail.lines[0].starts_with("rank 3: 60 calls made")));
        let verdict = world.look(31.0);
        assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "group_open", vec![3])]);
        // Once the group has ended, the calls are made, and are others.
        let member = world.member(comm, 3);
        member.queued = None;
        member.open.to_mut().iter_mut().for_each(|operation| operation.state = OperationState::Issued);
        world.look(32.0);
        assert_eq!(only(&world.look(33.0)).kind, FindingKind::CallMismatch);
    }
}

#[test]
fn a_send_that_a_group_holds_back_is_not_called_yet() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "pipeline", &[0, 1, 2, 3]);
    world.call(comm, 2, transfer(Primitive::Recv, 1, at(0.0)));
    let queued =
        Operation { state: OperationState::Queued, group: 9, ..transfer(Primitive::Send, 2, at(0.0)) };
    world.call(comm, 1, queued);
    // Its own counter has it, though nothing was sent.
    let pair = |is_send, peer, hash| Pair { is_send, peer, calls: 4, bytes: 256, hash };
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(true, 2, 1)]);
    world.member(comm, 2).pairs = Cow::Owned(vec![pair(false, 1, 2)]);
    assert_eq!(found(&world.until(2)), [(FindingKind::Waiting, Severity::Info, "group_open", vec![1])]);
}

#[test]
fn a_send_that_was_left_out_is_named_and_not_called_a_circle() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "pipeline", &[0, 1, 2, 3]);
    world.call(comm, 2, transfer(Primitive::Recv, 1, at(0.0)));
    world.enter(comm, [0, 1, 3]);
    let asks = world.look(1.0).asks;
    assert!(asks.iter().any(|ask| ask.process == 1 && ask.what == Question::Pairs { communicator: comm }));
    let verdict = world.look(2.0);
    assert_eq!(found(&verdict), [(FindingKind::P2pUnmatched, Severity::Critical, "no_send", vec![1])]);
    let judgement = only(&verdict);
    assert_eq!(
        judgement.message,
        "rank 1 (host-0, pid 4001) has not called the send for rank 2, which receives from it in c0ffee (pipeline) since \
         14:00:00 UTC, and is in all_reduce #60 of c0ffee (pipeline); 3 others wait"
    );
    let pair = |is_send, peer, calls| Pair { is_send, peer, calls, bytes: calls * 256, hash: 1 };
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(true, 2, 3)]);
    world.member(comm, 2).pairs = Cow::Owned(vec![pair(false, 1, 4)]);
    let verdict = world.look(3.0);
    let lines = &only(&verdict).details[0].lines;
    assert_eq!(lines[0], "rank 1 has called send 3 times, 768 bytes");
}

#[test]
fn a_send_that_has_ended_is_not_called_left_out() {
    let circle = |sends: u64| {
        let mut world = job(4);
        let comm = world.comm("c0ffee", "pipeline", &[0, 1, 2, 3]);
        world.call(comm, 2, transfer(Primitive::Recv, 1, at(0.0)));
        world.enter(comm, [0, 1, 3]);
        world.member(comm, 1).transfers = Some(Transfers { sends, recvs: 0 });
        world.member(comm, 2).transfers = Some(Transfers { sends: 0, recvs: 4 });
        (world, comm)
    };
    let told = |world: &mut World, comm: u32, sends: u64| {
        let pair = |is_send, peer, calls| Pair { is_send, peer, calls, bytes: calls * 256, hash: calls };
        world.member(comm, 1).pairs = Cow::Owned(vec![pair(true, 2, sends)]);
        world.member(comm, 2).pairs = Cow::Owned(vec![pair(false, 1, 4)]);
    };
    // It is on its way: the receiver has not been scheduled since.
    let (mut world, comm) = circle(4);
    let asks = world.look(1.0).asks;
    assert!(asks.iter().any(|ask| ask.process == 1 && ask.what == Question::Pairs { communicator: comm }));
    nothing(&world.look(2.0));
    told(&mut world, comm, 4);
    nothing(&world.look(3.0));
    // What was told is of before the newest send.
    told(&mut world, comm, 3);
    nothing(&world.look(4.0));
    let (mut world, comm) = circle(3);
    told(&mut world, comm, 3);
    world.look(1.0);
    assert_eq!(only(&world.look(2.0)).cause, "no_send");
    // Who has called none at all needs not be asked.
    let (mut world, _) = circle(0);
    world.look(1.0);
    assert_eq!(only(&world.look(2.0)).cause, "no_send");
}

#[test]
fn another_size_is_named() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.call(comm, 0, transfer(Primitive::Send, 1, at(0.0)));
    let mut receive = transfer(Primitive::Recv, 0, at(0.0));
    receive.signature.count = 65;
    receive.bytes = 260;
    world.call(comm, 1, receive);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::P2pUnmatched, Severity::Critical, "size", vec![0, 1])]);
    assert!(only(&verdict).message.contains("sends 64 float32 to rank 1"), "{}", only(&verdict).message);
    assert!(only(&verdict).message.contains("receives 65 float32 from rank 0"));
}

#[test]
fn a_wait_for_a_send_that_came_teaches_how_long_one_may_take() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "pipeline", &[0, 1]);
    world.call(comm, 1, transfer(Primitive::Recv, 0, at(0.0)));
    world.until(20);
    world.member(comm, 1).open = Cow::Borrowed(&[]);
    let mut ended = transfer(Primitive::Recv, 0, at(0.0));
    (ended.state, ended.completed_at) = (OperationState::Completed, Some(at(20.5)));
    world.member(comm, 1).last_completed = Some(ended);
    nothing(&world.look(21.0));
    assert!(world.judge.longest_wait() >= std::time::Duration::from_secs(19));
}

#[test]
fn a_pipeline_waits_for_its_first_stage_by_design() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "pipeline", &[0, 1, 2, 3]);
    for rank in 1..4 {
        world.call(comm, rank, transfer(Primitive::Recv, rank - 1, at(0.0)));
    }
    let verdict = world.until(3);
    // All stages wait for the first, whose program computes: one wait, one name, nothing critical.
    assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "asleep", vec![0])]);
    assert_eq!(only(&verdict).victims, [1, 2, 3]);
}

#[test]
fn two_that_both_receive_first_are_a_circle() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.call(comm, 0, transfer(Primitive::Recv, 1, at(0.0)));
    world.call(comm, 1, transfer(Primitive::Recv, 0, at(0.0)));
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::OrderDeadlock, Severity::Critical, "circle", vec![0, 1])]);
}

#[test]
fn sends_and_receives_of_one_group_do_not_wait_for_each_other() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    for (rank, peer) in [(0, 1), (1, 0)] {
        for primitive in [Primitive::Recv, Primitive::Send] {
            let call = Operation { group: 4, ..transfer(primitive, peer, at(0.0)) };
            world.call(comm, rank, call);
        }
    }
    nothing(&world.until(4));
}

#[test]
fn a_receive_that_waits_for_more_than_was_sent_is_named() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.call(comm, 1, transfer(Primitive::Recv, 0, at(0.0)));
    let pair = |is_send, peer, hash| Pair { is_send, peer, calls: 4, bytes: 1_000 + hash, hash };
    world.member(comm, 0).pairs = Cow::Owned(vec![pair(true, 1, 7)]);
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(false, 0, 8)]);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::P2pUnmatched, Severity::Critical, "size", vec![0])]);
    assert!(only(&verdict).message.ends_with("both sides have made as many calls, of different sizes"));
    // With one call less it has merely not come yet.
    world.member(comm, 0).pairs = Cow::Owned(vec![Pair { calls: 3, ..pair(true, 1, 7) }]);
    assert_eq!(found(&world.look(3.0)), [(FindingKind::Waiting, Severity::Info, "asleep", vec![0])]);
}

/// A communicator of two of which one has called the init, and the other is in another one.
fn half_an_init(world: &mut World, id: &'static str, process: u32, rank: u32) -> u32 {
    let comm = world.comm(id, "", &[process]);
    world.scene.communicators[comm as usize].n_ranks = 2;
    let member = &mut world.scene.communicators[comm as usize].members[0];
    member.rank = rank;
    member.state = MemberState::Forming;
    member.created_at = at(0.0);
    member.last_completed = None;
    member.calls = None;
    world.open(process, "ncclCommInitRank", comm);
    comm
}

/// Ranks 1 and 2 of four make two communicators in opposite orders; the others wait for them.
fn two_inits() -> (World, u32) {
    let mut world = job(4);
    let all = world.comm("c0ffee", "world", &[0, 1, 2, 3]);
    half_an_init(&mut world, "aaaa", 1, 0);
    half_an_init(&mut world, "bbbb", 2, 1);
    world.enter(all, [0, 3]);
    (world, all)
}

#[test]
fn two_inits_in_opposite_orders_are_a_circle_once_nobody_else_can_come() {
    let (mut world, _) = two_inits();
    assert!(!found(&world.until(4)).iter().any(|(kind, ..)| *kind == FindingKind::OrderDeadlock));
    world.look(6.0);
    let verdict = world.look(7.0);
    assert_eq!(found(&verdict), [(FindingKind::OrderDeadlock, Severity::Critical, "circle", vec![1, 2])]);
    let judgement = only(&verdict);
    assert_eq!(judgement.victims, [0, 3]);
    assert_eq!(
        judgement.message,
        "rank 0 (host-0, pid 4001, global rank 1) and rank 1 (host-0, pid 4002, global rank 2) wait for each other: rank 0 \
         in the init of aaaa and rank 1 in the init of bbbb; 2 others wait since 14:00:00 UTC"
    );
    assert!(judgement.advice.contains("Make the communicators in the same order"), "{}", judgement.advice);
    let calls =
        &judgement.details.iter().find(|detail| detail.title.starts_with("Open calls")).unwrap().lines;
    assert_eq!(calls, &["ncclCommInitRank of aaaa, since 14:00:00 UTC"]);
}

#[test]
fn inits_to_which_somebody_may_still_come_are_no_circle() {
    let is_circle = |world: &mut World| {
        let verdict = world.until(8);
        found(&verdict).iter().any(|(kind, ..)| *kind == FindingKind::OrderDeadlock)
    };
    assert!(is_circle(&mut two_inits().0));
    // One of the others is in no call.
    let (mut world, all) = two_inits();
    world.member(all, 3).open = Cow::Borrowed(&[]);
    world.member(all, 3).calls.as_mut().unwrap().made = 60;
    assert!(!is_circle(&mut world));
    // The job has a process that nobody sees.
    let (mut world, _) = two_inits();
    world.process(0).world_size = Some(5);
    assert!(!is_circle(&mut world));
    // The init does not block its thread.
    let (mut world, _) = two_inits();
    world.process(1).open_calls = Cow::Borrowed(&[]);
    assert!(!is_circle(&mut world));
}

#[test]
fn a_circle_is_told_in_the_order_of_who_waits_for_whom() {
    let mut world = job(4);
    // Rank 0 waits for 2, 2 for 1, 1 for 3, and 3 for 0.
    let ring = [("aaaa", 0, 2), ("bbbb", 2, 1), ("cccc", 1, 3), ("dddd", 3, 0)];
    let lines = ["aaaa", "cccc", "bbbb", "dddd"];
    for id in lines {
        let (id, first, second) = *ring.iter().find(|(known, ..)| *known == id).unwrap();
        let comm = world.comm(id, "", &[first, second]);
        world.call(comm, 0, all_reduce(60, at(0.0)));
    }
    let verdict = world.until(2);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.culprits.len()), (FindingKind::OrderDeadlock, 4));
    let circle = &judgement.details.iter().find(|detail| detail.title == "The circle").unwrap().lines;
    let order: Vec<&str> = circle.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(order, ["aaaa", "bbbb", "cccc", "dddd"]);
}

#[test]
fn one_rank_that_has_not_come_is_one() {
    let mut world = job(3);
    world.process(1).global_rank = None;
    half_an_init(&mut world, "aaaa", 0, 1);
    let verdict = world.look(40.0);
    assert!(
        only(&verdict).message.starts_with("rank 0 has not called ncclCommInitRank; 1 other waits for it"),
        "{}",
        only(&verdict).message
    );
}

#[test]
fn sizes_that_differed_are_told_though_the_transfer_has_ended() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, [2]);
    let pair = |is_send, peer, bytes| Pair { is_send, peer, calls: 4, bytes, hash: bytes };
    world.member(comm, 0).pairs = Cow::Owned(vec![pair(true, 1, 3_000), pair(true, 3, 500)]);
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(false, 0, 4_000)]);
    world.member(comm, 3).pairs = Cow::Owned(vec![pair(false, 0, 500)]);
    let verdict = world.until(2);
    let of_pair = &verdict.judgements[0];
    assert_eq!((of_pair.kind, of_pair.severity), (FindingKind::P2pUnmatched, Severity::Warning));
    assert_eq!((of_pair.cause, &of_pair.culprits[..]), ("size", &[0, 1][..]));
    assert_eq!(
        of_pair.message,
        "rank 0 (host-0, pid 4000) has sent 3000 bytes to rank 1 (host-0, pid 4001) in 4 calls, and that one has received \
         4000 in as many: what came may be wrong"
    );
    // It stays wrong when the receiver has made one more call, and when nobody waits and nobody tells of it any more.
    world.member(comm, 1).pairs = Cow::Owned(vec![Pair { calls: 5, ..pair(false, 0, 5_000) }]);
    let message = of_pair.message.clone();
    assert!(world.look(3.0).judgements.iter().any(|one| one.message == message));
    for rank in 0..4 {
        world.member(comm, rank).pairs = Cow::Borrowed(&[]);
        world.member(comm, rank).open = Cow::Borrowed(&[]);
    }
    assert_eq!(only(&world.look(4.0)).message, message);
    // It ends with the communicator.
    (0..4).for_each(|rank| world.end(comm, rank, MemberState::Destroyed));
    nothing(&world.look(5.0));
}

#[test]
fn a_pair_that_differs_in_one_call_is_not_told_of_two() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.enter(comm, [0]);
    let pair = |is_send, peer, calls, bytes| Pair { is_send, peer, calls, bytes, hash: bytes };
    world.member(comm, 0).pairs = Cow::Owned(vec![pair(true, 1, 4, 3_000)]);
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(false, 0, 5, 4_000)]);
    assert!(!world.until(3).judgements.iter().any(|one| one.kind == FindingKind::P2pUnmatched));
}
