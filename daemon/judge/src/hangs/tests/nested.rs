//! Jobs of several dimensions: the culprit is named once, and all who wait through others are counted.

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::Primitive;

use super::build::{World, all_reduce, at, found, job, nothing, only, transfer};

/// 16 ranks: tensor pairs, two pipelines of two stages, four data groups.
struct Grid {
    world: World,
    tensor: Vec<u32>,
    data: Vec<u32>,
    stages: u32,
}

fn grid() -> Grid {
    let mut world = job(16);
    let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];
    let tensor: Vec<u32> =
        (0..8).map(|pair| world.comm(names[pair as usize], "tensor", &[2 * pair, 2 * pair + 1])).collect();
    let names = ["d0", "d1", "d2", "d3"];
    let data =
        (0..4).map(|at| world.comm(names[at as usize], "data", &[at, at + 4, at + 8, at + 12])).collect();
    let stages = world.comm("p0", "pipeline", &(0..16).collect::<Vec<_>>());
    Grid { world, tensor, data, stages }
}

#[test]
fn a_stopped_rank_in_a_tensor_pair_stops_all_and_is_named_once() {
    let Grid { mut world, tensor, data, stages } = grid();
    // Rank 5 is stopped; its partner 4 waits in the tensor pair, 4's data group for 4, and the others for these.
    world.stop(5);
    world.call(tensor[2], 0, all_reduce(60, at(0.0)));
    for group in [0_u32, 8, 12] {
        world.call(data[0], group / 4, all_reduce(60, at(0.1)));
    }
    for rank in [1, 9, 13] {
        world.call(data[1], rank / 4, all_reduce(60, at(0.1)));
    }
    for (rank, of) in [(2_u32, 0_u32), (3, 1), (6, 4), (7, 5), (10, 8), (11, 9), (14, 12), (15, 13)] {
        world.call(stages, rank, transfer(Primitive::Recv, of, at(0.2)));
    }
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "stopped", vec![5])]);
    let judgement = only(&verdict);
    assert_eq!(judgement.victims.len(), 15);
    assert_eq!(judgement.rank, Some(1), "the rank of the communicator that is named");
    assert!(
        judgement.message.starts_with(
            "rank 1 (host-0, pid 4005, global rank 5) is stopped (SIGSTOP); 15 others wait for it in \
             all_reduce #60 of t2 (tensor)"
        ),
        "{}",
        judgement.message
    );
}

#[test]
fn two_faults_at_once_are_two_findings() {
    let Grid { mut world, tensor, .. } = grid();
    world.stop(5);
    world.kill(14, 0.5);
    world.call(tensor[2], 0, all_reduce(60, at(0.0)));
    world.call(tensor[7], 1, all_reduce(60, at(0.0)));
    let verdict = world.until(2);
    let kinds: Vec<_> =
        verdict.judgements.iter().map(|one| (one.kind, one.culprits.clone(), one.follows_from)).collect();
    assert_eq!(kinds, [(FindingKind::RankDead, vec![14], None), (FindingKind::RankMissing, vec![5], None)]);
}

#[test]
fn communicators_that_nobody_uses_and_peace_are_quiet() {
    let Grid { mut world, .. } = grid();
    let unused = world.comm("u0", "", &(0..16).collect::<Vec<_>>());
    for rank in 0..16 {
        let member = world.member(unused, rank);
        member.last_completed = None;
        member.calls.as_mut().unwrap().made = 0;
    }
    let verdict = world.until(3);
    nothing(&verdict);
    assert!(verdict.asks.is_empty());
}

#[test]
fn a_restart_of_the_daemon_finds_the_same_with_the_same_beginning() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, 0..3);
    world.stop(3);
    let before = world.until(10);
    world.judge = super::super::Judge::default();
    nothing(&world.look(11.0));
    let after = world.look(12.0);
    let id = |verdict: &super::super::Verdict| {
        (only(verdict).key.clone(), only(verdict).began_at, only(verdict).kind)
    };
    assert_eq!(id(&before), id(&after));
}
