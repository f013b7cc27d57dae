//! Packets that are sent again.

use super::*;

#[track_caller]
fn check_lost(counter: &str, risen: &[u64], sent_bytes: u64, expected: &[&str]) {
    let mut world = World::new(risen.len());
    lose(&mut world, counter, risen, sent_bytes);
    assert_eq!(world.fires(), expected, "{counter} {risen:?}");
}

#[test]
fn a_port_that_sends_again_more_than_its_like_or_much_of_all_that_it_sends() {
    let worse = "rdma_retransmits warning [lost_packets] mlx5_0 of host-1 sends again what was lost: \
                 local_ack_timeout_err rose by 700 (by 0 on most of its like) in ten minutes";
    check_lost("local_ack_timeout_err", &[0, 700, 0, 0], GIGABYTE, &[worse]);
    let alone = "rdma_retransmits critical [lost_packets] mlx5_0 of host-0 sends again what was lost: rcvd_seq_err rose \
                 by 20000 in ten minutes, about one packet in 48";
    check_lost("rcvd_seq_err", &[20_000], GIGABYTE, &[alone]);
    // Twins: few, or as many as all, or by the side that receives, or a counter that stands still.
    check_lost("local_ack_timeout_err", &[0, 99, 0, 0], GIGABYTE, &[]);
    check_lost("local_ack_timeout_err", &[600, 700, 650, 800], GIGABYTE, &[]);
    check_lost("out_of_sequence", &[0, 90_000, 0, 0], GIGABYTE, &[]);
    check_lost("out_of_seq_request", &[90_000], GIGABYTE, &[]);
    check_lost("retrans_pkts", &[0, 90_000, 0, 0], GIGABYTE, &[]);
    check_lost("rcvd_seq_err", &[0], GIGABYTE, &[]);
    check_lost("rcvd_seq_err", &[900], GIGABYTE, &[]);
    check_lost("local_ack_timeout_err", &[0, 700, 0, 0], 1_000 * GIGABYTE, &[]);
}

#[test]
fn of_large_packets_fewer_are_sent_and_what_is_received_does_not_count() {
    let mut world = World::new(1);
    for reading in 0..2 {
        world.read(vec![Nic {
            sent_bytes: Some(GIGABYTE * reading),
            received_bytes: Some(100 * GIGABYTE * reading),
            mtu_bytes: Some(4096),
            ..retransmits("rcvd_seq_err", 1_000_000 + 900 * reading)
        }]);
    }
    let found = world.fires();
    assert!(found.len() == 1 && found[0].ends_with(", about one packet in 271"), "{found:?}");
}

#[test]
fn what_is_sent_again_to_a_process_that_had_ended_is_no_trouble() {
    let port = |value| retransmits("rcvd_seq_err", value);
    let severities = |ends_first: bool| {
        let mut world = World::new(2);
        world.connect(&[vec![to(1)], vec![to(0)]]);
        let nic = |value, sent| Nic { sent_bytes: Some(sent), ..port(value) };
        world.read(vec![nic(7, 0)]);
        if ends_first {
            world.end(1, ProcessState::Exited);
        }
        world.read(vec![nic(7, 0)]);
        world.read(vec![nic(9_000, GIGABYTE)]);
        world.end(1, ProcessState::Exited);
        let found = world.firing();
        found.iter().map(|one| (one.severity.label(), one.cause.clone())).collect::<Vec<_>>()
    };
    assert_eq!(severities(true), [("info", "after_a_death".to_owned())]);
    assert_eq!(severities(false), [("warning", "lost_packets".to_owned())], "its end came after that");
}

#[test]
fn losses_that_last_are_not_explained_by_an_end_nor_by_that_of_somebody_else() {
    let port = |value| Nic { sent_bytes: Some(value * 100_000), ..retransmits("rcvd_seq_err", value) };
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(1, ProcessState::Exited);
    world.read(vec![port(7)]);
    (1..30).for_each(|reading| world.read(vec![port(7 + 300 * reading)]));
    assert_eq!(world.firing()[0].cause, "after_a_death");
    (30..60).for_each(|reading| world.read(vec![port(7 + 300 * reading)]));
    assert_eq!(world.firing()[0].cause, "lost_packets", "minutes after that");
    // The one that ended was at the end of no connection of this port, and its connections live on.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)], Vec::new()]);
    world.read(vec![port(7)]);
    world.end(2, ProcessState::Exited);
    world.read(vec![port(7)]);
    world.read(vec![port(9_000)]);
    assert_eq!(world.firing()[0].cause, "lost_packets");
}

