//! Connections that failed, and queue pairs in an error state.

use super::*;

const FAILED_PAIR: &str = "queue_pair_error critical [connection_failed] rank 0 of host-0: queue pair 17 of mlx5_0 port 1 to \
                           queue pair 18 of mlx5_0 of host-1 (rank 1) failed: transport retry counter exceeded (status 12)";

#[test]
fn a_connection_that_failed_while_its_process_lives() {
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))], Vec::new()]);
    assert_eq!(world.fires(), [FAILED_PAIR]);
    let found = world.firing()[0].clone();
    assert_eq!((found.host.as_str(), found.culprits), ("host-0", vec!["host-1".to_owned()]));
    assert!(found.accused.is_empty(), "that the other end did not answer may lie at either");
    assert_eq!(found.evidence[0].text, "transport retry counter exceeded (status 12)");
    // Twins: its process ended, which flushes what it had; or it has another connection there by now; or it was closed.
    world.end(0, ProcessState::Exited);
    assert_eq!(world.fires(), [""; 0]);
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1))]]);
    world.connect(&[vec![failed(to(1)), at_place(1, to(1))]]);
    assert_eq!(world.fires(), [""; 0], "replaced");
    // Another rail, or another process of the host, replaces nothing; the same communicator over another rail does.
    let over = |comm_hash, place, one: Connection| {
        let mut one = at_place(place, Connection { comm_hash, ..one });
        one.local.as_mut().unwrap().device = if place > 0 { "mlx5_1" } else { "mlx5_0" }.to_owned();
        one
    };
    let of_no_rank = |pid, mut one: Connection| {
        let remote = one.remote.as_mut().unwrap();
        (remote.pid, remote.global_rank) = (pid, None);
        one
    };
    for (failed, instead, is_replaced) in [
        (over(7, 0, failed(to(1))), over(8, 1, to(1)), false),
        (over(7, 0, failed(to(1))), over(7, 1, to(1)), true),
        (of_no_rank(1_001, failed(to(1))), at_place(1, of_no_rank(9, to(1))), false),
        (of_no_rank(1_001, failed(to(1))), at_place(1, of_no_rank(1_001, to(1))), true),
    ] {
        let mut world = World::new(2);
        world.connect(&[vec![failed.clone()]]);
        world.connect(&[vec![failed, instead.clone()]]);
        assert_eq!(world.fires().is_empty(), is_replaced, "{instead:?}");
    }
    let closed = Connection { state: ConnectionState::Closed.into(), ..to(1) };
    let mut world = World::new(2);
    world.connect(&[vec![closed]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn connections_of_several_hosts_that_failed_to_one_port_name_that() {
    let mut world = World::new(3);
    world.connect(&[vec![failed(to(2))], vec![failed(to(2))], Vec::new()]);
    let found = world.fires();
    assert_eq!(found.len(), 1, "{found:?}");
    let start = "queue_pair_error critical [connections_to] mlx5_0 of host-2: all connections that failed lead to it, 2 \
                 connections of 2 hosts; rank 0 of host-0: queue pair 17 of mlx5_0 port 1 to";
    assert!(found[0].starts_with(start), "{found:?}");
    assert_eq!(world.firing()[0].accused[0].global_rank, Some(2));
}

#[test]
fn who_is_at_the_other_end_is_found_by_its_rank_before_its_name() {
    // The job has two hosts of one short name; the other end names itself without its domain, and by a pid of its own.
    let mut world = World::named(&["a.x", "a.y", "b.x"]);
    let mut one = failed(to(1));
    let remote = one.remote.as_mut().unwrap();
    (remote.host, remote.pid) = ("a".to_owned(), 7);
    world.connect(&[vec![one.clone()], Vec::new(), Vec::new()]);
    assert_eq!(world.firing()[0].culprits, ["a.y"], "{:?}", world.fires());
    // By host and pid where it has no rank; names with two domains are of two hosts.
    let cases: [(&str, u32, &[&str]); 4] =
        [("a", 1_001, &["a.y"]), ("b", 7, &["b.x"]), ("a", 7, &[]), ("b.z", 1_002, &[])];
    for (host, pid, expected) in cases {
        let mut world = World::named(&["a.x", "a.y", "b.x"]);
        let remote = one.remote.as_mut().unwrap();
        (remote.host, remote.pid, remote.global_rank) = (host.to_owned(), pid, None);
        world.connect(&[vec![one.clone()], Vec::new(), Vec::new()]);
        assert_eq!(world.firing()[0].culprits, expected, "{:?}", world.fires());
    }
}

#[test]
fn a_port_that_died_is_named_where_both_ends_tell_of_it() {
    let of = |ranks: &[u32]| -> Vec<Connection> {
        (0..).zip(ranks).map(|(place, rank)| at_place(place, failed(to(*rank)))).collect()
    };
    let mut world = World::new(6);
    // Beside it one link alone, of other hosts.
    world.connect(&[of(&[1]), of(&[0, 2]), of(&[1]), of(&[4]), Vec::new(), Vec::new()]);
    let found = world.fires();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("[connection_failed] rank 3 of host-3"), "{found:?}");
    let start = "[connections_to] mlx5_0 of host-1: all connections that failed lead to it, 2 connections of 2 hosts;";
    assert!(found[1].contains(start), "{found:?}");
    // Twin: one link that both its ends tell of.
    let mut world = World::new(2);
    world.connect(&[of(&[1]), of(&[0])]);
    let found = world.fires();
    assert!(found.len() == 2 && found.iter().all(|one| one.contains("[connection_failed]")), "{found:?}");
}

#[test]
fn a_queue_pair_that_stands_in_an_error_state_and_one_that_is_taken_down() {
    let broken = |state: QueuePairState, broken_at_ns| {
        let mut one = Connection { broken_at_ns, ..to(1) };
        one.queue_pairs[0].state = state.into();
        one
    };
    let mut world = World::new(2);
    world.connect(&[vec![broken(QueuePairState::Err, at(5).0)]]);
    world.wait(10);
    assert_eq!(world.fires(), [""; 0], "seen for a moment");
    world.connect(&[vec![broken(QueuePairState::Err, at(15).0)]]);
    assert_eq!(
        world.fires(),
        [FAILED_PAIR.replace("failed: transport retry counter exceeded (status 12)", "stands in state ERR")]
    );
    world.connect(&[vec![broken(QueuePairState::Rts, 0)]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn connections_over_a_port_that_is_down_say_so_once() {
    let read = |world: &mut World, up: bool| {
        world.read(vec![nic("mlx5_0"), Nic { up, ..nic("mlx5_0") }, nic("mlx5_0")]);
    };
    let refused = || Connection { error: "remote access error (status 10)".to_owned(), ..failed(to(1)) };
    let check = |up: bool, first: Connection, expected: &str| {
        let mut world = World::new(3);
        read(&mut world, true);
        read(&mut world, up);
        world.connect(&[vec![first], vec![failed(to(0))], Vec::new()]);
        let found = world.firing().into_iter().filter(|one| one.cause != "down").collect::<Vec<_>>();
        assert!(found[0].message.starts_with(expected), "{found:?}");
        (found.len(), found[0].host.clone(), found[0].accused.clone())
    };
    let own = "rank 0 of host-0: queue pair 17";
    let down = "mlx5_0 of host-1 is down: 2 connections over it failed; rank 0 of host-0: ";
    let (n, host, accused) = check(false, failed(to(1)), down);
    assert_eq!((n, host.as_str(), accused.len()), (1, "host-1", 1));
    assert_eq!((accused[0].host.as_str(), accused[0].doing.as_str()), ("host-1", "its port is down"));
    // Twins: its port is up; or that port has carried an answer, so that it is not why. Who was refused did more than not to
    // be answered.
    for up in [true, false] {
        let (n, host, accused) = check(up, refused(), own);
        let ranks: Vec<_> = accused.iter().map(|culprit| culprit.global_rank).collect();
        assert_eq!(
            (n, host.as_str(), &ranks[..]),
            (2, "host-0", &[Some(0), Some(1)][..]),
            "whose right it was"
        );
    }
    // Twin: the port goes down long after that.
    let mut world = World::new(3);
    read(&mut world, true);
    world.connect(&[vec![failed(to(1))]]);
    (0..14).for_each(|_| read(&mut world, true));
    read(&mut world, false);
    let causes: Vec<_> = world.firing().iter().map(|one| one.cause.as_str()).collect();
    assert_eq!(causes, ["connection_failed"]);
}

#[test]
fn the_end_that_failed_first_is_accused_and_not_who_heard_of_it() {
    let echo =
        |one| Connection { error: "the other end has failed: out of memory".to_owned(), ..failed(one) };
    let refused = |one| Connection { error: "register 8 bytes: out of memory".to_owned(), ..failed(one) };
    let own = "queue_pair_error critical [connection_failed] rank 1 of host-1: queue pair 17 of mlx5_0 port 1 to queue pair 18 \
               of mlx5_0 of host-0 (rank 0) failed: register 8 bytes: out of memory";
    let mut world = World::new(2);
    world.connect(&[vec![echo(to(1))], vec![refused(to(0))]]);
    assert_eq!(world.fires(), [own]);
    let accused =
        |world: &World| world.firing()[0].accused.iter().map(|one| one.global_rank).collect::<Vec<_>>();
    assert_eq!(accused(&world), [Some(1)]);
    // It has told nothing of that itself: accused all the same.
    let mut world = World::new(2);
    world.connect(&[vec![echo(to(1))], vec![to(0)]]);
    assert!(world.fires()[0].contains("rank 0 of host-0"), "{:?}", world.fires());
    assert_eq!(accused(&world), [Some(1)]);
}

#[test]
fn a_process_is_without_a_connection_that_failed_at_its_own_end_and_was_not_made_again() {
    let with = |error: &str| Connection { error: error.to_owned(), ..failed(to(1)) };
    let refused = "register 8 bytes: out of memory";
    for (told, expected) in [
        (vec![with(refused)], Some(refused)),
        (vec![failed(to(1))], None),
        (vec![with("the other end is gone")], None),
        (vec![with(refused), Connection { generation: 2, ..at_place(1, to(1)) }], None),
        (vec![to(1)], None),
    ] {
        let mut world = World::new(2);
        world.connect(&[told]);
        let (_, job) = world.model.jobs().next().unwrap();
        let without = job.processes(&world.model).find_map(super::super::failed_here);
        assert_eq!(without, expected);
    }
}

#[test]
fn the_plugin_begins_with_these_words_what_it_knows_by_the_other_end() {
    assert_eq!(super::super::queue_pairs::OTHER_END, rsnet_connections::layout::OTHER_END);
}

#[test]
fn a_connection_that_could_not_begin_names_no_other_end() {
    let nobody = |one: Connection| Connection {
        remote: Some(ConnectionEnd::default()),
        queue_pairs: Vec::new(),
        error: "make a queue pair: no room".to_owned(),
        ..failed(one)
    };
    let mut world = World::new(3);
    world.connect(&[vec![nobody(to(1))], Vec::new(), vec![nobody(to(1))]]);
    let told = |rank| {
        format!(
            "queue_pair_error critical [connection_failed] rank {rank} of host-{rank}: mlx5_0 port 1 could not begin a connection: \
             make a queue pair: no room"
        )
    };
    assert_eq!(world.fires(), [told(0), told(2)], "each for itself: they have no other end in common");
    assert_eq!(world.firing()[0].culprits, [""; 0]);
}

#[test]
fn the_queue_pair_that_is_broken_is_named_and_a_connection_made_before_replaces_none() {
    let pair = |number, state: QueuePairState| ringscope_wire::batch::QueuePair {
        number,
        remote_number: number + 1,
        state: state.into(),
    };
    let pairs = vec![pair(17, QueuePairState::Rts), pair(21, QueuePairState::Sqe)];
    let mut world = World::new(2);
    // One beside it, as old as it is.
    let tell = |world: &mut World, broken_at_ns| {
        let broken = Connection { queue_pairs: pairs.clone(), broken_at_ns, ..to(1) };
        world.connect(&[vec![broken, at_place(1, to(1))]]);
    };
    for broken_at in [5, 5, 5, 5, 10, 10] {
        tell(&mut world, at(broken_at).0);
        world.wait(20);
    }
    assert_eq!(world.fires(), [""; 0], "two answers, five seconds apart");
    tell(&mut world, at(15).0);
    let expected = "queue_pair_error critical [connection_failed] rank 0 of host-0: queue pair 21 of mlx5_0 port 1 to queue \
                    pair 22 of mlx5_0 of host-1 (rank 1) stands in state SQE";
    assert_eq!(world.fires(), [expected]);
    assert_eq!(world.firing()[0].evidence[0].text, "queue pair 21: state SQE");
    // Twin: told of at one moment, but one that came after another in its place.
    let mut world = World::new(2);
    world.connect(&[vec![failed(to(1)), Connection { generation: 2, ..at_place(1, to(1)) }]]);
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_queue_pair_of_a_program_that_tells_nobody_of_its_connections() {
    let port = |pid| Nic {
        failed_queue_pairs: vec![FailedQueuePair {
            number: 40,
            remote_number: Some(41),
            state: QueuePairState::Err.into(),
            pid,
            asked_at_ns: 0,
        }],
        ..nic("mlx5_0")
    };
    let mut world = World::new(1);
    for _ in 0..2 {
        world.read(vec![port(77)]);
    }
    assert_eq!(world.fires(), [""; 0], "five seconds");
    world.read(vec![port(78)]);
    world.read(vec![port(78)]);
    assert_eq!(world.fires(), [""; 0], "another process's");
    world.read(vec![port(78)]);
    let expected = "queue_pair_error warning [in_error_state] process 78 of host-0: queue pair 40 to 41 of mlx5_0 port 1 \
                    stands in an error state";
    assert_eq!(world.fires(), [expected]);
    // Twin: of one that is told again and again as the kernel answered once nobody knows that it still stands so.
    let mut world = World::new(1);
    let mut once = port(77);
    once.failed_queue_pairs[0].asked_at_ns = at(5).0;
    for _ in 0..6 {
        world.read(vec![once.clone()]);
    }
    assert_eq!(world.fires(), [""; 0]);
}

#[test]
fn a_queue_pair_of_a_connection_is_no_other_program_s_whatever_the_kernel_calls_its_process() {
    let port = |number| Nic {
        failed_queue_pairs: vec![FailedQueuePair {
            number,
            remote_number: None,
            state: QueuePairState::Err.into(),
            pid: 999,
            asked_at_ns: 0,
        }],
        ..nic("mlx5_0")
    };
    let check = |number| {
        let mut world = World::new(2);
        let states = ringscope_wire::batch::QueuePair { number: 17, ..Default::default() };
        world.connect(&[vec![Connection { queue_pairs: vec![states], ..to(1) }]]);
        for _ in 0..3 {
            world.read(vec![port(number)]);
        }
        world.fires().len()
    };
    assert_eq!((check(17), check(18)), (0, 1));
}