#[test]
fn one_retransmit_in_an_hour_and_what_was_long_ago_is_no_trouble() {
    let mut world = World::new(1);
    let port = |value, sent| Nic { sent_bytes: Some(sent), ..retransmits("packet_seq_err", value) };
    world.read(vec![port(0, 0)]);
    world.read(vec![port(1, 4096)]);
    assert_eq!(world.fires(), [""; 0]);
    world.read(vec![port(20_000, GIGABYTE)]);
    assert_eq!(world.firing().len(), 1);
    for _ in 0..130 {
        world.read(vec![port(20_000, GIGABYTE)]);
    }
    assert_eq!(world.fires(), [""; 0], "ten minutes later");
}

#[test]
fn a_port_that_all_losers_send_to_is_named_and_they_are_not() {
    let mut world = World::new(8);
    let (a, b, c) = (at_place(1, to(1)), at_place(2, to(2)), at_place(3, to(3)));
    world.connect(&[vec![b.clone(), c.clone()], vec![c.clone()], vec![a.clone(), c], vec![a, b]]);
    lose(&mut world, "packet_seq_err", &[900, 800, 700, 0, 0, 0, 0, 0], GIGABYTE);
    let expected = "rdma_retransmits warning [lost_towards] what is sent to mlx5_0 of host-3 is lost: all 3 ports that send \
                    again send to it, and to no other port all of them: mlx5_0 of host-0 (packet_seq_err rose \
                    by 900), mlx5_0 of host-1 (packet_seq_err rose by 800), mlx5_0 of host-2 (packet_seq_err rose by 700), \
                    in ten minutes";
    assert_eq!(world.fires(), [expected]);
    let found = &world.firing()[0];
    assert_eq!(
        (found.host.as_str(), found.nic.as_deref(), found.evidence.len()),
        ("host-3", Some("mlx5_0"), 3)
    );
    assert!(found.evidence[0].file.ends_with("/ports/1/hw_counters/packet_seq_err"), "{:?}", found.evidence);
    // Twin: one alone loses what it sends, to whomever.
    let mut world = World::new(3);
    world.connect(&[vec![at_place(1, to(1)), at_place(2, to(2))]]);
    lose(&mut world, "packet_seq_err", &[900, 0, 0], GIGABYTE);
    let found = world.fires();
    assert!(found[0].contains("mlx5_0 of host-0 sends again what was lost"), "{found:?}");
    assert!(found[0].ends_with("its connections lead to mlx5_0 of host-1 and mlx5_0 of host-2"), "{found:?}");
}

#[test]
fn of_a_ring_the_port_that_loses_both_ways_is_named_alone() {
    // host-0 -> host-1 -> host-2 -> host-0, and each has the connection that it receives by.
    let mut world = World::new(3);
    let both = |next, before| vec![to(next), at_place(1, received(to(before)))];
    world.connect(&[both(1, 2), both(2, 0), both(0, 1)]);
    lose(&mut world, "packet_seq_err", &[9_000, 0, 8_000], GIGABYTE);
    let found = world.fires();
    assert!(
        found.len() == 1 && found[0].contains("[lost_packets] mlx5_0 of host-0 sends again"),
        "{found:?}"
    );
    assert!(found[0].ends_with("; what is sent to it from mlx5_0 of host-2 is lost too"), "{found:?}");
    // Twin: two that lose what they send to each other, of whom nobody knows which.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)]]);
    lose(&mut world, "packet_seq_err", &[9_000, 8_000, 0], GIGABYTE);
    assert_eq!(world.firing().len(), 2, "{:?}", world.fires());
    // Where one loses much more, the other's confirmations are lost on the same way.
    let mut world = World::new(3);
    world.connect(&[vec![to(1)], vec![to(0)]]);
    lose(&mut world, "packet_seq_err", &[1_500, 9_000, 0], GIGABYTE);
    let found = world.fires();
    assert!(found.len() == 1 && found[0].contains("mlx5_0 of host-1 sends again"), "{found:?}");
    assert!(found[0].ends_with("; what is sent to it from mlx5_0 of host-0 is lost too"), "{found:?}");
}

#[test]
fn losers_that_have_nothing_to_do_with_others_do_not_hide_who_is_to_blame_for_those() {
    let mut world = World::new(12);
    let mut ranks = vec![vec![to(2)], vec![to(2)], Vec::new(), vec![to(4)]];
    ranks.resize(12, Vec::new());
    world.connect(&ranks);
    let mut risen = [0; 12];
    (risen[0], risen[1], risen[3]) = (900, 800, 700);
    lose(&mut world, "packet_seq_err", &risen, GIGABYTE);
    let found = world.fires();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("[lost_packets] mlx5_0 of host-3 "), "{found:?}");
    assert!(found[1].contains("[lost_towards] what is sent to mlx5_0 of host-2 is lost"), "{found:?}");
}
